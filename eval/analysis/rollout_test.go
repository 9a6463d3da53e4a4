package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/eval"
	"scalewm/eval/results"
)

// unrolled returns one start with latents of 3 numbers, whose physical distances are
// those of the reached latents. Predictions have noise with standard deviation wrong.
func unrolled(r *rand.Rand, n int, wrong float64) (u eval.Unrolled) {
	for range 3 {
		u.Goal = append(u.Goal, float32(r.NormFloat64()))
	}
	for range n {
		sum := 0.0
		for k := range 3 {
			v := float32(r.NormFloat64())
			u.Reached = append(u.Reached, v)
			u.Predicted = append(u.Predicted, v+float32(wrong*r.NormFloat64()))
			sum += math.Pow(float64(v-u.Goal[k]), 2)
		}
		u.Distance = append(u.Distance, math.Sqrt(sum))
	}
	return u
}

// A perfect predictor has error 0 and orders candidates as the reached frames do. If
// predictions have noise of standard deviation s, the error is 3 s^2 over the scale 2
// tr Cov = 6.
func TestRolloutOfKnownWorlds(t *testing.T) {
	for _, wrong := range []float64{0, 0.5} {
		r := rand.New(rand.NewPCG(1, 2))
		var m rolloutSums
		for i := range 40 {
			m.add(i, unrolled(r, 64, wrong))
		}
		out, err := m.result()
		if err != nil {
			t.Fatal(err)
		}
		if want := 3 * wrong * wrong / 6; math.Abs(out.RollErr-want) > 0.02 {
			t.Errorf("noise %v: error %v, want %v", wrong, out.RollErr, want)
		}
		if wrong == 0 && (out.RollErr != 0 || out.Tau != 1 || math.Abs(out.Predicted.Overlap-1) > 1e-9 || out.Predicted.Regret != 0) {
			t.Errorf("a perfect predictor: %+v", out)
		}
		if wrong > 0 && !(out.Tau > 0.3 && out.Tau < 0.9) {
			t.Errorf("tau of noisy predictions is %v", out.Tau)
		}
		if out.Encoded.Tau != 1 || out.Starts != 40 || math.Abs(out.Scale-6) > 0.5 || math.Abs(out.ScaleSample-out.Scale) > 0.2 {
			t.Errorf("%+v", out)
		}
	}
}

// A start from which nothing can be moved is dropped with a reason, but its latents
// still count for the scale.
func TestRolloutDrops(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var m rolloutSums
	dead := unrolled(r, 64, 0)
	for i := range dead.Distance {
		dead.Distance[i] = 7
	}
	m.add(0, dead)
	m.add(1, eval.Unrolled{Diverged: "NaN in qacc"})
	if _, err := m.result(); err == nil || !strings.Contains(err.Error(), "none of 2 starts") {
		t.Errorf("error %v", err)
	}
	m.add(2, unrolled(r, 64, 0))
	out, err := m.result()
	if err != nil || out.Starts != 1 || len(out.Dropped) != 2 || out.Dropped[0].Start != 0 || !strings.Contains(out.Dropped[1].Reason, "NaN in qacc") {
		t.Errorf("%+v, %v", out, err)
	}
	constant := unrolled(r, 64, 0)
	copy(constant.Predicted, slices.Repeat(constant.Predicted[:3], 64))
	m.add(3, constant)
	if out, err := m.result(); err != nil || out.Starts != 1 || !strings.Contains(out.Dropped[2].Reason, "no two candidates") {
		t.Errorf("%+v, %v", out, err)
	}
	if len(m.reached) != 3*64*3 {
		t.Errorf("%d numbers in the scale", len(m.reached))
	}
}

// The published sets have 50 starts on Push-T, 250 on Reacher and 100 elsewhere
// (docs/sources.md#rollout-quality). The strict protocol draws as many as requested.
func TestMostStarts(t *testing.T) {
	for task, most := range map[string]int{"pusht": 50, "reacher": 250, "tworoom": 100} {
		s := Published()
		s.Starts = most
		if err := s.Check(task, results.Paper); err != nil {
			t.Error(err)
		}
		s.Starts++
		if err := s.Check(task, results.Paper); err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s, %d starts: %v", task, s.Starts, err)
		}
		if err := s.Check(task, results.Strict); err != nil {
			t.Error(err)
		}
	}
}
