package report

import (
	"html/template"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// forestRow returns the line of a paired difference in a forest plot.
func (r *Report) forestRow(n *infer.Number, label string) doc.ForestRow {
	e := n.Estimate()
	row := doc.ForestRow{Group: words.Minus(n.Of, n.Minus), Label: label, Value: e.Value, Lo: e.Lo, Hi: e.Hi, Class: r.class(n.Of), Mark: r.mark(n.Of),
		Columns: []string{words.Signed(e.Value), interval(n).Text}, Tip: words.Signed(e.Value) + " points, " + bounds(n)}
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

// forest draws all pairs of methods of a block, over training seeds if there are several.
// Pairs with a floor are left out: their large differences would compress all others.
func (r *Report) forest(b *infer.Block) []template.HTML {
	var rows []doc.ForestRow
	for _, n := range r.pairs(b) {
		n = r.overSeeds(n)
		switch {
		case n.Of.Floor() || n.Of.Replaced():
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
