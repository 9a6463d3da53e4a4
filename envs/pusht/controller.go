package pusht

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
