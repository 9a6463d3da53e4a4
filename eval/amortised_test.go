package eval

import (
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// dotActor walks straight to the goal: it divides the way to it by the steps left.
type dotActor struct {
	*dotWorld
	job     Job
	encoded int // frames so far
}

func (a *dotActor) Encode(dst device.Mat, frames device.Bytes, n int) {
	a.encoded += n
	a.dotWorld.Encode(dst, frames, n)
}

func (a *dotActor) Pool(dst, latents device.Mat) { a.d.Copy(dst, latents) }

func (a *dotActor) Act(dst, z, goal, left device.Mat) {
	from, to, n := make([]float32, z.Len()), make([]float32, goal.Len()), make([]float32, left.Len())
	a.d.Download(from, z)
	a.d.Download(to, goal)
	a.d.Download(n, left)
	var out []float32
	for i := range n {
		out = append(out, a.step(from[2*i:2*i+2], to[2*i:2*i+2], n[i])...)
	}
	a.d.Upload(dst, out)
}

// step is the policy for one episode. A step moves the dot by 5 pixels at most.
func (a *dotActor) step(from, to []float32, left float32) (z []float32) {
	for d := range 2 {
		action := min(max(float64(to[d]-from[d])/5/float64(left), -1), 1)
		z = append(z, float32((action-a.job.Data.Actions.Mean[d])/a.job.Data.Actions.Std[d]))
	}
	return z
}

// actorJob is a job of the policy on the latents of the dot world.
func actorJob(t *testing.T, sets ...string) (trial, *dotActor) {
	j := testJob(t, "T5", 8, sets...)
	a := &dotActor{dotWorld: j.World.(*dotWorld), job: j.Job}
	j.Arm.Method, j.Arm.Encoder, j.Arm.Backbone = "gcidm", "lewm", "w"
	j.Agent = Agent{Policy: NewAmortised(a, false)}
	return j, a
}

// The policy acts at every env step, on one frame and the goal of its episode, with the
// steps that are left of the budget. The plain twin encodes each frame of each call by
// itself.
func TestAmortised(t *testing.T) {
	j, a := actorJob(t, "s101", "s102")
	want := run(t, j)
	decisions, solved := 0, 0
	for _, r := range append(slices.Clone(want[0].Rows), want[1].Rows...) {
		if r.Replans != r.Steps || r.PredictorCalls != r.Replans || r.PlannerSeed != 0 {
			t.Errorf("episode %d: %d calls of the policy in %d steps", r.Episode, r.Replans, r.Steps)
		}
		decisions += r.Replans
		if r.Success {
			solved++
		}
	}
	if want := decisions + 16; a.encoded != want {
		t.Errorf("%d frames were encoded for %d decisions of 16 episodes, want %d: each goal once", a.encoded, decisions, want)
	}
	if solved == 0 || solved == 16 {
		t.Errorf("%d of 16 episodes were solved: the test needs both outcomes", solved)
	}
	encoder := model.NewEncoder(a.dotWorld)
	latent := func(frame []byte) []float32 {
		z := make([]float32, 2)
		must(t, encoder.Latents(t.Context(), z, frame))
		return z
	}
	plain, twin := policyJob(t, j.Data, 8, "s101", "s102")
	twin.act = func(o Observation) (z []float32, _ error) {
		n := len(o.Frames) / len(o.IDs)
		for i := range o.IDs {
			z = append(z, a.step(latent(o.Frames[i*n:(i+1)*n]), latent(o.Goals[i*n:(i+1)*n]), float32(o.Left[i]))...)
		}
		return z, nil
	}
	for i, r := range run(t, plain) {
		if !same(r, want[i]) {
			t.Errorf("set %d differs from the plain twin's", i)
		}
	}
	for _, batch := range []int{1, 3} {
		j.Batch, j.Workers = batch, 3
		for i, r := range run(t, j) {
			if !same(r, want[i]) {
				t.Errorf("set %d differs in batches of %d", i, batch)
			}
		}
	}
	if s := j.Spec(0); s.Solver != "" || s.Arm().String() != "gcidm@lewm" || s.Targets != results.ZScored || s.Backbone != "w" {
		t.Errorf("its spec is %+v", s)
	}
}

// A proposal holds one action over each block. The plain twin rolls out one episode,
// block by block.
func TestAmortisedProposal(t *testing.T) {
	j, a := actorJob(t, "s101")
	p := NewAmortised(a, true)
	o := Observation{IDs: []int{0, 1, 2}, Left: []int{50, 50, 50}, Horizon: 5}
	r, err := newRunner(t.Context(), j.Job, j.Agent)
	must(t, err)
	defer r.close()
	must(t, r.begin(t.Context(), r.episodes))
	o.Frames, o.Goals = startFrames(r.episodes[:3]), goals(r.episodes[:3])
	plans, err := p.Act(t.Context(), o)
	must(t, err)
	encoder := model.NewEncoder(a.dotWorld)
	start, goal := make([]float32, 6), make([]float32, 6)
	must(t, encoder.Latents(t.Context(), start, o.Frames))
	must(t, encoder.Latents(t.Context(), goal, o.Goals))
	for i := range 3 {
		z, plan := start[2*i:2*i+2], []float32(nil)
		for b := range 5 {
			plan = append(plan, slices.Repeat(a.step(z, goal[2*i:2*i+2], float32(25-5*b)), 5)...)
			z, err = model.Predict(a.dotWorld, start[2*i:2*i+2], plan, b+1)
			must(t, err)
		}
		if !slices.Equal(plan, plans[50*i:50*i+50]) {
			t.Errorf("episode %d: the plan is %v, want %v", i, plans[50*i:50*i+50], plan)
		}
	}
}

// A search with a proposal is a separate arm, whose first mean is the plan of the policy.
func TestSearchFromProposal(t *testing.T) {
	j, a := actorJob(t, "s101")
	search := testJob(t, "T5", 8, "s101")
	cold := run(t, search)
	arm, err := search.Arm.Propose(j.Arm)
	must(t, err)
	search.Arm, search.Proposal = arm, NewAmortised(a, true)
	warm := run(t, search)
	cost := func(rs []results.Result) (sum float64) {
		for _, r := range rs[0].Rows {
			sum += r.PlanCost
		}
		return sum
	}
	if cost(warm) > cost(cold)/2 {
		t.Errorf("the first plans cost %g from a proposal and %g without, in a world that the policy knows", cost(warm), cost(cold))
	}
	if s := search.Spec(0); s.Arm().String() != "lewm@proposal=gcidm" || s.ProposalWeights != "w" {
		t.Errorf("its spec is %+v", s)
	}
}

// Proposals that were not trained for the checkpoint are errors before anything runs.
func TestProposalsThatDoNotFit(t *testing.T) {
	j, _ := actorJob(t, "s101")
	search := testJob(t, "T5", 8, "s101").Arm
	other := func(change func(*Arm)) Arm {
		a := j.Arm
		change(&a)
		return a
	}
	for want, c := range map[string]struct{ search, policy Arm }{
		"not a policy":                  {search, search},
		"latents of another checkpoint": {search, other(func(a *Arm) { a.Backbone = "v" })},
		"another scaling of actions":    {search, other(func(a *Arm) { a.Actions.Std = []float64{1, 2} })},
		"does not search":               {j.Arm, j.Arm},
	} {
		if _, err := c.search.Propose(c.policy); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("the error is %v, want %q with a hint", err, want)
		}
	}
}
