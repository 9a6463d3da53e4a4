package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"scalewm/envs"
)

// fakeSpec is a task of at most 10 steps. Some episodes end early, and its hidden
// state would leak into the next episode if it were not restored.
var fakeSpec = &envs.Spec{
	Name: "fake", ID: "test/Fake-v0", Title: "Fake", ActionDim: 2, ActionDType: "float32",
	ActionLow: []float64{-1, -1}, ActionHigh: []float64{1, 1},
	Columns: []envs.Column{
		{Name: "place", DType: "float64", Width: 2},
		{Name: "steps", DType: "int32", Width: 1},
		{Name: "hidden", DType: "int64", Width: 1},
	},
	MaxSteps: 10, Policies: []string{"walk", "broken", "wild"},
	Switches: []envs.Switch{{Name: "floor", Values: []string{"dry", "wet"}}},
}

// drawnSpec is the same task with a Drawer, which draws one frame at a time. Its
// other policies fail in worker processes.
var drawnSpec = func() *envs.Spec {
	s := *fakeSpec
	s.Name, s.Policies = "drawn", []string{"walk", "broken", "dies"}
	return &s
}()

// drawnEnv is a fakeEnv with a Drawer.
type drawnEnv struct{ fakeEnv }

func (e *drawnEnv) Spec() *envs.Spec  { return drawnSpec }
func (e *drawnEnv) OneCore() []string { return []string{"COLLECT_TEST_CORES=1"} }

// servedPolicy fails, or ends its process, in a worker process. It expects the
// environment variables that the Drawer returns.
type servedPolicy struct {
	fakePolicy
	dies bool
}

func (p *servedPolicy) Act(e envs.Env, dst []float64) error {
	if os.Getenv(ServeVariable) == "" {
		p.broken = false
	} else if p.dies && p.n == 3 {
		fmt.Fprintln(os.Stderr, "the card is on fire")
		os.Exit(7)
	} else if os.Getenv("COLLECT_TEST_CORES") != "1" {
		return fmt.Errorf("served in another environment")
	}
	return p.fakePolicy.Act(e, dst)
}

func init() {
	envs.Register(envs.Task{
		Spec: drawnSpec,
		New:  func(o envs.Options) (envs.Env, error) { return &drawnEnv{fakeEnv{wet: o["floor"] == "wet"}}, nil },
		Policy: func(name string) (envs.Policy, error) {
			return &servedPolicy{fakePolicy{broken: name == "broken"}, name == "dies"}, nil
		},
	})
	envs.Register(envs.Task{
		Spec: fakeSpec,
		New:  func(o envs.Options) (envs.Env, error) { return &fakeEnv{wet: o["floor"] == "wet"}, nil },
		Policy: func(name string) (envs.Policy, error) {
			switch name {
			case "walk", "broken", "wild":
				return &fakePolicy{broken: name == "broken", wild: name == "wild"}, nil
			}
			return nil, fmt.Errorf("no policy %q", name)
		},
	})
}

type fakeEnv struct {
	x, y   float64
	steps  int
	hidden int // counts all steps since the world was made
	wet    bool
}

func (e *fakeEnv) Spec() *envs.Spec { return fakeSpec }

func (e *fakeEnv) Reset(r *rand.Rand) error {
	e.x, e.y, e.steps = r.Float64(), r.Float64(), 0
	return nil
}

func (e *fakeEnv) Step(a []float64) (envs.Step, error) {
	if math.IsNaN(a[0]) {
		return envs.Step{}, fmt.Errorf("the action is NaN")
	}
	if a[0] > 1 {
		return envs.Step{}, fmt.Errorf("fake: %w", envs.ErrDiverged)
	}
	e.x, e.y = e.x+a[0], e.y+a[1]
	e.steps++
	e.hidden++
	return envs.Step{Reward: e.x, Terminated: e.x > 2}, nil
}

func (e *fakeEnv) Observe(column string, dst []float64) error {
	switch column {
	case "place":
		dst[0], dst[1] = e.x, e.y
	case "steps":
		dst[0] = float64(e.steps)
	case "hidden":
		dst[0] = float64(e.hidden)
	}
	return nil
}

func (e *fakeEnv) Frame(dst []byte) error {
	for i := range dst {
		dst[i] = byte(i/1000 + int(e.x*50) + e.steps)
	}
	if e.wet {
		dst[0] = 255
	}
	return nil
}

func (e *fakeEnv) SetState(envs.Row) error       { return nil }
func (e *fakeEnv) SetGoal(envs.Row) error        { return nil }
func (e *fakeEnv) Solved() bool                  { return e.x > 2 }
func (e *fakeEnv) Snapshot() envs.Snapshot       { return *e }
func (e *fakeEnv) Restore(s envs.Snapshot) error { *e = s.(fakeEnv); return nil }
func (e *fakeEnv) Close() error                  { return nil }

// fakePolicy walks at random. At the fourth step a broken one returns NaN, and a wild
// one an action that makes the world diverge.
type fakePolicy struct {
	r            *rand.Rand
	broken, wild bool
	n            int
}

func (p *fakePolicy) Reset(_ envs.Env, r *rand.Rand) error { p.r = r; return nil }

func (p *fakePolicy) Act(_ envs.Env, dst []float64) error {
	dst[0], dst[1] = p.r.Float64()*0.5-0.1, p.r.Float64()-0.5
	if p.n++; p.broken && p.n == 4 {
		dst[0] = math.NaN()
	}
	if p.wild && p.n == 4 {
		dst[0] = 9
	}
	return nil
}
