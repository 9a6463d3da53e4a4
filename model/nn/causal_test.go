package nn

import (
	"math"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// TestCausalUnroll compares each step of an unroll, which caches keys and values,
// with Forward on the frames in the window of that step. Both add in the same order,
// so that in float64 they agree within 1e-12. The table has one position more than a
// window needs.
func TestCausalUnroll(t *testing.T) {
	const n, steps, window, patches, dim = 3, 5, 3, 4, 6
	dev := ref.New()
	var set Set
	r := NewCausal(&set, "predictor", CausalConfig{Frames: window + 1, Patches: patches, Dim: dim, Depth: 3, Heads: 2, HeadDim: 5, MLP: 7})
	ready(dev, &set, stream(1))
	z := random(dev, stream(2), steps*patches*n, dim) // by token
	p := &Pass{Dev: dev, Arena: device.NewArena(dev)}
	u := r.Unroll(p, n, window)
	for step := range steps {
		got := values(dev, u.Next(step, func(dst, positions device.Mat, frame int) {
			dev.AddRepeated(dst, z.RowRange(frame*patches*n, patches*n), positions)
		}))
		w := min(step+1, window)
		x := p.Mat(n*w*patches, dim)
		for i := range n { // Forward expects rows ordered by sequence
			dev.Copy(x.RowRange(i*w*patches, w*patches), z.RowRange((step+1-w)*patches*n, w*patches*n).Every(i, n))
		}
		want := values(dev, r.Forward(p, x, Seqs{Count: n, Len: w * patches}))
		for k := range got {
			row, col := k/dim, k%dim
			patch, seq := row/n, row%n
			if whole := want[((seq*w+w-1)*patches+patch)*dim+col]; math.Abs(got[k]-whole) > 1e-12 {
				t.Fatalf("step %d, patch %d of sequence %d: %.15g, the whole window gives %.15g", step, patch, seq, got[k], whole)
			}
		}
	}
}
