package mujoco

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
)

// needLibrary skips the test if MuJoCo's library is not there.
func needLibrary(t testing.TB) {
	t.Helper()
	if err := Open(); errors.Is(err, ErrNoLibrary) {
		t.Skip("mujoco: library not fetched")
	} else if err != nil {
		t.Fatal(err)
	}
}

func world(t testing.TB) *Model {
	t.Helper()
	needLibrary(t)
	xml, err := os.ReadFile("testdata/world.xml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadXML(string(xml), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func newData(t testing.TB, m *Model) *Data {
	t.Helper()
	d, err := m.NewData()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// floats decodes an array of numbers in testdata/world.json.
type floats []float64

func (f *floats) UnmarshalText(b []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(b))
	if err != nil {
		return err
	}
	for ; len(raw) >= 8; raw = raw[8:] {
		*f = append(*f, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	}
	return nil
}

// recording holds the states computed by MuJoCo's Python package: see testdata/peers.py.
type recording struct {
	Ctrl, States, Sensors, Mass floats
	JacTip                      floats `json:"jac_tip"`
}

func readRecording(t testing.TB) (r recording) {
	t.Helper()
	b, err := os.ReadFile("testdata/world.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// sameBits reports the first difference between two arrays.
func sameBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// replay steps d through the recorded controls.
func replay(t testing.TB, d *Data, r recording, each func(step int)) {
	t.Helper()
	nu := d.Model().Size("nu")
	for i := range len(r.Ctrl) / nu {
		copy(d.Ctrl(), r.Ctrl[i*nu:])
		if err := d.Step(1); err != nil {
			t.Fatal(err)
		}
		each(i)
	}
}

func TestStepsEqualPython(t *testing.T) {
	m, r := world(t), readRecording(t)
	d := newData(t, m)
	const spec = StateFullPhysics | StateWarmstart
	n, err := m.StateSize(spec)
	if err != nil {
		t.Fatal(err)
	}
	state, ns := make([]float64, n), m.Size("nsensordata")
	replay(t, d, r, func(i int) {
		if err := d.State(state, spec); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "state", state, r.States[i*n:(i+1)*n])
		sameBits(t, "sensors", Array[float64](d, "sensordata"), r.Sensors[i*ns:(i+1)*ns])
	})
	sameBits(t, "mass", Array[float64](m, "body_mass"), r.Mass)
}

func TestJacobianEqualsPython(t *testing.T) {
	m, r := world(t), readRecording(t)
	d := newData(t, m)
	replay(t, d, r, func(int) {})
	must(t, d.Forward())
	jac := make([]float64, 6*m.Size("nv"))
	tip, err := m.ID(ObjSite, "tip")
	must(t, err)
	must(t, d.JacSite(tip, jac[:3*m.Size("nv")], jac[3*m.Size("nv"):]))
	sameBits(t, "Jacobian of the tip", jac, r.JacTip)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
