package pusht

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
