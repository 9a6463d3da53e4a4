package pusht

// The parameters of the space (docs/sources.md#push-t-world).
const (
	dt              = 0.01                 // seconds per physics step
	iterations      = 10                   // of the impulse solver
	slop            = 0.10000000149011612  // allowed overlap in pixels; 0.1 rounded to float32
	biasCoefficient = 0.061259621561307376 // 1 - collision_bias^dt: the part of an overlap removed per step
	persistence     = 3                    // steps for which contacts are cached
)

// phase is the state of a pair (cpArbiterState in Chipmunk).
type phase uint8

const (
	apart   phase = iota // does not touch, nothing cached
	first                // touches, and did not in the previous step
	lasting              // touches, and did in the previous step
	cached               // does not touch, but its contacts are cached
)

// arbiter holds the contacts of a pair that touches or did so recently.
type arbiter struct {
	touch
	phase phase
	stamp uint32 // number of the step in which it last touched
}

// world is the complete simulation. Apart from scratch it contains no pointers, so a copy is
// a snapshot.
type world struct {
	agent   agent
	block   block
	tree    tree
	arbiter [pairs]arbiter
	active  [pairs]uint8 // the pairs that touch, in the order in which they are solved
	count   int          // length of active
	stamp   uint32       // number of the step
	points  int          // contacts counted since it was last set to 0
	scratch *hulls       // working memory of expand, not state
}

// pose is the positions of both bodies and the block's angle.
type pose struct {
	agent, block vec
	angle        float64
}

// reset creates a new space with both bodies at rest. The agent keeps its radius. Shapes are
// inserted in the order of the reference implementation, which shapes the tree.
func (w *world) reset(at pose) {
	*w = world{scratch: w.scratch, tree: newTree(), agent: agent{radius: w.agent.radius}}
	w.agent.p = at.agent
	w.block.setAngle(at.angle)
	w.block.setPosition(at.block)
	w.refresh()
	w.tree.insert(agentLeaf, &w.agent.box, vec{})
	w.tree.insert(barLeaf, &w.block.box[0], vec{})
	w.tree.insert(stemLeaf, &w.block.box[1], vec{})
}

// set is the reference implementation's set-state: the agent's velocity and position, the
// block's angle and then its position (which depends on the angle, as the body's origin is
// not its centre of gravity), then one step. In that step the agent moves with its velocity
// and the block with the velocity and bias velocity that are left from before.
func (w *world) set(at pose, velocity vec) {
	w.agent.v, w.agent.p = velocity, at.agent
	w.block.setAngle(at.angle)
	w.block.setPosition(at.block)
	w.step()
}

// refresh updates the bounding boxes and corners of both bodies.
func (w *world) refresh() {
	w.agent.refresh()
	w.block.refresh()
}

// step advances by dt. The order is that of cpSpaceStep: positions, collisions, velocities,
// impulses. So positions use the velocities of the previous step.
func (w *world) step() {
	w.stamp++
	for _, k := range w.active[:w.count] {
		w.arbiter[k].phase = lasting
	}
	w.count = 0
	w.agent.p = w.agent.p.add(w.agent.v.mul(dt))
	w.block.integrate(dt)
	w.refresh()
	w.collideAll()
	w.ageArbiters()
	// With damping 0, pymunk multiplies the block's velocity by 0 before the impulses.
	w.block.v, w.block.w = vec{}, 0
	w.solve()
	for _, k := range w.active[:w.count] {
		w.points += w.arbiter[k].count
	}
}

// collideAll updates the tree and collides all pairs of shapes.
func (w *world) collideAll() {
	w.tree.update(barLeaf, &w.block.box[0], w.block.v)
	w.tree.update(stemLeaf, &w.block.box[1], w.block.v)
	w.tree.update(agentLeaf, &w.agent.box, w.agent.v)
	w.tree.collidePairs(w.tree.root, w.collide)
	w.tree.stamp++
}

// collide finds the contacts of a pair. edge is the warm start of its search for the closest
// points; collide returns the new one.
func (w *world) collide(pair int, edge uint32) uint32 {
	part, partner := pair/partners, pair%partners
	other := &w.agent.box
	if partner != withAgent {
		other = &walls[partner].box
	}
	if !other.overlaps(&w.block.box[part]) {
		return edge
	}
	var t touch
	if partner == withAgent {
		edge = w.touchAgent(part, edge, &t)
	} else {
		edge = w.touchWall(partner, part, edge, &t)
	}
	if t.count > 0 {
		w.updateArbiter(pair, &t)
	}
	return edge
}

// updateArbiter stores a pair's new contacts and makes the pair active. A contact inherits
// the accumulated impulse of the previous contact with the same name, which is the warm
// start of the solver. r1 and r2 become relative to the bodies' positions.
func (w *world) updateArbiter(pair int, t *touch) {
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
				c.impulse = a.at[j].impulse
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

// ageArbiters updates the pairs that do not touch in this step: they are cached, and dropped
// after persistence steps.
func (w *world) ageArbiters() {
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

// target returns the agent's target for an action. Recorded actions are float32, for which
// NumPy computes the product in float32. An action that float32 cannot represent must have
// been recorded as float64.
func (w *world) target(action []float64, wide bool) vec {
	reach := func(a float64) float64 {
		if wide || a != float64(float32(a)) {
			return float64(a * actionScale)
		}
		return float64(float32(a) * actionScale)
	}
	return vec{w.agent.p.x + reach(action[0]), w.agent.p.y + reach(action[1])}
}

// follow runs the agent's PD controller toward target for one env step, in float64.
func (w *world) follow(target vec) {
	a := &w.agent
	for range substeps {
		pull := target.sub(a.p).mul(stiffness).add(vec{}.sub(a.v).mul(damping))
		a.v = a.v.add(pull.mul(dt))
		w.step()
	}
}

// follow32 is target and follow as NumPy 2 computes them for float32 actions. By its type
// promotion rules (NEP 50), Python numbers take the type of a float32 operand.
func (w *world) follow32(action []float64) {
	a := &w.agent
	tx := float32(a.p.x) + float32(float32(action[0])*actionScale)
	ty := float32(a.p.y) + float32(float32(action[1])*actionScale)
	for range substeps {
		a.v = vec{accelerate32(tx, a.p.x, a.v.x), accelerate32(ty, a.p.y, a.v.y)}
		w.step()
	}
}

// accelerate32 returns one coordinate of the velocity after a sub-step of the controller.
func accelerate32(target float32, p, v float64) float64 {
	pull := float32(stiffness*(target-float32(p))) + float32(damping*(0-v))
	return float64(float32(v) + float32(pull*float32(dt)))
}
