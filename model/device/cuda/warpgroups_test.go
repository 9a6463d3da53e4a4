package cuda_test

import (
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/devicetest"
)

// TestWarpgroups runs the conformance suite of bf16 on an emulated Hopper GPU.
func TestWarpgroups(t *testing.T) {
	lib := emulator(t)
	devicetest.Run(t, func(t *testing.T, order int) device.Device {
		d, err := cuda.New(lib.Hopper(order), device.BF16)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// recorder records the kernels that run.
type recorder struct {
	cuda.Machine
	ran map[string]bool
}

func (r recorder) Run(launches []cuda.Launch, args []byte) error {
	for _, l := range launches {
		r.ran[l.Kernel.String()] = true
	}
	return r.Machine.Run(launches, args)
}

// TestCheckWarpgroups checks that the self-test of a Hopper GPU passes on the emulator
// and runs every wgmma kernel.
func TestCheckWarpgroups(t *testing.T) {
	r := recorder{emulator(t).Hopper(1), map[string]bool{}}
	if err := cuda.CheckWarpgroups(r); err != nil {
		t.Error(err)
	}
	for _, name := range cuda.Kernels(r.ISA()) {
		if strings.HasPrefix(name, "wgmma_") && !r.ran[name] {
			t.Errorf("kernel %s does not run in the self-test", name)
		}
	}
}

// TestWarpgroupTilesAgree checks that an element has the same bits whatever tile the
// engine chooses. A GPU that one block keeps busy gets panels or, where the inner
// dimension is longer, the largest tiles; one of 4 blocks the middle ones, and one of a
// million the smallest.
func TestWarpgroupTilesAgree(t *testing.T) {
	lib := emulator(t)
	for _, s := range []shape{{200, 200, 40}, {3, 24, 192}, {230, 65, 200}} {
		for _, op := range []device.Op{device.NN, device.NT} {
			tilesAgree(t, op, s, func(i int) cuda.Machine { return lib.Hopper(i + 1) }, []int{1, 4, 1 << 20})
		}
	}
}
