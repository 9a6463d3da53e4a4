package cuda

import (
	"fmt"
	"math"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

// borrowed is a machine that outlives an engine, under another ISA.
type borrowed struct {
	Machine
	isa string
}

func (b borrowed) ISA() string  { return b.isa }
func (b borrowed) Close() error { return nil }

// CheckWarpgroups multiplies the same matrices by warpgroups and by the products that
// every GPU has, in all tiles, and says where they differ. Both add in float32 what bf16
// gives exactly, in another order.
func CheckWarpgroups(m Machine) error {
	for _, c := range []struct {
		op        device.Op
		k, blocks int // blocks of a GPU that the tile suits
	}{
		{device.NN, 136, 1}, {device.NT, 136, 1}, {device.NN, 200, 1}, {device.NT, 200, 1}, {device.TN, 136, 1},
		{device.NT, 200, 5}, {device.NN, 72, 1 << 20}, {device.NT, 72, 1 << 20}, {device.TN, 72, 1 << 20},
	} {
		got, err := checkedProduct(borrowed{m, m.ISA()}, c.op, c.k, c.blocks)
		if err != nil {
			return fmt.Errorf("products by wgmma: %w", err)
		}
		want, err := checkedProduct(borrowed{m, "sm_80"}, c.op, c.k, c.blocks)
		if err != nil {
			return fmt.Errorf("products by mma.sync: %w", err)
		}
		for i, w := range want {
			if d := math.Abs(float64(got[i] - w)); !(d <= 1e-3) { // tensor cores cut off bits of sums; a mistake is far larger
				return fmt.Errorf("products by wgmma are off by %g from those by mma.sync (form %d, inner dimension %d)", d, c.op, c.k)
			}
		}
	}
	return nil
}

// checkedProduct is the numbers of a product of more rows than a panel's warpgroups have at once, and of more columns
// than it has, and of the sums that TN makes beside it.
func checkedProduct(m Machine, op device.Op, k, blocks int) ([]float32, error) {
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
