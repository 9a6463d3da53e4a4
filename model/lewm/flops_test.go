package lewm

import (
	"math"
	"testing"
)

// The published geometry and that of 10.77 M parameters
// (docs/sources.md#parameter-counts).
var (
	published = Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 6,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
	smaller = Config{ImageSize: 64, Patch: 8, Width: 192, Layers: 4, Heads: 3, MLP: 768, Dim: 192, Projector: 2048, PredictorDepth: 4,
		PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
)

// Independent counts: 5.2 TFLOP for a published training step of 128 clips
// (docs/sources.md#training-work, which leaves out nothing), and 1.09 TFLOP for a T1
// plan of the smaller model with cached keys and values and only the last position in
// the last layer, counted by a separate C program. The queries of first positions, in
// 4 layers of the first window and 3 of each that slides, are subtracted from the
// latter.
func TestFLOP(t *testing.T) {
	linear := published
	linear.Projector = 0
	for _, c := range []struct {
		name      string
		got, want float64
		tolerance float64
	}{
		{"training step", published.StepFLOP(128, 1024), 5.2e12, 0.12},
		{"plan", 30 * smaller.PlanFLOP(300, 5), 1.09e12 - 30*300*(4+2*3)*2*192*1024, 0.03},
		{"twice the candidates", smaller.PlanFLOP(600, 5), 2 * smaller.PlanFLOP(300, 5), 0},
		{"a linear projector", published.EncodeFLOP(1) - linear.EncodeFLOP(1), 2 * (2*192*2048 - 192*192), 1e-9},
		{"twice the clips", smaller.StepFLOP(64, 1024), 2 * smaller.StepFLOP(32, 1024), 0},
	} {
		if math.Abs(c.got-c.want) > c.tolerance*c.want {
			t.Errorf("%s: %.4g FLOP, want %.4g within %.0f %%", c.name, c.got, c.want, 100*c.tolerance)
		}
	}
}

// Windows that slide cost more than those that grow, by the positions that they
// compute again.
func TestPlanFLOPByStep(t *testing.T) {
	step := func(h int) float64 { return smaller.PlanFLOP(1, h) - smaller.PlanFLOP(1, h-1) }
	if !(step(2) < step(3) && step(3) < step(4)) || step(4) != step(5) {
		t.Errorf("steps 2 to 5: %g, %g, %g, %g", step(2), step(3), step(4), step(5))
	}
}
