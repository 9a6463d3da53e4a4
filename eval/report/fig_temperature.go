package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// temperature returns the section on the choice of MPPI's temperature.
func (r *Report) temperature() []doc.Section {
	var figures []template.HTML
	var arms []results.Arm
	for _, task := range infer.Tasks(r.Blocks) {
		all := r.Where(infer.TuningSuccess, func(n *infer.Number) bool { return n.Task == task })
		for _, n := range all {
			arms = append(arms, n.Of)
		}
		if len(all) > 1 {
			figures = append(figures, r.temperatureFigure(task, all))
		}
	}
	slices.SortFunc(arms, results.CompareArms)
	v := r.view("temperatures", "Success (%) of MPPI by temperature on the tuning set "+results.TuningSet+", averaged over tiers, with Wilson's 95 % interval for its episodes. Tables of MPPI at a chosen temperature leave this set out, since success on it is biased upwards.",
		task, method, text("Temperature", func(n infer.Number) string { return fmt.Sprintf("%g", tuningOf(r.Find(n)).Temperature) }),
		number("Success", infer.TuningSuccess, rate), number("95 % interval", infer.TuningSuccess, func(n *infer.Number) doc.Field { return between(n, words.Points) }), number("Episodes", infer.TuningSuccess, count),
		text("Choice", func(n infer.Number) string {
			if tuningOf(r.Find(n)).Chosen {
				return "chosen"
			}
			return ""
		}))
	v.Fold = "Success by temperature, in numbers"
	for _, n := range r.Where(infer.TuningSuccess, func(*infer.Number) bool { return true }) {
		at := row(n)
		at.What = n.What
		v.row(at)
	}
	return section(doc.Section{Title: "MPPI's temperature", Anchor: "robust-temperature", Level: 3, Fold: r.folded()},
		doc.Figure{Caption: "Success of MPPI by temperature on the tuning set " + results.TuningSet + ", averaged over tiers, with Wilson's 95 % band for its episodes. The vertical line is the chosen temperature, with which the tables of MPPI are planned.",
			Panels: figures, Legend: r.legend(slices.Compact(arms))}, v.Table)
}

// tuningOf returns the temperature of a number.
func tuningOf(n *infer.Number) *infer.Tuning { return n.How.(*infer.Tuning) }

// temperatureFigure draws success against temperature, on a logarithmic axis. The numbers
// ascend in temperature for each arm and training seed.
func (r *Report) temperatureFigure(task string, all []*infer.Number) template.HTML {
	lo, hi := math.Inf(1), 0.0
	for _, n := range all {
		lo, hi = min(lo, tuningOf(n).Temperature), max(hi, tuningOf(n).Temperature)
	}
	p := doc.NewPanel(330, 220, doc.Axis{Lo: lo / 1.3, Hi: hi * 1.3, Log: true}, doc.Axis{Lo: 0, Hi: 100})
	p.Head(words.Task(task) + ": success on " + results.TuningSet + ", %")
	p.YGrid(p.Y.Ticks(5), doc.Compact)
	p.XTicks(p.X.ValueTicks(), doc.Compact)
	p.Base("temperature")
	same := func(a, b *infer.Number) bool { return a.Of == b.Of && *a.Seed == *b.Seed }
	for first := 0; first < len(all); {
		var line, upper, lower []doc.Point
		n := all[first]
		for ; first < len(all) && same(all[first], n); first++ {
			m := all[first]
			x := tuningOf(m).Temperature
			line, upper, lower = append(line, p.At(x, *m.Value)), append(upper, p.At(x, *m.Hi)), append(lower, p.At(x, *m.Lo))
			if tuningOf(m).Chosen {
				p.Line(doc.XY(p.X.At(x), p.Y.From), doc.XY(p.X.At(x), p.Y.To), "zero")
			}
		}
		p.Band(upper, lower, "band "+r.class(n.Of))
		p.Polyline(line, "curve thin "+r.class(n.Of))
		for i, at := range line {
			m := all[first-len(line)+i]
			p.Mark(at, r.mark(n.Of), r.class(n.Of), fmt.Sprintf("%s at temperature %g: %s %% (95 %%: %s to %s)", words.Arm(n.Of), tuningOf(m).Temperature, words.Points(*m.Value), words.Points(*m.Lo), words.Points(*m.Hi)))
		}
	}
	return p.HTML(words.Task(task) + ": success of MPPI on the tuning set by temperature")
}
