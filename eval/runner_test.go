package eval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model/device"
)

func run(t *testing.T, j trial) []results.Result {
	t.Helper()
	outs, err := Run(context.Background(), j.Job, j.Agent)
	must(t, err)
	var rs []results.Result
	for _, o := range outs {
		rs = append(rs, o.Result)
	}
	return rs
}

func same(a, b results.Result) bool { return a.Device == b.Device && slices.Equal(a.Rows, b.Rows) }

// TestDotWorldReads checks that the fake's latent is the position of the dot to a pixel,
// which the tests below rely on.
func TestDotWorldReads(t *testing.T) {
	j := testJob(t, "T5", 4, "s101")
	r, err := newRunner(t.Context(), j.Job, j.Agent)
	must(t, err)
	defer r.close()
	must(t, r.begin(context.Background(), r.episodes))
	for _, ep := range r.episodes {
		at := 2 * (j.Data.fileRow(ep.start) + results.Published().GoalOffset)
		place := j.Data.Source.(*recording).state[at : at+2]
		if dx, dy := float64(ep.goal[0])-place[0], float64(ep.goal[1])-place[1]; dx*dx+dy*dy > 36 && place[0] < 80 {
			t.Errorf("goal at %.1f reads as %.1f", place, ep.goal)
		}
	}
}

// TestInvariance checks for every solver that rows do not depend on the batch size, the
// number of workers or which sets are planned together (at T1, 13 episodes fill a batch of
// 4096 candidates).
func TestInvariance(t *testing.T) {
	for _, tc := range []struct {
		solver, tier string
	}{{results.CEM, "T1"}, {results.CEM, "T5"}, {results.ICEM, "T4"}, {results.MPPI, "T4"}} {
		j := testJob(t, tc.tier, 8, "s101", "s102")
		j.Solver, j.Temperature = tc.solver, 64
		want := run(t, j)
		what := tc.solver + " " + tc.tier
		for _, batch := range []int{1, 5, 16, 100} {
			if tc.tier == "T1" && batch == 1 {
				continue // slow, and the others show it
			}
			j.Batch = batch
			for i, r := range run(t, j) {
				if !same(r, want[i]) {
					t.Errorf("%s: set %s differs in batches of %d", what, j.Sets[i].Name, batch)
				}
			}
		}
		j.Batch, j.Workers = 0, 3
		for i, r := range run(t, j) {
			if !same(r, want[i]) {
				t.Errorf("%s: set %s differs with 3 workers", what, j.Sets[i].Name)
			}
		}
		both := j.Sets
		for i := range both {
			j.Sets = both[i : i+1]
			if r := run(t, j); !same(r[0], want[i]) {
				t.Errorf("%s: set %s differs alone", what, both[i].Name)
			}
		}
		j.Sets = []Set{both[1], both[0]}
		if r := run(t, j); !same(r[1], want[0]) {
			t.Errorf("%s: set s101 differs in another order", what)
		}
	}
}

// With ActionClip executed actions are within the task's bounds; otherwise they are what
// the solver found.
func TestActionClip(t *testing.T) {
	planned := func(clip bool) (actions []float64) {
		j := testJob(t, "T5", 4, "s101")
		j.ActionClip = clip
		r, err := newRunner(t.Context(), j.Job, j.Agent)
		must(t, err)
		defer r.close()
		must(t, r.begin(t.Context(), r.episodes))
		must(t, r.plan(t.Context(), r.episodes))
		for _, ep := range r.episodes {
			actions = append(actions, ep.actions...)
		}
		return actions
	}
	free, clipped := planned(false), planned(true)
	beyond := 0
	for i, v := range free { // Two-Room's actions are within +-1
		if want := max(-1, min(v, 1)); clipped[i] != want {
			t.Fatalf("action %d: %v of %v", i, clipped[i], v)
		} else if want != v {
			beyond++
		}
	}
	if beyond == 0 {
		t.Error("no planned action was beyond the bounds")
	}
}

