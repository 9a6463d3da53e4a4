package report

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// This file shows our numbers in the layout of the paper's tables, with the paper's below.
// A row is a method: a mean over training seeds, with their standard deviation, where a
// folder has several.

// likeThePaper returns the sections with the paper's tables and tests, for each group
// of settings. They have the columns and labels of the paper, so that both can be
// compared side by side. Anchors of the second group and later ones have its number as
// a suffix. The analyses of checkpoints belong to no group and are in the first.
func (r *Report) likeThePaper() (out []doc.Section) {
	for i, g := range r.Groups {
		suffix, name, nav := "", "", ""
		if g.Name != "" {
			suffix, name = fmt.Sprintf("-%d", i+1), ", "+g.Name
		}
		all := g
		g = g.Published() // the others are not comparable with the paper
		tasks, parts := infer.Tasks(g.Blocks), []doc.Part{r.crossTable(g)}
		if i == 0 {
			nav = "Beside the paper"
			parts = append(parts, r.alignmentTable(), r.rolloutOverTasks())
		}
		var missing []string
		for _, task := range tasks {
			if t := r.fullTable(g, task); len(t.Rows) > 0 {
				if len(tasks) > 1 {
					t.Fold = words.Task(task) + ": all solvers and tiers"
				}
				parts, missing = append(parts, t), append(missing, r.gaps(g, task)...)
			}
			if i == 0 {
				parts = append(parts, r.componentTable(task, r.Checkpoints(task)))
			}
		}
		parts = append(parts, note("Not in this folder", missing), r.selectionTable(g))
		// add appends a section, with the name of the group in its title and the suffix in the
		// anchors of its tables.
		add := func(title, anchor, nav string, parts ...doc.Part) {
			for i, p := range parts {
				if t, is := p.(doc.Table); is {
					t.Anchor += suffix
					parts[i] = t
				}
			}
			out = append(out, section(doc.Section{Title: title + name, Anchor: anchor + suffix, Level: 2, Nav: nav}, parts...)...)
		}
		if parts = doc.Filled(parts...); len(parts) > 0 {
			add("Beside the paper", "paper", nav, append([]doc.Part{doc.Text{Body: "The paper trains at full size and evaluates 100 episodes a set. A smaller preset is the same method with smaller numbers, so compare the direction and order of effects, not the rates. The top of the page says what was trained."}}, parts...)...)
		}
		add("Over everything", "everything", "", r.setTestTable(all), r.setTestGaps(g), r.tallyTable(all), r.gainTable(all), r.aggregateTable(all))
	}
	return out
}

// acrossTasks returns a table without rows, with a column for each task after those of
// before, the method and the source.
func acrossTasks(tasks []string, anchor, caption string, before ...string) doc.Table {
	t := doc.Table{Anchor: anchor, Caption: caption + " Bold marks the best of a column, separately for ours and the paper's.", Head: append(before, "Method", "Source")}
	for _, task := range tasks {
		t.Head = append(t.Head, words.Task(task))
	}
	return t
}

// addMethods adds a row of ours and one of the paper's for each method, whose first fields
// are before. cell returns the numbers of a method on a task. The best number is the
// largest, or with lower the smallest.
func addMethods(t *doc.Table, tasks, before []string, methods []infer.Number, lower bool, cell func(task string, method infer.Number) (ours, paper doc.Field)) {
	var pairs [][2][]doc.Field
	for _, m := range methods {
		var pair [2][]doc.Field
		for i, source := range []string{infer.Ours, infer.Paper} {
			for _, text := range append(slices.Clone(before), titled(m), source) {
				pair[i] = append(pair[i], doc.Words(text))
			}
		}
		for _, task := range tasks {
			a, b := cell(task, m)
			pair[0], pair[1] = append(pair[0], a), append(pair[1], b)
		}
		pairs = append(pairs, pair)
	}
	t.AddPairs(pairs, len(before)+2, lower)
}

