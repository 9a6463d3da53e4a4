package raster

import "math"

// Line draws a line of 2 or more pixels in width (pygame.draw.line): each point of a
// Bresenham line becomes a run of width pixels, vertical for a flat line and horizontal
// for a steep one.
func (c *Canvas) Line(a, b Point, width int, col Color) {
	c.touch(min(a.X, b.X)-width, min(a.Y, b.Y)-width, max(a.X, b.X)+width, max(a.Y, b.Y)+width)
	// pygame initialises the error term from the unclipped line, then walks the clipped one.
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
	for w.notReached(b) {
		run(w.Point)
		w.next()
	}
	// The centre of the line has left the picture, but its width may still reach into it.
	for w.notAtEnd(end, steep) && (c.contains(w.across(-before, steep)) || c.contains(w.across(after, steep))) {
		run(w.Point)
		w.next()
	}
	run(w.Point)
}

// walk is the state of a Bresenham line: the current point, the absolute extents of the
// line, the step of each coordinate (1 or -1) and the error term.
type walk struct {
	Point
	dx, dy, sx, sy, err int
}

// next moves to the next point.
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

// notReached reports whether b has not been reached in both directions.
func (w *walk) notReached(b Point) bool {
	return sign(w.X-b.X, w.sx) != w.sx || sign(w.Y-b.Y, w.sy) != w.sy
}

// notAtEnd reports whether the end of the line has not been reached in its main direction.
func (w *walk) notAtEnd(end Point, steep bool) bool {
	if steep {
		return w.Y != end.Y
	}
	return w.X != end.X
}

// across returns the point d pixels from the current one, across the line.
func (w *walk) across(d int, steep bool) Point {
	if steep {
		return Point{w.X + d, w.Y}
	}
	return Point{w.X, w.Y + d}
}

// step returns the direction from one coordinate to another, -1 if they are equal.
func step(from, to int) int {
	if from < to {
		return 1
	}
	return -1
}

// sign returns the sign of v, or zero if v is 0.
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

// contains reports whether p is a pixel of the picture.
func (c *Canvas) contains(p Point) bool { return 0 <= p.X && p.X < c.W && 0 <= p.Y && p.Y < c.H }

// clip clips a line to the picture (Liang-Barsky). It returns false if nothing is left.
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

// nearest rounds to the nearest integer, halves away from zero.
func nearest(v float64) int {
	if v < 0 {
		return int(v - 0.5)
	}
	return int(v + 0.5)
}

// AALine blends an anti-aliased line of one pixel in width over the picture (Wu's
// algorithm, as in pygame.draw.aaline).
func (c *Canvas) AALine(a, b Point, col Color) {
	c.touch(min(a.X, b.X)-1, min(a.Y, b.Y)-1, max(a.X, b.X)+1, max(a.Y, b.Y)+1)
	if a == b {
		c.blend(a.X, a.Y, 1, col)
		return
	}
	l := aaLine{c: c, col: col, steep: abs(b.X-a.X) < abs(b.Y-a.Y), high: c.H, wide: c.W}
	// Steep lines are drawn as flat ones, with x and y swapped until the pixel is painted.
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

// aaLine is a line with |slope| <= 1 that runs to the right. For a steep line, x and y are
// swapped.
type aaLine struct {
	c              *Canvas
	col            Color
	steep          bool
	wide, high     int // of the picture, swapped like the line
	x0, y0, x1, y1 float32
	slope          float32
}

// clip clips the line to the picture with a margin of one pixel, because a line blends
// pixels on both sides of it. It reports whether anything is left.
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

// draw paints the two ends, weighted by the fraction of the column that they cover, and
// then the columns between them. y is increased by 1 first, so that truncation to an integer
// rounds down even for y between -1 and 0; the rows are decreased again in pair and
// between.
func (l *aaLine) draw() {
	l.y0++
	l.y1++
	x := int(l.x0)
	y := l.y0 + float32(l.slope*(float32(x)-l.x0))
	// pygame blends the ends before the middle. The order matters where a pixel is blended
	// twice.
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

// pair paints the two pixels at an end, the lower one first.
func (l *aaLine) pair(x int, y, weight float32) {
	row := int(y)
	part := y - float32(row)
	if float32(row) < y {
		l.paint(x, row, float32(part*weight))
	}
	l.paint(x, row-1, float32((1-part)*weight))
}

// between paints the two pixels of a column, the upper one first.
func (l *aaLine) between(x int, y float32) {
	row := int(y)
	part := 1 - y + float32(row)
	l.paint(x, row-1, part)
	if float32(row) < y {
		l.paint(x, row, 1-part)
	}
}

// paint blends one pixel, undoing the swap of a steep line.
func (l *aaLine) paint(x, y int, weight float32) {
	if l.steep {
		x, y = y, x
	}
	l.c.blend(x, y, weight, l.col)
}

// blend blends a colour over a pixel with the given weight. Results are truncated.
func (c *Canvas) blend(x, y int, weight float32, col Color) {
	if !c.contains(Point{x, y}) {
		return
	}
	p := &c.Pix[y*c.W+x]
	mix := func(shift uint) Color {
		over, under := float32(col>>shift&0xff), float32(*p>>shift&0xff)
		return Color(byte(float32(weight*over)+float32((1-weight)*under))) << shift
	}
	*p = mix(0) | mix(8) | mix(16)
}
