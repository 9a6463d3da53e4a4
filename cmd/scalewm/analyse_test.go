package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/model/weights"
)

// cellsIn returns the cells of a results folder by name, without run files.
func cellsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	found, err := filepath.Glob(filepath.Join(dir, "cells", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if strings.HasSuffix(path, ".run.json") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = string(b)
	}
	return out
}

// The name of a folder may contain characters of glob patterns.
func TestCheckpointsOfAnyFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "[x]*?")
	want := filepath.Join(folder, "train", "lewm")
	if err := os.MkdirAll(want, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpointsOf(folder); err == nil || !strings.Contains(err.Error(), "no finished training (hint: ") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(want, weights.SidecarName), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if dirs, err := checkpointsOf(folder); err != nil || !slices.Equal(dirs, []string{want}) {
		t.Errorf("%q, %v", dirs, err)
	}
}

// Analyses give the same bytes for any number of workers, and if they are killed
// after each cell and resumed.
func TestAnalysesKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	dir := t.TempDir()
	data, run := filepath.Join(dir, "d.h5"), filepath.Join(dir, "run")
	command := func(args ...string) *exec.Cmd {
		return exec.Command("scalewm", args...)
	}
	for _, args := range [][]string{{"collect", "tworoom", "--out", data, "--episodes", "16"},
		{"train", "--task", "tworoom", "--data", data, "--preset", "testdata/tiny.toml", "--out", run}} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	analyse := func(out, workers string) *exec.Cmd {
		return command("analyse", "all", "--weights", run, "--data", data, "--starts", "2", "--candidates", "8", "--seconds", "0", "--workers", workers, "--out", filepath.Join(dir, out))
	}
	if out, err := analyse("whole", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := cellsIn(t, filepath.Join(dir, "whole"))
	for n := 0; n < len(want); {
		cmd := analyse("killed", "3")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		for running := true; running && len(cellsIn(t, filepath.Join(dir, "killed"))) == n; { // until the next cell is there
			select {
			case <-ended:
				running = false
			case <-time.After(time.Millisecond):
			}
		}
		cmd.Process.Kill()
		<-ended
		now := len(cellsIn(t, filepath.Join(dir, "killed")))
		if now == n {
			t.Fatalf("%v made no cell after %d", cmd.ProcessState, n)
		}
		n = now
	}
	if got := cellsIn(t, filepath.Join(dir, "killed")); !maps.Equal(got, want) {
		t.Errorf("%d cells of killed processes differ from those of one that ran through", len(got))
	}
}

func TestAnalyseRefusals(t *testing.T) {
	data := frames(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"missing data":    {[]string{"rank", "--data", data + "x"}, exitFailed, "(hint: "},
		"too many starts": {[]string{"rollout", "--data", data, "--task", "tworoom", "--starts", "101"}, exitUsage, "at most 100 starts"},
	} {
		_, errs, code := session(append([]string{"analyse", "--weights", published}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(withoutNotes(errs), "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want %d and %q in one line", name, code, errs, c.code, c.want)
		}
	}
}
