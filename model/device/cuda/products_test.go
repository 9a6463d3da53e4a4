package cuda_test

import (
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
)

// TestTilesAgree checks that an element has the same bits whatever tile the engine
// chooses. A GPU that one block keeps busy gets the largest tiles, one of 2 blocks the
// middle ones where the inner dimension is long, and one of a million blocks the
// smallest.
func TestTilesAgree(t *testing.T) {
	lib := emulator(t)
	for _, s := range []shape{
		{70, 200, 40}, {3, 192, 96}, {33, 65, 800}, {5, 24, 2600},
	} {
		for _, op := range []device.Op{device.NN, device.NT} {
			tilesAgree(t, op, s, func(int) cuda.Machine { return lib.Machine(1) }, []int{1, 2, 1 << 20})
		}
	}
}

// shape is the shape of a GEMM.
type shape struct{ m, n, k int }

// tilesAgree compares the results of a GEMM on GPUs that blocks[i] blocks keep busy,
// the i-th on machine(i).
func tilesAgree(t *testing.T, op device.Op, s shape, machine func(i int) cuda.Machine, blocks []int) {
	t.Helper()
	var want []float64
	for i, n := range blocks {
		d, err := cuda.NewOf(machine(i), device.BF16, n)
		if err != nil {
			t.Fatal(err)
		}
		got := productOf(d, op, s.m, s.n, s.k)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("op %d, %dx%dx%d: the tiles for a GPU of %d blocks give other bits", op, s.m, s.n, s.k, n)
		}
	}
}

// productOf returns the results of the epilogues for which epilogue.cuh has forms, and
// of a general one.
func productOf(d device.Device, op device.Op, m, n, k int) (all []float64) {
	count := uint64(0)
	random := func(alloc func(device.Device, int, int) device.Mat, rows, cols int) device.Mat {
		v := make([]float64, rows*cols)
		for i := range v {
			v[i] = float64(rng.Philox(count, uint64(i))[0])/(1<<31) - 1
		}
		count++
		mat := alloc(d, rows, cols)
		d.Upload64(mat, v)
		return mat
	}
	a, b := random(device.NewActivations, m, k), random(device.NewMat, k, n)
	if op == device.NT {
		b = random(device.NewMat, n, k)
	}
	bias, whole, short := random(device.NewMat, 1, n), random(device.NewMat, m, n), random(device.NewActivations, m, n)
	epilogues := []device.Epilogue{
		{Bias: bias}, {Add: true}, {Gate: short, Bias: bias, Add: true}, {Act: device.GELU, Bias: bias},
		{Act: device.GELU, Grad: short}, {Act: device.SiLU, Scale: bias, Drop: device.Dropout{P: 0.3, Key: 1}, Add: true},
	}
	if k > 768 {
		epilogues = epilogues[1:2] // long inner dimensions are slow to emulate
	}
	for _, ep := range epilogues {
		for _, like := range []device.Mat{whole, short} {
			if like.BF16() && ep.Add {
				continue // activations are never added to: sums are float32
			}
			dst := random(device.NewMat, m, n)
			if like.BF16() {
				dst = random(device.NewActivations, m, n)
			}
			if ep.Act == device.GELU && !ep.Grad.IsSet() {
				ep.Pre = random(device.NewActivations, m, n)
				defer d.Free(ep.Pre.Buf)
			}
			d.Gemm(op, dst, a, b, ep)
			v := make([]float64, dst.Len())
			d.Download64(v, dst)
			all = append(all, v...)
		}
	}
	return all
}