// crossTable has the success of every method on all tasks, averaged over tiers, with the
// solver that has the most tiers. It is empty if there are fewer than two tasks.
func (r *Report) crossTable(g infer.Group) doc.Table {
	of := map[string]map[string]*infer.Block{} // by solver and task
	tiers := func(solver string) (n int) {
		for _, b := range of[solver] {
			n += len(b.Averaged())
		}
		return n
	}
	for _, b := range g.Main() {
		if of[b.Solver] == nil {
			of[b.Solver] = map[string]*infer.Block{}
		}
		if of[b.Solver][b.Task] == nil {
			of[b.Solver][b.Task] = b
		}
	}
	solver := results.ICEM // the paper's
	for _, s := range infer.PaperSolvers {
		if tiers(s) > tiers(solver) {
			solver = s
		}
	}
	tasks := infer.Tasks(g.Blocks)
	if len(tasks) < 2 {
		return doc.Table{}
	}
	t := acrossTasks(tasks, "cross-task", words.Solver(solver)+" on all tasks: success (%) averaged over tiers, mean ± SD over training seeds if there are several, otherwise over sets; the paper's table tab:cross-task is iCEM's. The paper's mean is over the tiers that this folder has.")
	var methods []infer.Number
	for _, arm := range infer.ArmsOf(g.Main()) {
		methods = append(methods, infer.Number{Of: arm})
	}
	addMethods(&t, tasks, nil, methods, false, func(task string, m infer.Number) (ours, paper doc.Field) {
		b := of[solver][task]
		if b == nil {
			return doc.Missing(), doc.Missing()
		}
		return shown(r.Success(b, m.Of, infer.Mean), spread), shown(r.paperMean(b, m.Of), rate)
	})
	return t
}

// paperMean returns the paper's mean of an arm over those of its tiers that a block has.
func (r *Report) paperMean(b *infer.Block, arm results.Arm) *infer.Number {
	for _, seed := range b.SeedsOf(arm) {
		if n := r.Find(infer.Number{What: infer.PaperMean, Source: infer.Paper, Place: b.Place, Of: arm, Seed: &seed}); n != nil {
			return n
		}
	}
	return nil
}

// analysed returns the tasks with analysed checkpoints, and the checkpoints as methods.
func (r *Report) analysed() (tasks []string, methods []infer.Number) {
	for _, task := range infer.Tasks(r.Blocks) {
		all := byMethod(r.Checkpoints(task))
		if len(all) > 0 {
			tasks = append(tasks, task)
		}
		for _, m := range all {
			m.Task, m.Seed = "", nil
			if !slices.ContainsFunc(methods, func(o infer.Number) bool { return o.Of == m.Of && o.Place == m.Place }) {
				methods = append(methods, m)
			}
		}
	}
	slices.SortStableFunc(methods, func(a, b infer.Number) int { return results.CompareArms(a.Of, b.Of) })
	return tasks, methods
}

// measuredOn returns a number of a method on a task, over its training seeds, and the
// paper's, or nil. A number may be a change.
func (r *Report) measuredOn(task, what string, method infer.Number) (ours, paper *infer.Number) {
	there := infer.Number{What: what, Source: infer.Paper, Place: infer.Place{Task: task}, Of: method.Of}
	for _, m := range byMethod(r.Checkpoints(task)) {
		if m.Of == method.Of && m.Settings == method.Settings {
			if m.What = what; strings.HasSuffix(what, "_change") {
				m.Minus, there.Minus = changedFrom(r.Table, infer.Ours), changedFrom(r.Table, infer.Paper)
			}
			ours = r.Find(m)
		}
	}
	return ours, r.Find(there)
}

// alignmentTable has the alignment of latent and state distances on all tasks.
func (r *Report) alignmentTable() doc.Table {
	tasks, methods := r.analysed()
	t := acrossTasks(tasks, "alignment", "Alignment of latent and state distances (Spearman's ρ), mean ± SD over training seeds if there are several, as the paper's table tab:heldout-corr.")
	addMethods(&t, tasks, nil, methods, false, func(task string, m infer.Number) (doc.Field, doc.Field) {
		ours, paper := r.measuredOn(task, infer.Spearman, m)
		return shown(ours, spreadOf(2)), shown(paper, decimals(2))
	})
	return t
}

// rolloutOverTasks has the quality of predictions on all tasks, with the change against the
// baseline.
func (r *Report) rolloutOverTasks() doc.Table {
	tasks, methods := r.analysed()
	t := acrossTasks(tasks, "rollouts", "Quality of predictions, mean ± SD over training seeds if there are several, and in parentheses the change against "+words.Arm(r.Baseline)+
		" of the same seed, as the paper's table tab:rollout-probe: lower errors and higher τ are better.", "Measure")
	for _, measure := range []struct {
		title, what string
		lower       bool
	}{{"Rollout error", infer.RolloutError, true}, {"Kendall's τ", infer.Tau, false}} {
		addMethods(&t, tasks, []string{measure.title}, methods, measure.lower, func(task string, m infer.Number) (doc.Field, doc.Field) {
			ours, paper := r.measuredOn(task, measure.what, m)
			change, published := r.measuredOn(task, measure.what+"_change", m)
			field := func(n, change *infer.Number) doc.Field {
				f := shown(n, spreadOf(4))
				if c := shown(change, changed); c.Text != words.None {
					f.Text += " (" + c.Text + ")"
				}
				return f
			}
			return field(ours, change), field(paper, published)
		})
	}
	return t
}

