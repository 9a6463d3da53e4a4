package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/tensorfile"
	"scalewm/eval/infer"
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
