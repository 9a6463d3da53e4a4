package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// forestRow is one line of a forest plot.
type forestRow struct {
	group, label string // the name of the group is drawn above its first row
	n            *infer.Number
	strong       bool // the mean over tiers, drawn bold
}

// forestFigure draws paired differences with their 95 % intervals as a forest plot: on
// the left the names, in the middle an axis with the intervals, and on the right three
// columns of text with the difference, the interval and p. The label describes the
// figure for screen readers. Sizes are in CSS pixels.
func (r *Report) forestFigure(label string, rows []forestRow) template.HTML {
	const width, rowHeight, groupGap = 980, 26, 14
	height := 46.0
	for i, row := range rows {
		height += rowHeight
		if i == 0 || row.group != rows[i-1].group {
			height += groupGap
		}
	}
	s := doc.NewSVG(width, height)
	x := forestAxis(rows)
	x.From, x.To = 250, 690
	// The names need room on the left. SVG has no layout, so estimate their width: letters of
	// a row are about 7 pixels wide, and those of a group 8.
	for _, row := range rows {
		x.From = max(x.From, float64(30+7*utf8.RuneCountInString(row.label)+8*utf8.RuneCountInString(row.group)))
	}
	y := 16.0
	forestFrame(s, x, height, rows)
	for i, row := range rows {
		if i == 0 || row.group != rows[i-1].group {
			y += groupGap
			s.Text(doc.XY(0, y+16), "group", row.group)
		}
		r.forestLine(s, x, y+rowHeight/2, row)
		y += rowHeight
	}
	return s.HTML(label)
}

