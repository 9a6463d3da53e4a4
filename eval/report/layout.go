package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
)

// Our numbers in the layout of the paper's tables and figures, its own beside them.

// caveat stands wherever the paper's numbers stand beside ours.
const caveat = "The paper trains at full size (ViT-Tiny at 224 px) and evaluates 100 episodes a set. A smaller preset is the same method with smaller numbers, " +
	"so compare the direction and order of effects, not the rates."

// besideThePaper has the tables and figures that the paper has, settings that differ apart.
func (r *Report) besideThePaper() (out []Section) {
	for i, g := range r.Groups {
		suffix, title := "", "Beside the paper"
		if g.Name != "" {
			suffix, title = fmt.Sprintf("-%d", i+1), title+", "+g.Name
		}
		var parts []Part
		add := func(t Table, notes ...Part) {
			if t.Anchor += suffix; len(t.Rows) > 0 {
				parts = append(append(parts, t), notes...)
			}
		}
		add(g.crossTable())
		for _, task := range tasksOf(g.Blocks) {
			add(g.fullTable(task), g.fullGaps(task)...)
		}
		add(g.selectionTable())
		if len(parts) > 0 {
			s := Section{Title: title, Anchor: "paper" + suffix, Level: 2, Parts: append([]Part{Text{Body: caveat}}, parts...)}
			if i == 0 {
				s.Nav = "Beside the paper"
			}
			out = append(out, s)
		}
	}
	return append(out, r.latents()...)
}

// tierHead are the heads of the paper's tiers.
func tierHead(before ...string) []string {
	return append(append(before, published.Tiers[:]...), "Mean")
}

// crossTable has iCEM on all tasks, where there are several.
func (g *Group) crossTable() Table {
	t := Table{Anchor: "cross-task", Head: tierHead("Task", "Method", "Source"),
		Caption: "iCEM on all tasks, success (%), mean ± SD over sets, as the paper's table tab:cross-task. A mean is over the tiers that are here, the paper's over the same. Bold marks the best of a task's column, ours and the paper's apart."}
	tasks := 0
	for _, task := range tasksOf(g.Blocks) {
		if rows := g.besideRows(task, results.ICEM, taskName(task)); len(rows) > 0 {
			tasks++
			t.Rows = append(t.Rows, rows...)
		}
	}
	if tasks < 2 {
		t.Rows = nil
	}
	return t
}

// fullTable has all of the paper's solvers on a task.
func (g *Group) fullTable(task string) Table {
	t := Table{Anchor: task + "-full", Head: tierHead("Solver", "Method", "Source"),
		Caption: fmt.Sprintf("%s: success (%%), mean ± SD over sets, as the paper's table tab:full-%s; there six sets of 100 episodes, five of MPPI. A mean is over the tiers that are here, the paper's over the same. Bold marks the best of a solver's column, ours and the paper's apart.", taskName(task), task)}
	for _, solver := range solversOf {
		t.Rows = append(t.Rows, g.besideRows(task, solver, solverNames[solver])...)
	}
	return t
}

// besideRows are the arms of a task and solver, every training seed of ours and the paper's
// below; none where the paper has none of them.
func (g *Group) besideRows(task, solver, name string) (rows [][]Field) {
	for _, b := range g.Blocks {
		if b.Task != task || b.Solver != solver {
			continue
		}
		var ours, theirs []besideRow
		for i, a := range b.Arms {
			pub, _, ok := published.row(task, solver, a.Name)
			if !ok {
				continue
			}
			mine := besideRow{fields: []Field{words(name), words(b.label(a)), words("ours")}}
			paper := besideRow{fields: []Field{words(name), words(armTitle(a.Name)), words("paper")}}
			for k, tier := range published.Tiers {
				if s, there := a.Scores[tier]; there {
					mine.add(number(pm(s), s.Mean), s.Mean, true)
					paper.add(number(points(pub.Mean[k])+" ± "+points(pub.SD[k]), pub.Mean[k]), pub.Mean[k], true)
				} else {
					mine.add(none(), math.Inf(-1), false)
					paper.add(number(points(pub.Mean[k])+" ± "+points(pub.SD[k]), pub.Mean[k]), pub.Mean[k], false)
				}
			}
			mine.close(mean(mine.there))
			if average := mean(paper.there); len(paper.there) < len(published.Tiers) {
				paper.close(average)
			} else {
				paper.close(pub.Average)
			}
			rows, ours = append(rows, mine.fields), append(ours, mine)
			if i+1 == len(b.Arms) || b.Arms[i+1].Name != a.Name {
				rows, theirs = append(rows, muted(paper.fields)), append(theirs, paper)
			}
		}
		embolden(ours)
		embolden(theirs)
	}
	return rows
}

