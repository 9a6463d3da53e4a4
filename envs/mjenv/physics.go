package mjenv

import (
	"math/rand/v2"

	"scalewm/envs"
	"scalewm/mujoco"
)

// Physics is the simulation of a World. Its slices are MuJoCo's own memory, so writing to
// them changes the simulation.
type Physics struct {
	Data             *mujoco.Data
	QPos, QVel, Ctrl []float64
	// Goal is the goal, as the values of Spec.GoalColumns. HasGoal says whether there is
	// one: a reset removes it, SetState does not. World.Enter may replace Goal by the
	// memory of a mocap body, which then shows the goal in the frame.
	Goal    []float64
	HasGoal bool
	// Saved lists arrays that a snapshot must contain in addition to MuJoCo's state: the
	// World's own memory, and arrays that MuJoCo would not recompute to the same bits.
	Saved [][]float64

	arrays   map[string][]float64
	computed map[string]func(dst []float64)
	kinQPos  []float64 // qpos for which MuJoCo last computed global positions (kinematics)
	vary     *envs.Variation
	stage    *stage
}

// Show makes a column report an array. If the column is a state column or hidden column,
// SetState and Restart write to the array.
func (p *Physics) Show(column string, array []float64) { p.arrays[column] = array }

// Compute makes a column report what a function writes.
func (p *Physics) Compute(column string, f func(dst []float64)) { p.computed[column] = f }

// Forward computes everything that follows from positions, velocities and controls.
func (p *Physics) Forward() error {
	copy(p.kinQPos, p.QPos)
	return p.Data.Forward()
}

// Advance makes n physics steps in the order of dm_control: the second half of one MuJoCo
// step, then the first half of the next. Afterwards, global positions and frames
// correspond to the current qpos.
func (p *Physics) Advance(n int) error {
	for range n {
		if err := p.Data.Step2(); err != nil {
			return err
		}
		if err := p.Data.Step1(); err != nil {
			return err
		}
	}
	copy(p.kinQPos, p.QPos)
	return nil
}

// AdvanceLagged makes n physics steps in MuJoCo's own order. mj_step computes global
// positions before it integrates, so afterwards they, and the frames, correspond to the
// qpos before the last of the n steps.
func (p *Physics) AdvanceLagged(n int) error {
	if err := p.Data.Step(n - 1); err != nil {
		return err
	}
	copy(p.kinQPos, p.QPos)
	return p.Data.Step(1)
}

// Draw fills dst with the value of a factor that every reset draws (Factor.Sampled): the
// value fixed by an option, otherwise a draw from r.
func (p *Physics) Draw(r *rand.Rand, factor string, dst []float64) {
	if p.vary.Fixed(factor) {
		copy(dst, p.Of(factor))
		return
	}
	f, _ := p.stage.task.Spec.Factor(factor)
	f.Draw(r, dst)
}

// Of returns the current value of a factor.
func (p *Physics) Of(factor string) Numbers { return p.vary.Of(p.stage.values, factor) }
