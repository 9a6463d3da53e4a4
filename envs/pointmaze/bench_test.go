package pointmaze

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs/envtest"
)

// Rates of the reference implementation per second of one core's CPU time, in Python
// (docs/sources.md#python-rates): steps without drawing, and 224-pixel frames with a step each.
const (
	originalSteps  = 35_000
	originalFrames = 110
)

func benchmark(b *testing.B, draw bool, original float64) {
	e := newEnv(profile21)
	if err := e.Reset(rand.New(rand.NewPCG(1, 1))); err != nil {
		b.Fatal(err)
	}
	envtest.Bench{Env: e, Draw: draw, Original: original}.Run(b)
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }
