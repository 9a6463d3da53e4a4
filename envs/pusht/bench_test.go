package pusht

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs/envtest"
)

// Rates of the reference implementation per second of one core's CPU time, in Python
// (docs/sources.md#python-rates): steps without drawing, and 224-pixel frames with a step each.
const (
	originalSteps  = 7_600
	originalFrames = 500
)

// benchmark steps with actions around the block, so that contacts are frequent.
func benchmark(b *testing.B, draw bool, original float64) {
	e := made(b, nil)
	r := rand.New(rand.NewPCG(1, 1))
	if err := e.Reset(r); err != nil {
		b.Fatal(err)
	}
	a := make([]float64, 2)
	contacts := 0
	act := func(i int) []float64 {
		if e.s.world.points > 0 { // in the previous step
			contacts++
		}
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
		return a
	}
	envtest.Bench{Env: e, Draw: draw, Original: original, Act: act}.Run(b)
	b.ReportMetric(float64(contacts)/float64(b.N), "with_contact")
}

func BenchmarkStep(b *testing.B)         { benchmark(b, false, originalSteps) }
func BenchmarkStepAndFrame(b *testing.B) { benchmark(b, true, originalFrames) }