// forestAxis returns an axis that covers zero and all intervals.
func forestAxis(rows []forestRow) doc.Axis {
	lo, hi := 0.0, 0.0
	for _, r := range rows {
		for _, v := range []float64{infer.Or(r.n.Lo), infer.Or(r.n.Hi), infer.Or(r.n.Value)} {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	// At least 10 points wide, so that tiny differences do not look large, and with a margin
	// of a fifth of a tick beyond the longest interval.
	step := doc.NiceStep(max(hi-lo, 10) / 6)
	return doc.Axis{Lo: math.Floor(lo/step-0.2) * step, Hi: math.Ceil(hi/step+0.2) * step}
}

// forestFrame draws the grid, the zero line and the heads of the columns.
func forestFrame(s *doc.SVG, x doc.Axis, height float64, rows []forestRow) {
	for _, v := range x.Ticks(6) {
		kind := "grid"
		if math.Abs(v) < 1e-9 {
			kind = "zero"
		}
		s.Line(doc.XY(x.At(v), 18), doc.XY(x.At(v), height-24), kind)
		s.Text(doc.XY(x.At(v), height-8), "tick mid", strings.TrimSuffix(words.Signed(v), ".0"))
	}
	s.Text(doc.XY(x.To+40, 11), "label", "points")
	s.Text(doc.XY(x.To+104, 11), "label", "95 % interval")
	// Intervals over training seeds have no p.
	if slices.ContainsFunc(rows, func(r forestRow) bool { return r.n.P != nil }) {
		s.Text(doc.XY(x.To+230, 11), "label", "p")
	}
}

// forestLine draws one interval and its numbers.
func (r *Report) forestLine(s *doc.SVG, x doc.Axis, y float64, row forestRow) {
	c, value, lo, hi, p := r.class(row.n.Of), infer.Or(row.n.Value), infer.Or(row.n.Lo), infer.Or(row.n.Hi), infer.Or(row.n.P)
	text, bar := "cell", "interval "
	if row.strong {
		text, bar = "cell strong", "interval wide "
	}
	s.Text(doc.XY(x.From-16, y+4), text+" end", row.label)
	if !math.IsNaN(lo) && !math.IsNaN(hi) {
		s.Line(doc.XY(x.At(lo), y), doc.XY(x.At(hi), y), bar+c)
	}
	tests := ""
	if row.n.P != nil {
		tests = ", p " + words.Equals(p)
		s.Text(doc.XY(x.To+230, y+4), text, words.P(p))
	}
	s.Mark(doc.XY(x.At(value), y), r.mark(row.n.Of), c, fmt.Sprintf("%s points, 95 %% interval %s%s, %s", words.Signed(value), words.Interval(lo, hi), tests, words.Count(row.n.N, row.n.Unit)))
	s.Text(doc.XY(x.To+40, y+4), text, words.Signed(value))
	s.Text(doc.XY(x.To+104, y+4), text, words.Interval(lo, hi))
}

// forest draws all pairs of a block, or returns "" if there are none. Pairs with a
// floor are left out: their large differences would compress all others.
func (r *Report) forest(b *infer.Block) template.HTML {
	var rows []forestRow
	for _, n := range r.pairs(b) {
		if n.Of.Floor() {
			continue
		}
		row := forestRow{group: words.Minus(n.Of, n.Minus), label: n.Tier, n: n, strong: n.Tier == infer.Mean}
		if row.strong {
			row.label = "mean of tiers"
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return ""
	}
	return r.forestFigure(b.Title()+": paired differences in success with 95 % intervals", rows)
}

// overviewForest draws the headline difference of each main block.
func (r *Report) overviewForest() []template.HTML {
	var rows []forestRow
	for _, b := range infer.MainBlocks(r.Blocks) {
		if n := r.overSeeds(r.headline(b)); n != nil {
			rows = append(rows, forestRow{group: words.Minus(n.Of, n.Minus), label: b.Title(), n: n})
		}
	}
	if len(rows) < 2 {
		return nil
	}
	return panels(r.forestFigure("Paired differences of every task and solver with 95 % intervals", rows))
}

// discordFigures show, for each tier, how many episodes only one of two learned methods
// solved. A paired test depends on these counts only; episodes that both or none solve
// carry no information about the difference. There is one panel for each pair, and all
// panels have the same scale.
//
// Differences with several seeds are left out: their episodes count fractions.
func (r *Report) discordFigures(b *infer.Block) (out []template.HTML) {
	pairs, most := [][]*infer.Number{}, 1
	for _, n := range r.pairs(b) {
		d := n.How.(*infer.Difference)
		if !d.Binary() || n.Of.Floor() {
			continue
		}
		// The rows of a pair follow one another, one for each tier.
		if last := len(pairs) - 1; last >= 0 && pairs[last][0].Of == n.Of && pairs[last][0].Minus == n.Minus {
			pairs[last] = append(pairs[last], n)
		} else {
			pairs = append(pairs, []*infer.Number{n})
		}
		most = max(most, d.OnlyA, d.OnlyB)
	}
	for _, p := range pairs {
		out = append(out, r.discordFigure(b, p, most))
	}
	return out
}

// discordFigure draws one panel. The longest bar of all panels is most episodes.
func (r *Report) discordFigure(b *infer.Block, rows []*infer.Number, most int) template.HTML {
	const width, rowHeight, top = 330, 24, 28
	height, one, other := float64(top+rowHeight*len(rows)+8), rows[0].Of, rows[0].Minus
	s := doc.NewSVG(width, height)
	// Bars extend to both sides of mid. The longest has 118 pixels, which leaves room for the
	// names of tiers on the left and for the counts at the ends.
	mid, unit := 178.0, 118/float64(most)
	s.Text(doc.XY(mid+8, 15), "label head", "only "+words.Arm(one))
	s.Text(doc.XY(mid-8, 15), "label head end", "only "+words.Arm(other))
	for i, n := range rows {
		d, y := n.How.(*infer.Difference), float64(top+rowHeight*i)
		right, left := mid+unit*float64(d.OnlyA), mid-unit*float64(d.OnlyB)
		s.Text(doc.XY(0, y+16), "cell", n.Tier)
		s.Rect(doc.XY(mid, y+4), doc.XY(right, y+rowHeight-4), "bar "+r.class(one))
		s.Rect(doc.XY(left, y+4), doc.XY(mid, y+rowHeight-4), "bar "+r.class(other))
		s.Text(doc.XY(right+6, y+16), "tick", strconv.Itoa(d.OnlyA))
		s.Text(doc.XY(left-6, y+16), "tick end", strconv.Itoa(d.OnlyB))
	}
	s.Line(doc.XY(mid, top-4), doc.XY(mid, height-4), "axis")
	return s.HTML(fmt.Sprintf("%s: episodes solved by %s only and by %s only", b.Title(), words.Arm(one), words.Arm(other)))
}