// TestSolversDiffer checks that each name selects another solver and that its options
// take effect.
func TestSolversDiffer(t *testing.T) {
	seen := map[float64]string{}
	for _, tc := range []struct {
		name string
		set  func(*trial)
	}{
		{"cem", func(j *trial) { j.Solver = results.CEM }},
		{"icem", func(j *trial) { j.Solver = results.ICEM }},
		{"icem within what the task can do", func(j *trial) { j.Solver, j.Clip = results.ICEM, string(plan.ClipEnv) }},
		{"icem unclipped", func(j *trial) { j.Solver, j.Clip = results.ICEM, string(plan.ClipNone) }},
		{"mppi at 0.5", func(j *trial) { j.Solver, j.Temperature = results.MPPI, 0.5 }},
		{"mppi at 512", func(j *trial) { j.Solver, j.Temperature = results.MPPI, 512 }},
	} {
		j := testJob(t, "T4", 1, "s101")
		tc.set(&j)
		cost := run(t, j)[0].Rows[0].PlanCost
		if other, ok := seen[cost]; ok {
			t.Errorf("%s plans as %s does", tc.name, other)
		}
		seen[cost] = tc.name
	}
	j := testJob(t, "T4", 1, "s101")
	j.Solver = results.Descent // this world has no gradients
	if _, err := Run(context.Background(), j.Job, j.Agent); err == nil || !strings.Contains(err.Error(), "gradients") {
		t.Errorf("gd on a world without gradients: %v", err)
	}
	j.Solver = results.MPPI
	if _, err := Run(context.Background(), j.Job, j.Agent); err == nil || !strings.Contains(err.Error(), "temperature 0") {
		t.Errorf("mppi without a temperature: %v", err)
	}
}

// TestPairing checks that arms have the same starts and planner seeds, and that a row
// holds the same values as the authors' harness writes.
func TestPairing(t *testing.T) {
	j := testJob(t, "T5", 6, "s101")
	plan, kind := run(t, j)[0], j.World.Device().Kind().String()
	j.Arm.Method = "scale"
	j.World.(*dotWorld).move.Buf = j.World.(*dotWorld).d.Alloc(100, device.Float32) // a world without dynamics
	other := run(t, j)[0]
	j.Arm = Arm{Method: "random"}
	random := run(t, j)[0]
	for i, row := range plan.Rows {
		want := results.Row{Episode: i, Trajectory: j.Sets[0].Starts[i].Trajectory, Start: j.Sets[0].Starts[i].Row}
		for _, got := range []results.Row{row, other.Rows[i], random.Rows[i]} {
			if got.Episode != want.Episode || got.Trajectory != want.Trajectory || got.Start != want.Start {
				t.Errorf("row %d is of %d at %d, want %d at %d", i, got.Trajectory, got.Start, want.Trajectory, want.Start)
			}
		}
		if seed := rng.PlannerSeed(i, "T5"); row.PlannerSeed != seed || other.Rows[i].PlannerSeed != seed || random.Rows[i].PlannerSeed != 0 {
			t.Errorf("row %d: planner seeds %d, %d, %d", i, row.PlannerSeed, other.Rows[i].PlannerSeed, random.Rows[i].PlannerSeed)
		}
		plans := 1
		if row.Steps > 25 {
			plans = 2
		}
		if row.Replans != plans || row.PredictorCalls != plans*10*3*5 {
			t.Errorf("row %d: %d steps, %d plans, %d predictor calls; want %d plans of 10 candidates x 3 iterations x 5 blocks", i, row.Steps, row.Replans, row.PredictorCalls, plans)
		}
	}
	if random.Device != "" || plan.Device != kind {
		t.Errorf("devices %q and %q", random.Device, plan.Device)
	}
	if slices.Equal(plan.Rows, other.Rows) {
		t.Error("another world made the same plans")
	}
}

