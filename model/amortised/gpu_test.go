package amortised

import (
	"errors"
	"testing"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu"
)

// TestEmulatedGPU is TestReference on the kernels of the GPU, run on the processor.
func TestEmulatedGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	lib, err := emu.Build(t.TempDir())
	if errors.Is(err, emu.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for precision, tolerance := range tolerances {
		t.Run(string(precision), func(t *testing.T) {
			dev, err := cuda.New(lib.Machine(1), precision)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			eachReference(t, dev, tolerance)
		})
	}
}
