package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/pipeline"
)

// TestStages runs a grid stage by stage, each in shards. The files are those of a single
// run, and no stage computes results of an earlier one.
func TestStages(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	args := func(dir string, more ...string) []string {
		return append([]string{"reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom,pointmaze", "--methods", "scale,random",
			"--tiers", "T5", "--sets", "s101,s102", "--episodes", "2", "--analyses", "spectrum", "--out", dir}, more...)
	}
	whole, dir := t.TempDir(), t.TempDir()
	if out, errs, code := session(args(whole)...); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	stage := func(name, shard string, want int, says string) {
		t.Helper()
		more := []string{"--stage", name}
		if shard != "" {
			more = append(more, "--shard", shard)
		}
		out, errs, code := session(args(dir, more...)...)
		if code != want || !strings.Contains(out+errs, says) {
			t.Fatalf("stage %s %s: exit %d, want %d and %q\n%s%s", name, shard, code, want, says, out, errs)
		}
	}
	gone := func(name string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Fatalf("%s is there already", name)
		}
	}
	// counts compares what --watch counts for collect, train, eval and analyse.
	counts := func(want ...int) {
		t.Helper()
		out, errs, code := session(args(dir, "--watch", "--json")...)
		var look pipeline.Progress
		if err := json.Unmarshal([]byte(out), &look); err != nil || code != exitDone {
			t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
		}
		var got []int
		for _, s := range look.Stages {
			got = append(got, s.Done)
		}
		if !slices.Equal(got, want) {
			t.Errorf("watched %v, want %v", got, want)
		}
	}
	stage("train", "1/2", exitIncomplete, "collect pointmaze: to do: 16 episodes (hint: this stage does not compute it; run --stage collect first)")
	gone("train")
	stage("collect", "0/2", exitDone, "")
	stage("collect", "1/2", exitDone, "tworoom: share 1/2")
	gone("data/tworoom.h5")
	stage("collect", "", exitDone, "")

	counts(2, 0, 0, 0)
	stage("train", "0/2", exitDone, "")
	stage("eval", "0/1", exitIncomplete, "train pointmaze scale s3072: to do (hint: this stage does not compute it; run --stage train first)")
	stage("train", "1/4", exitDone, "") // of two trainings, another count has the same second one
	stage("train", "3/4", exitDone, "") // and nothing for its last

	stage("report", "", exitIncomplete, "evaluate pointmaze scale s3072 cem T5: 2 of 2 cells to do (hint: this stage does not compute it; run --stage eval first)")
	counts(2, 2, 6, 0) // without the training the others were made
	for _, shard := range []string{"2/3", "0/3", "1/3"} {
		stage("eval", shard, exitDone, "")
	}
	stage("analyse", "0/2", exitDone, "")
	stage("analyse", "1/2", exitDone, "")
	counts(2, 2, 8, 2)
	stage("report", "", exitDone, "report.html")
	sameResults(t, "stage by stage", gridFiles(t, dir), gridFiles(t, whole))

	stage("plan", "", exitUsage, `no stage named "plan" (hint: one of collect train eval analyse report)`)
	stage("report", "0/2", exitUsage, "--stage report has no shards")
}
