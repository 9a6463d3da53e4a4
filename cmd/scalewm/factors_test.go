package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// A data set records its factors of variation, so that replay restores the same worlds.
func TestCollectedFactorsReplay(t *testing.T) {
	for task, options := range map[string][]string{
		"tworoom": {"wall.axis=0", "door.number=sample", "agent.color=sample", "agent.radius=sample"},
		"pusht":   {"goal.position=300,220", "agent.scale=sample", "block.color=1, 2,3"},
	} {
		out := filepath.Join(t.TempDir(), "varied.h5")
		args := []string{"collect", task, "--out", out, "--episodes", "2"}
		for _, o := range options {
			args = append(args, "--switch", o)
		}
		if _, errs, code := session(args...); code != exitDone {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
		if r := replayJSON(t, out, "--pixels"); r.Frames.Count != r.Rows || r.Frames.Max != 0 || r.Columns["state"].RowsEqual != r.Rows {
			t.Errorf("%s: %+v", task, r)
		}
		f, err := hdf5.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range options {
			name, value, _ := strings.Cut(o, "=")
			attr, _ := f.Attr(name)
			if attr != strings.ReplaceAll(value, " ", "") {
				t.Errorf("%s: attribute %s is %q", task, name, attr)
			}
			if !slices.ContainsFunc(f.Columns(), func(c envs.Column) bool { return c.Name == "variation."+name }) {
				t.Errorf("%s: no column of %s", task, name)
			}
		}
		f.Close()
	}
	out := filepath.Join(t.TempDir(), "none.h5")
	if _, errs, code := session("collect", "tworoom", "--out", out, "--switch", "wall.axis=2"); code == exitDone || !strings.Contains(errs, "wall.axis: 2 is not from 0 to 1") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
