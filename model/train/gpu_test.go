//go:build gpu

package train

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
	eachSmall(t, []tried{{driver.Device(t, gpu.Open, device.FP32), singleBounds}, {driver.Device(t, gpu.Open, device.BF16), bf16Bounds}})
}
