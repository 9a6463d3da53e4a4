package cpu

import (
	"testing"

	"scalewm/model/device"
)

// TestTimes: a timed device counts calls by kernel and shape, the bytes of their
// matrices and the operations of their products. The expected numbers are computed by
// hand from the shapes.
func TestTimes(t *testing.T) {
	dev, times, err := NewTimed(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	mat := func(rows, cols int) device.Mat {
		return device.Mat{Buf: dev.Alloc(rows*cols, device.Float32), Rows: rows, Cols: cols, Stride: cols}
	}
	dev.Fill(mat(1, 1), 0)
	times.Reset()
	for range 2 {
		dev.Gemm(device.NT, mat(4, 3), mat(4, 5), mat(3, 5), device.Epilogue{})
	}
	dev.Gemm(device.TN, mat(5, 6), mat(4, 5), mat(4, 6), device.Epilogue{Add: true})
	dev.Attention(mat(6, 8), device.Mat{}, mat(6, 8), mat(6, 8), mat(6, 8), device.Heads{Seqs: 2, Len: 3, Heads: 2, Dim: 4})
	want := map[string]KernelTime{
		"Gemm NT 4x3x5": {Calls: 2, Bytes: 2 * 4 * (4*3 + 4*5 + 3*5), FLOP: 2 * 2 * 4 * 3 * 5},
		"Gemm TN 5x6x4": {Calls: 1, Bytes: 4 * (5*6 + 4*5 + 4*6), FLOP: 2 * 5 * 6 * 4},
		"Attention":     {Calls: 1, Bytes: 4 * 4 * 6 * 8, FLOP: 2 * 2 * 2 * 3 * 3 * 2 * 4},
	}
	list := times.List()
	for i, k := range list {
		w := want[k.Kernel]
		if k.Calls != w.Calls || k.Bytes != w.Bytes || k.FLOP != w.FLOP || k.Seconds <= 0 || i > 0 && k.Seconds > list[i-1].Seconds {
			t.Errorf("%+v, want %+v", k, w)
		}
	}
	if len(list) != len(want) || dev.Err() != nil {
		t.Errorf("%d kernels, want %d; %v", len(list), len(want), dev.Err())
	}
}
