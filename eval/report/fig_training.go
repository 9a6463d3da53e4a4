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

// trainingFigures draws one panel for each term that some run has, with a line for each
// run. Each panel has its own axis, which is logarithmic if the values span a large factor.
func (r *Report) trainingFigures(runs []results.Curve) (out []template.HTML) {
	for _, t := range terms {
		var curves []doc.Curve
		// All runs share the axes, so that their curves can be compared.
		lo, hi, last := math.Inf(1), math.Inf(-1), 1.0
		for _, run := range runs {
			for _, c := range r.curvesOf(run, t.of) {
				for _, p := range c.Points {
					lo, hi, last = min(lo, p.Y), max(hi, p.Y), max(last, p.X)
				}
				curves = append(curves, c)
			}
		}
		if len(curves) > 0 {
			out = append(out, doc.Plot{Label: "training: " + t.title + " by step", Head: t.title, Base: "step", W: 330, H: 244, X: doc.Axis{Lo: 0, Hi: last}, Y: doc.ValueAxis(lo, hi), XTicks: 4, Curves: curves}.HTML())
		}
	}
	return out
}

// curvesOf returns a run's training curve of a term and, if it has one, the validation
// curve. Curves with less than two points are left out, and so are terms that are
// always 0, which the run's loss does not have.
func (r *Report) curvesOf(t results.Curve, of func(metrics.Row) float64) (out []doc.Curve) {
	for split, kind := range map[string]string{metrics.Train: "curve thin ", metrics.Val: "curve dotted "} {
		var steps, values []float64
		for _, row := range t.Rows {
			if row.Split == split {
				steps, values = append(steps, float64(row.Step)), append(values, of(row))
			}
		}
		c := doc.Curve{Class: kind + r.class(t.Arm), Points: doc.Smooth(steps, values, maxBins)}
		if len(c.Points) > 1 && slices.ContainsFunc(c.Points, func(p doc.Point) bool { return p.Y != 0 }) {
			out = append(out, c)
		}
	}
	// The map's order is random. Descending order of classes puts training first.
	slices.SortFunc(out, func(a, b doc.Curve) int { return strings.Compare(b.Class, a.Class) })
	return out
}
