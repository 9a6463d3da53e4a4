package mujoco

import (
	"errors"
	"math"
	"strings"
	"testing"

	"scalewm/mujoco/internal/mjc"
)

func TestHalfStepsAreAStep(t *testing.T) {
	m := world(t)
	a, b := newData(t, m), newData(t, m)
	for range 50 {
		a.Ctrl()[0], b.Ctrl()[0] = 0.3, 0.3
		must(t, a.Step(1))
		must(t, b.Step1())
		must(t, b.Step2())
		sameBits(t, "positions", b.QPos(), a.QPos())
	}
	must(t, a.Step(10))
	for range 10 {
		must(t, b.Step(1))
	}
	sameBits(t, "ten steps at once", b.QPos(), a.QPos())
}

func TestStages(t *testing.T) {
	m := world(t)
	all, parts := newData(t, m), newData(t, m)
	for _, d := range []*Data{all, parts} {
		d.QPos()[0], d.QVel()[1] = 0.7, 2
	}
	must(t, all.Forward())
	must(t, parts.FwdPosition())
	sameBits(t, "places of geoms", parts.GeomXPos(), all.GeomXPos())
	again := newData(t, m)
	again.QPos()[0] = 0.7
	must(t, again.Kinematics())
	must(t, again.ComPos())
	sameBits(t, "places of bodies", again.XPos(), all.XPos())
	must(t, all.RNEPostConstraint())
	if Array[float64](all, "cacc")[2] == 0 && Array[float64](all, "cacc")[5] == 0 {
		t.Error("the world body has no acceleration, which gravity must give it")
	}
}

func TestStateRoundTrip(t *testing.T) {
	m := world(t)
	a, b := newData(t, m), newData(t, m)
	a.Ctrl()[1] = 0.5
	must(t, a.Step(60))
	n, err := m.StateSize(StateIntegration)
	must(t, err)
	s := make([]float64, n)
	must(t, a.State(s, StateIntegration))
	must(t, b.SetState(s, StateIntegration))
	for range 40 {
		must(t, a.Step(1))
		must(t, b.Step(1))
	}
	sameBits(t, "after SetState", b.QPos(), a.QPos())
	if b.Time() != a.Time() {
		t.Errorf("times %v and %v", b.Time(), a.Time())
	}
}

func TestReset(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	must(t, d.Step(5))
	must(t, d.Reset())
	sameBits(t, "positions", d.QPos(), Array[float64](m, "qpos0"))
	d.SetTime(3)
	if d.Time() != 3 {
		t.Error("the time was not set")
	}
}

func TestSizesAreChecked(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	nv := m.Size("nv")
	for name, err := range map[string]error{
		"state too short":   d.State(make([]float64, 3), StatePhysics),
		"state too long":    d.SetState(make([]float64, 300), StatePhysics),
		"no part":           d.State(nil, 0),
		"unknown part":      d.State(nil, 1<<20),
		"Jacobian too long": d.JacSite(0, make([]float64, 100), make([]float64, 3*nv)),
		"no such site":      d.JacSite(1, make([]float64, 3*nv), make([]float64, 3*nv)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDivergence(t *testing.T) {
	m := world(t)
	for name, tc := range map[string]struct {
		spoil    func(*Data)
		warning  Warning
		diverged bool
	}{
		"NaN position":  {func(d *Data) { d.QPos()[1] = math.NaN() }, WarnBadQPos, true},
		"huge velocity": {func(d *Data) { d.QVel()[0] = 1e11 }, WarnBadQVel, true},
		"NaN force":     {func(d *Data) { Array[float64](d, "qfrc_applied")[0] = math.NaN() }, WarnBadQAcc, true},
		"NaN control":   {func(d *Data) { d.Ctrl()[0] = math.NaN() }, WarnBadCtrl, false},
	} {
		d := newData(t, m)
		must(t, d.Step(10))
		before := d.Time()
		tc.spoil(d)
		err := d.Step(3)
		var p *PhysicsError
		if !errors.As(err, &p) || p.Warning != tc.warning || errors.Is(err, ErrDiverged) != tc.diverged || p.Step != 0 || p.Time != before {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tc.diverged && math.Abs(d.Time()-before-3*0.005) > 1e-12 {
			t.Errorf("%s: time %v after three steps from %v", name, d.Time(), before)
		}
		must(t, d.Reset())
		must(t, d.Step(1))
	}
}

func TestFatalErrorLeavesDataUnusable(t *testing.T) {
	m := world(t)
	d, other := newData(t, m), newData(t, m)
	err := outcome("step", d.c, mjc.Raise(d.c, "made up"))
	var f *FatalError
	if !errors.As(err, &f) || !strings.Contains(f.Text, "made up") {
		t.Fatalf("a fatal error: %v", err)
	}
	s := make([]float64, 1)
	for name, err := range map[string]error{"step": d.Step(1), "forward": d.Forward(), "state": d.State(s, StateTime)} {
		if err != ErrUnusable {
			t.Errorf("%s after it: %v", name, err)
		}
	}
	must(t, d.Reset())
	must(t, d.Step(1))
	must(t, other.Reset())
	must(t, other.Step(1))
}

// MuJoCo itself raises an error if the model's arena is too small for a step.
func TestFatalErrorOfTheEngine(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(`<mujoco><size memory="2000"/><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 .05"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>`, nil)
	must(t, err)
	defer m.Close()
	d := newData(t, m)
	err = d.Step(1)
	var f *FatalError
	var p *PhysicsError
	if !errors.As(err, &f) && !errors.As(err, &p) {
		t.Errorf("with an arena of 2000 bytes: %v", err)
	}
	t.Log(err)
}

func TestUseAfterClose(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(ball, nil)
	must(t, err)
	d, err := m.NewData()
	must(t, err)
	m.Close()
	m.Close()
	must(t, d.Step(1)) // the data keeps the C model alive
	d.Close()
	d.Close()
	if _, err := m.NewData(); err != ErrClosed {
		t.Errorf("data of a closed model: %v", err)
	}
	for name, err := range map[string]error{"step": d.Step(1), "state": d.State(nil, StateTime), "Jacobian": d.JacSite(0, nil, nil)} {
		if err != ErrClosed {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func(){"view": func() { d.QPos() }, "model view": func() { Array[float64](m, "body_mass") }, "time": func() { d.Time() }} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "mujoco: ") {
					t.Errorf("%s: no panic of this package: %q", name, s)
				}
			}()
			f()
		}()
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	n, err := m.StateSize(StateFullPhysics)
	must(t, err)
	s, jac := make([]float64, n), make([]float64, 6*m.Size("nv"))
	if a := testing.AllocsPerRun(100, func() {
		d.Ctrl()[0] = 0.1
		if d.Step(2) != nil || d.State(s, StateFullPhysics) != nil || d.JacSite(0, jac[:3*m.Size("nv")], jac[3*m.Size("nv"):]) != nil {
			t.Fatal("an error")
		}
	}); a != 0 {
		t.Errorf("%v allocations a step", a)
	}
}
