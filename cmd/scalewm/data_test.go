package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/gif"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// dataFile writes two episodes of 4 and 21 rows; the action of row nan is NaN.
func dataFile(t *testing.T, nan int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.h5")
	w, err := hdf5.Create(path, hdf5.WriterOptions{Columns: []envs.Column{{Name: "action", DType: "float32", Width: 2}}, FrameSize: envs.FrameSize, Attrs: map[string]string{"env": "tworoom", "by": "\x1b[2J\u009b\n  fingerprint  0", "flag": "\U000e0067"}})
	if err != nil {
		t.Fatal(err)
	}
	row := 0
	for _, n := range []int{4, 21} {
		ep := hdf5.EpisodeData{Columns: map[string][]float64{}}
		for i := range n {
			a := 0.5
			if i == n-1 || row == nan {
				a = math.NaN()
			}
			ep.Columns["action"] = append(ep.Columns["action"], a, a)
			ep.Frames = append(ep.Frames, bytes.Repeat([]byte{byte(row), 10, 200}, envs.FrameBytes/3))
			row++
		}
		if err := w.Append(ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDataInfo(t *testing.T) {
	path := dataFile(t, -1)
	out, errs, code := session("data", "info", path, "--json")
	var i fileInfo
	if err := json.Unmarshal([]byte(out), &i); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v, %q", code, err, errs)
	}
	// One clip of 4 frames, 5 rows apart, starts at rows 0 and 1 of an episode of 21.
	if i.Rows != 25 || i.Episodes != 2 || i.MinLength != 4 || i.MaxLength != 21 || i.MeanLength != 12.5 || i.Clips != 2 || !i.Frames || i.Storage != "deflate+fletcher32, 1 per chunk" {
		t.Errorf("%+v", i)
	}
	if i.Attributes["flag"] != "\U000e0067" || i.Attributes["by"] != "\x1b[2J\u009b\n  fingerprint  0" {
		t.Errorf("attributes in JSON: %q", i.Attributes)
	}
	text, _, _ := session("data", "info", path)
	for _, want := range []string{"length 4 to 21, mean 12.50", "action", "float32 x 2", "deflate+fletcher32, 1 per chunk", i.Fingerprint, "env", `\u001b[2J\u009b\n  fingerprint  0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestDataCheck(t *testing.T) {
	path := dataFile(t, -1)
	out, errs, code := session("data", "check", path)
	if code != exitDone || !strings.Contains(out, "no problems in 2 episodes, 25 rows, 25 frames") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	spoilt := dataFile(t, 6)
	out, errs, code = session("data", "check", "--json", spoilt)
	var r checkResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || r.OK || len(r.Problems) != 1 || r.Problems[0] != "episode 1, step 2 (row 6): action[0] is NaN" {
		t.Errorf("exit %d, %+v", code, r)
	}
	if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "1 problems, the first: episode 1, step 2") {
		t.Errorf("stderr %q", errs)
	}
}

// A torn file, a file of another format and a missing one give one line and exit code 1.
func TestDataCheckBadFiles(t *testing.T) {
	whole, err := os.ReadFile(dataFile(t, -1))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"torn.h5": whole[:len(whole)*2/3], "notes.h5": []byte("notes")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"torn.h5", "notes.h5", "missing.h5"} {
		for _, action := range []string{"check", "info"} {
			out, errs, code := session("data", action, filepath.Join(dir, name))
			if code != exitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, name) || !strings.Contains(errs, "hint") || out != "" {
				t.Errorf("%s %s: exit %d, %q, %q", action, name, code, out, errs)
			}
		}
		out, errs, code := session("data", "check", "--json", filepath.Join(dir, name))
		var r checkResult
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.OK || !strings.Contains(errs, r.Error) || r.Error == "" || code != exitFailed {
			t.Errorf("%s as JSON: exit %d, %v, %+v, %q", name, code, err, r, errs)
		}
	}
}

// The message about a child process that was ended by a signal.
func TestCrash(t *testing.T) {
	for _, c := range []struct {
		err       error
		complaint string
		want      string
	}{
		{errors.New("exit status 2"), "SIGSEGV: segmentation violation\nPC=0x7f\n", "SIGSEGV: segmentation violation"},
		{errors.New("signal: killed"), "", "signal: killed"},
		{nil, "", "no answer"},
	} {
		if got := crashReason(c.err, bytes.NewBufferString(c.complaint)); got != c.want {
			t.Errorf("%v, %q: %q", c.err, c.complaint, got)
		}
	}
}

func TestDataConvert(t *testing.T) {
	path := dataFile(t, -1)
	out := filepath.Join(t.TempDir(), "z.h5")
	text, errs, code := session("data", "convert", path, "--out", out, "--filter", "zstd", "--json")
	var before, after fileInfo
	if err := json.Unmarshal([]byte(text), &after); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v, %q", code, err, errs)
	}
	first, _, _ := session("data", "info", path, "--json")
	if err := json.Unmarshal([]byte(first), &before); err != nil {
		t.Fatal(err)
	}
	if after.Fingerprint != before.Fingerprint || after.Storage != "zstd+fletcher32, 1 per chunk" || after.Attributes["env"] != "tworoom" {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	for _, args := range [][]string{{path, "--out", out}, {path, "--out", path}} {
		if _, errs, code := session(append([]string{"data", "convert"}, args...)...); code != exitFailed || !strings.Contains(errs, "hint") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

func TestDataUsage(t *testing.T) {
	for _, c := range [][]string{{"data", "inof", "x.h5"}, {"data", "convert", "x.h5"}, {"data", "convert", "x.h5", "--out", "y.h5", "--filter", "rar"}, {"data", "info"},
		{"render", "x.h5"}, {"render", "x.h5", "--out", "x.bmp"}, {"collect", "tworoom"}, {"collect", "tworoom", "--out", "x.h5", "--size", "64"}, {"collect", "tworoom", "--out", "x.h5", "--switch", "sampler"},
		{"collect", "tworoom", "--out", "x.h5", "--policy", "exprt"}} {
		if _, errs, code := session(c...); code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d, %q", c, code, errs)
		}
	}
}

func TestRender(t *testing.T) {
	path := dataFile(t, -1)
	dir := t.TempDir()
	film, strip := filepath.Join(dir, "e.gif"), filepath.Join(dir, "e.png")
	for _, out := range []string{film, strip} {
		if _, errs, code := session("render", path, "--episode", "1", "--out", out); code != exitDone {
			t.Fatalf("exit %d, %q", code, errs)
		}
	}
	f, err := os.Open(film)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := gif.DecodeAll(f)
	if err != nil || len(g.Image) != 21 {
		t.Fatalf("%v, %d images", err, len(g.Image))
	}
	// Few colours: the palette holds them exactly. Row 4+2 is frame 2 of episode 1.
	if r, gr, b, _ := g.Image[2].At(100, 100).RGBA(); r>>8 != 6 || gr>>8 != 10 || b>>8 != 200 {
		t.Errorf("pixel %d %d %d, want 6 10 200", r>>8, gr>>8, b>>8)
	}
	s, err := os.Open(strip)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	img, err := png.Decode(s)
	if err != nil || img.Bounds().Dx() != 8*224 || img.Bounds().Dy() != 224 {
		t.Fatalf("%v, %v", err, img.Bounds())
	}
	if r, _, _, _ := img.At(8*224-1, 0).RGBA(); r>>8 != 24 { // the last row of the episode
		t.Errorf("the strip ends with row %d, want 24", r>>8)
	}
	_, errs, code := session("render", path, "--episode", "2", "--out", filepath.Join(dir, "second.gif"))
	if code != exitFailed || !strings.Contains(errs, "no episode 2") {
		t.Errorf("exit %d, %q", code, errs)
	}
	// A fake ffmpeg that writes the raw frames.
	if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte("#!/bin/sh\nfor last; do :; done\ncat > \"${last#file:}\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	mp4 := filepath.Join(dir, "new", "folder", "e.mp4")
	if _, errs, code := session("render", path, "--out", mp4); code != exitDone {
		t.Errorf("exit %d, %q", code, errs)
	}
	if raw, err := os.ReadFile(mp4); err != nil || len(raw)%envs.FrameBytes != 0 || len(raw) == 0 {
		t.Errorf("%d bytes of frames, %v", len(raw), err)
	}
	t.Setenv("PATH", t.TempDir())
	_, errs, code = session("render", path, "--out", filepath.Join(dir, "e.mp4"))
	if code != exitFailed || !strings.Contains(errs, "ffmpeg") || !strings.Contains(errs, "hint") {
		t.Errorf("without ffmpeg: exit %d, %q", code, errs)
	}
}

// swm_world.h5 is a recording of stable_worldmodel (testdata/swm_world.py): rows count from 1, and all rows of
// an episode have the observation of the first and the last row the action of another one. Its column id holds random integers of 64 bits.
func TestDataCheckOfARecorder(t *testing.T) {
	out, _, code := session("data", "check", "testdata/swm_world.h5")
	want := `episode 0, step 1 (row 1) and 5 more: observation equals that of the episode's first row, in every episode
episode 0, step 0 (row 0) and 7 more: step_idx starts at 1, not at 0
note: episode 0, step 3 (row 3) and 1 more: the last row of an episode has an action, although no row shows its result; other recorders write NaN there
note: episode 0: reading id of testdata/swm_world.h5: row 0 holds an integer beyond 2^53 that float64 cannot hold (hint: ` + "`scalewm data convert`" + ` copies it exactly, nothing else can use the column)
`
	if out != want || code != exitFailed {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestDataConvertEpisodes(t *testing.T) {
	episodes, out := "../../dataset/convert/testdata", filepath.Join(t.TempDir(), "own.h5")
	text, errs, code := session("data", "convert", filepath.Join(episodes, "a.npz"), filepath.Join(episodes, "b.npz"), "--out", out)
	if code != exitDone || !strings.Contains(text, "episodes     2, length 3 to 5") || !strings.Contains(errs, "note: ") || !strings.Contains(errs, "seed") {
		t.Errorf("exit %d, %s%s", code, text, errs)
	}
	if text, errs, code := session("data", "check", out); code != exitDone {
		t.Errorf("exit %d, %s%s", code, text, errs)
	}
	if _, errs, code := session("data", "convert", episodes, "--out", out); code != exitFailed || !strings.Contains(errs, "already exists") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if _, errs, code := session("data", "info", out, out); code != exitUsage || !strings.Contains(errs, "unexpected argument") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// cancelling is a writer that cancels a context at the first line.
type cancelling struct{ cancel func() }

func (c cancelling) Write(b []byte) (int, error) { c.cancel(); return len(b), nil }

// An interrupt after the file has its final name is ignored: repeating the command would
// fail because the file exists.
func TestConvertInterruptedAtItsEnd(t *testing.T) {
	path := dataFile(t, -1)
	out := filepath.Join(t.TempDir(), "o.h5")
	ctx, cancel := context.WithCancel(context.Background())
	err := run(ctx, []string{"data", "convert", path, "--out", out}, cancelling{cancel}, io.Discard)
	if _, statErr := os.Stat(out); err != nil || ctx.Err() == nil || statErr != nil {
		t.Errorf("%v, %v", err, statErr)
	}
	if err := run(ctx, []string{"data", "convert", path, "--out", out + "2"}, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// A killed or interrupted conversion leaves nothing at --out, or the complete file with exit
// code 0, and the same command works afterwards.
func TestConvertKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	path := filepath.Join(t.TempDir(), "long.h5")
	lengthen(t, dataFile(t, -1), path)
	f, err := hdf5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := f.Rows()
	f.Close()
	out := filepath.Join(t.TempDir(), "o.h5")
	convert := func(after time.Duration, with os.Signal) (int, string) {
		var errs bytes.Buffer
		cmd := exec.Command("scalewm", "data", "convert", path, "--out", out, "--filter", "none")
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if with != nil {
			time.Sleep(after)
			_ = cmd.Process.Signal(with)
		}
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), errs.String()
	}
	began := time.Now()
	if code, errs := convert(0, nil); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lasts := time.Since(began)
	for i := range 12 {
		os.Remove(out)
		code, errs := convert(lasts*time.Duration(i+1)/12, []os.Signal{syscall.SIGKILL, os.Interrupt}[i%2])
		f, err := hdf5.Open(out)
		switch {
		case err == nil:
			if f.Rows() != rows || code == exitInterrupted {
				t.Errorf("exit %d with %d of %d rows: %s", code, f.Rows(), rows, errs)
			}
			f.Close()
		case errors.Is(err, fs.ErrNotExist):
			if code == exitDone {
				t.Errorf("exit 0 without a file: %s", errs)
			}
		default:
			t.Error(err)
		}
	}
	os.Remove(out)
	if code, errs := convert(0, nil); code != exitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
