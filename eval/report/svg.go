package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/model"
)

// point is a place in a figure, in CSS pixels from the top left corner.
type point struct{ x, y float64 }

// svg collects the elements of one figure. Colours come from the page's style
// by class, so that one figure serves the light, the dark and the printed page.
type svg struct {
	b    strings.Builder
	w, h float64
}

func newSVG(w, h float64) *svg { return &svg{w: w, h: h} }

// html closes the figure; label is read to those who cannot see it.
func (s *svg) html(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s</svg>`,
		px(s.w), px(s.h), px(s.w), px(s.h), template.HTMLEscapeString(label), s.b.String()))
}

// px writes a length with at most two decimals.
func px(x float64) string {
	t := strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	if t == "-0" {
		return "0"
	}
	return t
}

func (s *svg) line(a, b point, class string) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(a.x), px(a.y), px(b.x), px(b.y))
}

func (s *svg) text(p point, class, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s">%s</text>`, class, px(p.x), px(p.y), template.HTMLEscapeString(text))
}

// rect draws from the top left corner a to the bottom right corner b.
func (s *svg) rect(a, b point, class string) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, px(a.x), px(a.y), px(b.x-a.x), px(b.y-a.y))
}

// polyline draws through the points; a NaN breaks the line.
func (s *svg) polyline(ps []point, class string) {
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, class, pathOf(ps))
}

// band fills between two lines.
func (s *svg) band(upper, lower []point, class string) {
	ps := append([]point{}, upper...)
	for i := len(lower) - 1; i >= 0; i-- {
		ps = append(ps, lower[i])
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%sZ"/>`, class, pathOf(ps))
}

func pathOf(ps []point) string {
	var b strings.Builder
	pen := "M"
	for _, p := range ps {
		if math.IsNaN(p.y) || math.IsNaN(p.x) {
			pen = "M"
			continue
		}
		b.WriteString(pen + px(p.x) + " " + px(p.y))
		pen = "L"
	}
	return b.String()
}

// mark draws the sign of a method, since colours alone do not print.
func (s *svg) mark(p point, arm, title string) {
	class := "mark " + class(arm)
	switch styleOf(arm) {
	case 1:
		fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="8" height="8">%s</rect>`, class, px(p.x-4), px(p.y-4), tip(title))
	case 2:
		fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sl5 8.5h-10z">%s</path>`, class, px(p.x), px(p.y-5.5), tip(title))
	case 3:
		fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sl5.2 5.2l-5.2 5.2l-5.2 -5.2z">%s</path>`, class, px(p.x), px(p.y-5.2), tip(title))
	default:
		fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="4.3">%s</circle>`, class, px(p.x), px(p.y), tip(title))
	}
}

// dot draws a small filled circle.
func (s *svg) dot(p point, class, title string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="3">%s</circle>`, class, px(p.x), px(p.y), tip(title))
}

// tip is a tooltip.
func tip(title string) string {
	if title == "" {
		return ""
	}
	return "<title>" + template.HTMLEscapeString(title) + "</title>"
}

// learned are the methods that are no floor, which have a colour and a mark each.
var learned = model.MethodNames(func(m model.Method) bool { return !m.Floor })

// styleOf is the number of an arm's method among them, or -1.
func styleOf(arm string) int { return slices.Index(learned, infer.MethodOf(arm).Name) }

// class is an arm's style class on the page: its method's, whose style has colours for the
// first methods of the table, the two kinds of floors and all others.
func class(arm string) string {
	const coloured = 4
	m := infer.MethodOf(arm)
	switch i := styleOf(arm); {
	case m.Floor && !m.Plans():
		return "m-random"
	case m.Floor:
		return "m-floor"
	case i >= 0 && i < coloured:
		return "m-" + itoa(i)
	}
	return "m-other"
}

// axis maps values lo..hi to pixels from..to.
type axis struct {
	lo, hi, from, to float64
	log              bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(v)
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// ticks are round values in the axis' range, about n of them: powers of ten on
// a logarithmic axis, multiples of 1, 2 or 5 times one on a linear axis.
func (a axis) ticks(n int) (out []float64) {
	if a.log {
		for e := math.Ceil(math.Log10(a.lo) - 1e-9); e <= math.Log10(a.hi)+1e-9; e++ {
			out = append(out, math.Pow(10, e))
		}
		return out
	}
	step := niceStep((a.hi - a.lo) / float64(n))
	for i := math.Ceil(a.lo/step - 1e-9); i*step <= a.hi+step*1e-9; i++ {
		out = append(out, i*step+0) // + 0: no negative zero
	}
	return out
}

// niceStep is the smallest of 1, 2, 5 times a power of ten that reaches x.
func niceStep(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= x*(1-1e-9) {
			return m * base
		}
	}
	return 10 * base
}

// panel is a plot area with its axes.
type panel struct {
	*svg
	x, y axis
}

// newPanel leaves room for labels around a plot of w x h pixels in all.
func newPanel(w, h float64, x, y axis) panel {
	x.from, x.to = 40, w-14
	y.from, y.to = h-34, 28
	return panel{newSVG(w, h), x, y}
}

func (p panel) at(x, y float64) point { return point{p.x.at(x), p.y.at(y)} }

// yGrid draws horizontal lines with their values.
func (p panel) yGrid(ticks []float64, format func(float64) string) {
	for _, v := range ticks {
		y := p.y.at(v)
		p.line(point{p.x.from, y}, point{p.x.to, y}, "grid")
		p.text(point{p.x.from - 7, y + 4}, "tick end", format(v))
	}
}

// xTicks writes values under the plot.
func (p panel) xTicks(ticks []float64, format func(float64) string) {
	for _, v := range ticks {
		x := p.x.at(v)
		p.line(point{x, p.y.from}, point{x, p.y.from + 4}, "axis")
		p.text(point{x, p.y.from + 17}, "tick mid", format(v))
	}
}

// base draws the x axis and names it.
func (p panel) base(title string) {
	p.line(point{p.x.from, p.y.from}, point{p.x.to, p.y.from}, "axis")
	p.text(point{p.x.to, p.y.from + 31}, "label end", title)
}

// head names what the y axis shows, above the plot.
func (p panel) head(title string) { p.text(point{0, 11}, "label head", title) }
