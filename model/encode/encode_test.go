package encode

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
)

const rows = 40

// dataSet writes three episodes of 40 rows with random frames, an action that is NaN
// in the last row and a state of two numbers.
func dataSet(t *testing.T, size int) *hdf5.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.h5")
	w, err := hdf5.Create(path, hdf5.WriterOptions{FrameSize: size, Attrs: map[string]string{"env": "case", "data": "theirs"},
		Columns: []envs.Column{{Name: "action", DType: "float32", Width: 1}, {Name: "state", DType: "float64", Width: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{7, 20, 13} {
		ep := hdf5.EpisodeData{Columns: map[string][]float64{"action": make([]float64, n), "state": make([]float64, 2*n)}}
		ep.Columns["action"][n-1] = math.NaN()
		for i := range ep.Columns["state"] {
			ep.Columns["state"][i] = r.NormFloat64()
		}
		for range n {
			f := make([]byte, envs.FrameBytes)
			for i := range f {
				f[i] = byte(r.Uint32())
			}
			if size > 0 {
				ep.Frames = append(ep.Frames, f)
			}
		}
		if err := w.Append(ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t *testing.T, path string) *hdf5.File {
	t.Helper()
	f, err := hdf5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func world(t *testing.T, dev device.Device) *lewm.Model {
	t.Helper()
	m, err := lewm.New(dev, lewm.Config{ImageSize: 16, Patch: 8, Width: 8, Layers: 2, Heads: 2, MLP: 12, Dim: 5, Projector: 10, PredictorDepth: 1,
		PredictorHeads: 2, PredictorHeadDim: 4, PredictorMLP: 9, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func job(t *testing.T, data *hdf5.File, dev device.Device) Job {
	return Job{Data: data, World: world(t, dev), Weights: "abc", Out: filepath.Join(t.TempDir(), "z.h5"), Workers: 2, partRows: 16}
}

// latents encodes one frame at a time, resized explicitly.
func latents(t *testing.T, m *lewm.Model, data *hdf5.File) []float64 {
	t.Helper()
	dev := m.Device()
	frame, small := make([]byte, envs.FrameBytes), make([]byte, 16*16*3)
	px, z := dev.AllocBytes(len(small)), device.NewMat(dev, 1, 5)
	var want []float64
	for i := range rows {
		if err := data.Frame(i, frame); err != nil {
			t.Fatal(err)
		}
		dataset.NewResizer(envs.FrameSize, 16).Resize(small, frame)
		dev.UploadBytes(px, small)
		m.Encode(z, px, 1)
		v := make([]float32, 5)
		dev.Download(v, z)
		for _, x := range v {
			want = append(want, float64(x))
		}
	}
	return want
}

func TestRun(t *testing.T) {
	data := dataSet(t, envs.FrameSize)
	j := job(t, data, ref.New())
	r, err := Run(t.Context(), j)
	if err != nil || r != (Result{Rows: rows, Episodes: 3, Width: 5, New: rows}) {
		t.Fatalf("%+v, %v", r, err)
	}
	out := open(t, j.Out)
	got, err := out.Read(Column, 0, rows)
	if err != nil || !slices.Equal(got, latents(t, j.World.(*lewm.Model), data)) {
		t.Errorf("latents differ from those of single frames (%v)", err)
	}
	for _, c := range []string{"state", "ep_idx", "step_idx"} {
		a, err := data.Read(c, 0, rows)
		b, err2 := out.Read(c, 0, rows)
		if err != nil || err2 != nil || !slices.Equal(a, b) {
			t.Errorf("column %s was not copied: %v, %v", c, err, err2)
		}
	}
	if a, err := out.Read("action", 26, 28); err != nil || !math.IsNaN(a[0]) || a[1] != 0 {
		t.Errorf("actions at the end of episode 1: %v, %v", a, err)
	}
	if !slices.Equal(out.Episodes(), data.Episodes()) || out.FrameSize() > 0 {
		t.Errorf("episodes %v, frames %v", out.Episodes(), out.FrameSize() > 0)
	}
	fp, _ := data.Fingerprint()
	for name, want := range map[string]string{"env": "case", "data": fp, "weights": "abc", "device": "ref/plain/fp64", "kind": "lewm", "patches": "1", "dim": "5"} {
		if v, _ := out.Attr(name); v != want && !(name == "device" && strings.HasPrefix(v, "ref/")) {
			t.Errorf("attribute %s is %q, want %q", name, v, want)
		}
	}
	if _, err := os.Stat(j.Out + ".parts"); err == nil {
		t.Error("the parts were left")
	}
}

// The file does not depend on the number of workers, the size of parts, the number of
// interruptions, or on other files in the folder of the parts.
func TestSameBytes(t *testing.T) {
	data := dataSet(t, envs.FrameSize)
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	whole := job(t, data, dev)
	if _, err := Run(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(whole.Out)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(j *Job) (fresh int){
		"one worker":       func(j *Job) int { j.Workers = 1; return rows },
		"one part":         func(j *Job) int { j.partRows = 0; return rows },
		"interrupted":      func(j *Job) int { interrupt(t, *j); return rows - 16 },
		"a torn part":      func(j *Job) int { interrupt(t, *j); spoil(t, *j, []byte("torn")); return rows },
		"another's part":   func(j *Job) int { o := *j; o.Weights = "other"; interrupt(t, o); return rows },
		"nothing is there": func(j *Job) int { return rows },
	} {
		j := job(t, data, dev)
		fresh := change(&j)
		r, err := Run(t.Context(), j)
		got, err2 := os.ReadFile(j.Out)
		if err != nil || err2 != nil || r.New != fresh || !bytes.Equal(got, want) {
			t.Errorf("%s: %+v, %v, %v; want %d new rows and the same bytes", name, r, err, err2, fresh)
		}
	}
}

// interrupt runs a job and cancels it when its first part exists.
func interrupt(t *testing.T, j Job) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	j.Progress = func(int64, int64, string) { cancel() }
	if _, err := Run(ctx, j); err == nil {
		t.Fatal("the interrupted job went on")
	}
	if _, err := os.Stat(j.Out); err == nil {
		t.Fatal("the interrupted job left a file")
	}
}

func spoil(t *testing.T, j Job, b []byte) {
	t.Helper()
	paths, _ := filepath.Glob(j.Out + ".parts/*.safetensors")
	if len(paths) != 1 {
		t.Fatalf("parts %v, want one", paths)
	}
	if err := os.WriteFile(paths[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAgainAndRefusals(t *testing.T) {
	data := dataSet(t, envs.FrameSize)
	j := job(t, data, ref.New())
	if _, err := Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if r, err := Run(t.Context(), j); err != nil || !r.Skipped || r.New != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	other, bare, twice := j, job(t, dataSet(t, 0), ref.New()), j
	other.Weights = "def"
	twice.Data, twice.Out = open(t, j.Out), filepath.Join(t.TempDir(), "zz.h5")
	for name, c := range map[string]struct {
		j    Job
		want string
	}{"other weights": {other, "holds something else"}, "no frames": {bare, "no pixels"}, "latents": {twice, "no pixels"}} {
		if _, err := Run(t.Context(), c.j); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want %q and a hint", name, err, c.want)
		}
	}
}