// besideRow is a row of such a table: its fields and, of those behind the first three, the
// numbers, and the numbers at tiers that we have.
type besideRow struct {
	fields         []Field
	numbers, there []float64
}

func (r *besideRow) add(f Field, v float64, there bool) {
	r.fields, r.numbers = append(r.fields, f), append(r.numbers, v)
	if there {
		r.there = append(r.there, v)
	}
}

// close adds the mean.
func (r *besideRow) close(v float64) { r.add(number(points(v), v), v, false) }

// embolden marks the best of each column.
func embolden(rows []besideRow) {
	for column := range len(published.Tiers) + 1 {
		best := math.Inf(-1)
		for _, r := range rows {
			best = max(best, r.numbers[column])
		}
		for _, r := range rows {
			r.fields[3+column].bold = points(r.numbers[column]) == points(best) && !math.IsInf(best, 0)
		}
	}
}

// fullGaps names what the paper's table of a task has and the folder lacks.
func (g *Group) fullGaps(task string) []Part {
	var solvers, tiers, methods []string
	arms := map[string]bool{}
	for _, solver := range solversOf {
		found := false
		for _, b := range g.Blocks {
			if b.Task != task || b.Solver != solver {
				continue
			}
			found = true
			for _, a := range b.Arms {
				arms[a.Name] = true
			}
			for _, tier := range published.Tiers {
				if b.tierIndex(tier) < 0 {
					tiers = append(tiers, solverNames[solver]+" at "+tier)
				}
			}
		}
		if !found {
			solvers = append(solvers, solverNames[solver])
		}
	}
	for _, tab := range published.Tables {
		for _, row := range tab.Rows {
			if tab.Task == task && !arms[row.Method] {
				methods = append(methods, methodName(row.Method))
			}
		}
	}
	missing := slices.Concat(solvers, tiers, distinct(methods))
	if len(missing) == 0 {
		return nil
	}
	return []Part{Text{Style: "note", Items: []Item{{Text: "Not in this folder: " + listing(missing) + "."}}}}
}

// variants of the supervised state.
var states = []string{"half", "full", "native"}

// selectionTable sets smaller and larger supervised states beside each other.
func (g *Group) selectionTable() Table {
	t := Table{Anchor: "selection", Head: []string{"Task", "Method", "Source", "Solvers", "Cells", "half", "full", "native", "full − half", "95 % interval"},
		Caption: "State selection: success (%) with a part of the task state in the loss (half), the state of the paper's numbers (full) and all that the simulator has (native), averaged over the solvers and tiers that all of a row have; the authors average CEM, iCEM, MPPI at temperature 0.5 and gradient descent. The paper prints the numbers of SCALE on Reacher and Cube."}
	for _, task := range tasksOf(g.Blocks) {
		of := tested(g.Blocks, task)
		for _, method := range model.MethodNames(func(m model.Method) bool { return m.UsesQ() }) {
			row, ok := selectionRow(of, method)
			if !ok {
				continue
			}
			t.Rows = append(t.Rows, slices.Concat([]Field{words(taskName(task)), words(methodName(method)), words("ours")}, row))
			for _, p := range published.Selection {
				if p.Task == task && p.Method == method {
					t.Rows = append(t.Rows, muted([]Field{words(taskName(task)), words(methodName(method)), words("authors"), whole(4), whole(20),
						number(fmt.Sprintf("%.2f", p.Half), p.Half), number(fmt.Sprintf("%.2f", p.Full), p.Full), none(), number(signed(p.Full-p.Half), p.Full-p.Half), none()}))
				}
			}
		}
	}
	return t
}

// stateArm is a method's arm with a supervised state.
func stateArm(method, state string) string {
	if state == "full" {
		return method
	}
	return method + "@" + state
}