// TestSkill checks that a model of the true dynamics beats random actions by far: frames,
// goals, scaling and order of the actions must all be right for that.
func TestSkill(t *testing.T) {
	j := testJob(t, "T3", 20, "s101")
	planned := run(t, j)[0].Rate()
	j.Arm = Arm{Method: "random"}
	random := run(t, j)[0].Rate()
	if planned < random+30 {
		t.Errorf("planning succeeds in %.0f %%, random actions in %.0f %%", planned, random)
	}
}

// TestEdges checks that a start on its goal succeeds at step 1, and that a goal out of
// reach uses up the budget of 50 steps in two plans.
func TestEdges(t *testing.T) {
	j := testJob(t, "T5", 1, "s101")
	src := j.Data.Source.(*recording)
	goal := src.state[2*results.Published().GoalOffset : 2*results.Published().GoalOffset+2]
	cases := []struct {
		name string
		x, y float64
		want results.Row
	}{
		{"solved before it begins", goal[0], goal[1], results.Row{Success: true, Steps: 1, Replans: 1, PreSolved: true}},
		{"out of reach", 0, 0, results.Row{Success: false, Steps: results.Published().Budget, Replans: 2}},
	}
	j.Sets = []Set{newSet("s101", []Start{{}})}
	for _, tc := range cases {
		src.state[0], src.state[1] = tc.x, tc.y
		if tc.x == 0 { // the corner that is farthest from the goal, held there by a world that sees nothing
			src.state[0], src.state[1] = far(goal[0]), far(goal[1])
			w := j.World.(*dotWorld)
			w.spoil = func(pred device.Mat) { w.d.Fill(pred, 0) }
		}
		got := run(t, j)[0].Rows[0]
		if got.Success != tc.want.Success || got.Steps != tc.want.Steps || got.Replans != tc.want.Replans || got.PreSolved != tc.want.PreSolved {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func far(v float64) float64 {
	if v > 112 {
		return 21
	}
	return 203
}

// bursting is a task whose simulation diverges when it is stepped from one position.
type bursting struct {
	envs.Env
	x      float64
	broken bool
}

func (b *bursting) SetState(row envs.Row) error {
	b.broken = row["state"][0] == b.x
	return b.Env.SetState(row)
}

func (b *bursting) Step(action []float64) (envs.Step, error) {
	if b.broken {
		return envs.Step{}, fmt.Errorf("bursting: %w: NaN in x", envs.ErrDiverged)
	}
	return b.Env.Step(action)
}

// TestDiverged checks that an episode whose simulation diverges is a failure with a reason
// in its row, and that the other episodes are unaffected.
func TestDiverged(t *testing.T) {
	j := testJob(t, "T5", 4, "s101")
	want := run(t, j)[0].Rows
	start := j.Data.Source.(*recording).state[2*j.Data.fileRow(j.Sets[0].Starts[2])]
	whole := j.Task.New
	j.Task.New = func(o envs.Options) (envs.Env, error) {
		e, err := whole(o)
		return &bursting{Env: e, x: start}, err
	}
	for i, row := range run(t, j)[0].Rows {
		if i == 2 {
			if row.Success || row.Steps != results.Published().Budget || row.Diverged != "bursting: the simulation diverged: NaN in x" {
				t.Errorf("the broken episode: %+v", row)
			}
		} else if row != want[i] {
			t.Errorf("episode %d: %+v, undisturbed %+v", i, row, want[i])
		}
	}
}

// If all costs are NaN or infinite, no cell is written, and the error names arm, solver,
// tier and set. If only some are, they are counted.
func TestCostsThatAreNotFinite(t *testing.T) {
	for _, solver := range []string{"cem", "icem", "mppi"} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), 1e30} { // whose square is +Inf in float32
			for _, c := range []struct {
				what  string
				spoil func(w *dotWorld, pred device.Mat)
				want  []int // rows of the two episodes; nil: an error
			}{
				{"all", func(w *dotWorld, pred device.Mat) { w.d.Fill(pred, bad) }, nil},
				{"the first five candidates of each episode", func(w *dotWorld, pred device.Mat) {
					for at := 0; at < pred.Rows; at += 10 {
						w.d.Fill(pred.RowRange(at, 5), bad)
					}
				}, []int{15, 15}}, // in 3 iterations
				{"the first episode", func(w *dotWorld, pred device.Mat) { w.d.Fill(pred.RowRange(0, 10), bad) }, []int{30, 0}},
			} {
				j := testJob(t, "T5", 2, "s101")
				w := j.World.(*dotWorld)
				w.spoil = func(pred device.Mat) {
					if c.what != "the first episode" || pred.Rows == 20 { // it stays the first one while both are planned
						c.spoil(w, pred)
					}
				}
				if j.Solver = solver; solver == "mppi" {
					j.Temperature = 32
				}
				dir := t.TempDir()
				cells, failed, err := j.cells(t.Context(), cell.Store{Dir: dir})
				must(t, err)
				if c.want == nil {
					want := "evaluating lewm on tworoom: planning with " + solver + " at tier T5 on set s101: no cost that the model gave is finite"
					if len(cells) != 0 || len(files(t, dir)) != 0 || len(failed) != 1 || !strings.HasPrefix(failed[0].Err.Error(), want) || !strings.Contains(failed[0].Err.Error(), "(hint: ") {
						t.Errorf("%s, %s are %g: %d cells, %v", solver, c.what, bad, len(cells), failed)
					}
					continue
				}
				if len(cells) != 1 {
					t.Fatalf("%s, %s are %g: %v", solver, c.what, bad, failed)
				}
				for i, row := range cells[0].Result.Rows {
					most := c.want[i] * row.Replans
					least := most
					if c.what == "the first episode" { // may have its second plan alone
						least = c.want[i]
					}
					if row.NaNCosts < least || row.NaNCosts > most {
						t.Errorf("%s, %s are %g: episode %d counts %d costs in %d plans, want %d to %d", solver, c.what, bad, i, row.NaNCosts, row.Replans, least, most)
					}
				}
				if err := cells[0].Check(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// A plan of a policy or a proposal that is not finite is never executed.
func TestPlansThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		for _, proposal := range []bool{false, true} {
			j := testJob(t, "T5", 2, "s101")
			p := spoiledPolicy{j.World.(*dotWorld), float32(bad)}
			if proposal {
				j.Proposal = p
			} else {
				j.World, j.Policy = nil, p
			}
			_, err := Run(t.Context(), j.Job, j.Agent)
			if want := fmt.Sprintf("evaluating lewm on tworoom: a policy's plan has %g at 3 (hint: ", bad); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// spoiledPolicy is a policy with one number in its plans that is not finite.
type spoiledPolicy struct {
	*dotWorld
	bad float32
}

func (p spoiledPolicy) Reset([]int) error { return nil }

func (p spoiledPolicy) Act(_ context.Context, o Observation) ([]float32, error) {
	z := make([]float32, len(o.IDs)*o.Horizon*p.info.ActionWidth)
	z[len(z)/2+3] = p.bad // of the second episode
	return z, nil
}

// TestRefusals checks the errors for arms, data sets and files that do not fit the job.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	good := testJob(t, "T5", 1, "s101")
	world := func(f func(w *dotWorld)) trial {
		j, w := good, *good.World.(*dotWorld)
		f(&w)
		j.World = &w
		return j
	}
	cases := []struct {
		name, want string
		err        func() error
	}{
		{"frame skip", "frame skip 4", func() error {
			j := world(func(w *dotWorld) { w.info.FrameSkip = 4 })
			_, err := Run(ctx, j.Job, j.Agent)
			return err
		}},
		{"action width", "blocks of 25 numbers", func() error {
			j := world(func(w *dotWorld) { w.info.ActionWidth = 25 })
			_, err := Run(ctx, j.Job, j.Agent)
			return err
		}},
		{"trained on the held-out episodes", "--protocol strict", func() error {
			j := good
			j.Protocol = results.Strict
			_, err := Run(ctx, j.Job, j.Agent)
			return err
		}},
		{"solver", "unknown solver", func() error {
			j := good
			j.Solver = "guess"
			_, err := Run(ctx, j.Job, j.Agent)
			return err
		}},
		{"task", "records the task \"pusht\"", func() error {
			s := recordEpisodes(t, 1)
			s.attr = map[string]string{"env": "pusht"}
			_, err := NewData(s, tworoom(), rules(results.Paper))
			return err
		}},
		{"no frames", "no pixels", func() error {
			s := recordEpisodes(t, 1)
			s.noFrames = true
			_, err := NewData(s, tworoom(), rules(results.Paper))
			return err
		}},
		{"another renderer", "render gate", func() error {
			s := recordEpisodes(t, 2)
			s.tint = 4
			d, err := NewData(s, tworoom(), rules(results.Paper))
			must(t, err)
			_, err = RenderGate(ctx, d)
			return err
		}},
	}
	for _, tc := range cases {
		if err := tc.err(); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%s: error %v; want one with %q and a hint", tc.name, err, tc.want)
		}
	}
}

// TestGate checks that the render gate finds no difference on our own recordings.
func TestGate(t *testing.T) {
	j := testJob(t, "T5", 1, "s101")
	if diff, err := RenderGate(context.Background(), j.Data); err != nil || diff != 0 {
		t.Errorf("render error %g, %v", diff, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	j := testJob(t, "T1", 2, "s101")
	if _, err := Run(ctx, j.Job, j.Agent); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// A cancellation takes effect within the execution of a plan and within the encoding of
// its frames, not only between plans.
func TestInterruptedInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	j := testJob(t, "T5", 2, "s101")
	r, err := newRunner(t.Context(), j.Job, j.Agent)
	must(t, err)
	defer r.close()
	last := 0
	r.watch = func(step int, _ envs.Env) error {
		if last = step; step == 3 {
			cancel()
		}
		return nil
	}
	if err := r.run(ctx); !errors.Is(err, context.Canceled) || last > 4 {
		t.Errorf("cancelled at step 3, went on to step %d: %v", last, err)
	}
}

// TestWatch checks that the film shows the episode as the batch ran it, and that its GIF
// has the same bytes each time.
func TestWatch(t *testing.T) {
	j := testJob(t, "T5", 4, "s101")
	want := run(t, j)[0].Rows[2]
	film, err := Watch(context.Background(), j.Job, j.Agent, 2)
	must(t, err)
	if len(film.Frames) != want.Steps+1 || film.Result.Success != want.Success || film.Result.Steps != want.Steps {
		t.Errorf("film of %d frames ends %+v, want %+v", len(film.Frames), film.Result, want)
	}
	first := make([]byte, envs.FrameBytes)
	must(t, j.Data.Frame(j.Data.fileRow(j.Sets[0].Starts[2]), first))
	if !bytes.Equal(film.Frames[0], first) {
		t.Error("the film does not begin at the start")
	}
	var gifs [2]bytes.Buffer
	for i := range gifs {
		must(t, film.encode(&gifs[i]))
	}
	if gifs[0].Len() == 0 || !bytes.Equal(gifs[0].Bytes(), gifs[1].Bytes()) {
		t.Error("the GIF is empty or differs from time to time")
	}
}

func ExampleParseTiers() {
	tiers, _ := ParseTiers("all")
	for _, t := range tiers {
		fmt.Println(t.Name, t.Candidates, t.Iterations, t.Elites)
	}
	// Output:
	// T1 300 30 30
	// T2 150 15 15
	// T3 50 10 5
	// T4 20 5 2
	// T5 10 3 2
}
