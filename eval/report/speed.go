package report

import (
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// speed returns the section on what success on a task costs: success against the calls of
// a decision, differences at equal compute, how soon episodes are solved, and the counts.
func (r *Report) speed(task string) []doc.Section {
	return section(doc.Section{Title: "Compute and speed", Anchor: task + "-compute", Level: 3, Fold: true},
		r.callsFigure(task), r.equalTable(task), r.speedTable(task), r.countsTable(task))
}

// equalTable has the differences between plans of equal compute.
func (r *Report) equalTable(task string) doc.Table {
	var of *infer.Number
	v := r.view(task+"-equal-compute", "The same compute spent in different ways: plans that cost equally many predictor calls per env step although their tiers or schedules differ. Each row is a plan minus another, in points of success, on the same episodes with the same goals, budget and rule of success; the planners' noise differs. Rows of two methods under one plan show their difference for comparison. p is adjusted by Holm over the rows of the task.",
		solver, column{"Calls an env step", func(t *infer.Table, row infer.Number) doc.Field {
			return shown(t.Find(infer.Number{What: infer.PerEnvStep, Place: row.Place, Of: row.Of}), digits)
		}}, text("Plan", func(n infer.Number) string { return words.Arm(n.Of) + " " + of.Notes[0] }), text("minus", func(n infer.Number) string { return words.Arm(n.Minus) + " " + of.Notes[1] }),
		number("Episodes", infer.EqualCompute, count), number("Difference", infer.EqualCompute, points), number("95 % interval", infer.EqualCompute, interval), number("p", infer.EqualCompute, pvalue), number("p, adjusted", infer.EqualCompute, adjusted))
	for _, of = range r.Where(infer.EqualCompute, func(n *infer.Number) bool { return n.Task == task }) { // the columns above read of
		v.row(row(of))
	}
	return v.Table
}

// eachComputed calls f for every arm and tier of a task's main blocks. An arm that does not
// search has the tier "", and is in the first block of each solver only.
func (r *Report) eachComputed(task string, f func(b *infer.Block, row infer.Number)) {
	seen := map[string]bool{}
	for _, b := range infer.MainBlocks(r.Blocks) {
		for _, a := range b.Every() {
			arm := a.Arm
			for _, tier := range b.TierNames() {
				if !arm.Plans() {
					tier = ""
				}
				row := infer.Number{What: infer.InHalf, Place: b.Place.At(tier), Of: arm}
				n := r.Find(row)
				if b.Task != task || n == nil || seen[b.Solver+n.From[0]+tier] {
					continue
				}
				seen[b.Solver+n.From[0]+tier] = true
				f(b, row)
			}
		}
	}
}

// successOf returns the success of a row of eachComputed.
func (r *Report) successOf(b *infer.Block, row infer.Number) *infer.Number {
	if row.Tier == "" {
		row.Tier = b.TierNames()[0] // all tiers have the cells of an arm without one
	}
	return r.Success(b, row.Of, row.Tier)
}

// speedTable has how soon each arm solves its episodes, and what its decisions take.
func (r *Report) speedTable(task string) doc.Table {
	var of *infer.Block
	v := r.view(task+"-speed", "How soon episodes are solved: success (%) within a quarter and half (rounded down) and all of the step budget, and env steps until success, over the successful episodes only. A decision is a plan or an answer of a policy; its time is that of encoding and planning, without rendering and simulation, amortised over the batch.",
		text("Task, solver", func(infer.Number) string { return of.Title() }), tier, method, number("In a quarter", infer.InQuarter, rate), number("In half", infer.InHalf, rate),
		column{"In all", func(_ *infer.Table, row infer.Number) doc.Field { return shown(r.successOf(of, row), rate) }},
		number("Steps, median", infer.MedianSteps, rate), number("mean", infer.MeanSteps, rate), number("Decisions an episode", infer.Decisions, decimals(2)), number("ms a decision", infer.DecisionMillis, digits))
	r.eachComputed(task, func(b *infer.Block, row infer.Number) {
		of = b
		v.row(row)
	})
	return v.Table
}

// countsTable has what a decision computes, in one row for arms with equal counts.
func (r *Report) countsTable(task string) doc.Table {
	var of *infer.Block
	v := r.view(task+"-counts", "What one decision computes: encoded frames of the world (the goal's is one more in each episode), calls of the predictor (one for each candidate and block), of a policy's or a proposal's head, backward passes, and steps of a simulator inside the planner. The last column divides the predictor's calls of a plan by the env steps that execute it.",
		text("Task, solver", func(infer.Number) string { return of.Title() }), tier, method, number("Frames", infer.Frames, decimals(0)), number("Predictor calls", infer.Predictions, wholes), number("Head calls", infer.HeadCalls, wholes),
		number("Backward passes", infer.Backward, wholes), number("Simulator steps", infer.SimulatorWork, wholes), number("Predictor calls an env step", infer.PerEnvStep, digits))
	const methods = 2 // column
	r.eachComputed(task, func(b *infer.Block, row infer.Number) {
		if row.What = infer.Decisions; r.Find(row) == nil {
			return
		}
		of = b
		next := v.fields(row)
		if at := slices.IndexFunc(v.Rows, func(f []doc.Field) bool { return sameBut(f, next, methods) }); at >= 0 {
			v.Rows[at][methods].Text += ", " + next[methods].Text
			return
		}
		v.Rows = append(v.Rows, next)
	})
	return v.Table
}

// sameBut reports whether two rows have equal texts in all columns but one.
func sameBut(a, b []doc.Field, column int) bool {
	for i := range a {
		if i != column && a[i].Text != b[i].Text {
			return false
		}
	}
	return true
}

// wholes formats a count in groups of digits, and 0 as such.
var wholes = value(func(x float64) string { return words.Thousands(int(x + .5)) })
