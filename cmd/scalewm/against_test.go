package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// Thirty collected episodes of Two-Room, and a file without the attributes of ours, as
// published files are.
func TestDataCheckAgainstPublished(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "d.h5")
	if _, errs, code := session("collect", "tworoom", "--episodes", "30", "--seed", "5", "--out", file); code != exitDone {
		t.Fatal(errs)
	}
	out, errs, code := session("data", "check", file, "--against", "published", "--json")
	var r against
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v, %s", code, err, errs)
	}
	if r.Task != "tworoom" || len(r.Sets) != 6 || r.Sets[0].Published != "95da656eca13" || r.Sets[0].Here == r.Sets[0].Published || len(r.Fingerprint) != 64 {
		t.Errorf("%+v", r)
	}
	// The published expert and ours start and stop alike: 9 % of the starts are solved.
	last := r.Comparison[len(r.Comparison)-1]
	if !strings.Contains(last.Quantity, "solved") || last.Here < 3 || last.Here > 15 || r.Comparison[0].Here != 30 || r.Comparison[0].Difference != -9970 {
		t.Errorf("%+v", r.Comparison)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "nothing is published of the columns action, ") {
		t.Errorf("%q", r.Notes)
	}

	other := filepath.Join(dir, "other.h5")
	for _, c := range []struct {
		env, task string
		code      int
		says      string
	}{
		{"", "", exitUsage, "--task NAME"}, {"", "pusht", exitFailed, "pusht"}, {"", "tworom", exitUsage, "tworoom"},
		{"swm/Pendulum-v0", "", exitIncomplete, "nothing is published"}, {"tworoom", "pusht", exitFailed, "pusht"},
	} {
		writeFrames(t, other, c.env)
		args := []string{"data", "check", other, "--against", "published"}
		if c.task != "" {
			args = append(args, "--task", c.task)
		}
		if _, errs, code := session(args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%+v: exit %d, %s", c, code, errs)
		}
	}
	// A set too small for the evaluation sets is compared otherwise.
	writeFrames(t, other, "")
	out, errs, code = session("data", "check", other, "--against", "published", "--task", "tworoom")
	if code != exitDone || !strings.Contains(out, "note: no evaluation sets: ") || strings.Contains(out, "evaluation set s101") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"data", "info", file, "--against", "published"}, {"data", "check", file, "--task", "tworoom"}} {
		if _, errs, code := session(args...); code != exitUsage || !strings.Contains(errs, "has no effect") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}

