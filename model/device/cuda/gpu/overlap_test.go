//go:build gpu

package gpu

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu/driver"
)

// sequences runs one sequence of launches three times, first as single launches and
// then as graphs, with a number that changes, and returns the numbers that it leaves.
func sequences(t *testing.T, m cuda.Machine) []float32 {
	t.Helper()
	d, err := cuda.New(m, device.FP32)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x := device.NewMat(d, 1, 5)
	d.Submit()
	for i := range 3 {
		d.Fill(x, float64(i))
		for range 10 {
			d.Axpy(x, 1, x)
		}
		d.Submit()
	}
	got := make([]float32, 5)
	d.Download(got, x)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestOverlap checks that launches overlap unless the variable is set or the driver
// rejects it, and that results do not depend on it.
func TestOverlap(t *testing.T) {
	open(t).Close()
	rejected := strings.Contains(os.Getenv(driver.Variable), "overlap=0")
	for _, plain := range []string{"", "1"} {
		t.Setenv(PlainVariable, plain)
		m := open(t).(*machine)
		for i, v := range sequences(t, m) {
			if v != 2*1024 {
				t.Errorf("number %d is %g, want 2 doubled ten times", i, v)
			}
		}
		if want := plain == "" && m.isa == "sm_90a" && !rejected; want != (m.overlap != 0) {
			t.Errorf("on %s with %q: overlapping %d", m.isa, plain, m.overlap)
		}
	}
	if os.Getenv(driver.Variable) == "" || rejected {
		return
	}
	rejecting := exec.Command(os.Args[0], "-test.run=^TestOverlap$")
	rejecting.Env = append(os.Environ(), driver.Variable+"=overlap=0")
	if out, err := rejecting.CombinedOutput(); err != nil {
		t.Errorf("with a driver that refuses to overlap launches: %v\n%s", err, out)
	}
}
