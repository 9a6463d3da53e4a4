package cpu

import (
	"fmt"

	"scalewm/model/device"
)

// verify multiplies small whole numbers, whose products and sums every
// precision holds exactly, in shapes with edges in all directions, and compares
// with what integers say. Tiles are switched on by the operating system and
// configured by each call: if a machine or an emulator gets that wrong, the
// path is not used.
func (e *engine) verify() error {
	const m, n, k = 45, 83, 71
	number := func(i int) float64 { return float64(i*7%17 - 8) }
	for op := device.NN; op <= device.TN; op++ {
		shape := [...][4]int{device.NN: {m, k, k, n}, device.NT: {m, k, n, k}, device.TN: {k, m, k, n}}[op]
		a, b, dst := device.NewMat(e, shape[0], shape[1]), device.NewMat(e, shape[2], shape[3]), device.NewMat(e, m, n)
		for _, x := range []device.Mat{a, b} {
			values := make([]float64, x.Len())
			for i := range values {
				values[i] = number(i)
			}
			e.Upload64(x, values)
		}
		e.Gemm(op, dst, a, b, device.Epilogue{})
		got := make([]float64, dst.Len())
		e.Download64(got, dst)
		for _, x := range []device.Mat{a, b, dst} {
			e.Free(x.Buf)
		}
		for i, v := range got {
			if want := whole(op, a, b, i/n, i%n, number); v != want {
				return fmt.Errorf("cpu: products by %s are wrong on this machine: %g instead of %g (hint: %s=avx2 avoids them; please report the processor)",
					paths[e.isa], v, want, PathVariable)
			}
		}
	}
	return e.err
}

// whole is element (r, c) of op(a) op(b), whose elements number gives by index.
func whole(op device.Op, a, b device.Mat, r, c int, number func(i int) float64) (sum float64) {
	_, _, k := op.Dims(a, b)
	for i := range k {
		x, y := r*a.Cols+i, i*b.Cols+c
		if op == device.TN {
			x = i*a.Cols + r
		}
		if op == device.NT {
			y = c*b.Cols + i
		}
		sum += number(x) * number(y)
	}
	return sum
}

// Check says whether a path (one of Paths) multiplies as it should here.
func Check(path string) error {
	e, err := startOn(path, Options{Precision: device.BF16, Threads: 1})
	if err != nil {
		return err
	}
	return e.Close()
}
