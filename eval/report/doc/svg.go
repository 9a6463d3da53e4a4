package doc

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Point is a position in a figure, in CSS pixels from the top left corner.
type Point struct{ X, Y float64 }

// SVG collects the elements of one figure. Elements have CSS classes instead of
// colours, so the style sheet of the page draws the same figure for light, dark and
// printed pages.
type SVG struct {
	b    strings.Builder
	w, h float64
}

// NewSVG returns an empty figure of w x h pixels.
func NewSVG(w, h float64) *SVG { return &SVG{w: w, h: h} }

// HTML returns the figure as an element of the page. The label describes it for screen
// readers.
func (s *SVG) HTML(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s</svg>`,
		px(s.w), px(s.h), px(s.w), px(s.h), template.HTMLEscapeString(label), s.b.String()))
}

// px formats a length with at most two decimals, which keeps the file small and the
// output independent of the last bits.
func px(x float64) string {
	t := strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	if t == "-0" {
		return "0"
	}
	return t
}

// Line draws a line from a to b.
func (s *SVG) Line(a, b Point, class string) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(a.X), px(a.Y), px(b.X), px(b.Y))
}

// Text writes a text with its baseline at p. The class decides whether p is its start, middle
// or end.
func (s *SVG) Text(p Point, class, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s">%s</text>`, class, px(p.X), px(p.Y), template.HTMLEscapeString(text))
}

// Rect draws a rectangle with the top left corner a and the bottom right corner b.
func (s *SVG) Rect(a, b Point, class string) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, px(a.X), px(a.Y), px(b.X-a.X), px(b.Y-a.Y))
}

// Polyline draws a line through the points. A point with a NaN interrupts it.
func (s *SVG) Polyline(ps []Point, class string) {
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, class, pathOf(ps))
}

// Band fills the area between two lines.
func (s *SVG) Band(upper, lower []Point, class string) {
	ps := append([]Point{}, upper...)
	for i := len(lower) - 1; i >= 0; i-- {
		ps = append(ps, lower[i])
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%sZ"/>`, class, pathOf(ps))
}

// pathOf returns the points as the data of an SVG path: M starts a line, L continues it.
func pathOf(ps []Point) string {
	var b strings.Builder
	pen := "M"
	for _, p := range ps {
		if math.IsNaN(p.Y) || math.IsNaN(p.X) {
			pen = "M"
			continue
		}
		b.WriteString(pen + px(p.X) + " " + px(p.Y))
		pen = "L"
	}
	return b.String()
}

// Mark draws the mark of a style, with a tooltip: square, triangle, diamond, or a
// circle for any other style. Shapes distinguish methods where colours do not, as in
// print.
func (s *SVG) Mark(p Point, style int, class, title string) {
	class = "mark " + class
	switch style {
	case 1:
		fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="8" height="8">%s</rect>`, class, px(p.X-4), px(p.Y-4), tip(title))
	case 2:
		fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sl5 8.5h-10z">%s</path>`, class, px(p.X), px(p.Y-5.5), tip(title))
	case 3:
		fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sl5.2 5.2l-5.2 5.2l-5.2 -5.2z">%s</path>`, class, px(p.X), px(p.Y-5.2), tip(title))
	default:
		fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="4.3">%s</circle>`, class, px(p.X), px(p.Y), tip(title))
	}
}

// Dot draws a small filled circle with a tooltip.
func (s *SVG) Dot(p Point, class, title string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="3">%s</circle>`, class, px(p.X), px(p.Y), tip(title))
}

// tip returns the element of a tooltip.
func tip(title string) string {
	if title == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(title) + "</title>"
}

// Axis maps the values Lo ... Hi to the pixels From ... To. From is larger than To for a
// y axis, since pixels count downwards.
type Axis struct {
	Lo, Hi, From, To float64
	Log              bool // logarithmic; Lo must be positive
}

// At returns the pixel of a value.
func (a Axis) At(v float64) float64 {
	lo, hi := a.Lo, a.Hi
	if a.Log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(v)
	}
	return a.From + (v-lo)/(hi-lo)*(a.To-a.From)
}

