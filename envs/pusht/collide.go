package pusht

// maxRounds bounds the search for the closest points, as the original's bound does.
const maxRounds = 30

// feature is a convex set of points: a disc's centre, a wall's two ends or the
// four corners of a part of the block.
type feature struct {
	at []vec
}

// support is the index of the point furthest along n. Among equals it is the
// last of a wall and the first of a polygon.
func (f feature) support(n vec) int {
	switch len(f.at) {
	case 1:
		return 0
	case 2:
		if f.at[0].dot(n) > f.at[1].dot(n) {
			return 0
		}
		return 1
	}
	best, index := f.at[0].dot(n), 0
	for i := 1; i < len(f.at); i++ {
		if d := f.at[i].dot(n); d > best {
			best, index = d, i
		}
	}
	return index
}

// corner is a vertex b - a of the difference of two features, named by the two indices.
type corner struct {
	a, b, ab vec
	id       uint32
}

// pairing is two features whose distance is sought.
type pairing struct{ a, b feature }

func (p *pairing) corner(i, j int) corner {
	a, b := p.a.at[i], p.b.at[j]
	return corner{a, b, b.sub(a), uint32(i)<<8 | uint32(j)}
}

func (p *pairing) support(n vec) corner { return p.corner(p.a.support(n.neg()), p.b.support(n)) }

// cached is a corner of an earlier search.
func (p *pairing) cached(id uint32) corner { return p.corner(int(id>>8&0xff), int(id&0xff)) }

// closest is the outcome of a search: points on both features, the direction
// from a to b, the signed distance, and the edge it was found on.
type closest struct {
	a, b, n vec
	d       float64
	id      uint32
}

// behind says whether c lies to the left of a -> b.
func behind(a, b, c vec) bool {
	return float64((b.y-a.y)*(a.x+b.x-2*c.x)) > float64((b.x-a.x)*(a.y+b.y-2*c.y))
}

// nearestT is where on the edge from a (-1) to b (1) the origin is nearest.
func nearestT(a, b vec) float64 {
	d := b.sub(a)
	sq := d.dot(d)
	if sq == 0 {
		return 0
	}
	return -lesser(larger(d.dot(a.add(b))/sq, -1), 1)
}

// edgeDistance is the squared distance of the origin from an edge.
func edgeDistance(a, b vec) float64 {
	p := a.between(b, nearestT(a, b))
	return p.dot(p)
}

// onEdge is the outcome when the nearest edge of the difference is known.
func onEdge(v0, v1 *corner) closest {
	t := nearestT(v0.ab, v1.ab)
	p := v0.ab.between(v1.ab, t)
	c := closest{a: v0.a.between(v1.a, t), b: v0.b.between(v1.b, t), id: v0.id<<16 | v1.id}
	c.n = v1.ab.sub(v0.ab).right().unit()
	c.d = c.n.dot(p)
	if c.d <= 0 || -1 < t && t < 1 {
		return c
	}
	// Corner against corner: the direction is that of the points.
	c.d = length(p)
	c.n = p.mul(1 / (c.d + smallest))
	return c
}

// search finds the closest points of two features (Gilbert, Johnson, Keerthi),
// starting from the edge of the last search if there was one, else across the
// line of the boxes' centres.
func (p *pairing) search(id uint32, boxA, boxB *box, h *hulls) closest {
	var v0, v1 corner
	if id != 0 {
		v0, v1 = p.cached(id>>16), p.cached(id&0xffff)
	} else {
		axis := boxA.centre().sub(boxB.centre()).left()
		v0, v1 = p.support(axis), p.support(axis.neg())
	}
	for round := 1; round <= maxRounds; {
		if behind(v1.ab, v0.ab, vec{}) {
			v0, v1 = v1, v0
			continue
		}
		t := nearestT(v0.ab, v1.ab)
		n := v0.ab.between(v1.ab, t).neg()
		if -1 < t && t < 1 {
			n = v1.ab.sub(v0.ab).left()
		}
		c := p.support(n)
		switch {
		case behind(c.ab, v0.ab, vec{}) && behind(v1.ab, c.ab, vec{}):
			return p.expand(&v0, &c, &v1, h) // the features overlap
		case c.ab.dot(n) <= larger(v0.ab.dot(n), v1.ab.dot(n)):
			return onEdge(&v0, &v1)
		case edgeDistance(v0.ab, c.ab) < edgeDistance(c.ab, v1.ab):
			v1 = c
		default:
			v0 = c
		}
		round++
	}
	return onEdge(&v0, &v1)
}

// hulls is working room of expand.
type hulls [2][maxRounds + 4]corner

// expand finds the edge of the difference nearest to the origin inside it: it
// pushes the nearest edge of a growing hull outwards until nothing lies beyond.
func (p *pairing) expand(v0, v1, v2 *corner, h *hulls) closest {
	hull, next := &h[0], &h[1]
	hull[0], hull[1], hull[2] = *v0, *v1, *v2
	count := 3
	for round := 1; ; round++ {
		at := nearestEdge(hull[:count])
		a, b := &hull[at], &hull[(at+1)%count]
		c := p.support(b.ab.sub(a.ab).left())
		if c.id == a.id || c.id == b.id || !behind(a.ab, b.ab, c.ab) || round >= maxRounds {
			return onEdge(a, b)
		}
		next[0] = c
		grown := 1
		for i := range count {
			k := (at + 1 + i) % count
			after := c.ab
			if i+1 < count {
				after = hull[(k+1)%count].ab
			}
			if behind(next[grown-1].ab, after, hull[k].ab) {
				next[grown] = hull[k]
				grown++
			}
		}
		hull, next, count = next, hull, grown
	}
}

// nearestEdge is the index of the corner where the edge nearest to the origin begins.
func nearestEdge(hull []corner) int {
	best, at := 0.0, -1
	for j := range hull {
		i := (j + len(hull) - 1) % len(hull)
		if d := edgeDistance(hull[i].ab, hull[j].ab); at < 0 || d < best {
			best, at = d, i
		}
	}
	return at
}
