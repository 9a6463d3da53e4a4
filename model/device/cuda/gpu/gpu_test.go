//go:build cuda

package gpu

import (
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/devicetest"
)

// open starts the GPU, or skips the test with the reason why there is none.
func open(t *testing.T) cuda.Machine {
	t.Helper()
	m, err := Open()
	if err != nil {
		t.Skip(err)
	}
	return m
}

// TestNoGPU: without a GPU the program lives and says what to do. (With one there is nothing to see.)
func TestNoGPU(t *testing.T) {
	m, err := Open()
	if err == nil {
		m.Close()
		return
	}
	if !strings.Contains(err.Error(), "NVIDIA") || !strings.Contains(err.Error(), "--device cpu") {
		t.Errorf("without a GPU: %v", err)
	}
}

// TestEmbedded: both kinds of GPU find PTX in the program.
func TestEmbedded(t *testing.T) {
	for _, isa := range []string{"sm_80", "sm_90a"} {
		files, err := ptx(isa)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", isa, len(files), err)
		}
	}
	if _, err := ptx("sm_70"); err == nil || !strings.Contains(err.Error(), "make cuda") {
		t.Errorf("sm_70: %v", err)
	}
}

// TestConformance is the contract's suite on the GPU.
func TestConformance(t *testing.T) {
	open(t).Close()
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		t.Run(string(p), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T, _ int) device.Device {
				d, err := cuda.New(open(t), p)
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}

// TestOutOfMemory names what was asked for, and the device says so from then on.
func TestOutOfMemory(t *testing.T) {
	d, err := cuda.New(open(t), device.FP32)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Alloc(1 << 40)
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "asked for 4194304 MiB") {
		t.Errorf("4 TiB: %v", err)
	}
}