// fullTable has all of the paper's solvers on one task.
func (r *Report) fullTable(g infer.Group, task string) doc.Table {
	t := doc.Table{Anchor: task + "-full", Head: slices.Concat([]string{"Solver", "Method", "Source"}, infer.PaperTiers, []string{"Mean"}),
		Caption: fmt.Sprintf("%s: success (%%), mean ± SD over training seeds if there are several, otherwise over sets, as the paper's table tab:full-%s; there six sets of 100 episodes, five of MPPI. The paper's mean is over the tiers that this folder has. Bold marks the best of a solver's column, separately for ours and the paper's.", words.Task(task), task)}
	for _, solver := range infer.PaperSolvers {
		t.AddPairs(r.paperPairs(g, task, solver), 3, false)
	}
	return t
}

// paperPairs returns rows for the arms of a task and solver that the paper has, ours and the
// paper's. If the folder lacks tiers, the paper's mean is over the same tiers as ours,
// because the tiers differ widely in success.
func (r *Report) paperPairs(g infer.Group, task, solver string) (pairs [][2][]doc.Field) {
	for _, b := range g.Blocks {
		if b.Task != task || b.Solver != solver {
			continue
		}
		for _, arm := range b.Names() {
			published := infer.Number{What: infer.Success, Source: infer.Paper, Place: infer.Place{Task: task, Solver: solver, Tier: infer.Mean}, Of: arm}
			if r.Find(published) == nil {
				continue
			}
			row := func(source string) []doc.Field {
				return []doc.Field{doc.Words(words.Solver(solver)), doc.Words(words.Arm(arm)), doc.Words(source)}
			}
			ours, paper := row(infer.Ours), row(infer.Paper)
			for _, tier := range infer.PaperTiers {
				published.Tier = tier
				ours, paper = append(ours, shown(r.Success(b, arm, tier), spread)), append(paper, shown(r.Find(published), spread))
			}
			pairs = append(pairs, [2][]doc.Field{append(ours, shown(r.Success(b, arm, infer.Mean), spread)), append(paper, shown(r.paperMean(b, arm), rate))})
		}
	}
	return pairs
}

// gaps names what the paper's table of a task has and the folder lacks, in one line.
func (r *Report) gaps(g infer.Group, task string) []string {
	var missing, tiers, methods []string
	arms := map[results.Arm]bool{}
	for _, solver := range infer.PaperSolvers {
		found := false
		for _, b := range g.Blocks {
			if b.Task != task || b.Solver != solver {
				continue
			}
			found = true
			for _, a := range b.Names() {
				arms[a] = true
			}
			for _, tier := range infer.PaperTiers {
				if !slices.Contains(b.TierNames(), tier) {
					tiers = append(tiers, words.Solver(solver)+" at "+tier)
				}
			}
		}
		if !found {
			missing = append(missing, words.Solver(solver))
		}
	}
	for _, n := range r.Where(infer.Success, func(n *infer.Number) bool { return n.Source == infer.Paper && n.Task == task && !arms[n.Of] }) {
		if name := words.Arm(n.Of); !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
	}
	if missing = slices.Concat(missing, tiers, methods); len(missing) == 0 {
		return nil
	}
	return []string{words.Task(task) + ": " + words.Listing(missing)}
}

