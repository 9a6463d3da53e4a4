package pusht

import (
	"math"
)

// length returns the Euclidean norm.
func length(a vec) float64 { return math.Sqrt(a.dot(a)) }

// contact is a point at which a pair touches, with its accumulated impulses.
type contact struct {
	r1, r2            vec // points on the two surfaces; relative to the bodies once updateArbiter has run
	name              uint64
	mass              float64 // effective mass along the normal
	bias, biasImpulse float64 // target velocity that removes the overlap, and its accumulated impulse
	impulse           float64 // accumulated impulse; inherited from step to step
}

// touch is the contacts of one pair in one step (cpCollisionInfo).
type touch struct {
	n     vec // unit normal from the agent or wall to the block
	count int
	at    [2]contact
}

// add appends a contact between two surface points.
func (t *touch) add(p1, p2 vec, name uint64) {
	t.at[t.count] = contact{r1: p1, r2: p2, name: name}
	t.count++
}

// touchAgent finds the contact between the agent and a part of the block. id is the edge on
// which the pair's last search ended; it returns the one of this search.
func (w *world) touchAgent(part int, id uint32, t *touch) uint32 {
	p := supportPair{feature{[]vec{w.agent.p}}, feature{w.block.corner[part][:]}}
	c := p.search(id, &w.agent.box, &w.block.box[part], w.scratch)
	if c.d <= w.agent.radius {
		t.n = c.n
		t.add(c.a.add(c.n.mul(w.agent.radius)), c.b, 0)
	}
	return c.id
}

// touchWall finds the contacts between a wall and a part of the block. An edge of the wall
// can lie flat on an edge of the block, so there may be two.
func (w *world) touchWall(wall, part int, id uint32, t *touch) uint32 {
	s := &walls[wall]
	p := supportPair{feature{s.end[:]}, feature{w.block.corner[part][:]}}
	c := p.search(id, &s.box, &w.block.box[part], w.scratch)
	if c.d-wallRadius <= 0 {
		e1, e2 := s.edge(wall, c.n), w.block.edge(part, c.n.neg())
		t.n = c.n
		t.clip(&e1, &e2)
	}
	return c.id
}

// edge is the side of a shape that faces a contact: its ends, their names, and the radius
// by which it is thickened.
type edge struct {
	a, b         vec
	nameA, nameB uint64
	r            float64
}

// naming is Chipmunk's CP_HASH_COEF. It hashes (shape, corner) to the names by which the
// contacts of one step are identified in the next.
const naming = 3344921057

// name hashes two numbers (CP_HASH_PAIR).
func name(a, b uint64) uint64 { return a*naming ^ b*naming }

// edge returns the side of a part of the block that faces n: of the two edges at the
// extreme corner, the one whose normal is closer to n.
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

// clip finds the contacts of two edges that face each other along t.n (ContactPoints): it
// projects each end of one edge onto the other and keeps points that overlap. minNormal
// keeps the quotients finite for edges parallel to n.
func (t *touch) clip(e1, e2 *edge) {
	n := t.n
	a1, b1, a2, b2 := e1.a.cross(n), e1.b.cross(n), e2.a.cross(n), e2.b.cross(n)
	per1, per2 := 1/(b1-a1+minNormal), 1/(b2-a2+minNormal)
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

// solve computes the impulses (sequential impulses with warm start). Lasting contacts first
// apply their accumulated impulse. Then the iterations go over all contacts in the order in
// which they were found; each uses the velocities that the previous ones left, so the
// order matters.
func (w *world) solve() {
	for _, k := range w.active[:w.count] {
		w.arbiter[k].prepare(&w.block, w.partner(k))
	}
	for _, k := range w.active[:w.count] {
		if a := &w.arbiter[k]; a.phase == lasting {
			for i := range a.at[:a.count] {
				w.block.applyImpulse(a.n.mul(a.at[i].impulse), a.at[i].r2)
			}
		}
	}
	for range iterations {
		for _, k := range w.active[:w.count] {
			w.arbiter[k].sweep(&w.block, w.partner(k))
		}
	}
}

// partner returns the position and velocity of the first shape of a pair. Walls belong to a
// static body at the origin.
func (w *world) partner(pair uint8) *agent {
	if pair%partners == withAgent {
		return &w.agent
	}
	return &staticBody
}

// staticBody is the body of the walls, at rest at the origin.
var staticBody agent

// prepare computes the constants of the iterations. Only the block can move, so its mass
// and moment alone determine the effective masses. The bias velocity removes the part
// biasCoefficient of the overlap that exceeds slop.
func (a *arbiter) prepare(b *block, from *agent) {
	apart := b.p.sub(from.p)
	for i := range a.at[:a.count] {
		c := &a.at[i]
		lever := c.r2.cross(a.n)
		c.mass = 1 / (1 + float64(float64(inverseMoment*lever)*lever))
		depth := c.r2.sub(c.r1).add(apart).dot(a.n)
		c.bias = float64(-biasCoefficient*lesser(0, depth+slop)) / dt
		c.biasImpulse = 0
	}
}

// sweep does one iteration over the contacts of a pair. The accumulated impulses, not the
// increments, are clamped to be non-negative, so that later iterations can undo too large
// impulses. There is no friction and no restitution.
func (a *arbiter) sweep(b *block, from *agent) {
	for i := range a.at[:a.count] {
		c := &a.at[i]
		lever := c.r2.left()
		along := b.vBias.add(lever.mul(b.wBias)).dot(a.n)
		speed := b.v.add(lever.mul(b.w)).sub(from.v).dot(a.n)

		biasImpulse, impulse := c.biasImpulse, c.impulse
		c.biasImpulse = larger(biasImpulse+float64((c.bias-along)*c.mass), 0)
		c.impulse = larger(impulse+float64(-speed*c.mass), 0)
		b.applyBiasImpulse(a.n.mul(c.biasImpulse-biasImpulse), c.r2)
		b.applyImpulse(a.n.mul(c.impulse-impulse), c.r2)
	}
}
