package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// computeFigure shows success against rollouts per plan, on a logarithmic axis because
// the paper's tiers span a factor of 300. A method with one training seed has its 95 %
// Wilson band. One with several has its mean, and a thin line for each seed: a band
// over episodes would understate the uncertainty.
func (r *Report) computeFigure(b *infer.Block) template.HTML {
	// The range of the x axis: all tiers, with a margin for the marks at both ends.
	lo, hi := math.Inf(1), 1.0
	for _, t := range b.Tiers {
		n := max(float64(t.Rollouts()), 1)
		lo, hi = min(lo, n), max(hi, n)
	}
	p := doc.NewPanel(620, 352, doc.Axis{Lo: lo / 1.6, Hi: hi * 1.35, Log: true}, doc.Axis{Lo: 0, Hi: 100})
	p.X.To -= 84 // room for the names at the ends of the lines
	p.Head("success, %")
	p.YGrid(p.Y.Ticks(5), doc.Compact)
	for _, t := range b.Tiers {
		x := p.X.At(float64(t.Rollouts()))
		p.Line(doc.XY(x, p.Y.From), doc.XY(x, p.Y.From+4), "axis")
		p.Text(doc.XY(x, p.Y.From+16), "tick mid strong", t.Name)
		p.Text(doc.XY(x, p.Y.From+29), "tick mid", words.Thousands(t.Rollouts()))
	}
	p.Line(doc.XY(p.X.From, p.Y.From), doc.XY(p.X.To, p.Y.From), "axis")
	p.Text(doc.XY(p.X.To+84, p.Y.From+29), "label end", "rollouts a plan")
	var ends []doc.EndLabel
	for _, arm := range b.Names() {
		ends = append(ends, r.line(p, b, arm))
	}
	p.EndLabels(ends)
	return p.HTML(b.Title() + ": success against rollouts per plan, by method")
}

// line draws the line of an arm, and returns the label for its end. Arms that do not
// plan do not depend on compute, and are drawn as horizontal lines.
func (r *Report) line(p doc.Panel, b *infer.Block, arm results.Arm) doc.EndLabel {
	c, title, seeds := r.class(arm), words.Arm(arm), len(b.SeedsOf(arm))
	if !arm.Plans() {
		mean := 0.0
		if n := r.Success(b, arm, infer.Mean); n != nil {
			mean = *n.Value
		}
		y := p.Y.At(mean)
		p.Line(doc.XY(p.X.From, y), doc.XY(p.X.To, y), "floor "+c)
		return doc.EndLabel{Y: y, Class: "name " + c, Label: fmt.Sprintf("%s %.0f", title, mean)}
	}
	if seeds > 1 {
		for _, seed := range b.SeedsOf(arm) {
			line, _ := curve(p, b, func(tier string) *infer.Number {
				return r.Find(infer.Number{What: infer.Success, Place: b.Place.At(tier), Of: arm, Seed: &seed})
			})
			p.Polyline(line, "seed "+c)
		}
	}
	line, scores := curve(p, b, func(tier string) *infer.Number { return r.Success(b, arm, tier) })
	if len(line) == 0 {
		return doc.EndLabel{Y: p.Y.From, Class: "name " + c, Label: ""}
	}
	unit := " %"
	if seeds == 1 {
		var upper, lower []doc.Point
		for i, n := range scores {
			upper, lower = append(upper, doc.XY(line[i].X, p.Y.At(infer.Or(n.Hi)))), append(lower, doc.XY(line[i].X, p.Y.At(infer.Or(n.Lo))))
		}
		p.Band(upper, lower, "band "+c)
	} else {
		unit = fmt.Sprintf(" %% over %d seeds", seeds)
	}
	p.Polyline(line, "curve "+c)
	for i, n := range scores {
		text := fmt.Sprintf("%s at %s: %s%s", title, n.Tier, words.Spread(*n.Value, infer.Or(n.SD)), unit)
		if seeds == 1 {
			text += fmt.Sprintf(" (95 %%: %s to %s)", words.Points(infer.Or(n.Lo)), words.Points(infer.Or(n.Hi)))
		}
		p.Mark(line[i], r.mark(arm), c, text)
	}
	return doc.EndLabel{Y: line[0].Y, Class: "name " + c, Label: title}
}

// curve returns the points of the numbers that at returns for the tiers of a block, and
// the numbers. Tiers without a number are left out.
func curve(p doc.Panel, b *infer.Block, at func(tier string) *infer.Number) (line []doc.Point, of []*infer.Number) {
	for _, t := range b.Tiers {
		if n := at(t.Name); n != nil && t.Rollouts() > 0 {
			line, of = append(line, p.At(float64(t.Rollouts()), *n.Value)), append(of, n)
		}
	}
	return line, of
}

// spreadFigure shows, for one tier, each training seed of a method as a dot, or each
// evaluation set of a method with one seed, and the mean as a bar. Dots are in the
// order of seeds or sets within each method, so that a hard set is seen at the same
// position of all methods.
func (r *Report) spreadFigure(b *infer.Block, tier int) template.HTML {
	all, name, of := b.Names(), b.Tiers[tier].Name, "set"
	if b.SeveralSeeds() {
		of = "training seed"
	}
	p := doc.NewPanel(330, 262, doc.Axis{Lo: 0, Hi: float64(len(all))}, doc.Axis{Lo: 0, Hi: 100})
	p.Head(name + ": success of each " + of + ", %")
	p.YGrid(p.Y.Ticks(5), doc.Compact)
	p.Line(doc.XY(p.X.From, p.Y.From), doc.XY(p.X.To, p.Y.From), "axis")
	for i, arm := range all {
		n := r.Success(b, arm, name)
		if n == nil {
			continue
		}
		mid, c, title, seeds := float64(i)+0.5, r.class(arm), words.Arm(arm), b.SeedsOf(arm)
		p.Line(p.At(mid-0.34, *n.Value), p.At(mid+0.34, *n.Value), "mean "+c)
		dot := func(k, n int, rate float64, text string) {
			// Spread n dots evenly over the half of a method's column around its middle.
			x := mid + 0.5*(float64(k)+0.5)/float64(n) - 0.25
			p.Dot(p.At(x, rate), "setdot "+c, text)
		}
		if len(seeds) > 1 {
			for _, s := range r.BySeed(b, arm, name) {
				// A seed has the same position at every tier, even if others are missing here.
				at := 0
				for seeds[at] != *s.Seed {
					at++
				}
				dot(at, len(seeds), *s.Value, fmt.Sprintf("%s, training seed %d: %s %%", title, *s.Seed, words.Spread(*s.Value, infer.Or(s.SD))))
			}
		} else {
			sets := n.How.(*infer.Score).BySet
			for k, s := range sets {
				dot(k, len(sets), s.Rate, fmt.Sprintf("%s, set %s: %s %% of %d", title, s.Set, words.Points(s.Rate), s.N))
			}
		}
		// Long names get a second line below the axis.
		for l, word := range strings.SplitN(title, " ", 2) {
			p.Text(doc.XY(p.X.At(mid), p.Y.From+16+12*float64(l)), "tick mid", word)
		}
	}
	return p.HTML(fmt.Sprintf("%s at %s: success of each %s, by method", b.Title(), name, of))
}

// stepsFigure shows the share of episodes that are solved within k env steps, as a step
// function. It starts above 0 if some starts already meet the goal.
func (r *Report) stepsFigure(b *infer.Block, at int) template.HTML {
	tier := b.Tiers[at]
	p := doc.Plot{Label: fmt.Sprintf("%s at %s: share of episodes solved within k environment steps", b.Title(), tier.Name), Head: tier.Name + ": solved within k steps, %", Base: "env steps k",
		W: 330, H: 252, X: doc.Axis{Lo: 0, Hi: float64(max(tier.Budget, 1))}, Y: doc.Axis{Lo: 0, Hi: 100}, XTicks: 5, YTicks: 5}
	for _, arm := range b.Names() {
		n := r.Success(b, arm, tier.Name)
		if n == nil || len(n.How.(*infer.Score).Solved) == 0 { // other programs do not state steps
			continue
		}
		c := doc.Curve{Class: "curve thin " + r.class(arm)}
		if !arm.Plans() {
			c.Class = "floor " + r.class(arm)
		}
		solved := n.How.(*infer.Score).Solved
		for k, v := range solved {
			// The curve is constant between two steps, and rises at the step.
			if k > 0 {
				c.Points = append(c.Points, doc.XY(float64(k), solved[k-1]))
			}
			c.Points = append(c.Points, doc.XY(float64(k), v))
		}
		p.Curves = append(p.Curves, c)
	}
	return p.HTML()
}
