package reacher

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs/envtest"
)

// Rates of the reference implementation per second of one core's CPU time
// (docs/sources.md#python-rates): steps without drawing, and steps each with a 224-pixel frame.
const (
	originalSteps  = 9_520
	originalFrames = 41
)

func benchmark(b *testing.B, draw bool, original float64) {
	e := made(b)
	if draw {
		needOpenGL(b, e)
	}
	must(b, e.Reset(rand.New(rand.NewPCG(1, 1))))
	envtest.Bench{Env: e, Draw: draw, Original: original}.Run(b)
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }

// A reset of the reference implementation takes 0.91 ms, and 67 ms with a newly compiled model.
func BenchmarkReset(b *testing.B) {
	e := made(b)
	r := rand.New(rand.NewPCG(1, 1))
	before := envtest.CPUSeconds(b)
	for b.Loop() {
		must(b, e.Reset(r))
	}
	b.ReportMetric(float64(b.N)/(envtest.CPUSeconds(b)-before)*0.91e-3, "x_original")
}

// BenchmarkShareOfC compares env steps with MuJoCo's own steps for the same controls,
// interleaved in blocks of a thousand. The difference is the cost of cgo calls and of the
// goal's test.
func BenchmarkShareOfC(b *testing.B) {
	e, c := made(b), made(b)
	r := rand.New(rand.NewPCG(1, 1))
	must(b, e.Reset(r))
	must(b, c.Restore(e.Snapshot()))
	const steps = 1000
	var ours, inC float64
	action := make([]float64, 2)
	for b.Loop() {
		for i := range action {
			action[i] = -1 + 2*r.Float64()
		}
		began := envtest.CPUSeconds(b)
		for range steps {
			if _, err := e.Step(action); err != nil {
				b.Fatal(err)
			}
		}
		middle := envtest.CPUSeconds(b)
		copy(c.w.Ctrl, e.w.Ctrl)
		must(b, c.w.Data.Step(steps*substeps))
		ours, inC = ours+middle-began, inC+envtest.CPUSeconds(b)-middle
	}
	b.ReportMetric(inC/ours, "of-C-loop")
}
