package raster

import "slices"

// maxCorners is the maximum number of corners of a polygon. It lets scan use an array.
const maxCorners = 8

// Polygon fills a polygon, its border included (pygame.draw.polygon). It panics if there
// are no or more than 8 corners.
func (c *Canvas) Polygon(p []Point, col Color) {
	if len(p) == 0 || len(p) > maxCorners {
		panic("raster: a polygon has 1 to 8 corners")
	}
	lo, hi := p[0], p[0]
	for _, q := range p[1:] {
		lo = Point{min(lo.X, q.X), min(lo.Y, q.Y)}
		hi = Point{max(hi.X, q.X), max(hi.Y, q.Y)}
	}
	c.touch(lo.X, lo.Y, hi.X, hi.Y)
	if lo.Y == hi.Y {
		c.span(lo.X, hi.X, lo.Y, col)
		return
	}
	for y := max(lo.Y, 0); y <= min(hi.Y, c.H-1); y++ {
		c.scan(p, y, hi.Y, col)
	}
	// Inner horizontal edges are drawn separately: scan skips them, and the spans of
	// their row need not cover them.
	for i, q := range p {
		if o := p[(i+len(p)-1)%len(p)]; o.Y == q.Y && lo.Y < q.Y && q.Y < hi.Y {
			c.span(q.X, o.X, q.Y, col)
		}
	}
}

// scan fills one row of a polygon between pairs of intersections with its edges. An edge
// includes its upper end and excludes its lower one, so that a corner between two edges
// counts once. On the last row, the lower ends are included.
func (c *Canvas) scan(p []Point, y, last int, col Color) {
	var cuts [maxCorners]int
	n := 0
	for i, b := range p {
		a := p[(i+len(p)-1)%len(p)]
		if a.Y > b.Y {
			a, b = b, a
		}
		if a.Y == b.Y || !(a.Y <= y && y < b.Y || y == last && b.Y == last) {
			continue
		}
		cuts[n] = int(float64((y-a.Y)*(b.X-a.X))/float64(b.Y-a.Y) + float64(a.X))
		n++
	}
	slices.Sort(cuts[:n])
	for i := 0; i+1 < n; i += 2 {
		c.span(cuts[i], cuts[i+1], y, col)
	}
}

// Disc fills a disc (pygame.draw.circle) with the midpoint algorithm. It covers 2r columns
// and rows: the centre is not a pixel but the corner between four.
func (c *Canvas) Disc(at Point, r int, col Color) {
	c.touch(at.X-r, at.Y-r, at.X+r, at.Y+r)
	f, fx, fy := 1-r, 0, -2*r
	for x, y := 0, r; x < y; {
		if f >= 0 {
			y--
			fy += 2
			f += fy
		}
		x++
		fx += 2
		f += fx + 1
		// y is about to change, so this row has reached its full length.
		if f >= 0 {
			c.span(at.X-x, at.X+x-1, at.Y+y-1, col)
			c.span(at.X-x, at.X+x-1, at.Y-y, col)
		}
		c.span(at.X-y, at.X+y-1, at.Y+x-1, col)
		c.span(at.X-y, at.X+y-1, at.Y-x, col)
	}
}
