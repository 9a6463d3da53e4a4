package main

import (
	"encoding/json"
	"path/filepath"
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
