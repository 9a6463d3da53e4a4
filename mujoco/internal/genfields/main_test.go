package main

import (
	"os"
	"testing"

	"scalewm/mujoco/internal/mjc"
)

// TestGeneratedFileIsCurrent compares the methods in the tree with what the pinned
// headers say.
func TestGeneratedFileIsCurrent(t *testing.T) {
	needHeaders(t)
	if got, err := os.ReadFile("../../fields.go"); err != nil || string(got) != string(generate()) {
		t.Errorf("fields.go differs from what the headers say (%v) (hint: go generate ./mujoco)", err)
	}
}

func TestGoNames(t *testing.T) {
	needHeaders(t) // they say what is a size
	for c, want := range map[string]string{
		"body_mass": "BodyMass", "qpos": "QPos", "nbody": "NBody", "nu": "NU", "nM": "NM", "geom_rgba": "GeomRGBA",
		"site_xpos": "SiteXPos", "cfrc_ext": "CFrcExt", "jnt_qposadr": "JntQPosAdr", "opt_timestep": "OptTimestep",
	} {
		if got := goName(c); got != want {
			t.Errorf("%s is %s, want %s", c, got, want)
		}
	}
}

func needHeaders(t *testing.T) {
	t.Helper()
	if mjc.Headers() != mjc.Version {
		t.Skip("mujoco: library not fetched")
	}
}