// selectionTable compares methods that were trained with smaller and larger task
// states. A row is a method and task; its three states are columns.
func (r *Report) selectionTable(g infer.Group) doc.Table {
	// All states of a row have the same solvers and cells, so any of them will do.
	cells := func(head string, count func(*infer.Number) int) column {
		return column{head, func(t *infer.Table, row infer.Number) doc.Field {
			for _, state := range infer.States {
				n := infer.Number{What: infer.ByState, Source: row.Source, Place: row.Place, Of: infer.StateArm(row.Of, state)}
				if n := t.Find(n); n != nil {
					return doc.Whole(count(n))
				}
			}
			return doc.Missing()
		}}
	}
	state := func(name string) column {
		return column{name, func(t *infer.Table, row infer.Number) doc.Field {
			if n := t.Find(infer.Number{What: infer.ByState, Source: row.Source, Place: row.Place, Of: infer.StateArm(row.Of, name)}); n != nil {
				return doc.Number(fmt.Sprintf("%.2f", *n.Value), *n.Value)
			}
			return doc.Missing()
		}}
	}
	v := r.view("selection", "State selection: success (%) with a part of the task state in the loss (half), the state of the paper's numbers (full) and all that the simulator has (native), averaged over the solvers and tiers that all entries of a row have; the authors average CEM, iCEM, MPPI at temperature 0.5 and gradient descent. The paper prints the numbers of SCALE on Reacher and Cube.",
		task, method, source, cells("Solvers", func(n *infer.Number) int { return len(n.Notes) }), cells("Cells", func(n *infer.Number) int { return n.N }),
		state("half"), state("full"), state("native"), number("full − half", infer.StateDiff, points), number("95 % interval", infer.StateDiff, interval))
	for _, row := range r.rows(infer.StateDiff, g.Name) {
		v.both(row)
	}
	return v.Table
}

// setTestTable has the paper's significance test, task by task.
func (r *Report) setTestTable(g infer.Group) doc.Table {
	v := r.view("sets", "The paper's test, task by task: success on each set averaged over its three solvers and five tiers (MPPI at stock temperature if all of it was run so), the difference of two methods in points for each set, and the exact two-sided Wilcoxon signed-rank test over sets. With six sets p is never below 0.031. "+
		"The interval is that of the same difference with the episode as the unit, whose outcomes in all cells are averaged; it is missing if some cell lacks a training seed, or if no episode is in all cells. The paper's numbers are from its authors' files; the paper itself prints only the verdicts on DINO-WM.",
		comparison, task, source, number("Cells", "set_difference_cells", whole), number("Sets", infer.SetDiff, count),
		number("Difference", infer.SetDiff, points), number("95 % interval", infer.SetDiff, interval), number("p", infer.SetDiff, pvalue),
		number("By set", infer.SetDiff, func(n *infer.Number) doc.Field {
			if test, is := n.How.(*infer.SetTest); is {
				return listed(test.Points)
			}
			return listed(nil)
		}))
	for _, row := range r.rows(infer.SetDiff, g.Name) {
		v.both(row)
	}
	return v.Table
}

// setTestGaps names what the paper's test has and ours lacks.
func (r *Report) setTestGaps(g infer.Group) doc.Text {
	whose := map[string][]string{} // names of comparisons or tasks, by what is missing
	rows := r.rows(infer.SetDiff, g.Name)
	for _, row := range rows {
		row.What = infer.SetDiff
		if n := r.Find(row); len(n.Notes) > 0 {
			what := words.Task(n.Task) + " without " + words.Listing(n.Notes)
			whose[what] = append(whose[what], words.Minus(n.Of, n.Minus))
		}
	}
	// absent notes a task or comparison that the paper has and no row of ours.
	absent := func(what, name string) {
		if what += " of the paper that are not here"; !slices.Contains(whose[what], name) {
			whose[what] = append(whose[what], name)
		}
	}
	for _, p := range r.Where(infer.SetDiff, func(n *infer.Number) bool { return n.Source == infer.Authors && len(g.Blocks) > 0 }) {
		switch {
		case !slices.Contains(infer.Tasks(g.Blocks), p.Task):
			absent("Tasks", words.Task(p.Task))
		case !slices.ContainsFunc(rows, func(n infer.Number) bool { return n.Of == p.Of && n.Minus == p.Minus }):
			absent("Comparisons", words.Minus(p.Of, p.Minus))
		}
	}
	var notes []string
	for what, names := range whose {
		notes = append(notes, what+": "+words.Listing(names))
	}
	slices.Sort(notes)
	return note("Not in these tests", notes)
}

// tallyTable counts where a method leads another. The paper's counts are below ours.
func (r *Report) tallyTable(g infer.Group) doc.Table {
	v := r.view("tally", "Where the first method is above the second: averages over tiers (one for each task and solver), and single cells (task, solver, tier). The paper's counts are below ours.",
		comparison, source, number("Averages led", "averages_led", whole), number("of", "averages_led", count), number("Cells up", "cells_up", whole), number("down", "cells_down", whole), number("tied", "cells_tied", whole))
	for _, row := range r.rows("averages_led", g.Name) {
		v.both(row)
	}
	return v.Table
}

