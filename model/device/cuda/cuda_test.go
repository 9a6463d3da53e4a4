package cuda_test

import (
	"errors"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu"
	"scalewm/model/device/devicetest"
)

// emulator compiles the kernels for the processor, once a test.
func emulator(t *testing.T) *emu.Library {
	t.Helper()
	lib, err := emu.Build(t.TempDir())
	if errors.Is(err, emu.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// TestConformance runs the contract's suite on the emulated kernels. Instead of
// 1, 2 and 3 threads the suite gets three orders of running a block's threads.
func TestConformance(t *testing.T) {
	lib := emulator(t)
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		t.Run(string(p), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T, order int) device.Device {
				d, err := cuda.New(lib.Machine(order), p)
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