// Ticks returns about n round values in the range of the axis: powers of ten on a
// logarithmic axis, otherwise multiples of 1, 2 or 5 times a power of ten.
func (a Axis) Ticks(n int) (out []float64) {
	if a.Log {
		for e := math.Ceil(math.Log10(a.Lo) - 1e-9); e <= math.Log10(a.Hi)+1e-9; e++ {
			out = append(out, math.Pow(10, e))
		}
		return out
	}
	step := NiceStep((a.Hi - a.Lo) / float64(n))
	for i := math.Ceil(a.Lo/step - 1e-9); i*step <= a.Hi+step*1e-9; i++ {
		out = append(out, i*step+0) // + 0 turns a negative zero into 0
	}
	return out
}

// NiceStep returns the smallest number of the form 1, 2 or 5 times a power of ten that
// is at least x.
func NiceStep(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= x*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}

// Panel is a plot area with its axes.
type Panel struct {
	*SVG
	X, Y Axis
}

// NewPanel returns a plot of w x h pixels in total, with room for labels around the
// plot area.
func NewPanel(w, h float64, x, y Axis) Panel {
	x.From, x.To = 40, w-14
	y.From, y.To = h-34, 28
	return Panel{NewSVG(w, h), x, y}
}

// At returns the position of a pair of values.
func (p Panel) At(x, y float64) Point { return Point{p.X.At(x), p.Y.At(y)} }

// YGrid draws horizontal grid lines with their values.
func (p Panel) YGrid(ticks []float64, format func(float64) string) {
	for _, v := range ticks {
		y := p.Y.At(v)
		p.Line(Point{p.X.From, y}, Point{p.X.To, y}, "grid")
		p.Text(Point{p.X.From - 7, y + 4}, "tick end", format(v))
	}
}

// XTicks draws ticks with their values below the plot.
func (p Panel) XTicks(ticks []float64, format func(float64) string) {
	for _, v := range ticks {
		x := p.X.At(v)
		p.Line(Point{x, p.Y.From}, Point{x, p.Y.From + 4}, "axis")
		p.Text(Point{x, p.Y.From + 17}, "tick mid", format(v))
	}
}

// Base draws the x axis with its title.
func (p Panel) Base(title string) {
	p.Line(Point{p.X.From, p.Y.From}, Point{p.X.To, p.Y.From}, "axis")
	p.Text(Point{p.X.To, p.Y.From + 31}, "label end", title)
}

// Head writes the title of the y axis above the plot.
func (p Panel) Head(title string) { p.Text(Point{0, 11}, "label head", title) }

// ValueAxis returns an axis that covers lo ... hi with a margin. It is logarithmic if
// the values are positive and span more than a factor of 20. It starts at 0 if that
// costs little room.
func ValueAxis(lo, hi float64) Axis {
	if lo > 0 && hi/lo > 20 {
		return Axis{Lo: lo / 1.1, Hi: hi * 1.1, Log: true}
	}
	if hi <= lo {
		hi = lo + 1
	}
	room := (hi - lo) * 0.05
	bottom := lo - room
	if lo >= 0 && lo < hi/3 {
		bottom = 0
	}
	return Axis{Lo: bottom, Hi: hi + room}
}

// ValueTicks returns the ticks of a ValueAxis. A logarithmic axis with fewer than three
// powers of ten also has 2 and 5 times powers of ten.
func (a Axis) ValueTicks() []float64 {
	ts := a.Ticks(4)
	if a.Log && len(ts) < 3 {
		var more []float64
		for e := math.Floor(math.Log10(a.Lo)); e <= math.Log10(a.Hi); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= a.Lo && v <= a.Hi {
					more = append(more, v)
				}
			}
		}
		return more
	}
	return ts
}

