package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// spot is an arm at a tier in the figure of calls.
type spot struct {
	block   *infer.Block
	arm     results.Arm
	tier    string
	calls   float64 // per decision; NaN if the arm does not decide
	success *infer.Number
}

// callsFigure shows success against the calls of a decision, for all methods, tiers and
// settings of a task: a panel for each solver, in which settings differ in their dashes. It
// is empty if all decisions make equally many calls.
func (r *Report) callsFigure(task string) doc.Figure {
	by, various := map[string][]spot{}, map[float64]bool{}
	var solvers, settings []string
	var arms []results.Arm
	r.eachComputed(task, func(b *infer.Block, row infer.Number) {
		s := spot{b, row.Of, row.Tier, math.NaN(), r.successOf(b, row)}
		if row.What = infer.Calls; s.success == nil || row.Of.Replaced() {
			return
		}
		if n := r.Find(row); n != nil && infer.Or(n.Value) > 0 {
			s.calls = *n.Value
			various[s.calls] = true
		}
		if by[b.Solver] == nil {
			solvers = append(solvers, b.Solver)
		}
		if !slices.Contains(settings, b.Settings) {
			settings = append(settings, b.Settings)
		}
		by[b.Solver], arms = append(by[b.Solver], s), append(arms, row.Of)
	})
	if len(various) < 2 {
		return doc.Figure{}
	}
	f := doc.Figure{Caption: "Success against the calls of one decision: of the predictor, one for each candidate and block, and of the head of a policy or proposal, so that a policy that answers at once has one. Lines connect the tiers of a method; bars are 95 % intervals, of the episodes or, with several training seeds, over seeds. Marks are moved apart by a few pixels."}
	x := doc.Axis{Lo: slices.Min(slices.Collect(maps.Keys(various))) / 2, Hi: slices.Max(slices.Collect(maps.Keys(various))) * 2, Log: true}
	for _, s := range solvers {
		f.Panels = append(f.Panels, r.callsPanel(task, by[s], settings, x, len(solvers) == 1))
	}
	slices.SortFunc(arms, results.CompareArms)
	f.Legend = r.legend(slices.Compact(arms))
	for i, s := range settings {
		if len(settings) > 1 {
			f.Legend = append(f.Legend, doc.Item{Name: s, Class: fmt.Sprintf("m-paper dash-%d", i%dashes)})
		}
	}
	return f
}

// dashes is the number of classes dash-0, dash-1, ... of the style sheet.
const dashes = 4

// callsPanel draws the spots of a solver. x is the axis of calls.
func (r *Report) callsPanel(task string, spots []spot, settings []string, x doc.Axis, wide bool) template.HTML {
	w, h := 330.0, 262.0
	if wide {
		w, h = 620, 352
	}
	p := doc.NewPanel(w, h, x, doc.Axis{Lo: 0, Hi: 100})
	solver := words.Solver(spots[0].block.Solver)
	p.Head(solver + ": success, %")
	p.YGrid(p.Y.Ticks(5), doc.Compact)
	p.XTicks(p.X.ValueTicks(), doc.Compact)
	p.Base("predictor and head calls a decision")
	type lineOf struct {
		*infer.Block
		results.Arm
	}
	lines := map[lineOf][]spot{}
	var order []lineOf
	for _, s := range spots {
		k := lineOf{s.block, s.arm}
		if lines[k] == nil {
			order = append(order, k)
		}
		lines[k] = append(lines[k], s)
	}
	for i, k := range order {
		// Lines of one tier have the same x. Moved apart, their bars do not hide each other.
		aside := (float64(i) - float64(len(order)-1)/2) * min(5, 36/float64(len(order)))
		dash := fmt.Sprintf(" dash-%d", slices.Index(settings, k.Settings)%dashes)
		var line []doc.Point
		for _, s := range lines[k] {
			y := p.Y.At(*s.success.Value)
			if math.IsNaN(s.calls) {
				p.Line(doc.XY(p.X.From, y), doc.XY(p.X.To, y), "floor "+r.class(k.Arm))
				continue
			}
			x := p.X.At(s.calls) + aside
			line = append(line, doc.XY(x, y))
			if s.success.Lo != nil && s.success.Hi != nil {
				p.Line(doc.XY(x, p.Y.At(max(*s.success.Lo, 0))), doc.XY(x, p.Y.At(min(*s.success.Hi, 100))), "seed "+r.class(k.Arm))
			}
		}
		p.Polyline(line, "curve thin "+r.class(k.Arm)+dash)
		for n, at := range line {
			s := lines[k][n]
			name := cmp.Or(k.Settings, solver)
			p.Mark(at, r.mark(k.Arm), r.class(k.Arm), fmt.Sprintf("%s %s, %s: %s %% with %s calls a decision", words.Arm(k.Arm), s.tier, name, words.Spread(*s.success.Value, infer.Or(s.success.SD)), words.Thousands(int(s.calls))))
		}
	}
	return p.HTML(words.Task(task) + ", " + solver + ": success against calls of a decision, by method and settings")
}