// info and check say which counts a file shares with the published set of its task.
func TestPublishedCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	w, err := hdf5.Create(path, hdf5.WriterOptions{Columns: []envs.Column{{Name: "action", DType: "float32", Width: 2}}, Attrs: map[string]string{"env": "pointmaze"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if err := w.Append(hdf5.EpisodeData{Columns: map[string][]float64{"action": {.1, .2, .3, .4}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]string{"info": "  published    ", "check": "note: "} {
		want += "2000 episodes, as the published set of pointmaze, but 4000 rows, not 200000\n"
		if out, errs, code := session("data", verb, path); code != exitDone || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s%s", verb, code, out, errs)
		}
	}
}

// The program of make check-published runs each of its steps on a stand-in: a collected data
// set and a checkpoint in PyTorch's form, a damaged file, a task without a file.
func TestCheckPublished(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	self, err := exec.LookPath("scalewm")
	if err != nil {
		t.Fatal(err)
	}
	dir, out := t.TempDir(), t.TempDir()
	data := filepath.Join(dir, "tworoom.h5")
	for _, args := range [][]string{
		{"collect", "tworoom", "--episodes", "6", "--out", data},
		{"train", "--task", "tworoom", "--method", "untrained", "--data", data, "--preset", "testdata/tiny.toml", "--out", filepath.Join(out, "un")},
		{"weights", "convert", filepath.Join(out, "un"), filepath.Join(dir, "lewm-tworooms")},
		{"collect", "pointmaze", "--episodes", "3", "--out", filepath.Join(dir, "pointmaze.h5")},
	} {
		if _, errs, code := session(args...); code != exitDone {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "pusht_expert_train.h5"), []byte("nothing"), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command("../../.ci/check-published", self, dir, out).CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("a damaged file: %v", err)
	}
	for _, row := range []string{
		"tworoom +sha-256 +FAILED +tworoom.h5 has other bytes", "tworoom +counts +FAILED", "tworoom +contents +ok +.* no problems in 6 episodes",
		"tworoom +comparison +FAILED +the evaluation sets are not", "tworoom +replay +ok", "tworoom +weights +FAILED +weights.pt has other bytes", "tworoom +T5 +ok +tworoom +.* 100 +[0-9.]+ %",
		"pusht +contents +FAILED +scalewm: .*signature", "pusht +comparison +FAILED +scalewm: ", "pusht +replay +FAILED +scalewm: ", "pusht +weights +skipped",
		"pointmaze +sha-256 +skipped +no SHA-256", "pointmaze +comparison +FAILED", "cube +data +skipped +.* has 0 files",
	} {
		if !regexp.MustCompile(`(?m)^` + row).Match(b) {
			t.Errorf("no row %q in\n%s", row, b)
		}
	}
}

// With a program that finds everything published, each step of make check-published passes.
func TestCheckPublishedPasses(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	stub := filepath.Join(out, "scalewm")
	for path, text := range map[string]string{
		stub: `#!/bin/sh
case "$1 $4" in
sources*) echo '  file      tworoom.h5: 0.0 MB, SHA-256 '$(printf x | sha256sum | cut -c 1-64); echo '  file      a/weights.pt: size unknown, SHA-256 unknown';;
data*) echo '  published    7 episodes and 9 rows, as the published set of tworoom'; [ "$5" != tworoom ] || echo 'evaluation set s101 (here 0)  1  1  equal';;
*) echo done;;
esac
`,
		filepath.Join(dir, "tworoom.h5"): "x", filepath.Join(dir, "cube.h5"): "y",
		filepath.Join(dir, "pusht1.h5"): "", filepath.Join(dir, "pusht2.h5"): "",
		filepath.Join(dir, "my-tworoom-run/config.json"): "{}", filepath.Join(dir, "my-tworoom-run/weights.pt"): "z",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	b, err := exec.Command("../../.ci/check-published", stub, dir, out).CombinedOutput()
	for _, row := range []string{
		"tworoom +sha-256 +ok", "tworoom +counts +ok", "tworoom +comparison +ok +1 evaluation sets", "tworoom +weights +skipped +no SHA-256", "tworoom +T5 +ok +done",
		"pusht +data +skipped +.* has 2 files", "cube +comparison +FAILED +no evaluation set could be drawn",
	} {
		if !regexp.MustCompile(`(?m)^` + row).Match(b) {
			t.Errorf("no row %q in\n%s", row, b)
		}
	}
	if err == nil {
		t.Error("a set without evaluation sets passes")
	}
	if err := os.Remove(filepath.Join(dir, "cube.h5")); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("../../.ci/check-published", stub, dir, out).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}

// writeFrames writes an episode of 40 rows of Two-Room whose agent moves to the right.
func writeFrames(t *testing.T, path, env string) {
	t.Helper()
	attrs := map[string]string{}
	if env != "" {
		attrs["env"] = env
	}
	w, err := hdf5.Create(path, hdf5.WriterOptions{Columns: []envs.Column{{Name: "action", DType: "float32", Width: 2}, {Name: "proprio", DType: "float32", Width: 2}}, FrameSize: envs.FrameSize, Attrs: attrs})
	if err != nil {
		t.Fatal(err)
	}
	ep := hdf5.EpisodeData{Columns: map[string][]float64{}}
	for i := range 40 {
		ep.Columns["action"] = append(ep.Columns["action"], .2, 0)
		ep.Columns["proprio"] = append(ep.Columns["proprio"], 30+float64(i), 50)
		ep.Frames = append(ep.Frames, make([]byte, envs.FrameBytes))
	}
	if err := w.Append(ep); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
