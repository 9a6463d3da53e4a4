package eval

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
)

// The dot world's latents are positions. So the encoded last frames are as far from the
// goal's latent as the simulator is from the goal, and predictions are positions as if
// there were no walls. Positions within the dividing wall are left out: in its door the dot
// has another background, which the linear map cannot read.
func TestUnroll(t *testing.T) {
	j := testJob(t, "T5", 20, "s101")
	start := j.Sets[0].Starts[slices.IndexFunc(j.Sets[0].Starts, func(s Start) bool {
		a, err := j.Data.Read("state", j.Data.fileRow(s), j.Data.fileRow(s)+results.Published().GoalOffset+1)
		must(t, err)
		x, goal := a[0], a[2*results.Published().GoalOffset]
		return math.Abs(x-112) > 40 && math.Abs(goal-112) > 25 && a[1] > 60 && a[1] < 164
	})]
	r := rng.Stream("test candidates")
	z := make([]float32, 12*results.Published().Horizon*j.World.Info().ActionWidth)
	for i := range z {
		z[i] = float32(r.NormFloat64())
	}
	var first Unrolled
	read := 0
	for _, workers := range []int{1, 3} {
		j.Workers = workers
		u, err := NewUnroller(j.Job, j.World)
		must(t, err)
		out, err := u.Unroll(context.Background(), start, z)
		must(t, err)
		u.Close()
		if first.Goal == nil {
			first = out
		} else if !slices.Equal(first.Predicted, out.Predicted) || !slices.Equal(first.Reached, out.Reached) || !slices.Equal(first.Distance, out.Distance) {
			t.Error("the result depends on the number of workers")
		}
		for i, d := range out.Distance {
			seen := math.Hypot(float64(out.Reached[2*i]-out.Goal[0]), float64(out.Reached[2*i+1]-out.Goal[1]))
			if math.Abs(float64(out.Reached[2*i])-112) < 25 {
				continue
			}
			read++
			if math.Abs(seen-d) > 4 {
				t.Errorf("candidate %d: %v px from the goal, seen %v", i, d, seen)
			}
		}
		width := len(z) / len(out.Distance)
		place, err := j.Data.Read("state", j.Data.fileRow(start), j.Data.fileRow(start)+1)
		must(t, err)
		for i := range out.Distance {
			x, y := place[0], place[1]
			a := unscale(j.Data.Actions, z[i*width:(i+1)*width])
			for k := 0; k < len(a); k += 2 {
				x, y = x+5*a[k], y+5*a[k+1]
			}
			if math.Hypot(float64(out.Predicted[2*i])-x, float64(out.Predicted[2*i+1])-y) > 4 {
				t.Errorf("candidate %d: predicted at %v, want (%v, %v)", i, out.Predicted[2*i:2*i+2], x, y)
			}
		}
	}
	if read < 8 {
		t.Errorf("%d of 24 ends are read", read)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	u, err := NewUnroller(j.Job, j.World)
	must(t, err)
	defer u.Close()
	if _, err := u.Unroll(ctx, start, z); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
