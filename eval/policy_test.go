package eval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/rng"
	"scalewm/envs"
	_ "scalewm/envs/pusht"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// scripted is a policy whose answers are those of a function.
type scripted struct {
	info  model.Info
	dev   device.Device
	reset func(ids []int) error
	act   func(o Observation) ([]float32, error)
}

func (p *scripted) Info() model.Info      { return p.info }
func (p *scripted) Device() device.Device { return p.dev }

func (p *scripted) Reset(ids []int) error {
	if p.reset == nil {
		return nil
	}
	return p.reset(ids)
}

func (p *scripted) Act(_ context.Context, o Observation) ([]float32, error) { return p.act(o) }

// policyJob is a job of a scripted policy on the data of d.
func policyJob(t testing.TB, d *Data, episodes int, sets ...string) (trial, *scripted) {
	t.Helper()
	engine, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 1})
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	p := &scripted{dev: engine, info: model.Info{FrameSize: dotFrame, ActionWidth: d.rules.Steps() * d.task.Spec.ActionDim, FrameSkip: d.rules.Steps()}}
	j := trial{Job{Task: d.task, Data: d, Rules: d.rules, Workers: 2, Arm: Arm{Method: "mine", Weights: "w", Python: results.PythonPolicy}}, Agent{Policy: p}}
	for _, name := range sets {
		s, err := d.Set(name, episodes)
		must(t, err)
		j.Sets = append(j.Sets, s)
	}
	return j, p
}

// collected is a data set of a task's expert, as `scalewm collect` writes it.
func collected(t *testing.T, task string, episodes int) *hdf5.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), task+".h5")
	job, err := collect.Prepare(t.Context(), path, collect.Spec{Task: task, Episodes: episodes, Seed: 1})
	must(t, err)
	_, err = job.Run(t.Context(), 2, nil)
	must(t, err)
	f, err := hdf5.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// scripts returns the recorded actions of each episode of a job's first set as z-scores,
// with zeros after the end of the recording.
func scripts(t *testing.T, j trial) [][]float32 {
	t.Helper()
	dim, m := j.Task.Spec.ActionDim, j.Data.Actions
	var out [][]float32
	for _, s := range j.Sets[0].Starts {
		z, from := make([]float32, (j.Budget+j.Horizon*j.Steps())*dim), j.Data.fileRow(s)
		a, err := j.Data.Read("action", from, min(from+j.Budget, j.Data.Episodes()[s.Trajectory].Offset+j.Data.Episodes()[s.Trajectory].Len-1))
		must(t, err)
		for i, v := range a {
			z[i] = float32((v - m.Mean[i%dim]) / m.Std[i%dim])
		}
		out = append(out, z)
	}
	return out
}

// A policy that returns the recorded actions solves what replaying them solves, at the
// same steps, one action at a time and in blocks alike. The replay here steps a world
// without the runner.
func TestRecordedActions(t *testing.T) {
	for _, name := range []string{"tworoom", "pusht"} {
		task, err := envs.Lookup(name)
		must(t, err)
		d, err := NewData(collected(t, name, 6), task, rules(results.Paper))
		must(t, err)
		j, p := policyJob(t, d, 8, "s101")
		dim, script := task.Spec.ActionDim, scripts(t, j)
		var want []results.Row
		for i, s := range j.Sets[0].Starts {
			e, err := task.New(nil)
			must(t, err)
			must(t, d.setTo(e, s, name, "s101", i))
			row := results.Row{Steps: j.Budget, PreSolved: e.Solved()}
			for k, a := range slices.Collect(slices.Chunk(unscale(d.Actions, script[i]), dim))[:j.Budget] {
				out, err := e.Step(a)
				must(t, err)
				if out.Terminated {
					row.Success, row.Steps = true, k+1
					break
				}
			}
			want = append(want, row)
		}
		if solved := len(slices.DeleteFunc(slices.Clone(want), func(r results.Row) bool { return !r.Success })); solved < 4 {
			t.Fatalf("%s: replaying the expert solves %d of %d", name, solved, len(want))
		}
		for _, c := range []struct {
			numbers, execute int
			act              string
			steps            int // env steps of a call
		}{
			{dim, 0, "", 1}, {5 * dim, 0, "", 5}, {15 * dim, 0, "", 15}, {25 * dim, 0, "", 25},
			{25 * dim, 2, "", 10}, {5 * dim, 2, "", 5}, {25 * dim, 0, results.EachStep, 1}, {dim, 1, results.EachStep, 1},
		} {
			p.act = func(o Observation) (z []float32, _ error) {
				for i, id := range o.IDs {
					z = append(z, script[id][o.Step[i]*dim:][:c.numbers]...)
				}
				return z, nil
			}
			j.Replan, j.Act = c.execute, c.act
			for i, row := range run(t, j)[0].Rows {
				if w := want[i]; row.Success != w.Success || row.Steps != w.Steps || row.PreSolved != w.PreSolved {
					t.Errorf("%s, %+v, episode %d: %+v, replayed %+v", name, c, i, row, w)
				}
				if calls := (row.Steps + c.steps - 1) / c.steps; row.Replans != calls || row.PredictorCalls != calls {
					t.Errorf("%s, %+v, episode %d: %d plans, %d calls in %d steps", name, c, i, row.Replans, row.PredictorCalls, row.Steps)
				}
			}
		}
	}
}

