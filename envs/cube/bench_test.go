package cube

import (
	"math/rand/v2"
	"testing"
	"time"

	"scalewm/envs/cube/oracle"
	"scalewm/envs/envtest"
)

// Rates of the reference implementation per second of one core's CPU time
// (docs/sources.md#python-rates): steps of a plan without drawing, and steps each with a 224-pixel frame.
const (
	originalSteps  = 542
	originalFrames = 4.3
	originalReset  = 0.937 // seconds, including a newly compiled model and the first frame
)

// planned returns a world that follows a plan.
func planned(b *testing.B) (e *env, act func(int) []float64) {
	e = started(b, 1)
	p, action := oracle.NewPlan(), make([]float64, actionDim)
	r := rand.New(rand.NewPCG(1, 2))
	must(b, p.Reset(e, r))
	return e, func(i int) []float64 {
		if i%spec.MaxSteps == 0 {
			must(b, e.Reset(r))
			must(b, p.Reset(e, r))
		}
		must(b, p.Act(e, action))
		return action
	}
}

func BenchmarkStep(b *testing.B) {
	e, act := planned(b)
	envtest.Bench{Env: e, Original: originalSteps, Act: act}.Run(b)
}

func BenchmarkStepAndFrame(b *testing.B) {
	e, act := planned(b)
	needOpenGL(b, e)
	envtest.Bench{Env: e, Draw: true, Original: originalFrames, Act: act}.Run(b)
}

// BenchmarkShareOfC compares env steps with MuJoCo's own steps for the same controls from
// the same states, interleaved. The difference is the cost of the controller.
func BenchmarkShareOfC(b *testing.B) {
	e, act := planned(b)
	c := made(b)
	var ours, inC float64
	for i := 0; b.Loop(); i++ {
		action := act(i)
		must(b, c.Restore(e.Snapshot()))
		began := envtest.CPUSeconds(b)
		step(b, e, action...)
		middle := envtest.CPUSeconds(b)
		copy(c.w.Ctrl, e.w.Ctrl)
		must(b, c.w.Data.Step(substeps))
		must(b, c.w.Data.RNEPostConstraint())
		ours, inC = ours+middle-began, inC+envtest.CPUSeconds(b)-middle
	}
	b.ReportMetric(inC/ours, "of-C-loop")
}

func BenchmarkReset(b *testing.B) {
	e := made(b)
	r := rand.New(rand.NewPCG(1, 1))
	before := envtest.CPUSeconds(b)
	for b.Loop() {
		must(b, e.Reset(r))
	}
	b.ReportMetric(float64(b.N)/(envtest.CPUSeconds(b)-before)*originalReset, "x_original")
}

// BenchmarkControl measures the controller alone; OGBench's takes 0.21 ms.
func BenchmarkControl(b *testing.B) {
	e, act := planned(b)
	for i := range 40 {
		step(b, e, act(i)...)
	}
	action := act(1)
	began := time.Now()
	for b.Loop() {
		must(b, e.w.Control(action))
	}
	b.ReportMetric(0.21e-3*float64(b.N)/time.Since(began).Seconds(), "x_original")
}
