package pusht

// The block. Lengths are in pixels from the body's origin, the middle of the bar's outer
// edge. The mass is 1.
const (
	centreOfGravity = 45         // y in the body's frame, on the T's axis
	inverseMoment   = 1.0 / 3000 // 1 / moment of inertia
)

// outline is a convex part of the block in the body's frame: corners, and for each corner
// the normal of the edge that ends there.
type outline struct{ corner, normal [4]vec }

// newOutline returns an axis-aligned rectangle. The order of its corners matters: contacts
// are named by them.
func newOutline(l, top, r, bottom float64) *outline {
	o := &outline{corner: [4]vec{{l, top}, {r, top}, {r, bottom}, {l, bottom}}}
	for i, c := range o.corner {
		o.normal[i] = c.sub(o.corner[(i+3)%4]).right().unit()
	}
	return o
}

// parts are the bar and the stem of the T.
var parts = [2]*outline{newOutline(-60, 0, 60, 30), newOutline(-15, 30, 15, 120)}

// block is the T: its motion and the world coordinates of its parts.
type block struct {
	p, v, vBias vec     // position and velocities of the centre of gravity
	a, w, wBias float64 // angle and angular velocities
	rot, origin vec     // cosine and sine of the angle; position of the body's origin
	stale       bool    // corner and box do not correspond to the pose
	corner      [2][4]vec
	box         [2]box
}

// place updates the origin after a change of the centre of gravity or angle.
func (b *block) place() {
	b.origin = vec{b.p.x + float64(centreOfGravity*b.rot.y), b.p.y - float64(centreOfGravity*b.rot.x)}
	b.stale = true
}

// setAngle sets the angle. The block turns about its centre of gravity.
func (b *block) setAngle(a float64) {
	if a != b.a || b.rot == (vec{}) {
		b.a = a
		b.rot.y, b.rot.x = sincos(a)
	}
	b.place()
}

// setPosition moves the body so that its origin is at to.
func (b *block) setPosition(to vec) {
	b.p = vec{float64(-b.rot.y*centreOfGravity) + to.x, float64(b.rot.x*centreOfGravity) + to.y}
	b.place()
}

// integrate moves the block for dt by its velocities plus the bias velocities, which are
// then reset: they correct an overlap once and carry no momentum.
func (b *block) integrate(dt float64) {
	v, w := b.v.add(b.vBias), b.w+b.wBias
	b.vBias, b.wBias = vec{}, 0
	if v == (vec{}) && w == 0 {
		return
	}
	b.p = b.p.add(v.mul(dt))
	b.setAngle(b.a + float64(w*dt))
}

// refresh updates corners and boxes if the pose has changed.
func (b *block) refresh() {
	if !b.stale {
		return
	}
	b.stale = false
	for k, part := range parts {
		for i, c := range part.corner {
			// The order of summation is that of cpTransformPoint.
			b.corner[k][i] = c.rotated(b.rot).add(b.origin)
		}
		b.box[k] = bounds(&b.corner[k])
	}
}

// bounds returns the bounding box of four points.
func bounds(c *[4]vec) box {
	bb := box{c[0].x, c[0].y, c[0].x, c[0].y}
	for _, v := range c[1:] {
		bb.l, bb.r = lesser(bb.l, v.x), larger(bb.r, v.x)
		bb.b, bb.t = lesser(bb.b, v.y), larger(bb.t, v.y)
	}
	return bb
}

// applyImpulse applies an impulse j at r from the centre of gravity.
func (b *block) applyImpulse(j, r vec) {
	b.v = b.v.add(j)
	b.w += float64(inverseMoment * r.cross(j))
}

// applyBiasImpulse is applyImpulse for the bias velocities.
func (b *block) applyBiasImpulse(j, r vec) {
	b.vBias = b.vBias.add(j)
	b.wBias += float64(inverseMoment * r.cross(j))
}

// agent is the pusher, a kinematic disc: it moves with its velocity, and impulses do not
// affect it.
type agent struct {
	p, v   vec
	radius float64
	box    box
}

// refresh updates the bounding box.
func (a *agent) refresh() {
	a.box = box{a.p.x - a.radius, a.p.y - a.radius, a.p.x + a.radius, a.p.y + a.radius}
}

const (
	wallRadius = 2 // half the thickness of a wall
	wallCount  = 4
)

// firstPart is the number of the bar. Shapes are numbered in the order in which the
// reference implementation creates them: walls, agent, bar, stem. The numbers are part of
// the names of contacts.
const firstPart = wallCount + 1

// wall is a side of the arena, a segment with round ends.
type wall struct {
	end    [2]vec
	normal vec
	box    box
}

// newWall returns the wall from a to b. The normal depends on the direction.
func newWall(a, b vec) wall {
	return wall{end: [2]vec{a, b}, normal: b.sub(a).unit().right(),
		box: box{lesser(a.x, b.x) - wallRadius, lesser(a.y, b.y) - wallRadius, larger(a.x, b.x) + wallRadius, larger(a.y, b.y) + wallRadius}}
}

var walls = [wallCount]wall{
	newWall(vec{5, 506}, vec{5, 5}), newWall(vec{5, 5}, vec{506, 5}),
	newWall(vec{506, 5}, vec{506, 506}), newWall(vec{5, 506}, vec{506, 506}),
}

// edge returns the long side of the wall that faces n.
func (s *wall) edge(id int, n vec) edge {
	first, second := name(uint64(id), 0), name(uint64(id), 1)
	if s.normal.dot(n) > 0 {
		return edge{s.end[0], s.end[1], first, second, wallRadius}
	}
	return edge{s.end[1], s.end[0], second, first, wallRadius}
}