// As in DINO-WM's evaluation of Push-T, a goal that is found by executing the recorded actions
// is met after exactly these actions, also where success counts at the ends of plans only.
func TestReplayedGoalsAreMet(t *testing.T) {
	task, err := envs.Lookup("pusht")
	must(t, err)
	r := rules(results.Paper)
	r.GoalSource, r.Frames, r.Success = results.Replayed, results.Drawn, results.SuccessPlan
	d, err := NewData(collected(t, "pusht", 6), task, r)
	must(t, err)
	j, p := policyJob(t, d, 10, "s101")
	actRecorded(t, j, p, 25)
	for i, row := range run(t, j)[0].Rows {
		if !row.Success || row.Steps != 25 || row.Replans != 1 {
			t.Errorf("episode %d: %+v", i, row)
		}
	}
}

// A policy sees the step, the steps left, its last executed action, and a goal that is the
// same in all calls of an episode. Reset comes first.
func TestObservation(t *testing.T) {
	r := rules(results.Paper)
	r.Budget, r.ActionClip = 30, true
	d, err := NewData(recordEpisodes(t, 8), tworoom(), r)
	must(t, err)
	j, p := policyJob(t, d, 5, "s101", "s102")
	j.Batch = 4
	last, goal, noise, calls := map[int][]float32{}, map[int][]byte{}, map[uint64]int{}, map[int]int{}
	p.reset = func(ids []int) error {
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(ids, want) || len(calls) > 0 {
			t.Errorf("reset of %v after %d episodes", ids, len(calls))
		}
		return nil
	}
	p.act = func(o Observation) (z []float32, _ error) {
		if len(o.IDs) > 4 || len(o.Frames) != len(o.IDs)*p.info.FrameBytes() || o.Horizon != 5 {
			t.Fatalf("%d episodes, %d bytes of frames, horizon %d", len(o.IDs), len(o.Frames), o.Horizon)
		}
		if !slices.Equal(o.Low, []float64{-1, -1}) || !slices.Equal(o.Actions.Std, d.Actions.Std) {
			t.Errorf("bounds from %v, deviations %v", o.Low, o.Actions.Std)
		}
		for i, id := range o.IDs {
			if o.Step[i] != calls[id] || o.Left[i] != 30-calls[id] {
				t.Errorf("episode %d, call %d: step %d, %d left", id, calls[id], o.Step[i], o.Left[i])
			}
			for k := range 2 {
				want := 0.0
				if calls[id] > 0 { // the executed action is clipped to the task's bounds
					want = min(max(unscale(d.Actions, last[id])[k], -1), 1)
				}
				at := 2*i + k
				if z := float32((want - d.Actions.Mean[k]) / d.Actions.Std[k]); o.Previous[at] != want || o.PreviousZ[at] != z {
					t.Errorf("episode %d, call %d: previous action %g, z-score %g, want %g, %g", id, calls[id], o.Previous[at], o.PreviousZ[at], want, z)
				}
			}
			g := o.Goals[i*p.info.FrameBytes() : (i+1)*p.info.FrameBytes()]
			if calls[id] == 0 {
				goal[id] = slices.Clone(g)
				noise[o.Noise[i]]++
			} else if !bytes.Equal(g, goal[id]) || noise[o.Noise[i]] != 1 {
				t.Errorf("episode %d, call %d: another goal or key of noise", id, calls[id])
			}
			calls[id]++
			last[id] = []float32{float32(id) - 4, float32(calls[id] % 3)}
			z = append(z, last[id]...)
		}
		return z, nil
	}
	for s, result := range run(t, j) {
		for i, row := range result.Rows {
			if calls[5*s+i] != row.Steps {
				t.Errorf("set %d, episode %d: %d calls in %d steps", s, i, calls[5*s+i], row.Steps)
			}
		}
	}
	if len(noise) != 10 {
		t.Errorf("%d streams of noise for 10 episodes", len(noise))
	}
}

