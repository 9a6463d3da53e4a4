package success

import (
	"errors"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/mujoco"

	_ "scalewm/envs/cube"
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
)

// Upstream agrees with each env's own rule, on random and expert trajectories with goals near
// the path, so that both outcomes are frequent.
func TestUpstreamIsTheEnvsRule(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for task := range rules {
		t.Run(task, func(t *testing.T) {
			known, err := envs.Lookup(task)
			must(t, err)
			e, err := known.New(nil)
			if errors.Is(err, mujoco.ErrNoLibrary) {
				t.Skip("mujoco: library not fetched")
			}
			must(t, err)
			defer e.Close()
			var outcomes [2]int
			for _, name := range known.Spec.Policies {
				act, err := known.Policy(name)
				must(t, err)
				for seed := range uint64(6) {
					compare(t, known.Spec, e, act, seed, &outcomes)
				}
			}
			if outcomes[0] < 20 || outcomes[1] < 20 {
				t.Errorf("%d misses and %d hits are compared", outcomes[0], outcomes[1])
			}
		})
	}
}

// compare runs an episode twice: to find a goal, the state after half of its steps, and to judge
// it with that goal.
func compare(t *testing.T, s *envs.Spec, e envs.Env, act envs.Policy, seed uint64, outcomes *[2]int) {
	t.Helper()
	const n = 40
	r := rand.New(rand.NewPCG(seed, 45))
	must(t, e.Reset(r))
	must(t, act.Reset(e, r))
	start, snapshot := observe(t, s, e), e.Snapshot()
	var actions [n][]float64
	var goal envs.Row
	for i := range actions {
		actions[i] = make([]float64, s.ActionDim)
		must(t, act.Act(e, actions[i]))
		_, err := e.Step(actions[i])
		must(t, err)
		if i == n/2 {
			goal = observe(t, s, e)
		}
	}
	must(t, e.Restore(snapshot))
	must(t, e.SetGoal(goal))
	judge, err := NewEpisode(Rule{}, s.Name, start, goal, nil)
	must(t, err)
	compareState(t, e, start, goal)
	ever := false
	for i, a := range actions {
		step, err := e.Step(a)
		must(t, err)
		now := observe(t, s, e)
		done, err := judge.Step(now)
		must(t, err)
		if ever = ever || step.Terminated; done != ever {
			t.Fatalf("seed %d, step %d: the rule says %v, the env %v", seed, i, done, ever)
		}
		if compareState(t, e, now, goal) {
			outcomes[1]++
		} else {
			outcomes[0]++
		}
	}
}

// compareState compares one state and returns whether it is solved.
func compareState(t *testing.T, e envs.Env, now, goal envs.Row) bool {
	t.Helper()
	met, err := (Rule{}).Met(e.Spec().Name, now, goal)
	must(t, err)
	if met != e.Solved() {
		t.Fatalf("the rule says %v, the env %v, for %v and goal %v", met, e.Solved(), now, goal)
	}
	return met
}

// observe returns the columns that upstream's rule reads, and those of the env's goal.
func observe(t *testing.T, s *envs.Spec, e envs.Env) envs.Row {
	t.Helper()
	row := envs.Row{}
	for _, name := range append((Rule{}).Columns(s.Name), s.GoalColumns[0]) {
		c, _ := s.Column(name)
		row[name] = make([]float64, c.Width)
		must(t, e.Observe(name, row[name]))
	}
	return row
}
