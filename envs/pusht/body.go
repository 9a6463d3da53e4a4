package pusht

// The block, in pixels from its origin, the middle of the bar's outer edge.
const (
	centreOfGravity = 45 // below the origin, on the T's axis
	inverseMoment   = 1.0 / 3000
)

// outline is a convex part of the block in its own frame: corners and the
// normal of the edge that ends in each.
type outline struct{ corner, normal [4]vec }

func newOutline(l, top, r, bottom float64) *outline {
	o := &outline{corner: [4]vec{{l, top}, {r, top}, {r, bottom}, {l, bottom}}}
	for i, c := range o.corner {
		o.normal[i] = c.sub(o.corner[(i+3)%4]).right().unit()
	}
	return o
}

// parts are the bar and the stem of the T.
var parts = [2]*outline{newOutline(-60, 0, 60, 30), newOutline(-15, 30, 15, 120)}

// block is the T: its motion and where its parts are.
type block struct {
	p, v, vBias vec     // of the centre of gravity
	a, w, wBias float64 // angle
	rot, origin vec     // cosine and sine of the angle; where the body's origin is
	stale       bool    // corner and box are of an older pose
	corner      [2][4]vec
	box         [2]box
}

// place writes the pose from centre of gravity and angle.
func (b *block) place() {
	b.origin = vec{b.p.x + float64(centreOfGravity*b.rot.y), b.p.y - float64(centreOfGravity*b.rot.x)}
	b.stale = true
}

// turn sets the angle; the block turns about its centre of gravity.
func (b *block) turn(a float64) {
	if a != b.a || b.rot == (vec{}) {
		b.a = a
		b.rot.y, b.rot.x = sincos(a)
	}
	b.place()
}

// move puts the body's origin.
func (b *block) move(to vec) {
	b.p = vec{float64(-b.rot.y*centreOfGravity) + to.x, float64(b.rot.x*centreOfGravity) + to.y}
	b.place()
}

// integrate moves the block for dt by its velocities, the bias velocity included and used up.
func (b *block) integrate(dt float64) {
	v, w := b.v.add(b.vBias), b.w+b.wBias
	b.vBias, b.wBias = vec{}, 0
	if v == (vec{}) && w == 0 {
		return
	}
	b.p = b.p.add(v.mul(dt))
	b.turn(b.a + float64(w*dt))
}

// refresh brings corners and boxes to the present pose.
func (b *block) refresh() {
	if !b.stale {
		return
	}
	b.stale = false
	for k, part := range parts {
		for i, c := range part.corner {
			// x*cos + y*(-sin) + origin, in this order.
			b.corner[k][i] = c.rotated(b.rot).add(b.origin)
		}
		b.box[k] = bounds(&b.corner[k])
	}
}

func bounds(c *[4]vec) box {
	bb := box{c[0].x, c[0].y, c[0].x, c[0].y}
	for _, v := range c[1:] {
		bb.l, bb.r = lesser(bb.l, v.x), larger(bb.r, v.x)
		bb.b, bb.t = lesser(bb.b, v.y), larger(bb.t, v.y)
	}
	return bb
}

// push applies an impulse at r from the centre of gravity; the mass is 1.
func (b *block) push(j, r vec) {
	b.v = b.v.add(j)
	b.w += float64(inverseMoment * r.cross(j))
}

// nudge is push for the bias velocity, which undoes overlap and is not kept.
func (b *block) nudge(j, r vec) {
	b.vBias = b.vBias.add(j)
	b.wBias += float64(inverseMoment * r.cross(j))
}

// agent is the pusher, a kinematic disc: it moves with its velocity, and nothing pushes it.
type agent struct {
	p, v   vec
	radius float64
	box    box
}

func (a *agent) refresh() {
	a.box = box{a.p.x - a.radius, a.p.y - a.radius, a.p.x + a.radius, a.p.y + a.radius}
}

// wallRadius is half the thickness of a wall, and wallCount how many there are.
const (
	wallRadius = 2
	wallCount  = 4
)

// Numbers of the shapes in the order in which the original makes them: walls,
// agent, bar, stem.
const firstPart = wallCount + 1

// wall is a side of the arena.
type wall struct {
	end    [2]vec
	normal vec
	box    box
}

func newWall(a, b vec) wall {
	return wall{end: [2]vec{a, b}, normal: b.sub(a).unit().right(),
		box: box{lesser(a.x, b.x) - wallRadius, lesser(a.y, b.y) - wallRadius, larger(a.x, b.x) + wallRadius, larger(a.y, b.y) + wallRadius}}
}

var walls = [wallCount]wall{
	newWall(vec{5, 506}, vec{5, 5}), newWall(vec{5, 5}, vec{506, 5}),
	newWall(vec{506, 5}, vec{506, 506}), newWall(vec{5, 506}, vec{506, 506}),
}

// edge is the wall's side that looks along n.
func (s *wall) edge(id int, n vec) edge {
	first, second := name(uint64(id), 0), name(uint64(id), 1)
	if s.normal.dot(n) > 0 {
		return edge{s.end[0], s.end[1], first, second, wallRadius}
	}
	return edge{s.end[1], s.end[0], second, first, wallRadius}
}
