package mujoco

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// Data is one simulation of a Model (mjData): state, controls and everything computed
// from them. It must be used by one goroutine at a time.
type Data struct {
	m       *Model
	h       *dataHandle
	c       *mjc.CData // nil after Close
	cleanup runtime.Cleanup
}

// dataHandle counts the references to the C data: one from the Data and one from a
// frame in progress. A renderer can outlive the Data's Close, for example when a
// driver hangs, so the renderer holds its own reference.
type dataHandle struct {
	c    *mjc.CData
	m    *modelHandle
	refs atomic.Int32
	free func() // the method value release, created once so that Share does not allocate
}

func (h *dataHandle) release() {
	if h.refs.Add(-1) == 0 {
		mjc.FreeData(h.c)
		h.m.release()
	}
}

// NewData returns a new simulation in the model's initial state. The caller must
// Close it. It keeps the C model alive, so the Model may be closed first.
func (m *Model) NewData() (*Data, error) {
	if m.c == nil {
		return nil, ErrClosed
	}
	c, err := mjc.NewData(m.c)
	if err != nil {
		return nil, &FatalError{"creating data", err.Error()}
	}
	h := &dataHandle{c: c, m: m.h.retain()}
	h.refs.Store(1)
	h.free = h.release
	d := &Data{m: m, h: h, c: c}
	d.cleanup = runtime.AddCleanup(d, (*dataHandle).release, h)
	return d, nil
}

// Model returns the model that d simulates.
func (d *Data) Model() *Model { return d.m }

// Share returns the C data for package render and keeps it alive until release is
// called. It does not allocate.
func (d *Data) Share() (c *mjc.CData, release func(), err error) {
	if d.c == nil {
		return nil, nil, ErrClosed
	}
	d.h.refs.Add(1)
	return d.c, d.h.free, nil
}

// Close frees the data. Slices of its arrays must not be used afterwards. Calling Close
// again does nothing.
func (d *Data) Close() {
	if d.c != nil {
		d.c = nil
		d.cleanup.Stop()
		d.h.release()
	}
}

// base returns the address of the C struct mjData.
func (d *Data) base() unsafe.Pointer { return mjc.Base(d.open()) }

// open returns the C data. It panics after Close, because a use after Close through a
// method that returns no error is a bug of the caller.
func (d *Data) open() *mjc.CData {
	if d.c == nil {
		panic("mujoco: use of a closed Data")
	}
	return d.c
}

// run executes one operation n times. The loop runs in C, so that n steps cost one cgo
// call. KeepAlive prevents the cleanup from freeing the C data during the call.
func (d *Data) run(name string, op mjc.Op, n int) error {
	if d.c == nil {
		return ErrClosed
	}
	err := outcome(name, d.c, mjc.Run(d.c, op, n))
	runtime.KeepAlive(d)
	return err
}

// Step advances the simulation by n time steps of the model's timestep. It returns a
// *PhysicsError, a *FatalError, ErrUnusable or ErrClosed. It does not allocate unless
// it fails.
func (d *Data) Step(n int) error { return d.run("step", mjc.Step, n) }

// Step1 does the first half of a step, up to the point where MuJoCo reads the controls.
func (d *Data) Step1() error { return d.run("first half step", mjc.Step1, 1) }

// Step2 does the second half of a step. It always uses the Euler or implicit
// integrators: MuJoCo does not split RK4, so such models must use Step.
func (d *Data) Step2() error { return d.run("second half step", mjc.Step2, 1) }

// Forward computes everything that depends on state and controls, without advancing
// the time.
func (d *Data) Forward() error { return d.run("forward dynamics", mjc.Forward, 1) }

// Kinematics computes the global positions and orientations of bodies, geoms and sites.
func (d *Data) Kinematics() error { return d.run("kinematics", mjc.Kinematics, 1) }

