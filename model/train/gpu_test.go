//go:build cuda

package train

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
	open := func(p device.Precision) device.Device {
		m, err := gpu.Open()
		if err != nil {
			driver.Missing(t, err)
		}
		dev, err := cuda.New(m, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	eachSmall(t, []tried{{open(device.FP32), singleBounds}, {open(device.BF16), bf16Bounds}})
}
