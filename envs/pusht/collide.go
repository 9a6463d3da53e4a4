package pusht

// maxRounds limits the iterations of GJK and EPA, as MAX_GJK_ITERATIONS and
// MAX_EPA_ITERATIONS do in Chipmunk.
const maxRounds = 30

// feature is a convex set of points: the centre of a disc, the two ends of a wall, or the
// four corners of a part of the block. Radii are added after the search.
type feature struct {
	at []vec
}

// support returns the index of the point that is furthest along n. If several are, it is
// the last end of a wall but the first corner of a polygon, as in Chipmunk's support
// functions.
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

// corner is a vertex ab = b - a of the Minkowski difference of two features. id contains
// the indices of the two points.
type corner struct {
	a, b, ab vec
	id       uint32
}

// supportPair is two features whose distance is computed (SupportContext).
type supportPair struct{ a, b feature }

// corner returns the vertex of the difference for two indices.
func (p *supportPair) corner(i, j int) corner {
	a, b := p.a.at[i], p.b.at[j]
	return corner{a, b, b.sub(a), uint32(i)<<8 | uint32(j)}
}

// support returns the vertex of the difference that is furthest along n.
func (p *supportPair) support(n vec) corner { return p.corner(p.a.support(n.neg()), p.b.support(n)) }

// cached returns the vertex with the id of an earlier search, at the current positions.
func (p *supportPair) cached(id uint32) corner { return p.corner(int(id>>8&0xff), int(id&0xff)) }

// closest is the result of a search: the closest points of both features, the unit normal
// from a to b, the signed distance, and the edge of the difference on which it was found,
// which is the warm start of the next search.
type closest struct {
	a, b, n vec
	d       float64
	id      uint32
}

// leftOf reports whether c lies to the left of the line a -> b (cpCheckPointGreater). The
// expression is Chipmunk's: rearranging it would change decisions in degenerate cases.
func leftOf(a, b, c vec) bool {
	return float64((b.y-a.y)*(a.x+b.x-2*c.x)) > float64((b.x-a.x)*(a.y+b.y-2*c.y))
}

// closestT returns the parameter, from -1 at a to 1 at b, of the point nearest to the origin
// on the edge.
func closestT(a, b vec) float64 {
	d := b.sub(a)
	sq := d.dot(d)
	if sq == 0 {
		return 0
	}
	return -lesser(larger(d.dot(a.add(b))/sq, -1), 1)
}

// edgeDistance returns the squared distance of the origin from an edge.
func edgeDistance(a, b vec) float64 {
	p := a.between(b, closestT(a, b))
	return p.dot(p)
}

// onEdge returns the result if the edge of the difference nearest to the origin is known
// (ClosestPointsNew).
func onEdge(v0, v1 *corner) closest {
	t := closestT(v0.ab, v1.ab)
	p := v0.ab.between(v1.ab, t)
	c := closest{a: v0.a.between(v1.a, t), b: v0.b.between(v1.b, t), id: v0.id<<16 | v1.id}
	c.n = v1.ab.sub(v0.ab).right().unit()
	c.d = c.n.dot(p)
	if c.d <= 0 || -1 < t && t < 1 {
		return c
	}
	// Corner against corner: the direction is that of the points.
	c.d = length(p)
	c.n = p.mul(1 / (c.d + minNormal))
	return c
}

// search finds the closest points of two features with GJK (Gilbert, Johnson, Keerthi). It
// starts from the edge of the last search (id), or, if that is 0, from the axis across the
// line between the centres of the boxes. The edge v0-v1 approaches the origin; the loop
// keeps the origin on its left.
func (p *supportPair) search(id uint32, boxA, boxB *box, h *hulls) closest {
	var v0, v1 corner
	if id != 0 {
		v0, v1 = p.cached(id>>16), p.cached(id&0xffff)
	} else {
		axis := boxA.centre().sub(boxB.centre()).left()
		v0, v1 = p.support(axis), p.support(axis.neg())
	}
	for round := 1; round <= maxRounds; {
		if leftOf(v1.ab, v0.ab, vec{}) {
			v0, v1 = v1, v0
			continue
		}
		t := closestT(v0.ab, v1.ab)
		n := v0.ab.between(v1.ab, t).neg()
		if -1 < t && t < 1 {
			n = v1.ab.sub(v0.ab).left()
		}
		c := p.support(n)
		switch {
		case leftOf(c.ab, v0.ab, vec{}) && leftOf(v1.ab, c.ab, vec{}):
			// The origin is inside the difference: the features overlap.
			return p.expand(&v0, &c, &v1, h)
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

// hulls is the working memory of expand: the current and the next hull. It is allocated once
// per world, because stack arrays of this size would be cleared at every call.
type hulls [2][maxRounds + 4]corner

// expand finds the edge of the difference nearest to the origin, which is inside, with EPA
// (expanding polytope algorithm). Each round moves the nearest edge of the hull outwards to
// a new support point, until there is none beyond it. Corners that the new point makes
// concave are dropped.
func (p *supportPair) expand(v0, v1, v2 *corner, h *hulls) closest {
	hull, next := &h[0], &h[1]
	hull[0], hull[1], hull[2] = *v0, *v1, *v2
	count := 3
	for round := 1; ; round++ {
		at := nearestEdge(hull[:count])
		a, b := &hull[at], &hull[(at+1)%count]
		c := p.support(b.ab.sub(a.ab).left())
		if c.id == a.id || c.id == b.id || !leftOf(a.ab, b.ab, c.ab) || round >= maxRounds {
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
			if leftOf(next[grown-1].ab, after, hull[k].ab) {
				next[grown] = hull[k]
				grown++
			}
		}
		hull, next, count = next, hull, grown
	}
}

// nearestEdge returns the index of the first corner of the edge nearest to the origin.
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
