package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"scalewm/mujoco"
)

const width, height = 120, 90 // of the recorded frames

// scene loads testdata/scene.xml; it skips the test if there is no MuJoCo.
func scene(t testing.TB) (*mujoco.Model, *mujoco.Data) {
	t.Helper()
	xml, err := os.ReadFile("testdata/scene.xml")
	must(t, err)
	m, d := world(t, string(xml))
	must(t, d.Forward())
	return m, d
}

// world returns a model with data. It skips the test if there is no MuJoCo.
func world(t testing.TB, xml string) (*mujoco.Model, *mujoco.Data) {
	t.Helper()
	m, err := mujoco.LoadXML(xml, nil)
	if errors.Is(err, mujoco.ErrNoLibrary) {
		t.Skip("mujoco: library not fetched")
	}
	must(t, err)
	t.Cleanup(m.Close)
	d, err := m.NewData()
	must(t, err)
	t.Cleanup(d.Close)
	return m, d
}

// pair returns a renderer and the plain renderer that is its reference.
func pair(t testing.TB, m *mujoco.Model, w, h int) (kept, plain *Renderer) {
	t.Helper()
	kept = newRenderer(t, m, w, h)
	plain, err := NewPlain(m, w, h)
	must(t, err)
	t.Cleanup(plain.Close)
	return kept, plain
}

func newRenderer(t testing.TB, m *mujoco.Model, w, h int) *Renderer {
	t.Helper()
	r, err := New(m, w, h)
	if errors.Is(err, ErrNoOpenGL) {
		t.Skipf("render: no OpenGL: %v", err)
	}
	must(t, err)
	t.Cleanup(r.Close)
	return r
}

