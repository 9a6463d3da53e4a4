package vector_test

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/vector"

	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/tworoom"
)

// BenchmarkWorlds steps, or steps and draws, 64 worlds on 1 and 2 workers with uniform
// actions. It reports world steps per second of wall time and of CPU time. On an idle machine
// the first is the second times the number of workers.
func BenchmarkWorlds(b *testing.B) {
	for _, name := range envs.Names() {
		for _, draw := range []string{"step", "frame"} {
			for _, workers := range []string{"1", "2"} {
				b.Run(name+"/"+draw+"/workers="+workers, func(b *testing.B) {
					benchmark(b, name, draw == "frame", int(workers[0]-'0'))
				})
			}
		}
	}
}

func benchmark(b *testing.B, name string, draw bool, workers int) {
	const n = 64
	task, err := envs.Lookup(name)
	if err != nil {
		b.Fatal(err)
	}
	made := make([]envs.Env, n)
	for i := range made {
		if made[i], err = task.New(nil); err != nil {
			b.Fatal(err)
		}
	}
	w := vector.New(made, workers)
	defer w.Close()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		if err := w.World(i).Reset(r); err != nil {
			b.Fatal(err)
		}
	}
	frames, a := make([]byte, n*envs.FrameBytes), task.Spec.ActionDim
	actions := make([]float64, n*a)
	for i := range actions {
		d := i % a
		lo, hi := task.Spec.ActionLow[d], task.Spec.ActionHigh[d]
		actions[i] = lo + (hi-lo)*r.Float64()
	}
	frame := func(i int) error { return w.World(i).Frame(frames[i*envs.FrameBytes:][:envs.FrameBytes]) }
	if err := w.Each("drawing", 0, n, frame); err != nil { // the first frame of some worlds draws what never changes
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := envtest.CPUSeconds(b)
	for b.Loop() {
		// Different actions for each world and step.
		first := actions[0]
		copy(actions, actions[1:])
		actions[len(actions)-1] = first
		err := w.Each("stepping", 0, n, func(i int) error { _, err := w.World(i).Step(actions[i*a : (i+1)*a]); return err })
		if err != nil {
			b.Fatal(err)
		}
		if draw {
			if err := w.Each("drawing", 0, n, frame); err != nil {
				b.Fatal(err)
			}
		}
	}
	steps := float64(n) * float64(b.N)
	b.ReportMetric(steps/b.Elapsed().Seconds(), "per_s")
	b.ReportMetric(steps/(envtest.CPUSeconds(b)-before), "per_cpu_s")
}
