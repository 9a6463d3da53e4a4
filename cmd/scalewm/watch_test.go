package main

import (
	"strings"
	"testing"
	"time"

	"scalewm/eval/pipeline"
)

// Rates count the results since the first look; the remaining time assumes the same rate.
func TestScreen(t *testing.T) {
	look := func(done int) pipeline.Progress {
		return pipeline.Progress{Stages: []pipeline.StageProgress{{Stage: pipeline.StageEval, Done: done, Of: 100}}, Training: []string{"tworoom scale s1: step 3"}}
	}
	s := screen{Progress: look(40), rates: ratesOf(look(30), look(40), 30*time.Minute), Queue: []string{"3 eval running"}}
	var text strings.Builder
	if err := s.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"eval   40    100  20       3h0m0s", "training  tworoom scale s1: step 3", "queue     3 eval running"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if s.complete() || !(screen{Progress: look(100)}).complete() {
		t.Error("complete is not what it says")
	}
}
