//go:build gpu

package plan_test

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
	eachPlanners(t, func(t *testing.T) map[string]device.Device {
		return map[string]device.Device{"cuda": driver.Device(t, gpu.Open, device.FP32)}
	})
}
