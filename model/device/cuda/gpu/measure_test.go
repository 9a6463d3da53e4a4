//go:build gpu

package gpu

import (
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/roofline"
)

// TestMeasure checks that all rates are measured and their source is named.
func TestMeasure(t *testing.T) {
	open(t).Close()
	r, err := Measure()
	if err != nil {
		t.Fatal(err)
	}
	if r.Name == "" || r.By == "" || r.FP32 <= 0 || r.BF16 <= 0 || r.Copy <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestTimed checks that launches are counted whether they come as a graph or not, that
// they take time, and that the results are those of any other machine.
func TestTimed(t *testing.T) {
	open(t).Close()
	m, err := OpenTimed(roofline.H200)
	if err != nil {
		t.Fatal(err)
	}
	d, err := cuda.New(m, device.FP32)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x, y := device.NewMat(d, 3, 5), device.NewMat(d, 3, 5)
	d.Sync()
	m.Reset()
	const rounds, each = 3, 2 * chunkLaunches // from the second round on a graph
	for i := range rounds {
		d.Fill(x, float64(i+1))
		for range each - 1 {
			d.Axpy(y, 1, x)
		}
		d.Sync()
	}
	got := make([]float32, 15)
	d.Download(got, y)
	if want := float32((1 + 2 + 3) * (each - 1)); got[0] != want || got[14] != want {
		t.Errorf("sums %g, want %g", got, want)
	}
	launches := 0
	for _, k := range m.Times() {
		launches += k.Launches
		if k.Seconds <= 0 || k.Floor <= 0 {
			t.Errorf("%+v", k)
		}
	}
	if launches != rounds*each {
		t.Errorf("%d launches, want %d", launches, rounds*each)
	}
}

// TestTarget checks that a GPU runs the kernels that the variable names, and that
// Ampere's, which do not wait for their predecessor, are not launched with overlap.
func TestTarget(t *testing.T) {
	open(t).Close()
	t.Setenv(TargetVariable, "sm_80")
	m := open(t).(*machine)
	defer m.Close()
	if m.ISA() != "sm_80" || m.overlap != 0 {
		t.Errorf("%s, overlap %d", m.ISA(), m.overlap)
	}
	t.Setenv(TargetVariable, "sm_70")
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "no kernels for sm_70") {
		t.Errorf("sm_70: %v", err)
	}
}
