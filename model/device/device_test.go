package device_test

import (
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// panics runs f and returns the text that it panicked with, or "".
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text, _ = r.(string)
		}
	}()
	f()
	return ""
}

// TestMismatchesPanic: a call whose arguments do not fit panics with the kernel's
// name before any number is read or written.
func TestMismatchesPanic(t *testing.T) {
	d := ref.New()
	m := func(rows, cols int) device.Mat { return device.NewMat(d, rows, cols) }
	var none device.Mat
	long := m(2, 3)
	long.Rows = 3 // one more row than its buffer holds
	bn := device.BatchNorm{Gamma: m(1, 3), Beta: m(1, 3), Mean: m(1, 3), Var: m(1, 3)}
	heads := device.Heads{Seqs: 1, Len: 2, Heads: 1, Dim: 3}
	for kernel, call := range map[string]func(){
		"Gemm":         func() { d.Gemm(device.NT, m(2, 4), m(2, 3), m(4, 5), device.Epilogue{}) },
		"Upload":       func() { d.Upload(m(2, 2), make([]float32, 3)) },
		"Copy":         func() { d.Copy(m(3, 3), long) },
		"AddRepeated":  func() { d.AddRepeated(m(4, 3), m(1, 3), m(3, 3)) },
		"CopyBlocks":   func() { d.CopyBlocks(m(4, 3), 1, m(4, 3), 2, 2, false) },
		"Axpy":         func() { d.Axpy(m(2, 3), 1, m(3, 2)) },
		"DropoutApply": func() { d.DropoutApply(m(1, 1), m(1, 1), device.Dropout{P: 1}) },
		"LayerNorm":    func() { d.LayerNorm(m(2, 3), none, none, m(2, 3), m(1, 3), none, 1e-5) },
		"BatchNorm":    func() { d.BatchNorm(m(1, 3), none, none, m(1, 3), bn) },
		"Attention":    func() { d.Attention(m(2, 3), m(1, 3), m(2, 3), m(2, 3), m(2, 3), heads) },
		"AttentionGrad": func() {
			d.AttentionGrad(m(2, 3), m(2, 3), m(2, 3), m(2, 3), none, m(2, 3), m(2, 3), m(2, 3), heads)
		},
		"Patches":      func() { d.Patches(m(4, 12), d.AllocBytes(47), device.Frames{Count: 1, Size: 4, Patch: 2}) },
		"SIGReg":       func() { d.SIGReg(m(1, 1), none, m(5, 2), 2, 1) },
		"PairDistance": func() { d.PairDistance(m(1, 3), m(4, 4), d.AllocInts(5)) },
		"LatentCost":   func() { d.LatentCost(m(2, 3), m(5, 4), m(2, 4), false) },
		"SmallestK":    func() { d.SmallestK(d.AllocInts(8), m(2, 3), 4) },
		"Moments":      func() { d.Moments(m(2, 3), m(2, 3), m(4, 3), d.AllocInts(2), 1) },
		"Color":        func() { d.Color(m(2, 4), m(2, 4), m(1, 3)) },
		"Clip":         func() { d.Clip(m(2, 3), m(1, 3), m(2, 3)) },
		"Softmin":      func() { d.Softmin(m(2, 2), m(2, 3), d.AllocInts(4), 0) },
		"WeightedMean": func() { d.WeightedMean(m(2, 3), m(4, 3), m(2, 2), d.AllocInts(2)) },
		"Gather":       func() { d.Gather(m(3, 3), m(4, 3), d.AllocInts(2), 1) },
		"Lerp":         func() { d.Lerp(m(2, 3), m(1, 3), 0.5) },
		"NaNToInf":     func() { d.NaNToInf(m(2, 3), m(1, 1)) },
		"AdamW":        func() { d.AdamW(m(1, 3), m(1, 3), m(1, 3), m(1, 3), m(1, 1), device.AdamW{}) },
	} {
		if text := panics(call); !strings.HasPrefix(text, "device: "+kernel+":") {
			t.Errorf("%s: panicked with %q", kernel, text)
		}
	}
}

func TestBlocks(t *testing.T) {
	d := ref.New()
	m := func(rows int) device.Mat { return device.NewMat(d, rows, 1) }
	for _, c := range []struct{ dst, dstBlock, src, srcBlock, rows, want int }{
		{34, 17, 32, 16, 16, 2}, // the last block of 17 has room for its 16 rows
		{33, 17, 32, 16, 16, 2}, // also if the view begins one row later
		{34, 17, 1, 0, 1, 2},    // one row into every block
		{34, 17, 16, 16, 16, 1}, // the smaller side limits
		{3, 4, 4, 4, 4, 0},
	} {
		if got := device.Blocks(m(c.dst), c.dstBlock, m(c.src), c.srcBlock, c.rows); got != c.want {
			t.Errorf("%+v: %d blocks", c, got)
		}
	}
}

func TestViews(t *testing.T) {
	d := ref.New()
	m := device.NewMat(d, 6, 4)
	numbers := make([]float64, 24)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	d.Upload64(m, numbers)
	got := make([]float64, 2)
	d.Download64(got, m.Every(1, 3).Columns(2, 1)) // rows 1 and 4, column 2
	if got[0] != 6 || got[1] != 18 {
		t.Errorf("every third row's third column: %v, want 6 and 18", got)
	}
	if r := m.RowRange(1, 2).Reshape(4, 2); r.Rows != 4 || r.Off != 4 {
		t.Errorf("rows 1 and 2 as pairs: %+v", r)
	}
	for name, f := range map[string]func(){
		"rows": func() { m.RowRange(5, 2) }, "columns": func() { m.Columns(-1, 2) },
		"every": func() { m.Every(6, 1) }, "seen as": func() { m.Columns(0, 2).Reshape(12, 1) },
	} {
		if text := panics(f); !strings.Contains(text, name) {
			t.Errorf("%s: panicked with %q", name, text)
		}
	}
}

// TestArena: the same requests after Reset get the same memory, and memory allocated
// after a mark can be released early.
func TestArena(t *testing.T) {
	a := device.NewArena(ref.New())
	defer a.Free()
	first := a.Mat(2, 3)
	mark := a.Mark()
	second := a.Mat(4, 4)
	a.Release(mark)
	if again := a.Zero(3, 3); again.Buf.Len() != second.Buf.Len() {
		t.Error("released memory was not reused")
	}
	a.Reset()
	if again := a.Mat(2, 3); again.Buf.Len() != first.Buf.Len() {
		t.Error("the arena grew after Reset")
	}
	if grown := a.Mat(10, 10); grown.Buf.Len() != 100 {
		t.Errorf("a larger request got %d numbers", grown.Buf.Len())
	}
}
