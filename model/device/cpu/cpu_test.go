package cpu_test

import (
	"slices"
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/devicetest"
)

// every runs f with each instruction set of this machine, in both precisions.
func every(t *testing.T, f func(t *testing.T, p device.Precision)) {
	for _, path := range cpu.Paths() {
		for _, p := range []device.Precision{device.FP32, device.BF16} {
			if path == cpu.Emulated && p == device.FP32 {
				continue // it differs from avx512bf16 only in bf16 GEMMs
			}
			t.Run(path+"/"+string(p), func(t *testing.T) {
				t.Setenv(cpu.ISAVariable, path)
				f(t, p)
			})
		}
	}
}

func open(p device.Precision) devicetest.Open {
	return func(t *testing.T, threads int) device.Device {
		t.Helper()
		d, err := cpu.New(cpu.Options{Precision: p, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestConformance(t *testing.T) {
	every(t, func(t *testing.T, p device.Precision) { devicetest.Run(t, open(p)) })
}

// TestPairs: on the path avx512bf16, bf16 GEMMs give the same bits by dot products of
// pairs as by multiply-adds, whichever this machine chose. TestConformance runs the
// suite with the chosen one; this test runs it with the other.
func TestPairs(t *testing.T) {
	if !cpu.HasBF16() {
		t.Skip("this machine has no dot products of bf16")
	}
	t.Setenv(cpu.ISAVariable, "avx512bf16")
	d := open(device.BF16)(t, 1)
	defer d.Close()
	devicetest.Unchanged(t, d, cpu.OtherPairs)
	defer cpu.OtherPairs()()
	t.Run("conformance", func(t *testing.T) { devicetest.Run(t, open(device.BF16)) })
}

// TestTiles: tiles and their emulation give the same bits.
func TestTiles(t *testing.T) {
	if !slices.Contains(cpu.Paths(), "amx") {
		t.Skip("this machine has no tiles")
	}
	t.Setenv(cpu.ISAVariable, "amx")
	d := open(device.BF16)(t, 1)
	defer d.Close()
	t.Setenv(cpu.ISAVariable, cpu.Emulated)
	emulated := open(device.BF16)(t, 1)
	defer emulated.Close()
	devicetest.Equal(t, d, emulated)
}

func TestForcedPath(t *testing.T) {
	t.Setenv(cpu.ISAVariable, "abacus")
	_, err := cpu.New(cpu.Options{})
	if err == nil || !strings.Contains(err.Error(), "plain") {
		t.Fatalf("an unknown instruction set: %v, want an error that lists the available ones", err)
	}
}

// TestChoice: fp32 uses an instruction set that many machines share, bf16 the best
// one, and the emulated path is last in the list and never chosen by default.
func TestChoice(t *testing.T) {
	t.Setenv(cpu.ISAVariable, "")
	have := cpu.Paths()
	for i, path := range have {
		if err := cpu.Check(path); err != nil {
			t.Error(err)
		}
		if path == cpu.Emulated && i != len(have)-1 {
			t.Errorf("paths %v: the emulated one is not last", have)
		}
	}
	if err := cpu.Check("abacus"); err == nil {
		t.Error("an abacus passes the check")
	}
	for p, want := range map[device.Precision]func(isa string) bool{
		device.FP32: func(isa string) bool { return isa == "avx512" || isa == "avx2" || isa == "plain" },
		device.BF16: func(isa string) bool { return isa == have[0] },
	} {
		d := open(p)(t, 1)
		if isa := d.Kind().ISA; !want(isa) {
			t.Errorf("%s runs on %s of %v", p, isa, have)
		}
		d.Close()
	}
}

// TestNoAllocations: kernel calls do not allocate. A training step makes hundreds of
// them, and garbage would accumulate.
func TestNoAllocations(t *testing.T) {
	d := open(device.FP32)(t, 2)
	defer d.Close()
	a, b, c := device.NewMat(d, 40, 8), device.NewMat(d, 40, 8), device.NewMat(d, 40, 40)
	keys := []uint64{1}
	n := testing.AllocsPerRun(20, func() {
		d.Gemm(device.NT, c, a, b, device.Epilogue{Act: device.GELU})
		d.Axpy(a, 0.5, b)
		d.LayerNorm(a, device.Mat{}, device.Mat{}, b, device.Mat{}, device.Mat{}, 1e-5)
		d.Normal(a, keys, 0)
	})
	if n != 0 {
		t.Errorf("%g allocations in four calls", n)
	}
}
