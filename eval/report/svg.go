package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
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
		px(s.w), px(s.h), px(s.w), px(s.h), html.EscapeString(label), s.b.String()))
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
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s">%s</text>`, class, px(p.x), px(p.y), html.EscapeString(text))
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

// mark draws the sign of a method: colours alone do not print.
func (s *svg) mark(p point, method, title string) {
	class := "mark m-" + class(method)
	switch method {
	case scale:
		fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="8" height="8">%s</rect>`, class, px(p.x-4), px(p.y-4), tip(title))
	case aux:
		fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sl5 8.5h-10z">%s</path>`, class, px(p.x), px(p.y-5.5), tip(title))
	case "dinowm":
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
	return "<title>" + html.EscapeString(title) + "</title>"
}

// class is a method's name as part of a style class; methods that the style
// does not know share one.
func class(method string) string {
	if rank(methodOrder, method) < len(methodOrder) {
		return method
	}
	return "other"
}