// wander makes a policy of one that keeps state by id and draws random numbers: no result
// depends on which episodes share a call.
func wander(p *scripted) {
	state := map[int]float64{}
	p.reset = func(ids []int) error {
		for _, id := range ids {
			state[id] = 0
		}
		return nil
	}
	p.act = func(o Observation) (z []float32, _ error) {
		for i, id := range o.IDs {
			frame := o.Frames[i*p.info.FrameBytes() : (i+1)*p.info.FrameBytes()]
			state[id] = .9*state[id] + rng.Normal(o.Noise[i], uint64(o.Step[i])) + float64(frame[len(frame)/2])/512
			z = append(z, float32(state[id]), float32(o.PreviousZ[2*i])/2+float32(rng.Normal(o.Noise[i], uint64(o.Step[i])+1<<32)))
		}
		return z, nil
	}
}

// Rows of a policy do not depend on the batch size, the number of workers, the order of
// the episodes in a batch, which sets share a job, or an earlier evaluation that ended
// with an error.
func TestInvarianceOfPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, err := NewData(recordEpisodes(t, 8), tworoom(), rules(results.Paper))
	must(t, err)
	j, p := policyJob(t, d, 8, "s101", "s102")
	wander(p)
	want := run(t, j)
	if slices.Equal(want[0].Rows, want[1].Rows) {
		t.Fatal("both sets have the same rows")
	}
	check := func(what string, got []results.Result) {
		t.Helper()
		for i, r := range got {
			if !same(r, want[i]) {
				t.Errorf("%s: set %d differs", what, i)
			}
		}
	}
	for _, batch := range []int{1, 3, 100} {
		for _, workers := range []int{1, 3} {
			j.Batch, j.Workers = batch, workers
			check(fmt.Sprintf("batches of %d, %d workers", batch, workers), run(t, j))
		}
	}
	j.Batch = 5
	for seed := range 3 {
		r, err := newRunner(t.Context(), j.Job, j.Agent)
		must(t, err)
		order := slices.Clone(r.episodes)
		rng.Stream("shuffle", seed).Shuffle(len(order), func(a, b int) { r.episodes[a], r.episodes[b] = r.episodes[b], r.episodes[a] })
		must(t, r.run(t.Context()))
		r.episodes = order
		var got []results.Result
		for _, o := range r.setResults() {
			got = append(got, o.Result)
		}
		r.close()
		check("shuffled episodes", got)
	}
	for i := range j.Sets {
		alone := j
		alone.Sets = j.Sets[i : i+1]
		if r := run(t, alone); !same(r[0], want[i]) {
			t.Errorf("set %d differs alone", i)
		}
	}
	act, n := p.act, 0
	p.act = func(o Observation) ([]float32, error) {
		if n++; n == 20 {
			return nil, errors.New("aborted")
		}
		return act(o)
	}
	if _, err := Run(t.Context(), j.Job, j.Agent); err == nil {
		t.Fatal("no error")
	}
	check("after an aborted evaluation", run(t, j))
}

// Results of a search in closed loop, cold and warm, do not depend on batch and workers.
func TestInvarianceInClosedLoop(t *testing.T) {
	for _, warm := range []bool{false, true} {
		j := testJob(t, "T5", 8, "s101", "s102")
		j.Replan, j.WarmStart = 1, warm
		want := run(t, j)
		for _, batch := range []int{1, 5} {
			j.Batch, j.Workers = batch, 3
			for i, r := range run(t, j) {
				if !same(r, want[i]) {
					t.Errorf("warm %v: set %d differs in batches of %d", warm, i, batch)
				}
			}
		}
	}
}

