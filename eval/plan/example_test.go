package plan_test

import (
	"context"
	"fmt"

	"scalewm/dataset/rng"
	"scalewm/eval/plan"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// valley is a cost with its minimum where every number is 0.5.
type valley struct{ dev device.Device }

// Costs computes the costs of the candidates of all episodes, one per row.
func (v valley) Costs(dst, candidates device.Mat) error {
	plans, costs := make([]float64, candidates.Len()), make([]float64, dst.Len())
	v.dev.Download64(plans, candidates)
	for i, x := range plans {
		costs[i/candidates.Cols] += (x - .5) * (x - .5)
	}
	v.dev.Upload64(dst, costs)
	return nil
}

// The cross-entropy method plans two blocks of one action for one episode.
func ExampleCEM() {
	dev := ref.New()
	found, err := plan.CEM{Candidates: 64, Iterations: 10, Elites: 8}.Solve(context.Background(), dev, plan.Problem{
		Episodes: 1, Horizon: 2, Width: 2,
		Cost:  valley{dev},
		Noise: plan.KeyedNoise{Device: dev, Keys: []uint64{rng.Key("example")}, Iterations: 10},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Free(found.Actions.Buf)
	actions := make([]float64, 2)
	dev.Download64(actions, found.Actions)
	fmt.Printf("%.2f %.2f\n", actions[0], actions[1])
	// Output: 0.50 0.50
}