// selectionRow averages the variants of a method over the cells that all have; false
// where there is but one.
func selectionRow(of map[string]*Block, method string) ([]Field, bool) {
	var there []string
	for _, state := range states {
		for _, b := range of {
			if b.arms[stateArm(method, state)] != nil && !slices.Contains(there, state) {
				there = append(there, state)
			}
		}
	}
	if len(there) < 2 {
		return nil, false
	}
	sums := map[string]float64{}
	cells, solvers := 0, 0
	for _, solver := range fourSolvers {
		before := cells
		for _, tier := range published.Tiers {
			rates := map[string]float64{}
			for _, state := range there {
				if b := of[solver]; b != nil {
					if by := b.setRates(tier, stateArm(method, state)); len(by) > 0 {
						rates[state] = meanOf(by)
					}
				}
			}
			if len(rates) == len(there) {
				cells++
				for state, v := range rates {
					sums[state] += v
				}
			}
		}
		if cells > before {
			solvers++
		}
	}
	if cells == 0 {
		return nil, false
	}
	row := []Field{whole(solvers), whole(cells)}
	for _, state := range states {
		if slices.Contains(there, state) {
			v := sums[state] / float64(cells)
			row = append(row, number(fmt.Sprintf("%.2f", v), v))
		} else {
			row = append(row, none())
		}
	}
	diff, between := none(), none()
	if t, ok := setTest(of, fourSolvers, method, stateArm(method, "half"), infer.Options{}); ok && t.Pooled != nil {
		diff, between = number(signed(t.Pooled.Diff), t.Pooled.Diff), number(interval(t.Pooled.Lo, t.Pooled.Hi), t.Pooled.Lo)
	}
	return append(row, diff, between), true
}

// latents are the paper's figures over tasks, and what methods cost.
func (r *Report) latents() (out []Section) {
	by := map[string][]*measured{}
	var methods []string
	for _, task := range tasksOf(r.Blocks) {
		by[task] = r.measuredOn(task)
		for _, m := range by[task] {
			methods = append(methods, m.method)
		}
	}
	if len(methods) == 0 {
		return nil
	}
	slices.SortFunc(methods, compareArms)
	legend := append(legendOf(slices.Compact(methods)), Item{Name: "the paper's number", Class: "m-paper"})
	var parts []Part
	var align, top []template.HTML
	for _, task := range tasksOf(r.Blocks) {
		align = append(align, barPanel(taskName(task), "Spearman's ρ", -0.1, by[task], func(m *measured) []bar {
			if len(m.Rank) == 0 {
				return nil
			}
			e := rho(m)
			return []bar{{"", e.Value, e.Lo, e.Hi, paperNumber(task, m.method, func(p PaperAnalysis) float64 { return p.Spearman })}}
		})...)
		top = append(top, barPanel(taskName(task), "R²", 0, by[task], func(m *measured) (bars []bar) {
			for i, k := range probeSizes {
				if v := m.r2("ridge", k, "mean"); !math.IsNaN(v) {
					bars = append(bars, bar{itoa(k), v, math.NaN(), math.NaN(), paperNumber(task, m.method, func(p PaperAnalysis) float64 { return p.Top[i] })})
				}
			}
			return bars
		})...)
	}
	if len(align) > 0 {
		parts = append(parts, Figure{Caption: "Alignment of latent and state distances (tab:heldout-corr), with 95 % intervals from a bootstrap of episodes.", Panels: align, Legend: legend})
	}
	if len(top) > 0 {
		parts = append(parts, Figure{Caption: "How well the state is read from the first 2, 4 and 8 principal components (fig:topk-probing).", Panels: top, Legend: legend})
	}
	if len(parts) > 0 {
		out = append(out, Section{Title: "Geometry of the latents, over tasks", Anchor: "latents", Level: 3, Parts: parts})
	}
	if training, planning := costTables(tasksOf(r.Blocks), by); len(planning.Rows) > 0 {
		out = append(out, Section{Title: "What training and planning cost", Anchor: "cost", Level: 3, Parts: []Part{training, planning}})
	}
	return out
}

func paperNumber(task, method string, of func(PaperAnalysis) float64) float64 {
	if p, ok := published.analysis(task, method); ok {
		return of(p)
	}
	return math.NaN()
}

// bar is one of a checkpoint's numbers, with its interval and the paper's number, each
// NaN where there is none.
type bar struct {
	label                string
	value, lo, hi, paper float64
}