func draw(t testing.TB, r *Renderer, d *mujoco.Data, camera int) []byte {
	t.Helper()
	frame := make([]byte, r.Bytes())
	must(t, r.Render(t.Context(), d, camera, frame))
	return frame
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorded reads a frame drawn by MuJoCo's Python package: see testdata/peers.py.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".png"))
	must(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	must(t, err)
	var out []byte
	for y := range height {
		for x := range width {
			r, g, b, _ := img.At(x, y).RGBA()
			out = append(out, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return out
}

// sameFrame requires equal bytes if this machine has the OpenGL of the recording. With
// another OpenGL, at most 2 % of the bytes may differ by more than 16 levels.
func sameFrame(t *testing.T, r *Renderer, name string, got []byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/frames.json")
	must(t, err)
	var made struct{ Renderer, Version string }
	must(t, json.Unmarshal(b, &made))
	want, differ, far := recorded(t, name), 0, 0
	for i := range got {
		if d := int(got[i]) - int(want[i]); d != 0 {
			differ++
			if d < -16 || d > 16 {
				far++
			}
		}
	}
	same := r.Info().Renderer == made.Renderer && r.Info().Version == made.Version
	if same && differ > 0 || far > len(got)/50 {
		t.Errorf("%s: %d of %d bytes differ, %d by more than 16 levels", name, differ, len(got), far)
	}
}

func TestFramesEqualPython(t *testing.T) {
	m, d := scene(t)
	r := newRenderer(t, m, width, height)
	if want := os.Getenv("RENDER_TEST_BACKEND"); want != "" && r.Info().Backend != want {
		t.Fatalf("drawn by %s, want %s", r.Info().Backend, want)
	}
	side, err := m.ID(mujoco.ObjCamera, "side")
	must(t, err)
	for _, at := range []string{"0", "100"} {
		if at == "100" {
			must(t, d.Step(100))
			must(t, d.Forward())
		}
		sameFrame(t, r, "side_"+at, draw(t, r, d, side))
	}
	// Changed colours and lights are visible without a new renderer.
	box, err := m.ID(mujoco.ObjGeom, "box")
	must(t, err)
	copy(mujoco.Row(mujoco.Array[float32](m, "geom_rgba"), box, 4), []float32{1, 1, 0, 1})
	copy(mujoco.Array[float32](m, "light_diffuse"), []float32{0.3, 0.3, 0.3})
	sameFrame(t, r, "recoloured", draw(t, r, d, side))
}

// TestBackends draws the same frames with each backend, each in a separate process because
// a process can use only one.
func TestBackends(t *testing.T) {
	scene(t)
	for name, env := range map[string][]string{
		"EGL":    {"MUJOCO_GL=egl"},
		"OSMesa": {"MUJOCO_GL=osmesa"},
		// If EGL has no such device, OSMesa draws, and MuJoCo must not find EGL's functions.
		"OSMesa after EGL": {"MUJOCO_GL=", "MUJOCO_EGL_DEVICE_ID=99"},
	} {
		want, _, _ := strings.Cut(name, " ")
		cmd := exec.Command(os.Args[0], "-test.run=^TestFramesEqualPython$", "-test.v")
		cmd.Env = append(append(os.Environ(), "RENDER_TEST_BACKEND="+want), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		} else if bytes.Contains(out, []byte("--- SKIP")) {
			t.Logf("%s is not on this machine", name)
		}
	}
}

func TestNothingWorks(t *testing.T) {
	scene(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFramesEqualPython$", "-test.v")
	cmd.Env = append(os.Environ(), "MUJOCO_GL=egl", "MUJOCO_EGL_DEVICE_ID=99")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("no off-screen OpenGL; EGL: ")) || !bytes.Contains(out, []byte("(hint: ")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSizes(t *testing.T) {
	m, d := scene(t)
	big := newRenderer(t, m, 300, 260) // more than the model's offwidth
	frame := draw(t, big, d, 0)
	if n := bytes.Count(frame, frame[:3]); n == len(frame)/3 {
		t.Error("a frame of one colour")
	}
	sky, floor := int(frame[2]), int(frame[len(frame)-1])
	if sky <= floor {
		t.Errorf("blue of the first pixel %d, of the last %d: the sky is not on top", sky, floor)
	}
	for _, s := range [][2]int{{0, 10}, {10, -1}, {MaxSize + 1, 10}} {
		if r, err := New(m, s[0], s[1]); err == nil {
			r.Close()
			t.Errorf("frames of %v", s)
		}
	}
}

func TestRendererErrors(t *testing.T) {
	m, d := scene(t)
	m2, d2 := scene(t)
	r := newRenderer(t, m, 16, 16)
	frame := make([]byte, r.Bytes())
	closed, err := m.NewData()
	must(t, err)
	closed.Close()
	for name, tc := range map[string]struct {
		d    *mujoco.Data
		cam  int
		dst  []byte
		want string
	}{
		"no such camera": {d, 1, frame, "camera 1: the model has 1"},
		"negative":       {d, -7, frame, "camera"},
		"too short":      {d, 0, frame[1:], "16 x 16"},
		"another model":  {d2, 0, frame, "another model"},
		"closed data":    {closed, 0, frame, "Close"},
	} {
		if err := r.Render(t.Context(), tc.d, tc.cam, tc.dst); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, r.Render(t.Context(), d, 0, frame))
	r.Close()
	r.Close()
	if r.Render(t.Context(), d, 0, frame) != ErrClosed {
		t.Error("a closed renderer works")
	}
	m2.Close()
	if _, err := New(m2, 16, 16); err != mujoco.ErrClosed {
		t.Errorf("of a closed model: %v", err)
	}
}

// TestGivenUpFrame blocks the renderer's thread, as a hanging driver would.
func TestGivenUpFrame(t *testing.T) {
	m, d := scene(t)
	r := newRenderer(t, m, 16, 16)
	frame := make([]byte, r.Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	hold := make(chan struct{})
	err := r.doWithin(ctx, func() {
		cancel()
		<-hold
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a hanging frame: %v", err)
	}
	if again := r.Render(t.Context(), d, 0, frame); again != err {
		t.Errorf("the next one: %v, want %v", again, err)
	}
	close(hold)
	fresh := newRenderer(t, m, 16, 16)
	if err := fresh.Render(ctx, d, 0, frame); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended before: %v", err)
	}
	must(t, fresh.Render(t.Context(), d, 0, frame))
}

func TestFramesAllocateNothing(t *testing.T) {
	m, d := scene(t)
	r := newRenderer(t, m, 16, 16)
	frame := make([]byte, r.Bytes())
	ctx := t.Context()
	if n := testing.AllocsPerRun(5, func() { must(t, r.Render(ctx, d, 0, frame)) }); n != 0 {
		t.Errorf("a frame allocates %g times", n)
	}
}

func TestManyRenderersDrawTheSame(t *testing.T) {
	m, d := scene(t)
	want := draw(t, newRenderer(t, m, 32, 32), d, 0)
	var wg sync.WaitGroup
	for range 2 {
		r := newRenderer(t, m, 32, 32)
		mine, err := m.NewData()
		must(t, err)
		t.Cleanup(mine.Close)
		must(t, mine.Forward())
		wg.Go(func() {
			frame := make([]byte, r.Bytes())
			for range 3 {
				if err := r.Render(t.Context(), mine, 0, frame); err != nil || !bytes.Equal(frame, want) {
					t.Errorf("a frame differs (%v)", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestRenderersComeAndGo(t *testing.T) {
	m, d := scene(t)
	want := draw(t, newRenderer(t, m, 32, 32), d, 0)
	for range 4 {
		r, err := New(m, 32, 32)
		must(t, err)
		if !bytes.Equal(draw(t, r, d, 0), want) {
			t.Error("a frame differs")
		}
		r.Close()
	}
}