// A warm start begins the next search at the part of the last plan that was not executed,
// followed by zeros. It changes nothing if all of the plan is executed, and a proposal
// replaces it.
func TestWarmStart(t *testing.T) {
	j := testJob(t, "T5", 6, "s101")
	cold := run(t, j)[0]
	j.WarmStart = true
	if warm := run(t, j)[0]; !same(cold, warm) {
		t.Error("a warm start changes plans that are executed completely")
	}
	j.Replan = 2
	warm := run(t, j)[0]
	j.WarmStart = false
	if same(run(t, j)[0], warm) {
		t.Error("a warm start changes nothing")
	}
	j.WarmStart = true
	r, err := newRunner(t.Context(), j.Job, j.Agent)
	must(t, err)
	defer r.close()
	s := r.planner.(*search)
	must(t, r.begin(t.Context(), r.episodes))
	if z, err := s.initial(t.Context(), r.episodes); z != nil || err != nil {
		t.Errorf("the first plan begins at %v, %v", z, err)
	}
	must(t, r.plan(t.Context(), r.episodes))
	z, err := s.initial(t.Context(), r.episodes)
	must(t, err)
	for i, ep := range r.episodes {
		row := z[50*i : 50*(i+1)] // of 5 blocks of 10 numbers, 3 are left
		if len(ep.actions) != 20 || len(ep.rest) != 30 || !slices.Equal(row[:30], ep.rest) || slices.ContainsFunc(row[30:], func(v float32) bool { return v != 0 }) {
			t.Errorf("episode %d: %d actions, rest %v, initial mean %v", i, len(ep.actions), ep.rest, row)
		}
	}
	_, p := policyJob(t, j.Data, 1, "s101")
	p.act = func(o Observation) ([]float32, error) { return make([]float32, len(o.IDs)*50), nil }
	j.Proposal = p
	seeded := run(t, j)[0]
	j.WarmStart = false
	if !same(run(t, j)[0], seeded) {
		t.Error("a warm start changes what a proposal starts")
	}
}

// With SuccessPlan only the state after the last executed step of a plan counts, and with
// it random actions are tested as often as a search.
func TestSuccessAfterPlans(t *testing.T) {
	d, err := NewData(recordEpisodes(t, 8), tworoom(), rules(results.Paper))
	must(t, err)
	j, p := policyJob(t, d, 12, "s101")
	script := scripts(t, j)
	blocks := 1
	p.act = func(o Observation) (z []float32, _ error) {
		for i, id := range o.IDs {
			z = append(z, script[id][o.Step[i]*2:][:10*blocks]...)
		}
		return z, nil
	}
	any := run(t, j)[0].Rows
	j.Success = results.SuccessPlan
	for _, blocks = range []int{1, 5} {
		for i, row := range run(t, j)[0].Rows {
			// The expert stays near its target once it is there.
			if per := 5 * blocks; row.Success && (row.Steps%per != 0 || !any[i].Success || row.Steps-any[i].Steps >= per) || blocks == 1 && row.Success != any[i].Success {
				t.Errorf("%d blocks, episode %d: %+v, tested after each step %+v", blocks, i, row, any[i])
			}
		}
	}
	j.Arm, j.Replan = Arm{Method: "random"}, 1
	solved := 0
	for i, row := range run(t, j)[0].Rows {
		if row.Success {
			if solved++; row.Steps%5 != 0 {
				t.Errorf("random actions, episode %d: success at step %d", i, row.Steps)
			}
		}
	}
	often := j.Spec(0)
	j.Replan = 0
	if rare := j.Spec(0); rare.Rules == often.Rules {
		t.Error("cells of random actions do not say how often they are tested")
	}
	if solved == 0 {
		t.Error("random actions never succeed")
	}
}

