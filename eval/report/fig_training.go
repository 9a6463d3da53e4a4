package report

import (
	"html/template"
	"math"
	"slices"
	"strings"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/model/train/metrics"
)

// term is a quantity of the training metrics that is drawn. Its value is NaN for rows
// without it.
type term struct {
	title string
	of    func(metrics.Row) float64
}

// terms lists the panels of training curves.
var terms = []term{
	{"total loss", func(r metrics.Row) float64 { return r.Loss }},
	{"prediction loss", func(r metrics.Row) float64 { return r.Pred }},
	{"SIGReg", func(r metrics.Row) float64 { return r.SIGReg }},
	{"state objective, each method's own", func(r metrics.Row) float64 { return r.Obj }},
	{"gradient norm", func(r metrics.Row) float64 { return r.GradNorm }},
	{"effective rank of the latents", func(r metrics.Row) float64 {
		if r.Diagnostics == nil {
			return math.NaN()
		}
		return r.Rank
	}},
}

// maxBins is the largest number of points of a training curve. Runs with more steps are
// averaged, so that the page stays small.
const maxBins = 120

// trainingFigures draws one panel for each term, with a line for each run. Each panel
// has its own axis, which is logarithmic if the values span a large factor.
func (r *Report) trainingFigures(runs []results.Curve) (out []template.HTML) {
	for _, t := range terms {
		if f := r.trainingFigure(t, runs); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// trainingCurve is a smoothed metric of one run.
type trainingCurve struct {
	class string
	ps    []doc.Point // step, value
}

// trainingFigure draws one panel, or returns "" if no run has the term.
func (r *Report) trainingFigure(t term, runs []results.Curve) template.HTML {
	var curves []trainingCurve
	// All runs share the axes, so that their curves can be compared.
	lo, hi, last := math.Inf(1), math.Inf(-1), 1.0
	for _, run := range runs {
		for _, c := range r.curvesOf(run, t.of) {
			for _, p := range c.ps {
				lo, hi, last = min(lo, p.Y), max(hi, p.Y), max(last, p.X)
			}
			curves = append(curves, c)
		}
	}
	if len(curves) == 0 {
		return ""
	}
	p := doc.NewPanel(330, 244, doc.Axis{Lo: 0, Hi: last}, doc.ValueAxis(lo, hi))
	p.Head(t.title)
	p.YGrid(p.Y.ValueTicks(), doc.Compact)
	p.XTicks(p.X.Ticks(4), doc.Compact)
	p.Base("step")
	for _, c := range curves {
		ps := make([]doc.Point, len(c.ps))
		for i, q := range c.ps {
			ps[i] = p.At(q.X, q.Y)
		}
		p.Polyline(ps, c.class)
	}
	return p.HTML("training: " + t.title + " by step")
}

// curvesOf returns a run's training curve of a term and, if it has one, the validation
// curve. Curves with less than two points are left out, and so are terms that are
// always 0, which the run's loss does not have.
func (r *Report) curvesOf(t results.Curve, of func(metrics.Row) float64) (out []trainingCurve) {
	for split, kind := range map[string]string{metrics.Train: "curve thin ", metrics.Val: "curve dotted "} {
		var steps, values []float64
		for _, row := range t.Rows {
			if row.Split == split {
				steps, values = append(steps, float64(row.Step)), append(values, of(row))
			}
		}
		c := trainingCurve{kind + r.class(t.Arm), doc.Smooth(steps, values, maxBins)}
		if len(c.ps) > 1 && slices.ContainsFunc(c.ps, func(p doc.Point) bool { return p.Y != 0 }) {
			out = append(out, c)
		}
	}
	// The map's order is random. Descending order of classes puts training first.
	slices.SortFunc(out, func(a, b trainingCurve) int { return strings.Compare(b.class, a.class) })
	return out
}
