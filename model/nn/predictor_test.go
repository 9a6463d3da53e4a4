package nn

import (
	"math"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// TestUnroll compares each step of an unroll, which caches keys and values, with
// Forward on the window of that step. Both add in the same order, so that in float64
// they agree within 1e-12.
func TestUnroll(t *testing.T) {
	const n, h, frames, dim = 5, 5, 3, 8
	dev := ref.New()
	var set Set
	r := NewPredictor(&set, "predictor", PredictorConfig{Frames: frames, Dim: dim, Depth: 3, Heads: 2, HeadDim: 6, MLP: 10})
	ready(dev, &set, stream(1))
	// By token: row t*n + i is latent (or action) t of sequence i.
	z, act := random(dev, stream(2), h*n, dim), random(dev, stream(3), h*n, dim)
	p := &Pass{Dev: dev, Arena: device.NewArena(dev)}
	u := r.Unroll(p, func(dst, actions device.Mat, ep device.Epilogue) { dev.Activate(dst, actions, ep.Act) }, act, n)
	for step := range h {
		got := values(dev, u.Next(step, func(from, to int) device.Mat { return z.RowRange(from*n, (to-from)*n) }))
		w := min(step+1, frames)
		x, c := p.Mat(n*w, dim), p.Mat(n*w, dim)
		for i := range w {
			from := (step + 1 - w + i) * n
			dev.Copy(x.Every(i, w), z.RowRange(from, n))
			dev.Copy(c.Every(i, w), act.RowRange(from, n))
		}
		for i, want := range values(dev, r.Forward(p, x, c, Seqs{Count: n, Len: w}, w-1)) {
			if math.Abs(got[i]-want) > 1e-12 {
				t.Fatalf("step %d, number %d: %.15g, the whole window gives %.15g", step, i, got[i], want)
			}
		}
	}
}
