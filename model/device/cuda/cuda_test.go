package cuda_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu"
	"scalewm/model/device/devicetest"
)

// built is the kernels compiled for the processor, once for all tests.
var built = sync.OnceValues(func() (*emu.Library, error) {
	dir, err := os.MkdirTemp("", "scalewm-emu")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the opened library does not need its file
	return emu.Build(dir)
})

func emulator(t *testing.T) *emu.Library {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
	lib, err := built()
	if errors.Is(err, emu.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// TestConformance runs the contract's conformance suite on the emulated kernels. In
// place of 1, 2 and 3 threads, the suite gets three orders in which a block's threads
// run.
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
