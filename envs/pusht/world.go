package pusht

// The solver's constants (docs/sources.md#push-t-world). biasCoefficient is 1 - bias^dt.
const (
	dt              = 0.01
	sweeps          = 10
	slop            = 0.10000000149011612
	biasCoefficient = 0.061259621561307376
	persistence     = 3 // steps for which contacts are remembered
)

// phase says how long a pair has touched.
type phase uint8

const (
	apart   phase = iota // or never met
	first                // since this step
	lasting              // in the step before too
	cached               // not in this step, but remembered
)

// arbiter is a pair that touches or did so lately.
type arbiter struct {
	touch
	phase phase
	stamp uint32 // of the step in which it last touched
}

// world is the whole physics. Room apart, it holds no pointers: a copy is a snapshot.
type world struct {
	agent   agent
	block   block
	tree    tree
	arbiter [pairs]arbiter
	active  [pairs]uint8 // the arbiters that touch, in the order in which they are solved
	count   int
	stamp   uint32
	points  int    // contacts counted since someone set it to 0
	room    *hulls // working room, not state
}

// pose is where both bodies are.
type pose struct {
	agent, block vec
	angle        float64
}

// reset makes a new world with both bodies at rest; the agent keeps its size.
func (w *world) reset(at pose) {
	*w = world{room: w.room, tree: newTree(), agent: agent{radius: w.agent.radius}}
	w.agent.p = at.agent
	w.block.turn(at.angle)
	w.block.move(at.block)
	w.refresh()
	w.tree.insert(agentLeaf, &w.agent.box, vec{})
	w.tree.insert(barLeaf, &w.block.box[0], vec{})
	w.tree.insert(stemLeaf, &w.block.box[1], vec{})
}

// set is the original's set-state: agent first, then the block's angle, then
// its place, then one step, in which the agent moves by its velocity and the
// block by what velocity and bias velocity are left from before.
func (w *world) set(at pose, velocity vec) {
	w.agent.v, w.agent.p = velocity, at.agent
	w.block.turn(at.angle)
	w.block.move(at.block)
	w.step()
}

func (w *world) refresh() {
	w.agent.refresh()
	w.block.refresh()
}

// step advances by dt.
func (w *world) step() {
	w.stamp++
	for _, k := range w.active[:w.count] {
		w.arbiter[k].phase = lasting
	}
	w.count = 0
	w.agent.p = w.agent.p.add(w.agent.v.mul(dt))
	w.block.integrate(dt)
	w.refresh()
	w.find()
	w.forget()
	// Damping is 0: nothing is left of the block's velocity.
	w.block.v, w.block.w = vec{}, 0
	w.solve()
	for _, k := range w.active[:w.count] {
		w.points += w.arbiter[k].count
	}
}

// find collides all pairs.
func (w *world) find() {
	w.tree.update(barLeaf, &w.block.box[0], w.block.v)
	w.tree.update(stemLeaf, &w.block.box[1], w.block.v)
	w.tree.update(agentLeaf, &w.agent.box, w.agent.v)
	w.tree.mark(w.tree.root, w.collide)
	w.tree.stamp++
}

// collide finds the contacts of a pair.
func (w *world) collide(pair int, edge uint32) uint32 {
	part, partner := pair/partners, pair%partners
	other := &w.agent.box
	if partner != withAgent {
		other = &walls[partner].box
	}
	if !other.meets(&w.block.box[part]) {
		return edge
	}
	var t touch
	if partner == withAgent {
		edge = w.touchAgent(part, edge, &t)
	} else {
		edge = w.touchWall(partner, part, edge, &t)
	}
	if t.count > 0 {
		w.keep(pair, &t)
	}
	return edge
}

// keep makes a pair's contacts the present ones; contacts of the same name
// inherit their impulse.
func (w *world) keep(pair int, t *touch) {
	a := &w.arbiter[pair]
	var from vec
	if pair%partners == withAgent {
		from = w.agent.p
	}
	for i := range t.at[:t.count] {
		c := &t.at[i]
		c.r1, c.r2 = c.r1.sub(from), c.r2.sub(w.block.p)
		for j := range a.at[:a.count] {
			if a.at[j].name == c.name {
				c.pushed = a.at[j].pushed
			}
		}
	}
	a.touch = *t
	if a.phase != lasting {
		a.phase = first
	}
	a.stamp = w.stamp
	w.active[w.count] = uint8(pair)
	w.count++
}

// forget ages the pairs that did not touch.
func (w *world) forget() {
	for i := range w.arbiter {
		a := &w.arbiter[i]
		if a.phase == apart || a.stamp == w.stamp {
			continue
		}
		a.phase = cached
		if w.stamp-a.stamp >= persistence {
			a.phase, a.count = apart, 0
		}
	}
}

// target is where an action sends the agent. The product is a float32 one for
// float32 actions; an action that float32 cannot hold was recorded as float64.
func (w *world) target(action []float64, wide bool) vec {
	reach := func(a float64) float64 {
		if wide || a != float64(float32(a)) {
			return float64(a * actionScale)
		}
		return float64(float32(a) * actionScale)
	}
	return vec{w.agent.p.x + reach(action[0]), w.agent.p.y + reach(action[1])}
}

// follow lets the agent's velocity follow a proportional-derivative law for one
// env step, in float64.
func (w *world) follow(target vec) {
	a := &w.agent
	for range substeps {
		pull := target.sub(a.p).mul(stiffness).add(vec{}.sub(a.v).mul(damping))
		a.v = a.v.add(pull.mul(dt))
		w.step()
	}
}

// follow32 is target and follow as NumPy 2 computes them for float32 actions,
// where plain numbers take the type of the float32 ones they meet.
func (w *world) follow32(action []float64) {
	a := &w.agent
	tx := float32(a.p.x) + float32(float32(action[0])*actionScale)
	ty := float32(a.p.y) + float32(float32(action[1])*actionScale)
	for range substeps {
		a.v = vec{accelerate32(tx, a.p.x, a.v.x), accelerate32(ty, a.p.y, a.v.y)}
		w.step()
	}
}

// accelerate32 is one coordinate's velocity after a sub-step's pull.
func accelerate32(target float32, p, v float64) float64 {
	pull := float32(stiffness*(target-float32(p))) + float32(damping*(0-v))
	return float64(float32(v) + float32(pull*float32(dt)))
}
