//go:build gpu

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"scalewm/model/device/cuda/emu"
	"scalewm/model/device/cuda/emu/driver"
)

// TestGPU runs the sessions of testdata/gpu: this program with a driver library whose GPU is
// emulated. The variable DRIVER is the folder of that library.
func TestGPU(t *testing.T) {
	dir, release, err := driver.BuildShared()
	if errors.Is(err, emu.ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	preset, err := os.ReadFile("testdata/gpu/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/gpu",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DRIVER", dir)
			e.Setenv("LD_LIBRARY_PATH", dir)
			e.Setenv(driver.Variable, "order=1")
			return os.WriteFile(filepath.Join(e.WorkDir, "tiny.toml"), preset, 0o644)
		},
	})
}
