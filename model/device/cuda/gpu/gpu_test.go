//go:build gpu

package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu/driver"
	"scalewm/model/device/devicetest"
)

// TestMain runs the tests on the GPU, or, if there is none, on the emulated one. There
// it skips the slow invariance cases, which package cuda's tests run on the same
// kernels.
func TestMain(m *testing.M) {
	var less []string
	if os.Getenv("SCALEWM_EMULATE_ALL") == "" {
		less = append(less, "-test.skip=^TestConformance$/./^invariance$")
	}
	driver.RunTests(m, available(), less...)
}

// open starts the GPU, or skips the test with the reason why there is none.
func open(t *testing.T) cuda.Machine {
	t.Helper()
	m, err := Open()
	if err != nil {
		driver.SkipOrFail(t, err)
	}
	return m
}

// TestNoGPU checks that Open returns an error with a hint where the GPU cannot be used.
// The child process only prints what Open returned.
func TestNoGPU(t *testing.T) {
	if os.Getenv("SCALEWM_OPEN") != "" {
		_, err := Open()
		fmt.Println(err)
		return
	}
	if os.Getenv(driver.Variable) == "" && available() == nil {
		t.Skip("there is a real driver, which is found wherever the loader looks")
	}
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	if os.Getenv(driver.Variable) == "" {
		dirs = []string{""}
	}
	t.Setenv("SCALEWM_OPEN", "1")
	for _, c := range []struct{ dir, settings, want string }{
		{"/nowhere", "order=1", "no NVIDIA driver: libcuda.so.1 was not found (hint: use --device cpu"},
		{dirs[0], "devices=0", "no NVIDIA GPU is visible (hint: use --device cpu"},
		{dirs[0], "version=12020", "NVIDIA's driver supports CUDA 12.2, but 12.8 is required (hint: use --device cpu"},
		{dirs[0], "capability=75", "starting the GPU: its compute capability is 7.5, but 8.0 is required (hint: use --device cpu)"},
		{dirs[0], "launch=1", "starting the GPU: IllegalAddress (hint: the failure may persist for as long as the process; set SCALEWM_CUDA_TARGET=sm_80"},
		{dirs[0], "launch=1,capability=80", "<nil>"}, // without a check of wgmma nothing is launched
	} {
		if c.dir == "" {
			continue // no folder of an emulated driver: there is a real GPU
		}
		t.Setenv("LD_LIBRARY_PATH", "")
		var said strings.Builder
		if driver.RunChild(c.dir, c.settings, []string{"-test.run=^TestNoGPU$"}, &said); !strings.HasPrefix(said.String(), c.want) {
			t.Errorf("%s %s: %q, want %q", c.dir, c.settings, said.String(), c.want)
		}
	}
}

// TestEmbedded checks that PTX for both kinds of GPU is in the program.
func TestEmbedded(t *testing.T) {
	for _, isa := range []string{"sm_80", "sm_90a"} {
		files, err := ptx(isa)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", isa, len(files), err)
		}
	}
	if _, err := ptx("sm_70"); err == nil || !strings.Contains(err.Error(), "make cuda") {
		t.Errorf("sm_70: %v", err)
	}
}

// TestConformance runs the contract's conformance suite on the GPU.
func TestConformance(t *testing.T) {
	open(t).Close()
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		t.Run(string(p), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T, _ int) device.Device {
				d, err := cuda.New(open(t), p)
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}

// TestOutOfMemory checks that the error names the requested size, and that it sticks to
// the device.
func TestOutOfMemory(t *testing.T) {
	d, err := cuda.New(open(t), device.FP32)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Alloc(1<<40, device.Float32)
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "requested 4194304 MiB") {
		t.Errorf("4 TiB: %v", err)
	}
}
