//go:build gpu

package amortised

import (
	"testing"

	"scalewm/model/device/cuda/emu/driver"
	"scalewm/model/device/cuda/gpu"
)

func TestMain(m *testing.M) {
	_, none := gpu.Describe()
	driver.RunTests(m, none)
}

// TestGPUReference is TestReference on the GPU, or an emulated one.
func TestGPUReference(t *testing.T) {
	for p, tolerance := range tolerances {
		t.Run(string(p), func(t *testing.T) { eachReference(t, driver.Device(t, gpu.Open, p), tolerance) })
	}
}
