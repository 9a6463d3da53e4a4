//go:build cuda

package plan_test

import (
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu/driver"
	"scalewm/model/device/cuda/gpu"
)

func TestMain(m *testing.M) {
	_, none := gpu.Describe()
	driver.Main(m, none)
}

// TestGPUReference is TestReference on the GPU, or an emulated one.
func TestGPUReference(t *testing.T) {
	eachPlanners(t, func(t *testing.T) map[string]device.Device {
		m, err := gpu.Open()
		if err != nil {
			driver.Missing(t, err)
		}
		dev, err := cuda.New(m, device.FP32)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return map[string]device.Device{"cuda": dev}
	})
}
