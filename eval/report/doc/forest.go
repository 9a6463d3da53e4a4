package doc

import (
	"html/template"
	"math"
	"unicode/utf8"
)

// ForestRow is one line of a forest plot: a value with its interval.
type ForestRow struct {
	Group, Label  string   // the group is written above its first row
	Value, Lo, Hi float64  // Lo and Hi are NaN if there is no interval
	Columns       []string // texts on the right
	Class         string
	Mark          int    // shape of the mark (see SVG.Mark)
	Tip           string // tooltip of the mark
	Strong        bool   // drawn bold
}

// Forest draws a forest plot: on the left the names, in the middle an axis with the
// intervals, and on the right up to three columns of text with their heads. tick formats
// the values of the axis. The label describes the figure for screen readers. Sizes are in
// CSS pixels.
func Forest(label string, heads []string, tick func(float64) string, rows []ForestRow) template.HTML {
	const width, rowHeight, groupGap = 980, 26, 14
	columns := []float64{40, 104, 230} // from the end of the axis
	height := 46.0
	for i, row := range rows {
		height += rowHeight
		if i == 0 || row.Group != rows[i-1].Group {
			height += groupGap
		}
	}
	s := NewSVG(width, height)
	x := forestAxis(rows)
	x.From, x.To = 250, 690
	// The names need room on the left. SVG has no layout, so estimate their width: letters of
	// a row are about 7 pixels wide, and those of a group 8.
	for _, row := range rows {
		x.From = max(x.From, float64(30+7*utf8.RuneCountInString(row.Label)+8*utf8.RuneCountInString(row.Group)))
	}
	for _, v := range x.Ticks(6) {
		kind := "grid"
		if math.Abs(v) < 1e-9 {
			kind = "zero"
		}
		s.Line(XY(x.At(v), 18), XY(x.At(v), height-24), kind)
		s.Text(XY(x.At(v), height-8), "tick mid", tick(v))
	}
	for i, head := range heads {
		s.Text(XY(x.To+columns[i], 11), "label", head)
	}
	y := 16.0
	for i, row := range rows {
		if i == 0 || row.Group != rows[i-1].Group {
			y += groupGap
			s.Text(XY(0, y+16), "group", row.Group)
		}
		text, bar, middle := "cell", "interval ", y+rowHeight/2
		if row.Strong {
			text, bar = "cell strong", "interval wide "
		}
		s.Text(XY(x.From-16, middle+4), text+" end", row.Label)
		if !math.IsNaN(row.Lo) && !math.IsNaN(row.Hi) {
			s.Line(XY(x.At(row.Lo), middle), XY(x.At(row.Hi), middle), bar+row.Class)
		}
		s.Mark(XY(x.At(row.Value), middle), row.Mark, row.Class, row.Tip)
		for i, column := range row.Columns {
			s.Text(XY(x.To+columns[i], middle+4), text, column)
		}
		y += rowHeight
	}
	return s.HTML(label)
}

// forestAxis returns an axis that covers zero and all intervals.
func forestAxis(rows []ForestRow) Axis {
	lo, hi := 0.0, 0.0
	for _, r := range rows {
		for _, v := range []float64{r.Lo, r.Hi, r.Value} {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	// At least 10 points wide, so that tiny differences do not look large, and with a margin
	// of a fifth of a tick beyond the longest interval.
	step := NiceStep(max(hi-lo, 10) / 6)
	return Axis{Lo: math.Floor(lo/step-0.2) * step, Hi: math.Ceil(hi/step+0.2) * step}
}
