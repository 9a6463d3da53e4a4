package libscalewm

import (
	"testing"

	"scalewm/envs"
)

// A step of 64 worlds with a watched observation, on one thread, without Python.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct{ task, watch string }{{"tworoom", "observation"}, {"tworoom", "state"}, {"pusht", "state"}, {"pointmaze", "state"}} {
		b.Run(c.task+"/"+c.watch, func(b *testing.B) {
			const n = 64
			answer, err := try("worlds.new", 0, map[string]any{"task": c.task, "n": n, "workers": 1, "watch": []string{c.watch}})
			if err != nil {
				b.Fatal(err)
			}
			h := uint64(answer["handle"].(float64))
			defer try("close", h, nil)
			task, _ := envs.Lookup(c.task)
			column, _ := task.Spec.Column(c.watch)
			out := memoryOfNumbers(n*column.Width, sizeOf(column.DType))
			if _, err := try("worlds.make", h, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := try("worlds.reset", h, nil, nil, seedsOf(n, 0), out); err != nil {
				b.Fatal(err)
			}
			step := call{handle: h, buffers: [][]byte{nil, memoryOfNumbers(2*n, 4), memoryOfNumbers(n, 8), memoryOfNumbers(n, 1), out}}
			for b.Loop() {
				if _, _, err := step.do("worlds.step"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
