package disc

import "math"

// hit is the first contact of a moving disc with a wall: the fraction of the move before it,
// and the outward normal of the wall.
type hit struct {
	time   float64
	normal Point
}

// Move moves a disc from one point towards another. It returns where the disc stops and the
// number of contacts. At each contact the disc stops a little in front of the wall and continues
// with the part of the move that is along the wall. After four contacts it stops.
func (g *Geometry) Move(from, to Point) (end Point, contacts int) {
	at := g.inside(from)
	rest := sub(g.inside(to), at)
	for range maxContacts {
		length := norm(rest)
		if length <= epsilon {
			break
		}
		h, ok := g.firstHit(at, add(at, 1, rest))
		if !ok {
			at = add(at, 1, rest)
			break
		}
		contacts++
		at = add(at, max(0, h.time-gap/max(length, epsilon)), rest)
		rest = Point{(1 - h.time) * rest[0], (1 - h.time) * rest[1]}
		rest = add(rest, -min(0, dot(rest, h.normal)), h.normal)
		at = add(at, gap, h.normal)
	}
	return g.inside(at), contacts
}

// inside moves p into the area that the outer walls leave for the disc's centre.
func (g *Geometry) inside(p Point) Point {
	return Point{clamp(p[0], g.low, g.high), clamp(p[1], g.low, g.high)}
}

// firstHit returns the earliest contact with the dividing wall on a segment. A disc meets a
// rectangle where its centre meets the rectangle grown by the radius in x, the one grown in y,
// or a circle round a corner. The first of equal times counts.
func (g *Geometry) firstHit(from, to Point) (first hit, found bool) {
	delta := sub(to, from)
	keep := func(h hit, ok bool) {
		if ok && (!found || h.time < first.time) {
			first, found = h, true
		}
	}
	for _, b := range g.solids {
		for axis := range 2 {
			grown := b
			grown.low[axis] -= g.radius
			grown.high[axis] += g.radius
			keep(grown.entry(from, delta))
		}
		for _, x := range [2]float64{b.low[0], b.high[0]} {
			for _, y := range [2]float64{b.low[1], b.high[1]} {
				keep(circleEntry(from, delta, Point{x, y}, g.radius))
			}
		}
	}
	return first, found
}

// entry returns where a point that moves by delta enters the box. A point that starts on or in
// it and does not move inwards does not enter. Edges belong to the box, so that a point which
// moves exactly along an edge enters at its far end: the rule that is reproduced does so.
func (b box) entry(from, delta Point) (hit, bool) {
	enter, leave := math.Inf(-1), math.Inf(1)
	var normal Point
	for axis := range 2 {
		if math.Abs(delta[axis]) <= epsilon {
			if from[axis] < b.low[axis] || from[axis] > b.high[axis] {
				return hit{}, false
			}
			continue
		}
		first, second := (b.low[axis]-from[axis])/delta[axis], (b.high[axis]-from[axis])/delta[axis]
		face := Point{}
		face[axis] = 1
		if delta[axis] > 0 {
			face[axis] = -1
		}
		if first > second {
			first, second = second, first
		}
		if first > enter {
			enter, normal = first, face
		}
		leave = min(leave, second)
		if enter > leave {
			return hit{}, false
		}
	}
	if leave < -epsilon || enter > 1+epsilon {
		return hit{}, false
	}
	h := hit{max(0, enter), normal}
	return h, h.inward(delta)
}

// circleEntry returns where a point that moves by delta meets a circle. A point that starts
// inside meets it where it leaves. Moves that are too short meet none.
func circleEntry(from, delta, centre Point, radius float64) (hit, bool) {
	offset := sub(from, centre)
	a := dot(delta, delta)
	if a <= epsilon {
		return hit{}, false
	}
	b := 2 * dot(offset, delta)
	c := dot(offset, offset) - float64(radius*radius)
	discriminant := float64(b*b) - float64(4*a*c)
	if discriminant < 0 {
		return hit{}, false
	}
	root := math.Sqrt(discriminant)
	for _, time := range [2]float64{(-b - root) / (2 * a), (-b + root) / (2 * a)} {
		if time < -epsilon || time > 1+epsilon {
			continue
		}
		time = max(0, time)
		normal := sub(add(from, time, delta), centre)
		length := norm(normal)
		if length <= epsilon {
			continue
		}
		h := hit{time, Point{normal[0] / length, normal[1] / length}}
		if h.inward(delta) {
			return h, true
		}
	}
	return hit{}, false
}

// inward reports whether a hit counts. One at the start of a move counts only if the move goes
// into the wall.
func (h hit) inward(delta Point) bool { return h.time > epsilon || dot(delta, h.normal) < -epsilon }

// add returns p + t·d.
func add(p Point, t float64, d Point) Point {
	return Point{p[0] + float64(t*d[0]), p[1] + float64(t*d[1])}
}

func sub(a, b Point) Point { return Point{a[0] - b[0], a[1] - b[1]} }

func dot(a, b Point) float64 { return float64(a[0]*b[0]) + float64(a[1]*b[1]) }

func norm(p Point) float64 { return math.Sqrt(dot(p, p)) }

func clamp(v, low, high float64) float64 { return min(max(v, low), high) }
