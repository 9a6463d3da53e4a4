package raster

import "math"

// Line draws a line of a width of 2 or more pixels: each point of a
// Bresenham line becomes a run across the steeper direction.
func (c *Canvas) Line(a, b Point, width int, col Color) {
	c.touch(min(a.X, b.X)-width, min(a.Y, b.Y)-width, max(a.X, b.X)+width, max(a.Y, b.Y)+width)
	w := walk{dx: abs(b.X - a.X), dy: abs(b.Y - a.Y), sx: step(a.X, b.X), sy: step(a.Y, b.Y)}
	steep := w.dx <= w.dy
	w.err = -w.dy / 2
	if w.dx > w.dy {
		w.err = w.dx / 2
	}
	end := b
	a, b, ok := c.clip(a, b)
	if !ok {
		return
	}
	before, after := (width-1)/2, width/2
	run := func(p Point) {
		if steep {
			c.span(p.X-before, p.X+after, p.Y, col)
		} else {
			c.column(p.X, p.Y-before, p.Y+after, col)
		}
	}
	w.Point = a
	for w.short(b) {
		run(w.Point)
		w.next()
	}
	// A line that was clipped away may still reach into the picture with its width.
	for w.left(end, steep) && (c.holds(w.across(-before, steep)) || c.holds(w.across(after, steep))) {
		run(w.Point)
		w.next()
	}
	run(w.Point)
}

// walk is a point on its way along a line.
type walk struct {
	Point
	dx, dy, sx, sy, err int
}

func (w *walk) next() {
	e := w.err
	if e > -w.dx {
		w.err -= w.dy
		w.X += w.sx
	}
	if e < w.dy {
		w.err += w.dx
		w.Y += w.sy
	}
}

// short says whether b is not reached in one of the directions.
func (w *walk) short(b Point) bool {
	return sign(w.X-b.X, w.sx) != w.sx || sign(w.Y-b.Y, w.sy) != w.sy
}

// left says whether the line's end is not reached in its main direction.
func (w *walk) left(end Point, steep bool) bool {
	if steep {
		return w.Y != end.Y
	}
	return w.X != end.X
}

// across is the point d pixels beside the line.
func (w *walk) across(d int, steep bool) Point {
	if steep {
		return Point{w.X + d, w.Y}
	}
	return Point{w.X, w.Y + d}
}

func step(from, to int) int {
	if from < to {
		return 1
	}
	return -1
}

// sign of v, or of 0 what is said.
func sign(v, zero int) int {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return zero
}

func abs(v int) int { return max(v, -v) }

func (c *Canvas) holds(p Point) bool { return 0 <= p.X && p.X < c.W && 0 <= p.Y && p.Y < c.H }

// clip cuts a line to the picture (Liang, Barsky); it is false where nothing is left.
func (c *Canvas) clip(a, b Point) (Point, Point, bool) {
	from, to := 0.0, 1.0
	dx, dy := b.X-a.X, b.Y-a.Y
	for _, s := range [4]struct{ p, q int }{{-dx, a.X}, {dx, c.W - a.X}, {-dy, a.Y}, {dy, c.H - a.Y}} {
		switch r := float64(s.q) / float64(s.p); {
		case s.p == 0 && s.q < 0:
			return a, b, false
		case s.p < 0:
			from = max(from, r)
		case s.p > 0:
			to = min(to, r)
		}
	}
	if from > to {
		return a, b, false
	}
	along := func(t float64) Point {
		return Point{a.X + nearest(float64(float64(dx)*t)), a.Y + nearest(float64(float64(dy)*t))}
	}
	return along(from), along(to), true
}

// nearest rounds halves away from 0.
func nearest(v float64) int {
	if v < 0 {
		return int(v - 0.5)
	}
	return int(v + 0.5)
}

