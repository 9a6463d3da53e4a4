package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cluster is a batch system on this machine to which a test submits.
type cluster struct {
	*testing.T
	dir   string
	out   string   // the results folder that is worked on
	queue []string // the command that shows what is queued
}

// hostileName is a name of a results folder that a shell, Slurm or YAML could misinterpret.
const hostileName = "it's #1 %j {}\n$(touch PWN) `touch PWN` \u2028: {x: y}"

// logs returns the output of the jobs.
func (c *cluster) logs() string {
	var all strings.Builder
	found, _ := filepath.Glob(filepath.Join(c.out, "jobs/log/*"))
	for _, path := range found {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(path), text)
	}
	return all.String()
}

func (c *cluster) must(words ...string) string {
	c.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		c.Fatalf("%v: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

// output returns what a command prints, whether it fails or not.
func (c *cluster) output(words ...string) string {
	out, _ := exec.Command(words[0], words[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (c *cluster) await(what string, ready func() bool) {
	c.Helper()
	ctx, stop := context.WithTimeout(c.Context(), 4*time.Minute)
	defer stop()
	for !ready() {
		select {
		case <-ctx.Done():
			c.Fatalf("waiting for %s:\n%s\n%s", what, c.output(c.queue...), c.logs())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// reproduce runs the verb with the flags axes and more.
func (c *cluster) reproduce(want int, says string, axes []string, more ...string) {
	c.Helper()
	cmd := exec.Command("scalewm", slices.Concat([]string{"reproduce", "--device", "cpu", "--precision", "fp32"}, axes, more)...)
	out, _ := cmd.CombinedOutput() // its exit code tells
	if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(string(out), says) {
		c.Fatalf("%v: exit %d, want %d and %q\n%s", more, code, want, says, out)
	}
}

// sameGrid compares the results of two folders, without jobs/.
func (c *cluster) sameGrid(what, dir, whole string) {
	c.Helper()
	got := gridFiles(c.T, dir)
	maps.DeleteFunc(got, func(name string, _ []byte) bool { return strings.HasPrefix(name, "jobs/") })
	sameResults(c.T, what, got, gridFiles(c.T, whole))
	if c.Failed() {
		c.Log(c.logs())
	}
}

// rows returns the length of the log of the training that the disturbed jobs run.
func (c *cluster) rows() int64 {
	st, err := os.Stat(filepath.Join(c.out, "train/tworoom-scale-s3072/metrics.jsonl"))
	if err != nil {
		return 0
	}
	return st.Size()
}

// slowPreset writes the smallest grid's preset with trainings of the given number of steps,
// long enough to be disturbed.
func slowPreset(t *testing.T, steps int) string {
	t.Helper()
	preset, err := os.ReadFile("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"steps = 8", fmt.Sprint("steps = ", steps)}, {"save_every = 2", "save_every = 50"}, {"eval_every = 4", "eval_every = 50"}} {
		preset = bytes.Replace(preset, []byte(change[0]), []byte(change[1]), 1)
	}
	path := filepath.Join(t.TempDir(), "slow.toml")
	if err := os.WriteFile(path, preset, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