// Compact formats the value of a tick: 0.02, 5, 1.5k, 1e-05.
func Compact(v float64) string {
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

// XY returns the point (x, y).
func XY(x, y float64) Point { return Point{x, y} }

// Curve is a line of a plot through points of values, with its CSS classes. A point with a
// NaN interrupts it.
type Curve struct {
	Class  string
	Points []Point
}

// Plot is a plot of curves.
type Plot struct {
	Label          string // describes the figure for screen readers
	Head, Base     string // titles of the y and the x axis
	W, H           float64
	X, Y           Axis
	XTicks, YTicks int // numbers of ticks; 0: as ValueTicks has them
	Curves         []Curve
}

// HTML returns the plot as an element of the page.
func (p Plot) HTML() template.HTML {
	panel := NewPanel(p.W, p.H, p.X, p.Y)
	ticks := func(a Axis, n int) []float64 {
		if n == 0 {
			return a.ValueTicks()
		}
		return a.Ticks(n)
	}
	panel.Head(p.Head)
	panel.YGrid(ticks(panel.Y, p.YTicks), Compact)
	panel.XTicks(ticks(panel.X, p.XTicks), Compact)
	panel.Base(p.Base)
	for _, c := range p.Curves {
		var ps []Point
		for _, q := range c.Points {
			ps = append(ps, panel.At(q.X, q.Y))
		}
		panel.Polyline(ps, c.Class)
	}
	return panel.SVG.HTML(p.Label)
}

// Bar is a bar of a figure. What is NaN is not drawn.
type Bar struct {
	Value, Lo, Hi float64 // the height, and an interval around it
	Across        float64 // height of a line across the bar, for comparison
	Class         string
}

// BarGroup is a group of adjacent bars with a label below.
type BarGroup struct {
	Label string
	Bars  []Bar
}

// Bars draws groups of bars. Heights are limited to the y axis, and a negative value has no
// bar. The label describes the figure for screen readers.
func Bars(head, label string, y Axis, groups []BarGroup) template.HTML {
	p := NewPanel(330, 220, Axis{Lo: 0, Hi: float64(len(groups))}, y)
	p.Head(head)
	p.YGrid(p.Y.Ticks(5), Compact)
	p.Line(Point{p.X.From, p.Y.At(0)}, Point{p.X.To, p.Y.At(0)}, "axis")
	for i, group := range groups {
		// A group has unit width, of which its bars share 0.8.
		width := 0.8 / float64(len(group.Bars))
		for k, bar := range group.Bars {
			from := float64(i) + 0.1 + width*float64(k)
			if bar.Value >= 0 {
				p.Rect(p.At(from+0.04*width, min(bar.Value, y.Hi)), p.At(from+0.9*width, 0), "bar "+bar.Class)
			}
			if !math.IsNaN(bar.Lo) && !math.IsNaN(bar.Hi) {
				p.Line(p.At(from+width/2, max(bar.Lo, y.Lo)), p.At(from+width/2, min(bar.Hi, y.Hi)), "axis")
			}
			if !math.IsNaN(bar.Across) {
				p.Line(p.At(from-0.02*width, bar.Across), p.At(from+0.96*width, bar.Across), "paperline")
			}
		}
		p.Text(Point{p.X.At(float64(i) + 0.5), p.Y.From + 16}, "tick mid", group.Label)
	}
	return p.HTML(label)
}

// EndLabel is the name of a line, drawn at its right end.
type EndLabel struct {
	Y            float64
	Class, Label string
}

// EndLabels writes the names at the right ends of their lines, moved apart so that they
// do not overlap: first downwards from the top, then back up from the bottom of the
// plot. It sorts the labels.
func (p Panel) EndLabels(ends []EndLabel) {
	const gap = 15
	slices.SortStableFunc(ends, func(a, b EndLabel) int { return cmp.Compare(a.Y, b.Y) })
	last := math.Inf(-1)
	for i := range ends {
		ends[i].Y = max(ends[i].Y, last+gap)
		last = ends[i].Y
	}
	limit := p.Y.From - 2
	for i := len(ends) - 1; i >= 0 && ends[i].Y > limit; i-- {
		ends[i].Y = limit
		limit -= gap
	}
	for _, e := range ends {
		p.Text(Point{p.X.To + 10, e.Y + 4}, e.Class, e.Label)
	}
}

// Smooth averages the values at some steps over at most bins intervals with equal numbers
// of values, so that the page stays small. Values that are not finite are skipped.
func Smooth(steps, values []float64, bins int) (out []Point) {
	n := min(len(steps), len(values))
	size := max((n+bins-1)/bins, 1)
	for i := 0; i < n; i += size {
		var sx, sy, k float64
		for j := i; j < min(i+size, n); j++ {
			if !math.IsNaN(values[j]) && !math.IsInf(values[j], 0) {
				sx, sy, k = sx+steps[j], sy+values[j], k+1
			}
		}
		if k > 0 {
			out = append(out, Point{sx / k, sy / k})
		}
	}
	return out
}
