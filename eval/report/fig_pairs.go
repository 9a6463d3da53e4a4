package report

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// forestRow returns the line of a paired difference in a forest plot.
func (r *Report) forestRow(n *infer.Number, label string) doc.ForestRow {
	value, lo, hi := infer.Or(n.Value), infer.Or(n.Lo), infer.Or(n.Hi)
	row := doc.ForestRow{Group: words.Minus(n.Of, n.Minus), Label: label, Value: value, Lo: lo, Hi: hi, Class: r.class(n.Of), Mark: r.mark(n.Of),
		Columns: []string{words.Signed(value), words.Interval(lo, hi)}, Tip: words.Signed(value) + " points, " + bounds(n)}
	if n.P != nil { // differences over training seeds have none
		row.Columns = append(row.Columns, words.P(*n.P))
		row.Tip += ", p " + words.Equals(*n.P)
	}
	row.Tip += ", " + words.Count(n.N, n.Unit)
	return row
}

// forestFigure draws a forest plot, or returns none if there are less than least rows.
func forestFigure(label string, rows []doc.ForestRow, least int) []template.HTML {
	heads := []string{"points", "95 % interval", "p"}
	if len(rows) < least {
		return nil
	}
	if !slices.ContainsFunc(rows, func(r doc.ForestRow) bool { return len(r.Columns) == len(heads) }) {
		heads = heads[:2]
	}
	return []template.HTML{doc.Forest(label, heads, func(v float64) string { return strings.TrimSuffix(words.Signed(v), ".0") }, rows)}
}

// forest draws all pairs of a block. Pairs with a floor are left out: their large
// differences would compress all others.
func (r *Report) forest(b *infer.Block) []template.HTML {
	var rows []doc.ForestRow
	for _, n := range r.pairs(b) {
		switch {
		case n.Of.Floor():
		case n.Tier == infer.Mean:
			row := r.forestRow(n, "mean of tiers")
			row.Strong = true
			rows = append(rows, row)
		default:
			rows = append(rows, r.forestRow(n, n.Tier))
		}
	}
	return forestFigure(b.Title()+": paired differences in success with 95 % intervals", rows, 1)
}

// overviewForest draws the headline difference of each main block.
func (r *Report) overviewForest() []template.HTML {
	var rows []doc.ForestRow
	for _, b := range infer.MainBlocks(r.Blocks) {
		if n := r.overSeeds(r.headline(b)); n != nil {
			rows = append(rows, r.forestRow(n, b.Title()))
		}
	}
	return forestFigure("Paired differences of every task and solver with 95 % intervals", rows, 2)
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
