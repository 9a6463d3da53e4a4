package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// replacing returns a job whose arm replaces components of the dot world's search.
func replacing(t *testing.T, name, tier string, episodes int, sets ...string) trial {
	t.Helper()
	j := testJob(t, tier, episodes, sets...)
	m, err := model.ParseMethod(name)
	must(t, err)
	j.Arm.Method, j.Arm.Replaced = m.Name, m.Replaced
	if name == model.OracleState {
		j.Arm = Arm{Method: name, Replaced: m.Replaced}
		j.Agent = NewOracle(j.Agent.World.Device(), j.Task, j.Rules)
	}
	return j
}

// replaced lists an arm with each replacement.
var replaced = []string{model.OracleState, "oracle-latent@lewm", "oracle-probe@lewm", "probe@lewm", "whiten@lewm", "topk=2@lewm"}

// Results do not depend on workers, batches or on the sets that share a batch, in every
// solver.
func TestReplacedInvariance(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, name := range replaced {
		j := replacing(t, name, "T5", 3, "s101", "s102")
		sets := j.Sets
		for _, solver := range []string{results.CEM, results.ICEM, results.MPPI} {
			if solver != results.CEM && j.Arm.Replaced.OfLatents() {
				continue // slow, and the others show it
			}
			j.Solver, j.Temperature = solver, 1
			j.Workers, j.Batch, j.Sets = 1, 0, sets
			want := run(t, j)
			j.Workers, j.Batch = 3, 3
			for i, r := range run(t, j) {
				if !same(r, want[i]) {
					t.Errorf("%s, %s: set %s differs with other workers and batches", name, solver, j.Sets[i].Name)
				}
			}
			j.Sets, j.Batch = j.Sets[1:], 0
			if r := run(t, j); !same(r[0], want[1]) {
				t.Errorf("%s, %s: set s102 differs alone", name, solver)
			}
		}
	}
}

// recordedNoise is noise that was drawn before.
type recordedNoise struct {
	d     device.Device
	draws [][]float32 // by iteration
}

func (r recordedNoise) Normal(dst device.Mat, iteration int) { r.d.Upload(dst, r.draws[iteration]) }

// plainState is the plan.Cost of OracleState for one episode in the plainest way: a new world
// for each candidate, set to the start by its row, which repeats the executed actions first.
type plainState struct {
	t    *testing.T
	j    trial
	s    Start
	done [][]float64 // executed actions
	goal []float64   // position
	std  []float64
}

func (p plainState) world() envs.Env {
	w, err := p.j.Task.New(nil)
	must(p.t, err)
	must(p.t, p.j.Data.setTo(w, p.s, "anything: the row sets all state"))
	for _, a := range p.done {
		_, err := w.Step(a)
		must(p.t, err)
	}
	return w
}

func (p plainState) Costs(dst, candidates device.Mat) error {
	d := p.j.Agent.Model().Device()
	z := make([]float32, candidates.Len())
	d.Download(z, candidates)
	out := make([]float32, candidates.Rows)
	for i := range out {
		w := p.world()
		for _, a := range p.actions(z[i*candidates.Cols : (i+1)*candidates.Cols]) {
			_, err := w.Step(a)
			must(p.t, err)
		}
		at := make([]float64, 2)
		must(p.t, w.Observe("state", at))
		x, y := (at[0]-p.goal[0])/p.std[0], (at[1]-p.goal[1])/p.std[1]
		out[i] = float32(x*x + y*y)
		w.Close()
	}
	d.Upload(dst, out)
	return nil
}

// actions returns the env steps of a plan.
func (p plainState) actions(z []float32) (out [][]float64) {
	m := p.j.Data.Actions
	for i := 0; i < len(z); i += 2 {
		a := make([]float64, 2)
		for k := range a {
			a[k] = float64(float32(float64(float32(float64(z[i+k])*m.Std[k])) + m.Mean[k]))
		}
		out = append(out, a)
	}
	return out
}