// AALine blends an anti-aliased line one pixel wide over the picture (Wu).
func (c *Canvas) AALine(a, b Point, col Color) {
	c.touch(min(a.X, b.X)-1, min(a.Y, b.Y)-1, max(a.X, b.X)+1, max(a.Y, b.Y)+1)
	if a == b {
		c.blend(a.X, a.Y, 1, col)
		return
	}
	l := aaLine{c: c, col: col, steep: abs(b.X-a.X) < abs(b.Y-a.Y), high: c.H, wide: c.W}
	if l.steep {
		a, b = Point{a.Y, a.X}, Point{b.Y, b.X}
		l.high, l.wide = l.wide, l.high
	}
	if b.X < a.X {
		a, b = b, a
	}
	l.x0, l.y0, l.x1, l.y1 = float32(a.X), float32(a.Y), float32(b.X), float32(b.Y)
	l.slope = float32(l.y1-l.y0) / float32(l.x1-l.x0)
	if l.clip() {
		l.draw()
	}
}

// aaLine is a line that runs right; steep ones are mirrored at the diagonal.
type aaLine struct {
	c              *Canvas
	col            Color
	steep          bool
	wide, high     int // of the picture, mirrored with the line
	x0, y0, x1, y1 float32
	slope          float32
}

// clip cuts the line one pixel outside the picture.
func (l *aaLine) clip() bool {
	const low = -1
	right, bottom := float32(l.wide), float32(l.high)
	if l.x1 <= low || l.x0 >= right {
		return false
	}
	if l.x0 < low {
		l.y0 += float32(l.slope * (low - l.x0))
		l.x0 = low
	}
	if l.x1 > right {
		l.y1 += float32(l.slope * (right - l.x1))
		l.x1 = right
	}
	top, topX, deep, deepX := &l.y0, &l.x0, &l.y1, &l.x1
	if !(l.slope > 0) {
		top, topX, deep, deepX = deep, deepX, top, topX
	}
	if *deep <= low || *top >= bottom {
		return false
	}
	if *top < low {
		*topX += (low - *top) / l.slope
		*top = low
	}
	if *deep > bottom {
		*deepX += (bottom - *deep) / l.slope
		*deep = bottom
	}
	return true
}

// draw paints the two ends, weighted by how much of their column they cover,
// then what is between them. One is added to y so that truncation rounds down.
func (l *aaLine) draw() {
	l.y0++
	l.y1++
	x := int(l.x0)
	y := l.y0 + float32(l.slope*(float32(x)-l.x0))
	if l.x1 > 0 {
		l.pair(x, y, 1+float32(x)-l.x0)
		y += l.slope
		x++
	}
	end := int(math.Ceil(float64(l.x1)))
	if l.x0 < float32(l.wide)-1 {
		l.pair(end, l.y1+float32(l.slope*(float32(end)-l.x1)), 1-float32(end)+l.x1)
	}
	for ; x < end; x++ {
		l.between(x, y)
		y += l.slope
	}
}

// pair paints an end's two pixels, the lower first.
func (l *aaLine) pair(x int, y, weight float32) {
	row := int(y)
	part := y - float32(row)
	if float32(row) < y {
		l.paint(x, row, float32(part*weight))
	}
	l.paint(x, row-1, float32((1-part)*weight))
}

// between paints the two pixels of a column, the upper first.
func (l *aaLine) between(x int, y float32) {
	row := int(y)
	part := 1 - y + float32(row)
	l.paint(x, row-1, part)
	if float32(row) < y {
		l.paint(x, row, 1-part)
	}
}

func (l *aaLine) paint(x, y int, weight float32) {
	if l.steep {
		x, y = y, x
	}
	l.c.blend(x, y, weight, l.col)
}

// blend mixes a colour over a pixel, truncating.
func (c *Canvas) blend(x, y int, weight float32, col Color) {
	if !c.holds(Point{x, y}) {
		return
	}
	p := &c.Pix[y*c.W+x]
	mix := func(shift uint) Color {
		over, under := float32(col>>shift&0xff), float32(*p>>shift&0xff)
		return Color(byte(float32(weight*over)+float32((1-weight)*under))) << shift
	}
	*p = mix(0) | mix(8) | mix(16)
}
