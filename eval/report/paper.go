package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// This file shows our numbers in the layout of the paper's tables, with the paper's below.

// caveat is shown where the paper's numbers are next to ours.
const caveat = "The paper trains at full size (ViT-Tiny at 224 px) and evaluates 100 episodes a set. A smaller preset is the same method with smaller numbers, " +
	"so compare the direction and order of effects, not the rates."

// likeThePaper returns the sections with the paper's tables and tests, for each group
// of settings. They have the rows, columns and labels of the paper, so that both can be
// compared side by side. Anchors of the second group and later ones have its number as
// a suffix.
func (r *Report) likeThePaper() (out []doc.Section) {
	for i, g := range r.Groups {
		suffix, name, nav := "", "", ""
		if g.Name != "" {
			suffix, name = fmt.Sprintf("-%d", i+1), ", "+g.Name
		}
		if i == 0 {
			nav = "The paper's tables"
		}
		// add appends a section, with the name of the group in its title and the suffix in the
		// anchors of its tables.
		add := func(title, anchor, nav string, level int, parts ...doc.Part) {
			for i, p := range parts {
				if t, is := p.(doc.Table); is {
					t.Anchor += suffix
					parts[i] = t
				}
			}
			out = append(out, section(doc.Section{Title: title + name, Anchor: anchor + suffix, Level: level, Nav: nav}, parts...)...)
		}
		parts := []doc.Part{doc.Text{Body: caveat}, r.crossTable(g)}
		for _, task := range infer.Tasks(g.Blocks) {
			if t := r.fullTable(g, task); len(t.Rows) > 0 {
				parts = append(parts, t, r.gaps(g, task))
			}
		}
		if parts = append(doc.Filled(parts...), r.selectionTable(g)); len(doc.Filled(parts...)) > 1 {
			add("The paper's tables", "paper", nav, 2, parts...)
		}
		add("Over everything", "everything", "", 2, r.setTestTable(g), r.setTestGaps(g), r.tallyTable(g), r.gainTable(g), r.aggregateTable(g))
	}
	return out
}

// crossTable has iCEM on all tasks. It is empty if there are fewer than two.
func (r *Report) crossTable(g infer.Group) doc.Table {
	t := doc.Table{Anchor: "cross-task", Head: tierHead("Task", "Method", "Source"),
		Caption: "iCEM on all tasks, success (%), mean ± SD over sets, as the paper's table tab:cross-task. A mean is over the tiers in this folder, and the paper's is over the same. Bold marks the best of a task's column, separately for ours and the paper's."}
	tasks := 0
	for _, task := range infer.Tasks(g.Blocks) {
		if rows := r.paperRows(g, task, results.ICEM, words.Task(task)); len(rows) > 0 {
			tasks++
			t.Rows = append(t.Rows, rows...)
		}
	}
	if tasks < 2 {
		t.Rows = nil
	}
	return t
}

// fullTable has all of the paper's solvers on one task.
func (r *Report) fullTable(g infer.Group, task string) doc.Table {
	t := doc.Table{Anchor: task + "-full", Head: tierHead("Solver", "Method", "Source"),
		Caption: fmt.Sprintf("%s: success (%%), mean ± SD over sets, as the paper's table tab:full-%s; there six sets of 100 episodes, five of MPPI. A mean is over the tiers in this folder, and the paper's is over the same. Bold marks the best of a solver's column, separately for ours and the paper's.", words.Task(task), task)}
	for _, solver := range infer.PaperSolvers {
		t.Rows = append(t.Rows, r.paperRows(g, task, solver, words.Solver(solver))...)
	}
	return t
}

// tierHead returns the head of a table with a column for each tier of the paper, and their
// mean.
func tierHead(before ...string) []string {
	return append(append(before, infer.PaperTiers...), "Mean")
}

// paperRows returns rows for the arms of a task and solver that the paper has: one for
// each of our training seeds, and then the paper's. If the folder lacks tiers, the
// paper's mean is over the same tiers as ours, because the tiers differ widely in
// success.
func (r *Report) paperRows(g infer.Group, task, solver, name string) (rows [][]doc.Field) {
	columns := []column{text("", func(infer.Number) string { return name })}
	for _, b := range g.Blocks {
		if b.Task != task || b.Solver != solver {
			continue
		}
		columns = append(columns[:1], text("", func(n infer.Number) string {
			if n.Source == infer.Paper {
				return words.Arm(n.Of)
			}
			return b.Label(infer.Trained{Arm: n.Of, Seed: *n.Seed})
		}), source)
		for _, t := range infer.PaperTiers {
			columns = append(columns, at(t, infer.Success, t, spread))
		}
		v := r.view("", "", append(columns, number("Mean", infer.PaperMean, rate))...)
		var ours, theirs []int // indices of rows
		for i, a := range b.Arms {
			if r.Find(infer.Number{What: infer.Success, Source: infer.Paper, Place: infer.Place{Task: task, Solver: solver, Tier: infer.Mean}, Of: a.Arm}) == nil {
				continue
			}
			ours = append(ours, len(v.Rows))
			v.row(infer.Number{Place: b.Place, Of: a.Arm, Seed: &a.Seed})
			if i+1 == len(b.Arms) || b.Arms[i+1].Arm != a.Arm {
				theirs = append(theirs, len(v.Rows))
				fields := doc.Mute(v.fields(infer.Number{Source: infer.Paper, Place: infer.Place{Task: task, Solver: solver}, Of: a.Arm}))
				// Replace the printed mean by that over our tiers, if these are fewer.
				if n := r.Find(infer.Number{What: infer.PaperMean, Source: infer.Paper, Place: b.Place, Of: a.Arm, Seed: &a.Seed}); n != nil {
					fields[len(fields)-1] = doc.Mute([]doc.Field{rate(n)})[0]
				}
				v.Rows = append(v.Rows, fields)
			}
		}
		embolden(v.Rows, ours)
		embolden(v.Rows, theirs)
		rows = append(rows, v.Rows...)
	}
	return rows
}

// embolden marks the best of each column among the given rows. Ours and the paper's
// rows are marked separately, as in a table of one source. The first three columns are
// text.
func embolden(rows [][]doc.Field, among []int) {
	for column := 3; len(among) > 0 && column < len(rows[among[0]]); column++ {
		best := math.Inf(-1)
		for _, i := range among {
			if x := rows[i][column].Sort; x > best { // false for NaN
				best = x
			}
		}
		for _, i := range among {
			rows[i][column].Bold = words.Points(rows[i][column].Sort) == words.Points(best) && !math.IsInf(best, 0)
		}
	}
}

// gaps names what the paper's table of a task has and the folder lacks.
func (r *Report) gaps(g infer.Group, task string) doc.Text {
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
		return doc.Text{}
	}
	return note("", []string{"Not in this folder: " + words.Listing(missing) + "."})
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
	for _, p := range r.Where(infer.SetDiff, func(n *infer.Number) bool { return n.Source == infer.Authors }) {
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
			return doc.Words(between(n, words.Points).Text)
		}))
	}
	v := r.view("aggregates", "Success (%) over all cells (task, solver, tier) that every method has, with 95 % intervals from a bootstrap of sets within cells. The intervals of two methods do not say whether they differ: the paired tables do.", columns...)
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