// barPanel draws the bars of a task's checkpoints side by side, those of one label
// together, with the paper's number as a line across.
func barPanel(title, what string, least float64, all []*measured, of func(*measured) []bar) []template.HTML {
	var labels []string
	bars := map[string][]bar{}
	classes := map[string][]string{}
	for _, m := range all {
		for _, b := range of(m) {
			if bars[b.label] == nil {
				labels = append(labels, b.label)
			}
			bars[b.label], classes[b.label] = append(bars[b.label], b), append(classes[b.label], class(m.method))
		}
	}
	if len(labels) == 0 {
		return nil
	}
	p := newPanel(330, 220, axis{lo: 0, hi: float64(len(labels))}, axis{lo: least, hi: 1})
	p.head(title + ": " + what)
	p.yGrid(p.y.ticks(5), compact)
	p.line(point{p.x.from, p.y.at(0)}, point{p.x.to, p.y.at(0)}, "axis")
	for i, label := range labels {
		width := 0.8 / float64(len(bars[label]))
		for k, b := range bars[label] {
			from := float64(i) + 0.1 + width*float64(k)
			if b.value >= 0 { // an R² below 0 has no bar
				p.rect(p.at(from+0.04*width, min(b.value, 1)), p.at(from+0.9*width, 0), "bar "+classes[label][k])
			}
			if b.lo <= b.hi {
				mid := from + width/2
				p.line(p.at(mid, max(b.lo, least)), p.at(mid, min(b.hi, 1)), "axis")
			}
			if !math.IsNaN(b.paper) {
				p.line(p.at(from-0.02*width, b.paper), p.at(from+0.96*width, b.paper), "paperline")
			}
		}
		p.text(point{p.x.at(float64(i) + 0.5), p.y.from + 16}, "tick mid", label)
	}
	return panels(p.html(title + ": " + what + " by method, beside the paper's"))
}

// costTables are what training and planning with each method cost, over tasks.
func costTables(tasks []string, by map[string][]*measured) (training, planning Table) {
	training = Table{Anchor: "cost-training", Head: []string{"Task", "Method", "Source", "Parameters", "Batch", "Steps a second", "Seconds an epoch", "GFLOP a step"},
		Caption: "What training costs: times on the machine of each row, comparable within one only (the authors' is an A100); operations of matrix products are counted."}
	planning = Table{Anchor: "cost-planning", Head: []string{"Task", "Method", "Source", "T1, s", "T2, s", "T3, s", "T4, s", "T5, s", "Sum, s", "Rollouts", "Predictor calls", "TFLOP"},
		Caption: "What one plan by CEM costs: seconds at each tier, plans made one at a time, and summed; rollouts, predictor calls and operations of all tiers are counted. The authors' times are of an A100."}
	for _, task := range tasks {
		shown := map[string]bool{}
		for _, m := range by[task] {
			if m.Cost == nil || len(m.Cost.Tiers) == 0 || shown[m.method+m.device] {
				continue // other seeds cost the same
			}
			shown[m.method+m.device] = true
			c, head := m.Cost, []Field{words(taskName(task)), words(armTitle(m.method)), words("ours")}
			var step results.StepTime
			plans := map[string]float64{}
			if c.Times != nil {
				if c.Times.Step != nil {
					step = *c.Times.Step
				}
				for _, p := range c.Times.Plans {
					plans[p.Tier] = p.Seconds
				}
			}
			training.Rows = append(training.Rows, append(slices.Clip(head), grouped(c.Params), grouped(c.Batch), measuredValue(step.StepsPerSec), measuredValue(step.EpochSeconds), measuredValue(c.StepFLOP/1e9)))
			sum := c.Tiers[len(c.Tiers)-1]
			row := slices.Clip(head)
			for _, tier := range append(published.Tiers[:], sum.Tier) {
				row = append(row, measuredValue(plans[tier]))
			}
			planning.Rows = append(planning.Rows, append(row, grouped(sum.Rollouts), grouped(sum.PredictorCalls), measuredValue(sum.FLOP/1e12)))
		}
	}
	if len(training.Rows) == 0 {
		return training, planning
	}
	for _, p := range published.Costs {
		head := []Field{words("any"), words(methodName(p.Method)), words("authors")}
		training.Rows = append(training.Rows, muted(append(slices.Clip(head), none(), grouped(p.Batch), measuredValue(p.StepsPerSec), none(), none())))
		if p.Sum > 0 {
			planning.Rows = append(planning.Rows, muted(append(slices.Clip(head), measuredValue(p.T1), measuredValue(p.T2), none(), none(), none(), measuredValue(p.Sum), none(), none(), none())))
		}
	}
	return training, planning
}

// measuredValue has three digits; it is none where nothing was measured.
func measuredValue(x float64) Field {
	switch {
	case !(x > 0):
		return none()
	case x >= 1000:
		return number(thousands(int(math.Round(x))), x)
	}
	return number(fmt.Sprintf("%.3g", x), x)
}

// grouped is a whole number in groups of digits, none for 0.
func grouped(n int) Field {
	if n == 0 {
		return none()
	}
	return number(thousands(n), float64(n))
}