// gainTable compares iCEM with CEM for each method.
func (r *Report) gainTable(g infer.Group) doc.Table {
	v := r.view("icem", "What iCEM gains over CEM: success (%) averaged over tiers, and the difference in points, paired by episode. The paper's averages have no interval.",
		task, method, source, number("Episodes", infer.Gain, func(n *infer.Number) doc.Field {
			if n.N == 0 {
				return doc.Missing()
			}
			return count(n)
		}), number("CEM", "success_by_cem", rate), number("iCEM", "success_by_icem", rate),
		number("Difference", infer.Gain, points), number("95 % interval", infer.Gain, interval), number("p", infer.Gain, pvalue))
	if len(infer.Tasks(g.Blocks)) > 1 {
		v.Fold = "What iCEM gains over CEM"
	}
	for _, row := range r.rows(infer.Gain, g.Name) {
		v.both(row)
	}
	return v.Table
}

// aggregateTable summarizes each arm over all cells that every arm has.
func (r *Report) aggregateTable(g infer.Group) doc.Table {
	columns := []column{method, number("Cells", infer.Aggregates[0], count)}
	for i, head := range []string{"Mean", "Interquartile mean", "Gap to 100 %"} {
		columns = append(columns, number(head, infer.Aggregates[i], rate), number("95 %", infer.Aggregates[i], func(n *infer.Number) doc.Field {
			return doc.Words(rateInterval(n).Text)
		}))
	}
	v := r.view("aggregates", "Success (%) over all cells (task, solver, tier) that every method has, with 95 % intervals from a bootstrap within cells: of training seeds, or of sets if no method has several. The intervals of two methods do not say whether they differ: the paired tables do.", columns...)
	for _, row := range r.rows(infer.Aggregates[0], g.Name) {
		v.row(row)
	}
	return v.Table
}

// compute returns the section on the cost of training and planning, over tasks.
// Measured times depend on the machine, so the counted operations are shown with them.
func (r *Report) compute() []doc.Section {
	var trained []infer.Number
	shown := map[string]bool{}
	for _, task := range infer.Tasks(r.Blocks) {
		for _, c := range r.Checkpoints(task) {
			// One training seed is enough, the others cost the same.
			if key := strings.Join([]string{task, c.Arm.String(), c.Device}, " "); c.Cost != nil && len(c.Cost.Tiers) > 0 && !shown[key] {
				shown[key] = true
				trained = append(trained, infer.Number{Source: infer.Ours, Place: c.Place(), Of: c.Arm, Seed: &c.Seed})
			}
		}
	}
	if len(trained) == 0 {
		return nil
	}
	anyTask := text("Task", func(n infer.Number) string {
		if n.Task == "" {
			return "any"
		}
		return words.Task(n.Task)
	})
	training := r.view("cost-training", "What training costs: times on the machine of each row, comparable within one machine only (the authors' is an A100); operations are those of matrix multiplications, counted instead of measured. A step encodes its frames, also where a training caches the features of a frozen encoder.",
		anyTask, method, source, number("Parameters", "parameters", grouped), number("Batch", "batch", grouped), number("Steps a second", "steps_per_second", digits), number("Steps a second, features cached", "steps_per_second_on_features", digits),
		number("Seconds an epoch", "epoch_seconds", digits), number("GFLOP a step", "gflop_of_step", digits))
	columns := []column{anyTask, method, source}
	for _, tier := range infer.PaperTiers {
		columns = append(columns, at(tier+", s", infer.PlanSeconds, tier, digits))
	}
	planning := r.view("cost-planning", "What one plan by CEM costs: seconds at each tier, one plan at a time, and their sum; rollouts, predictor calls and operations of all tiers, counted instead of measured. The authors' times are those of an A100.",
		append(columns, at("Sum, s", infer.PlanSeconds, infer.SumOfTiers, digits), number("Rollouts", "plan_rollouts", grouped), number("Predictor calls", "plan_predictor_calls", grouped), number("TFLOP", "plan_tflop", digits))...)
	for _, row := range trained {
		training.row(row)
		planning.row(row)
	}
	for _, n := range r.Where("batch", func(n *infer.Number) bool { return n.Source == infer.Authors }) {
		training.published(infer.Number{Of: n.Of})
		planning.published(infer.Number{Of: n.Of})
	}
	return section(doc.Section{Title: "What training and planning cost", Anchor: "cost", Level: 2, Nav: "Compute"}, training.Table, planning.Table)
}
