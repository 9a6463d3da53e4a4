package cpu

import (
	"fmt"

	"scalewm/model/device"
)

// verify multiplies small integers and compares the results with exact ones: bf16
// represents the factors exactly, and fp32 the sums. The shapes have remainders in
// all three dimensions for every block size. Tiles are enabled by the operating
// system and configured by each task; if a machine or an emulator gets that wrong,
// the path is not used.
func (e *engine) verify() error {
	const m, n, k = 45, 83, 71
	number := func(i int) float64 { return float64(i*7%17 - 8) } // in [-8, 8]
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
			if want := exact(op, a, b, i/n, i%n, number); v != want {
				return fmt.Errorf("cpu: matrix products by %s are wrong on this machine: %g instead of %g (hint: set %s=avx2 to avoid them, and report the processor)",
					paths[e.isa], v, want, ISAVariable)
			}
		}
	}
	return e.err
}

// exact returns element (r, c) of op(a) op(b), where number gives the elements of a
// and b by their index in memory.
func exact(op device.Op, a, b device.Mat, r, c int, number func(i int) float64) (sum float64) {
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

// Check returns an error if a path (one of Paths) computes wrong products on this
// machine, or cannot run.
func Check(path string) error {
	e, err := startOn(path, Options{Precision: device.BF16, Threads: 1})
	if err != nil {
		return err
	}
	return e.Close()
}
