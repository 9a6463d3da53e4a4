package report

import "math"

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
