package render

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"scalewm/mujoco/internal/mjc"
)

func TestAttempts(t *testing.T) {
	egl, osmesa := attempt{"EGL", mjc.EGL, -1}, attempt{"OSMesa", mjc.OSMesa, -1}
	for name, tc := range map[string]struct {
		gl, device string
		want       []attempt
		err        string
	}{
		"unset":        {"", "", []attempt{egl, osmesa}, ""},
		"egl":          {"egl", "", []attempt{egl}, ""},
		"osmesa":       {"osmesa", "", []attempt{osmesa}, ""},
		"second card":  {"egl", "1", []attempt{{"EGL", mjc.EGL, 1}}, ""},
		"glfw":         {"glfw", "", nil, "MUJOCO_GL=glfw"},
		"no number":    {"", "x", nil, "MUJOCO_EGL_DEVICE_ID=x"},
		"negative one": {"", "-1", nil, "MUJOCO_EGL_DEVICE_ID=-1"},
	} {
		env := map[string]string{"MUJOCO_GL": tc.gl, "MUJOCO_EGL_DEVICE_ID": tc.device}
		got, err := attempts(func(k string) string { return env[k] })
		if !reflect.DeepEqual(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestChoose(t *testing.T) {
	list := []attempt{{"EGL", mjc.EGL, -1}, {"OSMesa", mjc.OSMesa, -1}}
	open := func(working ...mjc.Backend) func(mjc.Backend, int) error {
		return func(b mjc.Backend, _ int) error {
			for _, w := range working {
				if b == w {
					return nil
				}
			}
			return errors.New("not here")
		}
	}
	if name, err := choose(list, open(mjc.EGL, mjc.OSMesa)); name != "EGL" || err != nil {
		t.Errorf("with both: %s, %v", name, err)
	}
	if name, err := choose(list, open(mjc.OSMesa)); name != "OSMesa" || err != nil {
		t.Errorf("without EGL: %s, %v", name, err)
	}
	_, err := choose(list, open())
	if !errors.Is(err, ErrNoOpenGL) || !strings.Contains(err.Error(), "EGL: not here; OSMesa: not here (hint: ") {
		t.Errorf("with none: %v", err)
	}
	if _, err := choose(list[:1], open(mjc.OSMesa)); err == nil || !strings.Contains(err.Error(), "(hint: unset MUJOCO_GL to try EGL and OSMesa; apt-get") {
		t.Errorf("with EGL alone allowed: %v", err)
	}
}