// The evaluation of OracleState equals, bit by bit, a search with recorded noise whose
// candidates each step a new world from the start.
func TestOracleStateEqualsPlainTwin(t *testing.T) {
	j := replacing(t, model.OracleState, "T5", 5, "s101")
	j.Workers, j.Tier = 2, Tier{"", 12, 4, 3}
	got := run(t, j)[0].Rows
	d, rules := j.Agent.Model().Device(), j.Rules
	column := j.Data.Source.(*recording).state
	moments := make([]float64, 2) // deviations (divisor n-1) over all rows: under paper nothing is held out
	for k := range moments {
		var sum, squares float64
		for i := k; i < len(column); i += 2 {
			sum += column[i]
		}
		for i := k; i < len(column); i += 2 {
			squares += (column[i] - 2*sum/float64(len(column))) * (column[i] - 2*sum/float64(len(column)))
		}
		moments[k] = math.Sqrt(squares / float64(len(column)/2-1))
	}
	width := rules.Horizon * rules.Steps() * 2
	for e, s := range j.Sets[0].Starts {
		at := 2 * (j.Data.fileRow(s) + rules.GoalOffset)
		p := plainState{t: t, j: j, s: s, goal: column[at : at+2], std: moments}
		row, steps := got[e], 0
		w := p.world()
		success := false
		for replan := 0; steps < rules.Budget && !success; replan++ {
			noise := recordedNoise{d: d}
			keyed := plan.KeyedNoise{Device: d, Keys: []uint64{noiseKey(rules, "s101", row.PlannerSeed)}, Replan: replan, Iterations: 4}
			for i := range 4 {
				draw := device.NewMat(d, 12, width)
				keyed.Normal(draw, i)
				noise.draws = append(noise.draws, make([]float32, draw.Len()))
				d.Download(noise.draws[i], draw)
			}
			found, err := plan.CEM{Candidates: 12, Iterations: 4, Elites: 3, VarScale: 1}.Solve(t.Context(), d, plan.Problem{Episodes: 1, Horizon: rules.Horizon, Width: width, Cost: p, Noise: noise})
			must(t, err)
			z := make([]float32, width)
			d.Download(z, found.Actions)
			if replan == 0 && found.Cost[0] != row.PlanCost {
				t.Errorf("episode %d: the first plan costs %v, that of the twin %v", e, row.PlanCost, found.Cost[0])
			}
			for _, a := range p.actions(z) {
				out, err := w.Step(a)
				must(t, err)
				p.done = append(p.done, a)
				if steps++; out.Terminated {
					success = true
					break
				}
			}
		}
		if success != row.Success || steps != row.Steps {
			t.Errorf("episode %d: success %v after %d steps, the twin %v after %d", e, row.Success, row.Steps, success, steps)
		}
	}
	if n := (results.Result{Rows: got}).Hits(); n == 0 {
		t.Error("the search in the simulator solves nothing")
	}
}

// costsOf returns the costs that the arm's first plan gives to candidates from each start.
func costsOf(t *testing.T, j trial, z []float32) []float32 {
	t.Helper()
	r, err := newRunner(t.Context(), j.Job, j.Agent)
	must(t, err)
	defer r.close()
	must(t, r.begin(t.Context(), r.episodes))
	cost, done, err := r.planner.(*search).cost(t.Context(), r.episodes)
	must(t, err)
	defer done()
	d := j.Agent.Model().Device()
	candidates := device.NewMat(d, len(z)/(j.Horizon*10), j.Horizon*10)
	d.Upload(candidates, z)
	dst := device.NewMat(d, len(r.episodes), candidates.Rows/len(r.episodes))
	must(t, cost.Costs(dst, candidates))
	out := make([]float32, dst.Len())
	d.Download(out, dst)
	return out
}

// plans returns z-scored candidates for the job's tier.
func plans(j trial, episodes int) []float32 {
	z := make([]float32, episodes*j.Tier.Candidates*j.Horizon*10)
	for i := range z {
		z[i] = float32(math.Sin(float64(i * i)))
	}
	return z
}

