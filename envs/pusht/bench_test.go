package pusht

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
	originalSteps  = 7_600
	originalFrames = 500
)

// benchmark steps with actions round the block, so that much of the time there is contact.
func benchmark(b *testing.B, draw bool, original float64) {
	e := made(b, nil)
	r := rand.New(rand.NewPCG(1, 1))
	if err := e.Reset(r); err != nil {
		b.Fatal(err)
	}
	frame := make([]byte, envs.FrameBytes)
	a := make([]float64, 2)
	contacts := 0
	b.ReportAllocs()
	before := cpuSeconds(b)
	for i := 0; b.Loop(); i++ {
		if i%250 == 249 {
			if err := e.Reset(r); err != nil {
				b.Fatal(err)
			}
		}
		v := e.vector()
		for k := range a {
			target := v[k] + 200*r.Float64() - 100
			a[k] = min(max((min(max(target, v[k+2]-100), v[k+2]+100)-v[k])/100, -1), 1)
		}
		if _, err := e.Step(a); err != nil {
			b.Fatal(err)
		}
		if e.s.world.points > 0 {
			contacts++
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
	b.ReportMetric(float64(contacts)/float64(b.N), "with_contact")
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
