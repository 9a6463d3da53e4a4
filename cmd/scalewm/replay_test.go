package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/replay"
	"scalewm/envs"
)

// Recordings of the reference implementation of Two-Room. The package's own tests check how
// exactly they replay.
const (
	recordedStates = "../../dataset/replay/testdata/tworoom_states.h5"
	recordedFrames = "../../dataset/replay/testdata/tworoom_frames.h5"
)

// replayJSON runs the verb and parses its last line.
func replayJSON(t *testing.T, args ...string) replay.Report {
	t.Helper()
	out, errs, code := session(append([]string{"replay", "--json"}, args...)...)
	if code != exitDone {
		t.Fatalf("replay %v: exit %d, %s", args, code, errs)
	}
	var r replay.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("replay %v: %v in %q", args, err, out)
	}
	return r
}

func TestReplayVerb(t *testing.T) {
	r := replayJSON(t, recordedFrames, "--pixels", "--episodes", "2", "--per-episode")
	if r.Env != "tworoom" || r.File != recordedFrames || r.Episodes != 2 || r.Rows != 50 || r.Frames.Count != 50 || len(r.PerEpisode) != 2 {
		t.Errorf("%+v", r)
	}
	if r := replayJSON(t, "--one-step", recordedStates); r.LeftOut == nil || *r.LeftOut != 0 || r.Frames.Count != 0 {
		t.Errorf("one step: %+v", r)
	}
	out, _, code := session("replay", recordedFrames, "--pixels", "--per-episode")
	for _, want := range []string{"16 episodes, 151 rows", "distance_to_target  0", "terminated  0 wrong of 135", "frames      151 compared", "not compared: action", "largest difference"} {
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("exit %d, the table lacks %q:\n%s", code, want, out)
		}
	}
}

// The file written by --out replays without any difference, and has the recording's other
// columns.
func TestReplayOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ours.h5")
	replayJSON(t, recordedFrames, "--pixels", "--out", path)
	r := replayJSON(t, path, "--pixels")
	if r.Rows != 151 || r.Frames != (replay.FrameDiff{Count: 151}) || r.Terminated != (replay.FlagDiff{Compared: 135}) {
		t.Errorf("%+v", r)
	}
	for name, c := range r.Columns {
		if c.RowsEqual != c.Rows {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if !strings.Contains(strings.Join(r.NotCompared, " "), "truncated") {
		t.Errorf("the recording's own columns are lost: %v", r.NotCompared)
	}
}

func TestReplayRefuses(t *testing.T) {
	dir := t.TempDir()
	torn := filepath.Join(dir, "torn.h5")
	whole, err := os.ReadFile(recordedStates)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(torn, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.h5")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, exitUsage, "F.h5"},
		{[]string{recordedStates, "--episodes", "-1"}, exitUsage, "negative"},
		{[]string{recordedStates, "--out", recordedStates}, exitUsage, "is the input"},
		{[]string{filepath.Join(dir, "none.h5")}, exitFailed, "none.h5"},
		{[]string{torn}, exitFailed, "torn.h5"},
		{[]string{recordedStates, "--task", "pong", "--out", out}, exitFailed, `"pong"`},
		{[]string{recordedStates, "--from-ctrl", "--out", out}, exitFailed, "no controller"},
		{[]string{recordedStates, "--out", filepath.Join(torn, "out.h5")}, exitFailed, "a folder and a file compete"},
	} {
		_, errs, code := session(append([]string{"replay"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Count(strings.TrimSpace(errs), "\n") != 0 {
			t.Errorf("replay %v: exit %d, %q; want %d and one line with %q", c.args, code, errs, c.code, c.says)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("refused replays leave %v", left)
	}
}

func TestTasksVerb(t *testing.T) {
	out, _, code := session("tasks", "--json")
	var got struct {
		Tasks []envs.Description `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v in %q", code, err, out)
	}
	for _, task := range got.Tasks {
		if task.Name != "tworoom" {
			continue
		}
		if task.Action.Width != 2 || len(task.Columns) != 9 || len(task.Q) != 1 || len(task.Q[0].Parts) != 2 || task.Switches[0].Values[0] != "constrained" ||
			len(task.Factors) != 17 || !slices.Equal(task.Factors[4].Init, []float64{255, 0, 0}) || task.Factors[4].High != 255 {
			t.Errorf("%+v", task)
		}
		text, _, _ := session("tasks")
		for _, want := range []string{"swm/TwoRoom-v1", task.Success, "distance_to_target", "expert, uniform", "factor agent.radius"} {
			if !strings.Contains(text, want) {
				t.Errorf("the text lacks %q:\n%s", want, text)
			}
		}
		return
	}
	t.Error("tworoom is not among the tasks")
}