// Answers of a wrong size and errors of a policy end the evaluation with one error.
func TestAnswersOfPolicies(t *testing.T) {
	d, err := NewData(recordEpisodes(t, 8), tworoom(), rules(results.Paper))
	must(t, err)
	j, p := policyJob(t, d, 3, "s101")
	for want, act := range map[string]func() ([]float32, error){
		"answered 12 numbers for 3 episodes (hint: return 3 x 2 for one action each, or 3 x (k*10) for k blocks, k from 1 to 5)": func() ([]float32, error) { return make([]float32, 12), nil },
		"answered 0 numbers":   func() ([]float32, error) { return nil, nil },
		"answered 180 numbers": func() ([]float32, error) { return make([]float32, 180), nil }, // six blocks
		"answered 7 numbers":   func() ([]float32, error) { return make([]float32, 7), nil },
		"has NaN at 1 (hint":   func() ([]float32, error) { return []float32{0, 0, 0, float32(math.NaN()), 0, 0}, nil },
		"its own error":        func() ([]float32, error) { return nil, errors.New("its own error") },
	} {
		p.act = func(Observation) ([]float32, error) { return act() }
		if _, err := Run(t.Context(), j.Job, j.Agent); err == nil || !strings.HasPrefix(err.Error(), "evaluating mine on tworoom: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	p.reset = func([]int) error { return errors.New("no such id") }
	if _, err := Run(t.Context(), j.Job, j.Agent); err == nil || !strings.Contains(err.Error(), "resetting a policy: no such id") {
		t.Errorf("reset: %v", err)
	}
	search := testJob(t, "T5", 2, "s101")
	_, q := policyJob(t, search.Data, 1, "s101")
	q.act = func(o Observation) ([]float32, error) { return make([]float32, 2*len(o.IDs)), nil }
	search.Proposal = q
	if _, err := Run(t.Context(), search.Job, search.Agent); err == nil || !strings.Contains(err.Error(), "answered 2 numbers for each of 2 episodes (hint: a search needs plans of 5 blocks, 2 x 50)") {
		t.Errorf("a proposal of one action: %v", err)
	}
}

// A policy that fails in one set leaves the cells of the others, and the next evaluation
// computes the rest: killing and resuming changes nothing.
func TestFinishedCellsOfPolicies(t *testing.T) {
	d, err := NewData(recordEpisodes(t, 8), tworoom(), rules(results.Paper))
	must(t, err)
	j, p := policyJob(t, d, 4, "s101", "s102")
	wander(p)
	whole, _, err := j.cells(t.Context(), cell.Store{Dir: t.TempDir()})
	must(t, err)
	store := cell.Store{Dir: t.TempDir()}
	second := map[uint64]bool{rng.Key("policy", "s102", 0): true}
	act := p.act
	p.act = func(o Observation) ([]float32, error) {
		if slices.ContainsFunc(o.Noise, func(key uint64) bool { return second[key] }) {
			return nil, errors.New("broken")
		}
		return act(o)
	}
	cells, failed, err := j.cells(t.Context(), store)
	must(t, err)
	if len(cells) != 1 || len(failed) != 1 || failed[0].Set != "s102" {
		t.Fatalf("%d cells, failed %v", len(cells), failed)
	}
	p.act = act
	cells, failed, err = j.cells(t.Context(), store)
	must(t, err)
	for i := range whole {
		if len(failed) > 0 || !same(cells[i].Result, whole[i].Result) {
			t.Errorf("cell %d differs, %v", i, failed)
		}
	}
}

// Frames that are drawn and goals that are replayed are those of the recording, if that
// was made by the same simulator.
func TestDrawnAndReplayed(t *testing.T) {
	src := recordEpisodes(t, 8)
	evaluate := func(change func(r *results.Rules), spoil func()) []results.Row {
		j := testJob(t, "T5", 6, "s101")
		change(&j.Rules)
		d, err := NewData(src, tworoom(), j.Rules)
		must(t, err)
		spoil()
		j.Data = d
		return run(t, j)[0].Rows
	}
	stored := evaluate(func(*results.Rules) {}, func() {})
	drawn := func(r *results.Rules) { r.Frames = results.Drawn }
	if got := evaluate(drawn, func() {}); !slices.Equal(got, stored) {
		t.Errorf("drawn frames: %+v, stored %+v", got, stored)
	}
	if got := evaluate(drawn, func() { src.tint = 40 }); !slices.Equal(got, stored) {
		t.Error("drawn frames depend on the stored ones")
	}
	if got := evaluate(func(*results.Rules) {}, func() {}); slices.Equal(got, stored) {
		t.Error("stored frames do not matter")
	}
	src.tint = 0
	both := func(r *results.Rules) { r.Frames, r.GoalSource = results.Drawn, results.Replayed }
	if got := evaluate(both, func() {}); !slices.Equal(got, stored) {
		t.Errorf("replayed goals: %+v, stored %+v", got, stored)
	}
	r := rules(results.Paper)
	r.GoalSource = results.Replayed
	d, err := NewData(src, tworoom(), r)
	must(t, err)
	s := Start{}
	want := slices.Clone(src.state[2*r.GoalOffset:][:2])
	src.state[2*r.GoalOffset] += 9 // what the recording says of the goal does not count
	e, err := tworoom().New(nil)
	must(t, err)
	_, goal, err := d.prepare(e, s, "test")
	must(t, err)
	at, target := make([]float64, 2), make([]float64, 2)
	must(t, e.Observe("state", at))
	must(t, e.Observe("goal_state", target))
	if !slices.Equal(goal["state"], want) || !slices.Equal(target, want) || !slices.Equal(at, src.state[:2]) {
		t.Errorf("at %v with the goal %v (row %v), want %v and %v", at, target, goal, src.state[:2], want)
	}
}

// Starts at rest have the recorded state without its velocities; goals keep theirs.
func TestRestStart(t *testing.T) {
	src := collected(t, "pusht", 2)
	task, err := envs.Lookup("pusht")
	must(t, err)
	r := rules(results.Paper)
	states := map[string]envs.Row{}
	for _, r.State = range []string{"", results.RestStart} {
		d, err := NewData(src, task, r)
		must(t, err)
		e, err := task.New(nil)
		must(t, err)
		start, goal, err := d.prepare(e, Start{Trajectory: 1, Row: 20}, "test")
		must(t, err)
		states[r.State] = envs.Row{"start": start["state"], "goal": goal["state"]}
	}
	moving, still := states[""], states[results.RestStart]
	want := slices.Concat(moving["start"][:5], []float64{0, 0})
	if slices.Equal(moving["start"], want) || !slices.Equal(still["start"], want) || !slices.Equal(still["goal"], moving["goal"]) {
		t.Errorf("rows %v and at rest %v", moving, still)
	}
	unknown := *task.Spec
	unknown.Velocities = nil
	if err := rest(&unknown, envs.Row{}); err == nil || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("unknown velocities: %v", err)
	}
}

// Blocks of other lengths: a policy of one env step per block, and plans of 3 blocks of 2.
func TestBlocks(t *testing.T) {
	for _, c := range []struct{ block, horizon, numbers, steps int }{{1, 5, 2, 1}, {1, 5, 10, 5}, {2, 3, 12, 6}, {2, 3, 2, 1}, {2, 3, 4, 2}} {
		r := rules(results.Paper)
		r.Block, r.Horizon, r.Budget = c.block, c.horizon, 12
		d, err := NewData(recordEpisodes(t, 4), tworoom(), r)
		must(t, err)
		j, p := policyJob(t, d, 3, "s101")
		p.act = func(o Observation) ([]float32, error) { return make([]float32, len(o.IDs)*c.numbers), nil }
		for _, row := range run(t, j)[0].Rows {
			if want := (row.Steps + c.steps - 1) / c.steps; row.Replans != want {
				t.Errorf("%+v: %d plans in %d steps, want %d", c, row.Replans, row.Steps, want)
			}
		}
		p.info.FrameSkip = 5
		if _, err := Run(t.Context(), j.Job, j.Agent); err == nil || !strings.Contains(err.Error(), "plan.block = 5") {
			t.Errorf("a checkpoint of frame skip 5: %v", err)
		}
	}
}

// BenchmarkActing measures the decisions of a policy that costs nothing: each one is a
// step, a drawing and a call.
func BenchmarkActing(b *testing.B) {
	d, err := NewData(recordEpisodes(b, 8), tworoom(), rules(results.Paper))
	must(b, err)
	j, p := policyJob(b, d, 50, "s101")
	p.act = func(o Observation) ([]float32, error) { return make([]float32, 2*len(o.IDs)), nil }
	decisions := 0
	for b.Loop() {
		out, err := Run(b.Context(), j.Job, j.Agent)
		must(b, err)
		for _, row := range out[0].Result.Rows {
			decisions += row.Replans
		}
	}
	b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
}
