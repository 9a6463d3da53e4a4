package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"
	"strings"

	"scalewm/eval/infer"
)

// computeFigure shows success against rollouts per plan: of one training seed with its 95 % Wilson band,
// of several their mean before a thin line each.
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
	for _, l := range b.series() {
		ends = append(ends, p.series(b, l))
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

// series draws one line and returns its name's place.
func (p panel) series(b *Block, l series) endLabel {
	c, title := class(l.name), armTitle(l.name)
	if !infer.MethodOf(l.name).Plans() {
		mean := l.scores[len(b.Tiers)].Mean
		y := p.y.at(mean)
		p.line(point{p.x.from, y}, point{p.x.to, y}, "floor "+c)
		return endLabel{y, "name " + c, fmt.Sprintf("%s %.0f", title, mean)}
	}
	if len(l.arms) > 1 {
		for _, a := range l.arms {
			line, _ := p.curve(b, b.scores(a))
			p.polyline(line, "seed "+c)
		}
	}
	line, scores := p.curve(b, l.scores)
	if len(line) == 0 {
		return endLabel{p.y.from, "name " + c, ""}
	}
	said := " %"
	if len(l.arms) == 1 {
		var upper, lower []point
		for i, s := range scores {
			upper, lower = append(upper, point{line[i].x, p.y.at(s.Hi)}), append(lower, point{line[i].x, p.y.at(s.Lo)})
		}
		p.band(upper, lower, "band "+c)
	} else {
		said = fmt.Sprintf(" %% over %d seeds", len(l.arms))
	}
	p.polyline(line, "curve "+c)
	for i, s := range scores {
		text := fmt.Sprintf("%s at %s: %s%s", title, s.tier, pm(s.Score), said)
		if len(l.arms) == 1 {
			text += fmt.Sprintf(" (95 %%: %s to %s)", points(s.Lo), points(s.Hi))
		}
		p.mark(line[i], l.name, text)
	}
	return endLabel{line[0].y, "name " + c, title}
}

// tierScore is a score with the name of its tier.
type tierScore struct {
	Score
	tier string
}

// curve is where scores lie, tier by tier, of those that were run.
func (p panel) curve(b *Block, scores []Score) (line []point, of []tierScore) {
	for i, t := range b.Tiers {
		if s := scores[i]; len(s.BySet) > 0 && t.Rollouts() > 0 {
			line, of = append(line, p.at(float64(t.Rollouts()), s.Mean)), append(of, tierScore{s, t.Name})
		}
	}
	return line, of
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

// spreadFigure shows at one tier every training seed of a method as a dot, or every evaluation set of one
// with a single seed, and the mean as a bar.
func spreadFigure(b *Block, tier int) template.HTML {
	all, name, of := b.series(), b.Tiers[tier].Name, "set"
	if b.several() {
		of = "training seed"
	}
	p := newPanel(330, 262, axis{lo: 0, hi: float64(len(all))}, axis{lo: 0, hi: 100})
	p.head(name + ": success of each " + of + ", %")
	p.yGrid(p.y.ticks(5), wholeNumber)
	p.line(point{p.x.from, p.y.from}, point{p.x.to, p.y.from}, "axis")
	for i, l := range all {
		s := l.at(tier)
		if s == nil {
			continue
		}
		mid, c, title := float64(i)+0.5, class(l.name), armTitle(l.name)
		p.line(p.at(mid-0.34, s.Mean), p.at(mid+0.34, s.Mean), "mean "+c)
		dot := func(k, n int, rate float64, text string) {
			x := mid + 0.5*(float64(k)+0.5)/float64(n) - 0.25
			p.dot(p.at(x, rate), "setdot "+c, text)
		}
		if len(l.arms) > 1 {
			for k, a := range l.arms {
				if s := b.scores(a)[tier]; len(s.BySet) > 0 {
					dot(k, len(l.arms), s.Mean, fmt.Sprintf("%s, training seed %d: %s %%", title, a.Seed, pm(s)))
				}
			}
		} else {
			for k, r := range s.BySet {
				dot(k, len(s.BySet), r.Rate, fmt.Sprintf("%s, set %s: %s %% of %d", title, r.Set, points(r.Rate), r.N))
			}
		}
		for l, word := range strings.SplitN(title, " ", 2) {
			p.text(point{p.x.at(mid), p.y.from + 16 + 12*float64(l)}, "tick mid", word)
		}
	}
	return p.html(fmt.Sprintf("%s at %s: success of each %s, by method", b.title(), name, of))
}

// stepsFigure shows the share of episodes solved within k env steps.
func stepsFigure(b *Block, at int) template.HTML {
	tier := b.Tiers[at]
	budget := float64(max(tier.Budget, 1))
	p := newPanel(330, 252, axis{lo: 0, hi: budget}, axis{lo: 0, hi: 100})
	p.head(tier.Name + ": solved within k steps, %")
	p.yGrid(p.y.ticks(5), wholeNumber)
	p.xTicks(p.x.ticks(5), wholeNumber)
	p.base("env steps k")
	for _, l := range b.series() {
		s := l.at(at)
		if s == nil {
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
		if !infer.MethodOf(l.name).Plans() {
			kind = "floor "
		}
		p.polyline(ps, kind+class(l.name))
	}
	return p.html(fmt.Sprintf("%s at %s: share of episodes solved within k environment steps", b.title(), tier.Name))
}
