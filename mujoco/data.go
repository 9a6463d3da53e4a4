package mujoco

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// Data is one simulation of a Model: its state, controls and everything computed
// from them. One goroutine at a time.
type Data struct {
	m       *Model
	h       *dataHandle
	c       *mjc.CData // nil after Close
	cleanup runtime.Cleanup
}

// dataHandle counts who needs the C data: the Data, and a frame that is being drawn.
type dataHandle struct {
	c    *mjc.CData
	m    *modelHandle
	refs atomic.Int32
	free func() // release, made once so that sharing allocates nothing
}

func (h *dataHandle) release() {
	if h.refs.Add(-1) == 0 {
		mjc.FreeData(h.c)
		h.m.release()
	}
}

// NewData starts a simulation in the model's initial state.
func (m *Model) NewData() (*Data, error) {
	if m.c == nil {
		return nil, ErrClosed
	}
	c, err := mjc.NewData(m.c)
	if err != nil {
		return nil, &FatalError{"making data", err.Error()}
	}
	h := &dataHandle{c: c, m: m.h.retain()}
	h.refs.Store(1)
	h.free = h.release
	d := &Data{m: m, h: h, c: c}
	d.cleanup = runtime.AddCleanup(d, (*dataHandle).release, h)
	return d, nil
}

// Model is the model that is simulated.
func (d *Data) Model() *Model { return d.m }

// Share lends the C data to package render until release is called.
func (d *Data) Share() (c *mjc.CData, release func(), err error) {
	if d.c == nil {
		return nil, nil, ErrClosed
	}
	d.h.refs.Add(1)
	return d.c, d.h.free, nil
}

// Close frees the data; its arrays must not be touched any more. More calls do nothing.
func (d *Data) Close() {
	if d.c != nil {
		d.c = nil
		d.cleanup.Stop()
		d.h.release()
	}
}

// base is the address of mjData.
func (d *Data) base() unsafe.Pointer { return mjc.Base(d.open()) }

// open is the C data of a Data in use.
func (d *Data) open() *mjc.CData {
	if d.c == nil {
		panic("mujoco: use of a closed Data")
	}
	return d.c
}

// run does one operation n times.
func (d *Data) run(name string, op mjc.Op, n int) error {
	if d.c == nil {
		return ErrClosed
	}
	err := outcome(name, d.c, mjc.Run(d.c, op, n))
	runtime.KeepAlive(d)
	return err
}

// Step advances the simulation by n time steps. Its error is a *PhysicsError, a
// *FatalError, ErrUnusable or ErrClosed; nothing is allocated where there is none.
func (d *Data) Step(n int) error { return d.run("step", mjc.Step, n) }

// Step1 is the first half of a step, up to where controls are read.
func (d *Data) Step1() error { return d.run("first half step", mjc.Step1, 1) }

// Step2 is the second half. With the RK4 integrator it is no half of a step: use Step.
func (d *Data) Step2() error { return d.run("second half step", mjc.Step2, 1) }

// Forward computes everything that follows from state and controls, without advancing.
func (d *Data) Forward() error { return d.run("forward dynamics", mjc.Forward, 1) }

// Kinematics computes where bodies, geoms and sites are.
func (d *Data) Kinematics() error { return d.run("kinematics", mjc.Kinematics, 1) }

// ComPos maps inertias and motion axes to centres of mass; Jacobians need it, after Kinematics.
func (d *Data) ComPos() error { return d.run("centres of mass", mjc.ComPos, 1) }

// FwdPosition does the part of Forward that depends on positions alone.
func (d *Data) FwdPosition() error { return d.run("position stage", mjc.FwdPosition, 1) }

// RNEPostConstraint computes CAcc, CFrcInt and CFrcExt of the last step.
func (d *Data) RNEPostConstraint() error {
	return d.run("forces after constraints", mjc.RNEPostConstraint, 1)
}

// Reset puts the data into the initial state and makes them usable after a fatal error.
func (d *Data) Reset() error { return d.run("reset", mjc.Reset, 1) }

// Time is the simulated time in seconds.
func (d *Data) Time() float64 { return *mjc.Time(d.open()) }

// SetTime sets it.
func (d *Data) SetTime(t float64) { *mjc.Time(d.open()) = t }

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

// JacSite fills the Jacobians of a site's position and orientation with respect to
// QVel, 3 x nv each, rows first. Positions must be current: Kinematics, ComPos.
func (d *Data) JacSite(site int, jacp, jacr []float64) error {
	if d.c == nil {
		return ErrClosed
	}
	if n := d.m.nsite; site < 0 || site >= n {
		return fmt.Errorf("mujoco: Jacobian of site %d: the model has %d", site, n)
	}
	if want := 3 * d.m.nv; len(jacp) != want || len(jacr) != want {
		return fmt.Errorf("mujoco: Jacobians of %d and %d values where 3 x nv is %d", len(jacp), len(jacr), want)
	}
	err := outcome("Jacobian", d.c, mjc.JacSite(d.c, site, jacp, jacr))
	runtime.KeepAlive(d)
	return err
}