// ComPos maps inertias and motion axes to the centre-of-mass frame. Jacobians need
// Kinematics and then ComPos.
func (d *Data) ComPos() error { return d.run("centres of mass", mjc.ComPos, 1) }

// FwdPosition does the part of Forward that depends on positions only.
func (d *Data) FwdPosition() error { return d.run("position stage", mjc.FwdPosition, 1) }

// RNEPostConstraint computes the arrays cacc, cfrc_int and cfrc_ext from the results of
// the last step, which does not compute them itself.
func (d *Data) RNEPostConstraint() error {
	return d.run("forces after constraints", mjc.RNEPostConstraint, 1)
}

// Reset restores the initial state. It also makes the data usable after a fatal error.
func (d *Data) Reset() error { return d.run("reset", mjc.Reset, 1) }

// Time returns the simulated time in seconds.
func (d *Data) Time() float64 { return *mjc.Time(d.open()) }

// SetTime sets the simulated time in seconds.
func (d *Data) SetTime(t float64) { *mjc.Time(d.open()) = t }

// StateSpec is a bit set of components of the state (mjtState). Combine them with |. A
// state vector contains its components in the order of their bits.
type StateSpec int

// The components, and MuJoCo's combinations of them.
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
	// StateIntegration determines all further steps bit for bit. It includes the solver's
	// warm start, since the solver stops before convergence and its result depends on it.
	StateIntegration = StateFullPhysics | StateUser | StateWarmstart
)

// StateSize returns the number of values in a state vector with the given components.
func (m *Model) StateSize(spec StateSpec) (int, error) {
	if m.c == nil {
		return 0, ErrClosed
	}
	n := mjc.StateSize(m.c, int(spec))
	runtime.KeepAlive(m)
	if n < 0 || spec == 0 {
		return 0, fmt.Errorf("mujoco: %#x is not a valid state specification", int(spec))
	}
	return n, nil
}

// State copies the components spec of the state into dst, which must have length
// StateSize(spec).
func (d *Data) State(dst []float64, spec StateSpec) error {
	if err := d.stateFits(len(dst), spec); err != nil {
		return err
	}
	err := outcome("reading the state", d.c, mjc.GetState(d.c, dst, int(spec)))
	runtime.KeepAlive(d)
	return err
}

// SetState copies src, which must have length StateSize(spec), into the state. It does
// not update what is computed from the state; call Forward for that.
func (d *Data) SetState(src []float64, spec StateSpec) error {
	if err := d.stateFits(len(src), spec); err != nil {
		return err
	}
	err := outcome("writing the state", d.c, mjc.SetState(d.c, src, int(spec)))
	runtime.KeepAlive(d)
	return err
}

// stateFits returns an error unless n is the length of a state vector of spec. The C
// functions do not check lengths, so this check is what keeps them within the slice.
func (d *Data) stateFits(n int, spec StateSpec) error {
	if d.c == nil {
		return ErrClosed
	}
	want, err := d.m.StateSize(spec)
	if err == nil && n != want {
		err = fmt.Errorf("mujoco: state has %d values, want %d", n, want)
	}
	return err
}

// JacSite fills jacp and jacr with the Jacobians of a site's position and orientation
// with respect to qvel: 3 x nv each, row-major. It needs up-to-date positions: call
// Kinematics and ComPos (or Forward) first.
func (d *Data) JacSite(site int, jacp, jacr []float64) error {
	if d.c == nil {
		return ErrClosed
	}
	if n := d.m.nsite; site < 0 || site >= n {
		return fmt.Errorf("mujoco: Jacobian of site %d: the model has %d", site, n)
	}
	if want := 3 * d.m.nv; len(jacp) != want || len(jacr) != want {
		return fmt.Errorf("mujoco: Jacobians have %d and %d values, want 3 x nv = %d", len(jacp), len(jacr), want)
	}
	err := outcome("Jacobian", d.c, mjc.JacSite(d.c, site, jacp, jacr))
	runtime.KeepAlive(d)
	return err
}
