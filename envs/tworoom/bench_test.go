package tworoom

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// What the original reaches on one core of a server, in Python (envs-spec,
// correction 11): steps without drawing, and 224-pixel frames with a step each.
const (
	originalSteps  = 18_000
	originalFrames = 478
)

func benchmark(b *testing.B, draw bool, original float64) {
	e := newEnv(constrained)
	r := rand.New(rand.NewPCG(1, 1))
	if err := e.Reset(r); err != nil {
		b.Fatal(err)
	}
	frame := make([]byte, envs.FrameBytes)
	actions := make([][]float64, 256)
	for i := range actions {
		actions[i] = []float64{2*r.Float64() - 1, 2*r.Float64() - 1}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := e.Step(actions[i%len(actions)]); err != nil {
			b.Fatal(err)
		}
		if draw {
			if err := e.Frame(frame); err != nil {
				b.Fatal(err)
			}
		}
	}
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "per_s")
	b.ReportMetric(rate/original, "x_original")
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }
