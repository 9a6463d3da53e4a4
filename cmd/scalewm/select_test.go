package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/tensorfile"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model/weights"
)

// A checkpoint whose latents are all equal does not end a selection: it is last, and says why.
func TestSelectCollapsed(t *testing.T) {
	tiny, err := filepath.Abs("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, line := range []string{"collect tworoom --out d.h5 --episodes 4", "train --task tworoom --method untrained --data d.h5 --out initial --preset " + tiny} {
		if _, errs, code := session(strings.Fields(line)...); code != 0 {
			t.Fatal(errs)
		}
	}
	f, side, err := weights.Load("initial")
	if err != nil {
		t.Fatal(err)
	}
	var all []tensorfile.Tensor
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.F32 {
			x.F32[i] = 0
		}
		all = append(all, x)
	}
	if err := weights.Save("collapsed.safetensors", all, side); err != nil {
		t.Fatal(err)
	}
	stdout, errs, code := session("select", "collapsed.safetensors", "initial", "--data", "d.h5", "--json")
	var s infer.Selected
	if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}
	if len(s.Ranking) != 2 || s.Ranking[0].Run != "initial" || s.Ranking[1].Score == s.Ranking[1].Score || !strings.Contains(s.Ranking[1].Missing, "all latents are equal") || s.Recommend != nil || !strings.Contains(s.Reason, "1 checkpoint") {
		t.Errorf("%s", stdout)
	}
}

// All checkpoints are measured on the episodes that strict holds out if one of them was
// trained on the data set, as the analysis of a strict checkpoint is, and else on all.
func TestSelectRows(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	tiny, err := filepath.Abs("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	run := func(line string) string {
		stdout, errs, code := session(strings.Fields(line)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", line, code, errs)
		}
		return stdout
	}
	run("collect tworoom --out d.h5 --episodes 12")
	run("train --task tworoom --data d.h5 --protocol strict --steps 2 --out strict --preset " + tiny)
	run("train --task tworoom --data d.h5 --method untrained --out initial --preset " + tiny)
	var a map[string]json.RawMessage
	var one []results.Selection
	err = json.Unmarshal([]byte(run("analyse selection --weights strict --data d.h5 --json")), &a)
	if err == nil {
		err = json.Unmarshal(a["selection"], &one)
	}
	if err != nil {
		t.Fatal(err)
	}
	rank := func(runs string) map[string]infer.Candidate {
		var s infer.Selected
		if err := json.Unmarshal([]byte(run("select "+runs+" --data d.h5 --json")), &s); err != nil {
			t.Fatal(err)
		}
		out := map[string]infer.Candidate{}
		for _, c := range s.Ranking {
			out[c.Run] = c
		}
		return out
	}
	both, alone := rank("initial strict"), rank("initial")
	if c := both["strict"]; c.Measures["probe_r2"] != one[0].ProbeR2 || c.PerBlock[0] != one[0].PerBlock[0] || c.Seen {
		t.Errorf("select %+v, analyse %+v", c, one[0])
	}
	if both["initial"].Measures["probe_r2"] == alone["initial"].Measures["probe_r2"] {
		t.Error("the same rows with and without a checkpoint that was trained on the data set")
	}
}
