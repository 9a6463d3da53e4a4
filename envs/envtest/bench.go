package envtest

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"scalewm/envs"
)

// Bench measures the rate of a world in CPU time, compared with its reference implementation.
type Bench struct {
	Env  envs.Env
	Draw bool // draw a frame after each step
	// Original is the rate of the reference implementation per second of one core's CPU time.
	Original float64
	// Act returns the action of step i. Nil means uniform actions in [-1, 1].
	Act func(i int) []float64
}

// Run reports steps per second of CPU time and the ratio to the reference implementation's.
func (c Bench) Run(b *testing.B) {
	b.Helper()
	act := c.Act
	if act == nil {
		act = uniformActions(c.Env.Spec().ActionDim)
	}
	frame := make([]byte, envs.FrameBytes)
	b.ReportAllocs()
	// b.Loop measures wall time; CPU time is comparable on a busy machine.
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
	// With b.Loop, b.N is the number of iterations after the loop.
	rate := float64(b.N) / (CPUSeconds(b) - before)
	b.ReportMetric(rate, "per_cpu_s")
	b.ReportMetric(rate/c.Original, "x_original")
}

// uniformActions cycles through 256 actions, so that drawing them is not measured.
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

// CPUSeconds returns the CPU time of this process, which the load of other programs does not
// change.
func CPUSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
