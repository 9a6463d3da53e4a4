package tworoom

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"scalewm/envs"
)

// What the original reaches in a second of one core's time, in Python (envs-spec,
// correction 11): steps without drawing, and 224-pixel frames with a step each.
const (
	originalSteps  = 18_000
	originalFrames = 478
)

func benchmark(b *testing.B, draw bool, original float64) {
	e := made(b, nil)
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
	before := cpuSeconds(b)
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
	rate := float64(b.N) / (cpuSeconds(b) - before)
	b.ReportMetric(rate, "per_cpu_s")
	b.ReportMetric(rate/original, "x_original")
}

// cpuSeconds is the processor time of this process; other programs on the
// machine do not count.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }
