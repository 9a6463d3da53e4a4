//go:build gpu

package dinov2

import (
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda/emu/driver"
	"scalewm/model/device/cuda/gpu"
)

func TestMain(m *testing.M) {
	_, none := gpu.Describe()
	driver.RunTests(m, none)
}

// TestGPUReference is TestReference on the GPU, or an emulated one.
func TestGPUReference(t *testing.T) {
	for p, tol := range map[device.Precision]float64{device.FP32: singleTolerance, device.BF16: bf16Tolerance} {
		t.Run(string(p), func(t *testing.T) {
			eachCase(t, func(t *testing.T, c *refCase) { c.run(t, driver.Device(t, gpu.Open, p), tol) })
		})
	}
}
