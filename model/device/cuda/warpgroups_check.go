package cuda

import (
	"fmt"
	"math"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

// borrowed is a machine under another ISA that an engine may use but not close.
type borrowed struct {
	Machine
	isa string
}

func (b borrowed) ISA() string  { return b.isa }
func (b borrowed) Close() error { return nil }

// CheckWarpgroups multiplies the same matrices by the wgmma kernels, in all tiles, and
// by the mma.sync kernels, and returns an error if they differ. Package gpu calls it
// when it opens a Hopper GPU, and falls back to Ampere's kernels on an error. Both add
// the same exact products of bf16 numbers in float32, but in different orders.
func CheckWarpgroups(m Machine) error {
	for _, c := range []struct {
		op        device.Op
		k, blocks int // the engine's number of blocks, which selects the tile
	}{
		{device.NN, 136, 1}, {device.NT, 136, 1}, {device.NN, 200, 1}, {device.NT, 200, 1}, {device.TN, 136, 1},
		{device.NT, 200, 5}, {device.NN, 72, 1 << 20}, {device.NT, 72, 1 << 20}, {device.TN, 72, 1 << 20},
	} {
		got, err := checkGemm(borrowed{m, m.ISA()}, c.op, c.k, c.blocks)
		if err != nil {
			return fmt.Errorf("GEMM by wgmma: %w", err)
		}
		want, err := checkGemm(borrowed{m, "sm_80"}, c.op, c.k, c.blocks)
		if err != nil {
			return fmt.Errorf("GEMM by mma.sync: %w", err)
		}
		for i, w := range want {
			// Tensor cores truncate intermediate sums; a mistake in layout or
			// synchronization gives far larger differences. The condition also catches
			// NaN.
			if d := math.Abs(float64(got[i] - w)); !(d <= 1e-3) {
				return fmt.Errorf("results of wgmma and mma.sync differ by %g (operation %d, inner dimension %d)", d, c.op, c.k)
			}
		}
	}
	return nil
}

// checkGemm returns the result of a GEMM and the column sums that TN computes with it.
// It has more rows than the warpgroups of a panel process at once, more columns than a
// panel, and neither number is a multiple of the large tiles.
func checkGemm(m Machine, op device.Op, k, blocks int) ([]float32, error) {
	d, err := newEngine(m, device.BF16, blocks)
	if err != nil {
		return nil, err
	}
	const rows, cols = 200, 208
	stored := func(r, c int) device.Mat {
		v := make([]float32, r*c)
		for i := range v {
			v[i] = float32(rng.Philox(uint64(r*c), uint64(i))[0])/(1<<31) - 1
		}
		mat := device.NewActivations(d, r, c)
		d.Upload(mat, v)
		return mat
	}
	a, b := stored(rows, k), stored(k, cols)
	result, sums := device.NewMat(d, rows+1, cols), device.Mat{}
	switch op {
	case device.NT:
		b = stored(cols, k)
	case device.TN:
		a = stored(k, rows)
		sums = result.RowRange(rows, 1).Columns(0, rows)
	}
	d.Gemm(op, result.RowRange(0, rows), a, b, device.Epilogue{SumA: sums})
	got := make([]float32, result.Len())
	d.Download(got, result)
	return got, d.Close()
}