// The costs of oracle-latent equal those of the latents that Unroller reaches, which sets a
// world to the start by its row.
func TestOracleLatentCosts(t *testing.T) {
	j := replacing(t, "oracle-latent@lewm", "T5", 2, "s101")
	j.Workers = 2
	z := plans(j, 2)
	got := costsOf(t, j, z)
	u, err := NewUnroller(j.Job, j.World)
	must(t, err)
	defer u.Close()
	n := j.Tier.Candidates
	for e, s := range j.Sets[0].Starts {
		out, err := u.Unroll(t.Context(), s, z[e*n*50:(e+1)*n*50])
		must(t, err)
		for c := range n {
			x, y := out.Reached[2*c]-out.Goal[0], out.Reached[2*c+1]-out.Goal[1]
			if want := x*x + y*y; math.Abs(float64(got[e*n+c]-want)) > 1e-5*float64(want) {
				t.Errorf("episode %d, candidate %d costs %g, its reached latent %g", e, c, got[e*n+c], want)
			}
		}
	}
}

// The dot world's latent is the position, which is the task state. So a probe reads the
// state, and costs in it are squared distances of positions divided by their variances;
// whitening rotates these; and two components of two keep the model's own costs.
func TestMetricsOfTheDotWorld(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	own := testJob(t, "T5", 2, "s101")
	z := plans(own, 2)
	latent := costsOf(t, own, z)
	q, err := own.Data.state()
	must(t, err)
	probe := costsOf(t, replacing(t, "probe@lewm", "T5", 2, "s101"), z)
	both := costsOf(t, replacing(t, "topk=2@lewm", "T5", 2, "s101"), z)
	one := costsOf(t, replacing(t, "topk=1@lewm", "T5", 2, "s101"), z)
	state := costsOf(t, replacing(t, model.OracleState, "T5", 2, "s101"), z)
	simulated := costsOf(t, replacing(t, "oracle-probe@lewm", "T5", 2, "s101"), z)
	less, agree := 0, 0
	for i := range latent {
		if math.Abs(float64(both[i]/latent[i]-1)) > 1e-4 {
			t.Errorf("candidate %d: two components cost %g, the latent %g", i, both[i], latent[i])
		}
		if one[i] < 0.999*latent[i] {
			less++
		}
		// Between the costs of the state along its wider and its narrower side.
		lo, hi := float64(latent[i])/max(q.moments.Std[0]*q.moments.Std[0], q.moments.Std[1]*q.moments.Std[1]), float64(latent[i])/min(q.moments.Std[0]*q.moments.Std[0], q.moments.Std[1]*q.moments.Std[1])
		if p := float64(probe[i]); p < 0.95*lo || p > 1.05*hi {
			t.Errorf("candidate %d: the probe's cost is %g, not from %g to %g", i, p, lo, hi)
		}
		if d := math.Abs(float64(simulated[i] - state[i])); d < 0.15*(1+float64(state[i])) {
			agree++
		}
	}
	// The probe of a drawn frame reads the simulator's state, except near walls, which hide a
	// part of the dot.
	if agree < 17 {
		t.Errorf("in the simulator the probe's costs are those of the state for %d of %d candidates: %v, %v", agree, len(latent), simulated, state)
	}
	if less < len(latent)/2 {
		t.Errorf("one component costs less than the latent for %d of %d candidates", less, len(latent))
	}
}

// A candidate whose simulation diverges costs infinity, and the others what they would.
func TestDivergedCandidates(t *testing.T) {
	for _, name := range []string{model.OracleState, "oracle-latent@lewm"} {
		j := replacing(t, name, "T5", 1, "s101")
		z := plans(j, 1)
		want := costsOf(t, j, z)
		steps, whole := 0, j.Task.New
		j.Task.New = func(o envs.Options) (envs.Env, error) {
			e, err := whole(o)
			return &stumbling{e, &steps}, err
		}
		for i, v := range costsOf(t, j, z) {
			if i == 1 && !math.IsInf(float64(v), 1) || i != 1 && v != want[i] {
				t.Errorf("%s: candidate %d costs %g, undisturbed %g", name, i, v, want[i])
			}
		}
	}
}

