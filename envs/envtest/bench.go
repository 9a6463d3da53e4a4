package envtest

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"scalewm/envs"
)

// Bench times a world that was reset, in processor time, beside its original.
type Bench struct {
	Env  envs.Env
	Draw bool // a frame after each step
	// Original is what the original reaches in a second of one core's time.
	Original float64
	// Act gives the action of step i; nil: uniform actions in [-1, 1].
	Act func(i int) []float64
}

// Run reports steps a second of processor time and their ratio to the original's.
func (c Bench) Run(b *testing.B) {
	b.Helper()
	act := c.Act
	if act == nil {
		act = uniformActions(c.Env.Spec().ActionDim)
	}
	frame := make([]byte, envs.FrameBytes)
	b.ReportAllocs()
	before := CPUSeconds(b)
	for i := 0; b.Loop(); i++ {
		if _, err := c.Env.Step(act(i)); err != nil {
			b.Fatal(err)
		}
		if c.Draw {
			if err := c.Env.Frame(frame); err != nil {
				b.Fatal(err)
			}
		}
	}
	rate := float64(b.N) / (CPUSeconds(b) - before)
	b.ReportMetric(rate, "per_cpu_s")
	b.ReportMetric(rate/c.Original, "x_original")
}

// uniformActions repeats 256 actions, so that drawing them is not timed.
func uniformActions(dim int) func(int) []float64 {
	r := rand.New(rand.NewPCG(1, 1))
	actions := make([][]float64, 256)
	for i := range actions {
		for range dim {
			actions[i] = append(actions[i], 2*r.Float64()-1)
		}
	}
	return func(i int) []float64 { return actions[i%len(actions)] }
}

// CPUSeconds is the processor time of this process; other programs on the
// machine do not count.
func CPUSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
