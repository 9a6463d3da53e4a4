package envtest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"scalewm/envs"
)

// brokenBy is the environment variable with the fault that the child process tests.
const brokenBy = "SCALEWM_ENVTEST_FAULT"

// faults are ways to break the contract, each with the check that must detect it.
var faults = map[string]string{
	"frame keeps what was there":        "FrameWhole",
	"frame is empty":                    "FrameWhole",
	"step allocates":                    "Allocations",
	"step takes NaN":                    "BadAction",
	"refused action moves":              "BadAction",
	"reset ignores the stream":          "SameStreamSameBytes",
	"reset keeps the old world":         "SameStreamSameBytes",
	"snapshot forgets the hidden part":  "SnapshotRestore",
	"snapshot is the world itself":      "SnapshotRestore",
	"set-state is off":                  "SetState",
	"set-state forgets the hidden part": "SetState",
	"set-state takes NaN":               "BadInput",
	"goal is never solved":              "Goal",
	"terminated column lies":            "Terminated",
	"worlds share their state":          "Concurrent",
	"observation is not finite":         "Finite",
	"float32 column holds a float64":    "Finite",
	"any switch value will do":          "Options",
	"factor is never drawn":             "Options",
	"policy leaves the box":             "Policies",
	"policy makes its own noise":        "Policies",
	"column twice":                      "Spec",
	"q from a column that is not there": "Spec",
}

func init() {
	envs.Register(point("").task())
	if f := os.Getenv(brokenBy); f != "" {
		envs.Register(point(f).task())
	}
}

func TestSuitePassesASoundTask(t *testing.T) { Run(t, "point") }

// The child process of TestSuiteSeesFaults.
func TestBroken(t *testing.T) {
	if os.Getenv(brokenBy) == "" {
		t.Skip("helper process of TestSuiteSeesFaults")
	}
	Run(t, "broken")
}

func TestSuiteSeesFaults(t *testing.T) {
	for fault, part := range faults {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBroken$", "-test.v")
		cmd.Env = append(os.Environ(), brokenBy+"="+fault)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestBroken/"+part+" ") {
			t.Errorf("%s: %s did not fail (%v)\n%s", fault, part, err, out)
		}
	}
}

// point is a small task: a position on a line with hidden momentum, and a fault.
type point string

func (f point) is(fault string) bool {
	if _, ok := faults[fault]; !ok {
		panic("envtest: no fault " + fault)
	}
	return string(f) == fault
}

func (f point) task() envs.Task {
	s := &envs.Spec{Name: "point", ID: "test/Point", Title: "Point", ActionDim: 1, ActionLow: []float64{-1}, ActionHigh: []float64{1},
		ActionDType: "float32", StateColumns: []string{"state"}, GoalColumns: []string{"state"}, MaxSteps: 10,
		Columns: []envs.Column{{Name: "state", DType: "float64", Width: 2, Doc: "place, momentum"},
			{Name: "near", DType: "float32", Width: 1, Doc: "place, rounded"},
			{Name: "terminated", DType: "uint8", Width: 1, Into: true, Goal: true, Doc: "at the goal"}},
		Qs: []envs.Q{{Name: "full", Columns: []string{"state"}, Parts: []string{"place"},
			Of: func(row envs.Row, dst []float64) { dst[0] = row["state"][0] }}},
		Switches: []envs.Switch{{Name: "speed", Values: []string{"slow", "fast"}, Doc: "none"}},
		Factors:  []envs.Factor{{Name: "mass", DType: "float64", Low: 1, High: 2, Init: []float64{1}, Doc: "none"}},
		Policies: []string{"rest"}, Success: "there", Source: "this test"}
	if f != "" {
		s.Name = "broken"
	}
	if f.is("column twice") {
		s.Columns = append(s.Columns, s.Columns[0])
	}
	if f.is("q from a column that is not there") {
		s.Qs[0].Columns = []string{"colour"}
	}
	return envs.Task{Spec: s, Policy: func(name string) (envs.Policy, error) {
		if name != "rest" {
			return nil, errors.New("no policy")
		}
		return &rest{fault: f}, nil
	}, New: func(o envs.Options) (envs.Env, error) {
		if _, err := s.Resolve(o); err != nil && !f.is("any switch value will do") {
			return nil, err
		}
		v, err := s.Variation(o)
		if err != nil {
			return nil, err
		}
		w := &world{point: f, spec: s, vary: v, p: &place{mass: v.Start()[0]}}
		if f.is("worlds share their state") {
			w.p = &shared
		}
		return w, nil
	}}
}

