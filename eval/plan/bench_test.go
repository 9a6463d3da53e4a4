package plan_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"scalewm/eval/plan"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// free is a cost without work: the first number of a candidate.
type free struct{ d device.Device }

func (f free) Costs(dst, candidates device.Mat) error {
	first := candidates.Columns(0, 1)
	f.d.Copy(dst.Reshape(dst.Len(), 1), first)
	return nil
}

// BenchmarkSolvers plans T1 (300 x 30, five blocks of ten numbers) for 16 episodes
// with a free cost. It reports the time of the search itself in milliseconds per
// episode, and its ratio to the time of drawing the normal numbers, which every
// search needs.
func BenchmarkSolvers(b *testing.B) {
	d, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const episodes, width = 16, 50
	noise := plan.KeyedNoise{Device: d, Keys: keys(episodes), Iterations: 30}
	draws := device.NewMat(d, episodes*300, width)
	for _, s := range []struct {
		name   string
		solver plan.Solver
	}{{"CEM", plan.CEM{}}, {"iCEM", plan.ICEM{}}, {"MPPI", plan.MPPI{}}} {
		b.Run(s.name, func(b *testing.B) {
			var searching, drawing time.Duration
			for b.Loop() {
				began := time.Now()
				found, err := s.solver.Solve(context.Background(), d, plan.Problem{Episodes: episodes, Horizon: 5, Width: width,
					Cost: free{d}, Noise: noise, Low: []float64{-1, -1}, High: []float64{1, 1}})
				if err != nil {
					b.Fatal(err)
				}
				d.Free(found.Actions.Buf)
				searching += time.Since(began)
				began = time.Now()
				for it := range 30 {
					noise.Normal(draws, it)
				}
				drawing += time.Since(began)
			}
			b.ReportMetric(searching.Seconds()*1000/float64(b.N)/episodes, "ms/plan")
			b.ReportMetric(searching.Seconds()/drawing.Seconds(), "x-normals")
		})
	}
}
