package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"scalewm/eval/infer"
)

// forestRow is one line of a forest plot.
type forestRow struct {
	group, label string // a group's name stands above its first row
	d            infer.Difference
	a            string // the method whose lead is positive
	strong       bool
}

// forestFigure shows paired differences with their 95 % intervals.
func forestFigure(label string, rows []forestRow) template.HTML {
	const width, rowHeight, groupGap = 980, 26, 14
	height := 46.0
	for i, r := range rows {
		height += rowHeight
		if i == 0 || r.group != rows[i-1].group {
			height += groupGap
		}
	}
	s := newSVG(width, height)
	x := forestAxis(rows)
	x.from, x.to = 250, 690
	for _, r := range rows { // room for the names, whose letters are about 7 and 8 pixels wide
		x.from = max(x.from, float64(30+7*utf8.RuneCountInString(r.label)+8*utf8.RuneCountInString(r.group)))
	}
	y := 16.0
	forestFrame(s, x, height)
	for i, r := range rows {
		if i == 0 || r.group != rows[i-1].group {
			y += groupGap
			s.text(point{0, y + 16}, "group", r.group)
		}
		forestLine(s, x, y+rowHeight/2, r)
		y += rowHeight
	}
	return s.html(label)
}

// forestAxis covers all intervals and zero.
func forestAxis(rows []forestRow) axis {
	lo, hi := 0.0, 0.0
	for _, r := range rows {
		for _, v := range []float64{r.d.Lo, r.d.Hi, r.d.Diff} {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	step := niceStep(max(hi-lo, 10) / 6)
	return axis{lo: math.Floor(lo/step-0.2) * step, hi: math.Ceil(hi/step+0.2) * step}
}

// forestFrame draws the grid, the zero line and the column heads.
func forestFrame(s *svg, x axis, height float64) {
	for _, v := range x.ticks(6) {
		kind := "grid"
		if math.Abs(v) < 1e-9 {
			kind = "zero"
		}
		s.line(point{x.at(v), 18}, point{x.at(v), height - 24}, kind)
		s.text(point{x.at(v), height - 8}, "tick mid", strings.TrimSuffix(signed(v), ".0"))
	}
	s.text(point{x.to + 40, 11}, "label", "points")
	s.text(point{x.to + 104, 11}, "label", "95 % interval")
	s.text(point{x.to + 230, 11}, "label", "p")
}

// forestLine draws one interval and its numbers.
func forestLine(s *svg, x axis, y float64, r forestRow) {
	c := class(r.a)
	text, bar := "cell", "interval "
	if r.strong {
		text, bar = "cell strong", "interval wide "
	}
	s.text(point{x.from - 16, y + 4}, text+" end", r.label)
	if !math.IsNaN(r.d.Lo) && !math.IsNaN(r.d.Hi) {
		s.line(point{x.at(r.d.Lo), y}, point{x.at(r.d.Hi), y}, bar+c)
	}
	s.mark(point{x.at(r.d.Diff), y}, r.a, fmt.Sprintf("%s points, 95 %% interval %s, p %s, %s", signed(r.d.Diff), interval(r.d.Lo, r.d.Hi), equals(r.d.P), count(r.d.N, "episode")))
	s.text(point{x.to + 40, y + 4}, text, signed(r.d.Diff))
	s.text(point{x.to + 104, y + 4}, text, interval(r.d.Lo, r.d.Hi))
	s.text(point{x.to + 230, y + 4}, text, pvalue(r.d.P))
}

// forest lists all pairs of a block, tier by tier.
func (b *Block) forest() template.HTML {
	var rows []forestRow
	for _, c := range b.learned() {
		for _, d := range c.All() {
			r := forestRow{group: minus(c.A, c.B), label: d.Tier, d: d, a: c.A, strong: d.Tier == infer.Mean}
			if r.strong {
				r.label = "mean of tiers"
			}
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return forestFigure(b.title()+": paired differences in success with 95 % intervals", rows)
}

// overviewForest has the difference that each block leads with.
func (r *Report) overviewForest() template.HTML {
	var rows []forestRow
	for _, b := range mainOf(r.Blocks) {
		if c := b.headline(); c != nil {
			rows = append(rows, forestRow{group: minus(c.A, c.B), label: b.title(), d: *c.Mean, a: c.A})
		}
	}
	if len(rows) < 2 {
		return ""
	}
	return forestFigure("Paired differences of every task and solver with 95 % intervals", rows)
}

// discordFigure shows, tier by tier, how many episodes only one of two methods
// solved; most is the longest bar of all pairs. "" where no tier is paired.
func discordFigure(b *Block, p *infer.Comparison, most int) template.HTML {
	const width, rowHeight, top = 330, 24, 28
	rows := slices.DeleteFunc(slices.Clone(p.ByTier), func(d infer.Difference) bool { return !d.Binary() })
	if len(rows) == 0 {
		return ""
	}
	height := float64(top + rowHeight*len(rows) + 8)
	s := newSVG(width, height)
	mid, unit := 178.0, 118/float64(most)
	s.text(point{mid + 8, 15}, "label head", "only "+armTitle(p.A))
	s.text(point{mid - 8, 15}, "label head end", "only "+armTitle(p.B))
	for i, d := range rows {
		y := float64(top + rowHeight*i)
		right, left := mid+unit*float64(d.OnlyA), mid-unit*float64(d.OnlyB)
		s.text(point{0, y + 16}, "cell", d.Tier)
		s.rect(point{mid, y + 4}, point{right, y + rowHeight - 4}, "bar "+class(p.A))
		s.rect(point{left, y + 4}, point{mid, y + rowHeight - 4}, "bar "+class(p.B))
		s.text(point{right + 6, y + 16}, "tick", itoa(d.OnlyA))
		s.text(point{left - 6, y + 16}, "tick end", itoa(d.OnlyB))
	}
	s.line(point{mid, top - 4}, point{mid, height - 4}, "axis")
	return s.html(fmt.Sprintf("%s: episodes solved by %s only and by %s only", b.title(), armTitle(p.A), armTitle(p.B)))
}

// discordFigures draws one panel a pair of learned methods, on one scale.
func (b *Block) discordFigures() (out []template.HTML) {
	most := 1
	for _, p := range b.learned() {
		for _, d := range p.ByTier {
			most = max(most, d.OnlyA, d.OnlyB)
		}
	}
	for _, p := range b.learned() {
		if f := discordFigure(b, p, most); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// learned leaves out the pairs with a floor: their large differences would
// squeeze the others in a figure. The tables have them all.
func (b *Block) learned() []*infer.Comparison {
	return slices.DeleteFunc(slices.Clone(b.Pairs), func(c *infer.Comparison) bool { return infer.MethodOf(c.A).Floor })
}
