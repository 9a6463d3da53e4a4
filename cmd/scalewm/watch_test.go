package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/eval/pipeline"
)

// The last words of failed jobs are shown, those of the latest logs first.
func TestLastErrors(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, text := range []string{
		"all well\n",
		"evaluate x failed: the first\nevaluate y failed: the second\nscalewm: some cells failed:\n  evaluate y\n",
		strings.Repeat("long\n", 5000) + "scalewm: no progress: the time was up\nand a line after it\n",
	} {
		path := filepath.Join(dir, []string{"a.log", "b.log", "c.log"}[i])
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"c.log: scalewm: no progress: the time was up", "b.log: scalewm: some cells failed:"}
	if got := lastErrors(dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := lastErrors(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("of no folder: %q", got)
	}
}

// Rates are what came since the first look; what is left goes on at that rate.
func TestScreen(t *testing.T) {
	look := func(done int) pipeline.Look {
		return pipeline.Look{Stages: []pipeline.StageLook{{Stage: pipeline.StageEval, Done: done, Of: 100}}, Training: []string{"tworoom scale s1: step 3"}}
	}
	s := screen{Look: look(40), rates: ratesOf(look(30), look(40), 30*time.Minute), Queue: []string{"3 eval running"}}
	var text strings.Builder
	if err := s.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"eval   40    100  20       3h0m0s", "training  tworoom scale s1: step 3", "queue     3 eval running"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if s.complete() || !(screen{Look: look(100)}).complete() {
		t.Error("complete is not what it says")
	}
}
