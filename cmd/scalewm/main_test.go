package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
		says string
	}{
		{nil, 0, ""},
		{errors.New("reading x: torn"), 1, "scalewm: reading x: torn\n"},
		{usagef("train: no %s", "task"), 2, "scalewm: train: no task\n"},
		{fmt.Errorf("eval: %w", usagef("bad tier")), 2, "scalewm: bad tier\n"},
		{fmt.Errorf("2 of 9: %w", errFailedCells), 3, "scalewm: 2 of 9: some cells failed\n"},
		{fmt.Errorf("training: %w", context.Canceled), 130, "scalewm: interrupted; run the same command again to resume\n"},
	} {
		var stderr bytes.Buffer
		if got := exitCode(c.err, &stderr); got != c.want || stderr.String() != c.says {
			t.Errorf("%v: exit %d and %q, want %d and %q", c.err, got, stderr.String(), c.want, c.says)
		}
	}
}

// After Ctrl-C a verb ends with exit code 130 and one line, and leaves nothing under a final
// name.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "two.h5")
	var stdout, stderr bytes.Buffer
	err := run(ctx, []string{"collect", "tworoom", "--episodes", "3", "--out", out}, &stdout, &stderr)
	stderr.Reset()
	if code := exitCode(err, &stderr); code != exitInterrupted || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit %d, stderr %q (%v)", code, stderr.String(), err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file under its final name after an interrupt")
	}
}

func TestProgressOffTerminalIsQuiet(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "training")
	for i := range int64(1000) {
		p.report(i, 1000, "loss 1")
	}
	p.close()
	if out.Len() != 0 {
		t.Errorf("printed %q within half a minute", out.String())
	}
}

func TestVersionSaysSomething(t *testing.T) {
	if version() == "" {
		t.Error("empty version")
	}
}

// A failed print is an error of every verb and of the help text.
func TestFullStdout(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := resultsFolder(t)
	for _, line := range []string{"help", "--version", "tasks", "tasks --json", "report " + dir, "report " + dir + " --json", "compare " + dir + ":scale " + dir + ":lewm", "train --help", "doctor"} {
		var errs bytes.Buffer
		code := exitCode(run(t.Context(), strings.Fields(line), full, &errs), &errs)
		if code != exitFailed || !strings.Contains(errs.String(), "no space left on device") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %q", line, code, errs.String())
		}
	}
}
