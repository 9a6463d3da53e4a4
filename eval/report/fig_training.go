package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/model/train/metrics"
)

// term is a quantity of the training metrics that is drawn; NaN where a row lacks it.
type term struct {
	title string
	of    func(metrics.Row) float64
}

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

// maxBins bounds the points of a training curve; more steps are averaged.
const maxBins = 120

// trainingFigures draws one panel a term, one line a run.
func trainingFigures(runs []Training) (out []template.HTML) {
	for _, t := range terms {
		if f := trainingFigure(t, runs); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// curve is a smoothed metric of one run.
type curve struct {
	class string
	ps    []point // step, value
}

func trainingFigure(t term, runs []Training) template.HTML {
	var curves []curve
	lo, hi, last := math.Inf(1), math.Inf(-1), 1.0
	for _, run := range runs {
		for _, c := range run.curves(t.of) {
			for _, p := range c.ps {
				lo, hi, last = min(lo, p.y), max(hi, p.y), max(last, p.x)
			}
			curves = append(curves, c)
		}
	}
	if len(curves) == 0 {
		return ""
	}
	p := newPanel(330, 244, axis{lo: 0, hi: last}, valueAxis(lo, hi))
	p.head(t.title)
	p.yGrid(valueTicks(p.y), compact)
	p.xTicks(p.x.ticks(4), compact)
	p.base("step")
	for _, c := range curves {
		ps := make([]point, len(c.ps))
		for i, q := range c.ps {
			ps[i] = p.at(q.x, q.y)
		}
		p.polyline(ps, c.class)
	}
	return p.html("training: " + t.title + " by step")
}

// curves are a run's training and, where there is one, validation curve of a
// term; one value is no curve, and a term that is zero throughout is not the run's.
func (t Training) curves(of func(metrics.Row) float64) (out []curve) {
	for split, kind := range map[string]string{metrics.Train: "curve thin ", metrics.Val: "curve dotted "} {
		var steps, values []float64
		for _, r := range t.Rows {
			if r.Split == split {
				steps, values = append(steps, float64(r.Step)), append(values, of(r))
			}
		}
		c := curve{kind + class(t.Method), smooth(steps, values)}
		if len(c.ps) > 1 && slices.ContainsFunc(c.ps, func(p point) bool { return p.y != 0 }) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b curve) int { return strings.Compare(b.class, a.class) }) // the training's first
	return out
}

// smooth averages a metric over at most maxBins equal stretches of the run.
func smooth(steps, values []float64) (out []point) {
	n := min(len(steps), len(values))
	size := max((n+maxBins-1)/maxBins, 1)
	for i := 0; i < n; i += size {
		var sx, sy, k float64
		for j := i; j < min(i+size, n); j++ {
			if !math.IsNaN(values[j]) && !math.IsInf(values[j], 0) {
				sx, sy, k = sx+steps[j], sy+values[j], k+1
			}
		}
		if k > 0 {
			out = append(out, point{sx / k, sy / k})
		}
	}
	return out
}

// valueAxis is logarithmic for positive values over more than a factor of 20.
func valueAxis(lo, hi float64) axis {
	if lo > 0 && hi/lo > 20 {
		return axis{lo: lo / 1.1, hi: hi * 1.1, log: true}
	}
	if hi <= lo {
		hi = lo + 1
	}
	room := (hi - lo) * 0.05
	bottom := lo - room
	if lo >= 0 && lo < hi/3 {
		bottom = 0
	}
	return axis{lo: bottom, hi: hi + room}
}

// valueTicks makes sure that a short logarithmic axis has its ticks too.
func valueTicks(a axis) []float64 {
	ts := a.ticks(4)
	if a.log && len(ts) < 3 {
		var more []float64
		for e := math.Floor(math.Log10(a.lo)); e <= math.Log10(a.hi); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= a.lo && v <= a.hi {
					more = append(more, v)
				}
			}
		}
		return more
	}
	return ts
}

// compact writes a tick's value shortly: 0.02, 5, 1.5k, 1e-05.
func compact(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 1000:
		return strconv.FormatFloat(math.Round(v)/1000, 'g', 4, 64) + "k"
	case math.Abs(v) >= 0.001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return fmt.Sprintf("%.0e", v)
}
