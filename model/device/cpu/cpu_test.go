package cpu_test

import (
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
				continue // it only differs in products of bf16
			}
			t.Run(path+"/"+string(p), func(t *testing.T) {
				t.Setenv(cpu.PathVariable, path)
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

func TestForcedPath(t *testing.T) {
	t.Setenv(cpu.PathVariable, "abacus")
	_, err := cpu.New(cpu.Options{})
	if err == nil || !strings.Contains(err.Error(), "plain") {
		t.Fatalf("an unknown instruction set: %v, want an error that lists those there are", err)
	}
}

// TestNoAllocations: a step of training is hundreds of calls; none may leave work for the collector.
func TestNoAllocations(t *testing.T) {
	d := open(device.FP32)(t, 2)
	defer d.Close()
	a, b, c := device.NewMat(d, 40, 8), device.NewMat(d, 40, 8), device.NewMat(d, 40, 40)
	keys := []uint64{1}
	n := testing.AllocsPerRun(20, func() {
		d.Gemm(device.NT, c, a, b, device.Epilogue{Act: device.GELU})
		d.Mul(a, a, b, true)
		d.LayerNorm(a, device.Mat{}, device.Mat{}, b, device.Mat{}, device.Mat{}, 1e-5)
		d.Normal(a, keys, 0)
	})
	if n != 0 {
		t.Errorf("%g allocations in four calls", n)
	}
}
