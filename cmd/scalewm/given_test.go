package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A data set in the published layout, which another program wrote without our attributes,
// goes through a grid to a report that says so.
func TestPeersPublishedLayout(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with h5py and stable-worldmodel")
	}
	dir := t.TempDir()
	ours, theirs, out := filepath.Join(dir, "ours.h5"), filepath.Join(dir, "pusht_expert_train.h5"), filepath.Join(dir, "out")
	if _, errs, code := session("collect", "pusht", "--episodes", "16", "--out", ours); code != 0 {
		t.Fatal(errs)
	}
	rewrite := exec.Command(python, "testdata/peers/published.py", ours, theirs)
	rewrite.Env = append(os.Environ(), "STABLEWM_HOME="+t.TempDir())
	if said, err := rewrite.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	stdout, errs, code := session("reproduce", "--preset", "nano", "--set", "train.steps=2", "--set", "train.batch=8", "--tasks", "pusht", "--methods", "lewm,scale,random", "--solvers", "cem", "--tiers", "T5", "--sets", "s101",
		"--episodes", "4", "--data", "pusht="+theirs, "--precision", "fp32", "--device", "cpu", "--out", out)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stdout, errs)
	}
	// Without the flag the folder would collect another data set.
	if _, errs, code := session("reproduce", "--preset", filepath.Join(out, "config.toml"), "--tasks", "pusht", "--methods", "lewm", "--out", out); code != 2 || !strings.Contains(errs, "(hint: --data pusht=FILE)") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, file := range []struct{ pattern, want string }{
		{"gates/pusht.json", `"origin":"given","episodes":16`},
		{"cells/*[0-9a-f].json", `"origin":"given"`},
		{"report.md", "16 episodes of a given data set"},
		{"report.md", "scalewm reproduce --preset " + filepath.Join(out, "config.toml") + " --data pusht=FILE "},
	} {
		paths, err := filepath.Glob(filepath.Join(out, file.pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", file.pattern, paths, err)
		}
		found := false
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), file.want)
		}
		if !found {
			t.Errorf("no %s has %s", file.pattern, file.want)
		}
	}
}
