package reacher

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs/envtest"
)

// What the original reaches in a second of one core's time (envs-spec, correction
// 17): steps without drawing, and steps each with a 224-pixel frame.
const (
	originalSteps  = 9_520
	originalFrames = 41
)

func benchmark(b *testing.B, draw bool, original float64) {
	e := world(b)
	if draw {
		needOpenGL(b, e)
	}
	must(b, e.Reset(rand.New(rand.NewPCG(1, 1))))
	envtest.Bench{Env: e, Draw: draw, Original: original}.Run(b)
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }

// A reset of the original takes 0.91 ms, and 67 ms where it compiles the model again.
func BenchmarkReset(b *testing.B) {
	e := world(b)
	r := rand.New(rand.NewPCG(1, 1))
	before := envtest.CPUSeconds(b)
	for b.Loop() {
		must(b, e.Reset(r))
	}
	b.ReportMetric(float64(b.N)/(envtest.CPUSeconds(b)-before)*0.91e-3, "x_original")
}
