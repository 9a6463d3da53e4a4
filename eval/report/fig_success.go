package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sort"
	"strings"

	"scalewm/eval/paired"
)

// computeFigure shows success against rollouts per plan, with 95 % Wilson bands.
func computeFigure(b *Block) template.HTML {
	lo, hi := computeRange(b)
	p := newPanel(620, 352, axis{lo: lo, hi: hi, log: true}, axis{lo: 0, hi: 100})
	p.x.to -= 84 // room for the names at the lines' ends
	p.head("success, %")
	p.yGrid(p.y.ticks(5), wholeNumber)
	for _, t := range b.Tiers {
		x := p.x.at(float64(t.Rollouts()))
		p.line(point{x, p.y.from}, point{x, p.y.from + 4}, "axis")
		p.text(point{x, p.y.from + 16}, "tick mid strong", t.Name)
		p.text(point{x, p.y.from + 29}, "tick mid", thousands(t.Rollouts()))
	}
	p.line(point{p.x.from, p.y.from}, point{p.x.to, p.y.from}, "axis")
	p.text(point{p.x.to + 84, p.y.from + 29}, "label end", "rollouts a plan")
	var ends []endLabel
	for _, a := range b.Arms {
		ends = append(ends, p.arm(b, a))
	}
	p.endLabels(ends)
	return p.html(b.title() + ": success against rollouts per plan, by method")
}

// computeRange is the range of rollouts with a margin, never empty.
func computeRange(b *Block) (lo, hi float64) {
	lo, hi = math.Inf(1), 1.0
	for _, t := range b.Tiers {
		n := max(float64(t.Rollouts()), 1)
		lo, hi = min(lo, n), max(hi, n)
	}
	return lo / 1.6, hi * 1.35
}

// endLabel names a line at its right end.
type endLabel struct {
	y            float64
	class, label string
}

// arm draws one line with its band and returns its name's place.
func (p panel) arm(b *Block, a Arm) endLabel {
	c := class(a.Method)
	if !paired.MethodOf(a.Name).Plans() {
		y := p.y.at(a.Mean.Mean)
		p.line(point{p.x.from, y}, point{p.x.to, y}, "floor "+c)
		return endLabel{y, "name " + c, fmt.Sprintf("%s %.0f", b.label(a), a.Mean.Mean)}
	}
	var line, upper, lower []point
	for _, t := range b.Tiers {
		if s, ok := a.Scores[t.Name]; ok && t.Rollouts() > 0 {
			x := float64(t.Rollouts())
			line, upper, lower = append(line, p.at(x, s.Mean)), append(upper, p.at(x, s.Hi)), append(lower, p.at(x, s.Lo))
		}
	}
	if len(line) == 0 {
		return endLabel{p.y.from, "name " + c, ""}
	}
	p.band(upper, lower, "band "+c)
	p.polyline(line, "curve "+c)
	for i, t := range slices.DeleteFunc(slices.Clone(b.Tiers), func(t Tier) bool { _, ok := a.Scores[t.Name]; return !ok }) {
		s := a.Scores[t.Name]
		p.mark(line[i], a.Method, fmt.Sprintf("%s at %s: %s %% (95 %%: %s to %s)", b.label(a), t.Name, pm(s), points(s.Lo), points(s.Hi)))
	}
	return endLabel{line[0].y, "name " + c, b.label(a)}
}

// endLabels writes names at the right end of their lines, moved apart where
// they would touch.
func (p panel) endLabels(ends []endLabel) {
	const gap = 15
	sort.SliceStable(ends, func(i, j int) bool { return ends[i].y < ends[j].y })
	last := math.Inf(-1)
	for i := range ends {
		ends[i].y = max(ends[i].y, last+gap)
		last = ends[i].y
	}
	limit := p.y.from - 2
	for i := len(ends) - 1; i >= 0 && ends[i].y > limit; i-- {
		ends[i].y = limit
		limit -= gap
	}
	for _, e := range ends {
		p.text(point{p.x.to + 10, e.y + 4}, e.class, e.label)
	}
}

func wholeNumber(v float64) string { return fmt.Sprintf("%.0f", v) }

// setsFigure shows every set of every arm at one tier as a dot, the mean as a bar.
func setsFigure(b *Block, tier Tier) template.HTML {
	n := float64(len(b.Arms))
	p := newPanel(330, 262, axis{lo: 0, hi: n}, axis{lo: 0, hi: 100})
	p.head(tier.Name + ": success on each set, %")
	p.yGrid(p.y.ticks(5), wholeNumber)
	p.line(point{p.x.from, p.y.from}, point{p.x.to, p.y.from}, "axis")
	for i, a := range b.Arms {
		s, ok := a.Scores[tier.Name]
		if !ok {
			continue
		}
		mid := float64(i) + 0.5
		c := class(a.Method)
		p.line(p.at(mid-0.34, s.Mean), p.at(mid+0.34, s.Mean), "mean "+c)
		for k, r := range s.BySet {
			x := mid + 0.5*(float64(k)+0.5)/float64(len(s.BySet)) - 0.25
			p.dot(p.at(x, r.Rate), "setdot "+c, fmt.Sprintf("%s, set %s: %s %% of %d", b.label(a), r.Set, points(r.Rate), r.N))
		}
		for l, word := range strings.SplitN(b.label(a), " ", 2) {
			p.text(point{p.x.at(mid), p.y.from + 16 + 12*float64(l)}, "tick mid", word)
		}
	}
	return p.html(fmt.Sprintf("%s at %s: success on each evaluation set, by method", b.title(), tier.Name))
}

// stepsFigure shows the share of episodes solved within k env steps.
func stepsFigure(b *Block, tier Tier) template.HTML {
	budget := float64(max(tier.Budget, 1))
	p := newPanel(330, 252, axis{lo: 0, hi: budget}, axis{lo: 0, hi: 100})
	p.head(tier.Name + ": solved within k steps, %")
	p.yGrid(p.y.ticks(5), wholeNumber)
	p.xTicks(p.x.ticks(5), wholeNumber)
	p.base("env steps k")
	for _, a := range b.Arms {
		s, ok := a.Scores[tier.Name]
		if !ok {
			continue
		}
		var ps []point
		for k, v := range s.Solved {
			if k > 0 {
				ps = append(ps, point{p.x.at(float64(k)), p.y.at(s.Solved[k-1])})
			}
			ps = append(ps, p.at(float64(k), v))
		}
		kind := "curve thin "
		if !paired.MethodOf(a.Name).Plans() {
			kind = "floor "
		}
		p.polyline(ps, kind+class(a.Method))
	}
	return p.html(fmt.Sprintf("%s at %s: share of episodes solved within k environment steps", b.title(), tier.Name))
}
