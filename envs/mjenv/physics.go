package mjenv

import (
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/mujoco"
)

// Physics is what a World lives in. Its arrays are MuJoCo's own memory: what is
// written there moves the world.
type Physics struct {
	Data             *mujoco.Data
	QPos, QVel, Ctrl []float64
	// Goal is where the goal is, in the numbers of Spec.GoalColumns, and HasGoal whether
	// there is one: a reset forgets it, a set-state does not. A task may put the memory
	// of a mocap body in its place, which then shows it.
	Goal    []float64
	HasGoal bool
	// Kept are the numbers that a snapshot must hold besides MuJoCo's state: what the
	// World remembers, and arrays that MuJoCo would not compute again alike.
	Kept [][]float64

	arrays   map[string][]float64
	computed map[string]func(dst []float64)
	seen     []float64 // the positions for which MuJoCo has computed the places of things
	vary     *envs.Variation
	stage    *stage
}

// Show lets a column report an array. Set-state and restart write to it, where it is
// one of the columns that they read.
func (p *Physics) Show(column string, array []float64) { p.arrays[column] = array }

// Compute lets a column report what a function writes.
func (p *Physics) Compute(column string, f func(dst []float64)) { p.computed[column] = f }

// Forward computes all that follows from positions, velocities and controls.
func (p *Physics) Forward() error {
	copy(p.seen, p.QPos)
	return p.Data.Forward()
}

// Advance makes n physics steps as dm_control does, each the second half of MuJoCo's
// step and the first half of the next: things are seen where the positions have them.
func (p *Physics) Advance(n int) error {
	for range n {
		if err := p.Data.Step2(); err != nil {
			return err
		}
		if err := p.Data.Step1(); err != nil {
			return err
		}
	}
	copy(p.seen, p.QPos)
	return nil
}

// AdvanceUnseen makes n physics steps as MuJoCo itself does: things are seen where
// they were before the last one.
func (p *Physics) AdvanceUnseen(n int) error {
	if err := p.Data.Step(n - 1); err != nil {
		return err
	}
	copy(p.seen, p.QPos)
	return p.Data.Step(1)
}

// Draw is the value of a factor that every reset draws (Factor.Sampled): drawn from
// r, unless an option fixes it.
func (p *Physics) Draw(r *rand.Rand, factor string, dst []float64) {
	if p.vary.Fixed(factor) {
		copy(dst, p.Of(factor))
		return
	}
	f, _ := p.stage.task.Spec.Factor(factor)
	f.Draw(r, dst)
}

// Of is the present value of a factor.
func (p *Physics) Of(factor string) Numbers { return p.vary.Of(p.stage.values, factor) }