// stumbling diverges in its 30th step, which the second candidate takes.
type stumbling struct {
	envs.Env
	steps *int
}

func (s *stumbling) Step(a []float64) (envs.Step, error) {
	if *s.steps++; *s.steps == 30 {
		return envs.Step{}, fmt.Errorf("stumbling: %w", envs.ErrDiverged)
	}
	return s.Env.Step(a)
}

// forgetful restores snapshots without moving.
type forgetful struct{ envs.Env }

func (f forgetful) Restore(envs.Snapshot) error { return nil }

// Arms that cannot run are rejected before work, with a hint.
func TestReplacedRefusals(t *testing.T) {
	stateless := func(j *trial) {
		spec := *j.Task.Spec
		spec.Qs = nil
		j.Task.Spec = &spec
		d, err := NewData(j.Data.Source, j.Task, j.Rules)
		must(t, err)
		j.Data = d
	}
	short := func(j *trial) {
		src := *j.Data.Source.(*recording)
		src.episodes = src.episodes[:1]
		n := src.episodes[0].Len
		src.state, src.action = src.state[:2*n], src.action[:2*n]
		d, err := NewData(&src, j.Task, j.Rules)
		must(t, err)
		j.Data = d
	}
	for _, c := range []struct {
		name, want string
		change     func(j *trial)
	}{
		{model.OracleState, "no task state q", stateless},
		{"probe@lewm", "no task state q", stateless},
		{"oracle-probe@lewm", "frames of training episodes", short},
		{"whiten@lewm", "frames of training episodes", short},
		{"topk=3@lewm", "the latents have 2 numbers", func(*trial) {}},
		{model.OracleState, "needs a gradient", func(j *trial) { j.Solver = results.Descent }},
		{"oracle-latent@lewm", "does not restore snapshots exactly", func(j *trial) {
			whole := j.Task.New
			j.Task.New = func(o envs.Options) (envs.Env, error) {
				e, err := whole(o)
				return forgetful{e}, err
			}
		}},
	} {
		j := replacing(t, c.name, "T5", 2, "s101")
		c.change(&j)
		if err := j.Check(j.Agent); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, not an error with %q", c.name, err, c.want)
		}
	}
}

// Replacements name cells of their own, and leave the ids of other arms as they are. What a
// search without a model does not depend on is not in its spec.
func TestReplacedSpecs(t *testing.T) {
	plain := testJob(t, "T5", 2, "s101").Spec(0)
	for _, name := range replaced {
		s := replacing(t, name, "T5", 2, "s101").Spec(0)
		if got := s.Arm().String(); got != name {
			t.Errorf("the cells of %s are named %s", name, got)
		}
		if name == model.OracleState {
			if s.Precision != "" || s.Weights != "" || s.Solver != "cem" || s.Candidates != 10 {
				t.Errorf("%+v", s)
			}
			continue
		}
		s.Wrapper = ""
		if s != plain {
			t.Errorf("%s: %+v differs from %+v by more than the wrapper", name, s, plain)
		}
	}
}

// Metrics are fitted to frames of episodes that the protocol does not hold out.
func TestTrainingRows(t *testing.T) {
	src := recordEpisodes(t, 30)
	d, err := NewData(src, tworoom(), rules(results.Strict))
	must(t, err)
	held := dataset.HeldOut(d.Fingerprint, 30)
	for _, n := range []int{50, 1 << 20} {
		rows := d.trainingRows(n)
		if !slices.IsSorted(rows) || len(slices.Compact(slices.Clone(rows))) != len(rows) || n == 50 && len(rows) != 50 {
			t.Errorf("%d rows: %v", n, rows)
		}
		for _, e := range held {
			if i, _ := slices.BinarySearch(rows, src.episodes[e].Offset); i < len(rows) && rows[i] < src.episodes[e].Offset+src.episodes[e].Len {
				t.Errorf("row %d is of episode %d, which is held out", rows[i], e)
			}
		}
	}
}