type rest struct {
	fault point
	r     *rand.Rand
}

func (p *rest) Reset(_ envs.Env, r *rand.Rand) error {
	p.r = r
	return nil
}

func (p *rest) Act(_ envs.Env, dst []float64) error {
	dst[0] = p.r.Float64()
	if p.fault.is("policy leaves the box") {
		dst[0] += 3
	}
	if p.fault.is("policy makes its own noise") {
		dst[0] = rand.Float64()
	}
	return nil
}

// place is a world's state, including momentum.
type place struct {
	x, v, goal, mass float64
	done             bool
}

var (
	shared  place
	garbage []byte
)

type world struct {
	point
	spec *envs.Spec
	vary *envs.Variation
	p    *place
}

func (w *world) Spec() *envs.Spec { return w.spec }
func (w *world) Close() error     { return nil }
func (w *world) Solved() bool     { return w.p.x == w.p.goal && !w.is("goal is never solved") }

func (w *world) Reset(r *rand.Rand) error {
	x, goal := r.Float64(), 5+r.Float64()
	if w.is("reset ignores the stream") {
		x, goal = 1, 6
	}
	v := 0.0
	if w.is("reset keeps the old world") {
		v = w.p.v
	}
	values, err := w.vary.Draw(r, func(string, []float64) bool { return true })
	if w.is("factor is never drawn") {
		values = w.vary.Start()
	}
	*w.p = place{x: x, goal: goal, v: v, mass: values[0]}
	return err
}

func (w *world) Step(a []float64) (envs.Step, error) {
	if w.is("refused action moves") {
		w.p.x++
	}
	if err := envs.CheckAction(w.spec, a); err != nil && !(w.is("step takes NaN") && len(a) == 1) {
		return envs.Step{}, err
	}
	if w.is("step allocates") {
		garbage = make([]byte, 100)
	}
	w.p.v += 0.1 * a[0]
	w.p.x += w.p.v
	w.p.done = w.Solved()
	return envs.Step{Terminated: w.p.done}, nil
}

func (w *world) Observe(column string, dst []float64) error {
	c, ok := w.spec.Column(column)
	if !ok {
		return w.vary.Observe([]float64{w.p.mass}, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("column %s, %d numbers", column, len(dst))
	}
	switch column {
	case "state":
		dst[0], dst[1] = w.p.x, w.p.v
		if w.is("observation is not finite") {
			dst[1] = math.Inf(1)
		}
	case "near":
		dst[0] = float64(float32(w.p.x))
		if w.is("float32 column holds a float64") {
			dst[0] = w.p.x
		}
	case "terminated":
		dst[0] = 0
		if w.p.done != w.is("terminated column lies") {
			dst[0] = 1
		}
	}
	return nil
}

func (w *world) Frame(dst []byte) error {
	if len(dst) != envs.FrameBytes {
		return errors.New("no frame")
	}
	if w.is("frame keeps what was there") {
		dst = dst[1:]
	}
	clear(dst)
	if !w.is("frame is empty") {
		dst[int(math.Abs(w.p.x)*1000)%1000] = 1
	}
	return nil
}

func (w *world) SetState(row envs.Row) error {
	v, err := w.read(row, w.spec.StateColumns)
	if err != nil {
		return err
	}
	*w.p = place{x: v[0], v: v[1], goal: w.p.goal, mass: w.p.mass}
	if w.is("set-state is off") {
		w.p.x += 1e-12
	}
	if w.is("set-state forgets the hidden part") {
		w.p.v = 0
	}
	return nil
}

func (w *world) SetGoal(row envs.Row) error {
	v, err := w.read(row, w.spec.GoalColumns)
	if err == nil {
		w.p.goal = v[0]
	}
	return err
}

func (w *world) read(row envs.Row, columns []string) ([]float64, error) {
	v, _, err := row.First(columns, 2)
	if x := row[columns[0]]; err != nil && len(x) == 2 && w.is("set-state takes NaN") {
		v, err = x, nil
	}
	return v, err
}

func (w *world) Snapshot() envs.Snapshot {
	if w.is("snapshot is the world itself") {
		return w.p
	}
	return *w.p
}

func (w *world) Restore(s envs.Snapshot) error {
	switch s := s.(type) {
	case place:
		*w.p = s
	case *place:
		*w.p = *s
	default:
		return errors.New("foreign")
	}
	if w.is("snapshot forgets the hidden part") {
		w.p.v = 0
	}
	return nil
}
