package pusht

import (
	"math"
)

func length(a vec) float64 { return math.Sqrt(a.dot(a)) }

// contact is a point where a pair touches, with the impulses that hold it.
type contact struct {
	r1, r2       vec // of the two surfaces; from the centres of gravity once it is kept
	name         uint64
	mass         float64 // effective, along the normal
	bias, nudged float64 // velocity that undoes the overlap, and the impulse for it so far
	pushed       float64 // impulse so far; kept from step to step
}

// touch is the contacts of one pair at one time.
type touch struct {
	n     vec // from the agent or wall to the block
	count int
	at    [2]contact
}

// add keeps a contact between two surface points.
func (t *touch) add(p1, p2 vec, name uint64) {
	t.at[t.count] = contact{r1: p1, r2: p2, name: name}
	t.count++
}

// touchAgent finds where the agent touches a part of the block. id is the edge that
// the pair's last search ended on; the one that this search ends on is returned.
func (w *world) touchAgent(part int, id uint32, t *touch) uint32 {
	p := pairing{feature{[]vec{w.agent.p}}, feature{w.block.corner[part][:]}}
	c := p.search(id, &w.agent.box, &w.block.box[part], w.room)
	if c.d <= w.agent.radius {
		t.n = c.n
		t.add(c.a.add(c.n.mul(w.agent.radius)), c.b, 0)
	}
	return c.id
}

// touchWall is touchAgent for a wall. An edge of the wall lies against an edge
// of the block, so there may be two contacts.
func (w *world) touchWall(wall, part int, id uint32, t *touch) uint32 {
	s := &walls[wall]
	p := pairing{feature{s.end[:]}, feature{w.block.corner[part][:]}}
	c := p.search(id, &s.box, &w.block.box[part], w.room)
	if c.d-wallRadius <= 0 {
		e1, e2 := s.edge(wall, c.n), w.block.edge(part, c.n.neg())
		t.n = c.n
		t.clip(&e1, &e2)
	}
	return c.id
}

// edge is a side of a shape that faces a contact.
type edge struct {
	a, b         vec
	nameA, nameB uint64
	r            float64
}

// naming spreads the pair (shape, corner) over names of contacts, so that those
// of one step are found again in the next.
const naming = 3344921057

func name(a, b uint64) uint64 { return a*naming ^ b*naming }

// edge is the block's side that looks along n.
func (b *block) edge(part int, n vec) edge {
	c := &b.corner[part]
	i := feature{c[:]}.support(n)
	before, after := (i+3)%4, (i+1)%4
	id := uint64(firstPart + part)
	side := func(i, j int) edge {
		return edge{c[i], c[j], name(id, uint64(i)), name(id, uint64(j)), 0}
	}
	normal := &parts[part].normal
	if n.dot(normal[i].rotated(b.rot)) > n.dot(normal[after].rotated(b.rot)) {
		return side(before, i)
	}
	return side(i, after)
}

// clip finds the contacts of two edges that face each other along t.n.
func (t *touch) clip(e1, e2 *edge) {
	n := t.n
	a1, b1, a2, b2 := e1.a.cross(n), e1.b.cross(n), e2.a.cross(n), e2.b.cross(n)
	per1, per2 := 1/(b1-a1+smallest), 1/(b2-a2+smallest)
	on := func(e *edge, s float64, r float64) vec {
		return n.mul(r).add(e.a.lerp(e.b, clamp01(s)))
	}
	p1, p2 := on(e1, float64((b2-a1)*per1), e1.r), on(e2, float64((a1-a2)*per2), -e2.r)
	if p2.sub(p1).dot(n) <= 0 {
		t.add(p1, p2, name(e1.nameA, e2.nameB))
	}
	p1, p2 = on(e1, float64((a2-a1)*per1), e1.r), on(e2, float64((b1-a2)*per2), -e2.r)
	if p2.sub(p1).dot(n) <= 0 {
		t.add(p1, p2, name(e1.nameB, e2.nameA))
	}
}

// solve finds the impulses: what is remembered of lasting contacts first, then
// sweeps over all contacts in the order in which they were found.
func (w *world) solve() {
	for _, k := range w.active[:w.count] {
		w.arbiter[k].prepare(&w.block, w.partner(k))
	}
	for _, k := range w.active[:w.count] {
		if a := &w.arbiter[k]; a.phase == lasting {
			for i := range a.at[:a.count] {
				w.block.push(a.n.mul(a.at[i].pushed), a.at[i].r2)
			}
		}
	}
	for range sweeps {
		for _, k := range w.active[:w.count] {
			w.arbiter[k].sweep(&w.block, w.partner(k))
		}
	}
}

// partner is where the first shape of a pair is and how it moves; walls belong
// to a body that rests at the origin.
func (w *world) partner(pair uint8) *agent {
	if pair%partners == withAgent {
		return &w.agent
	}
	return &resting
}

var resting agent

// prepare computes what the sweeps need. Nothing but the block can be moved, so
// effective masses are its alone.
func (a *arbiter) prepare(b *block, from *agent) {
	apart := b.p.sub(from.p)
	for i := range a.at[:a.count] {
		c := &a.at[i]
		lever := c.r2.cross(a.n)
		c.mass = 1 / (1 + float64(float64(inverseMoment*lever)*lever))
		depth := c.r2.sub(c.r1).add(apart).dot(a.n)
		c.bias = float64(-biasCoefficient*lesser(0, depth+slop)) / dt
		c.nudged = 0
	}
}

// sweep brings the relative velocities of the contacts to where they should be.
// There is no friction and no bounce.
func (a *arbiter) sweep(b *block, from *agent) {
	for i := range a.at[:a.count] {
		c := &a.at[i]
		lever := c.r2.left()
		along := b.vBias.add(lever.mul(b.wBias)).dot(a.n)
		speed := b.v.add(lever.mul(b.w)).sub(from.v).dot(a.n)

		nudged, pushed := c.nudged, c.pushed
		c.nudged = larger(nudged+float64((c.bias-along)*c.mass), 0)
		c.pushed = larger(pushed+float64(-speed*c.mass), 0)
		b.nudge(a.n.mul(c.nudged-nudged), c.r2)
		b.push(a.n.mul(c.pushed-pushed), c.r2)
	}
}
