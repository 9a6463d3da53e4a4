package mujoco

import (
	"fmt"
	"runtime"

	"scalewm/mujoco/internal/mjc"
)

// StateSpec chooses parts of the state; parts are joined by |. A state lists them
// in the order of their bits.
type StateSpec int

// The parts, and MuJoCo's joins of them.
const (
	StateTime StateSpec = 1 << iota
	StateQPos
	StateQVel
	StateAct
	StateHistory
	StateWarmstart
	StateCtrl
	StateQFrcApplied
	StateXFrcApplied
	StateEqActive
	StateMocapPos
	StateMocapQuat
	StateUserdata
	StatePlugin

	StatePhysics     = StateQPos | StateQVel | StateAct | StateHistory
	StateFullPhysics = StateTime | StatePhysics | StatePlugin
	StateUser        = StateCtrl | StateQFrcApplied | StateXFrcApplied | StateEqActive | StateMocapPos | StateMocapQuat | StateUserdata
	// StateIntegration decides all that follows: stepping from it repeats the same numbers.
	StateIntegration = StateFullPhysics | StateUser | StateWarmstart
)

// StateSize is the number of values of a state.
func (m *Model) StateSize(spec StateSpec) (int, error) {
	if m.c == nil {
		return 0, ErrClosed
	}
	n := mjc.StateSize(m.c, int(spec))
	runtime.KeepAlive(m)
	if n < 0 || spec == 0 {
		return 0, fmt.Errorf("mujoco: %#x is no state specification", int(spec))
	}
	return n, nil
}

// State copies the state into dst, which has StateSize values.
func (d *Data) State(dst []float64, spec StateSpec) error {
	if err := d.stateFits(len(dst), spec); err != nil {
		return err
	}
	err := outcome("reading the state", d.c, mjc.GetState(d.c, dst, int(spec)))
	runtime.KeepAlive(d)
	return err
}

// SetState copies src, which has StateSize values, into the data. What is computed
// from the state is as before: see Forward.
func (d *Data) SetState(src []float64, spec StateSpec) error {
	if err := d.stateFits(len(src), spec); err != nil {
		return err
	}
	err := outcome("writing the state", d.c, mjc.SetState(d.c, src, int(spec)))
	runtime.KeepAlive(d)
	return err
}

func (d *Data) stateFits(n int, spec StateSpec) error {
	if d.c == nil {
		return ErrClosed
	}
	want, err := d.m.StateSize(spec)
	if err == nil && n != want {
		err = fmt.Errorf("mujoco: a state of %d values where the model has %d", n, want)
	}
	return err
}
