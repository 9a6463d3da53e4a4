//go:build gpu

package lewm

import (
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
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
	for p, tol := range map[device.Precision]tolerances{device.FP32: singleTolerances, device.BF16: bf16Tolerances} {
		t.Run(string(p), func(t *testing.T) {
			eachPaper(t, func(t *testing.T, path string, tree *hdf5test.Tree) {
				(&paperCase{T: t, tree: tree, tolerances: tol}).run(path, driver.Device(t, gpu.Open, p))
			})
		})
	}
}
