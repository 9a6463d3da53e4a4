package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/remote/s3test"
)

// TestRemote lets two machines without a common folder share a grid through an object store,
// and a third one report on it. The files are those of a single process.
func TestRemote(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	server := s3test.Start(t)
	args := func(dir string, more ...string) []string {
		return append([]string{"reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom", "--methods", "lewm,scale,random",
			"--tiers", "T5", "--sets", "s101,s102", "--episodes", "2", "--analyses", "spectrum", "--out", dir}, more...)
	}
	whole, a, b, c, d := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	if out, errs, code := session(args(whole)...); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	store := "s3://" + s3test.Bucket + "/a/run"
	on := func(dir string, want int, says, not string, more ...string) {
		t.Helper()
		out, errs, code := session(args(dir, append(more, "--remote", store)...)...)
		if code != want || !strings.Contains(out+errs, says) || not != "" && strings.Contains(out+errs, not) {
			t.Fatalf("%v: exit %d, want %d with %q and without %q\n%s%s", more, code, want, says, not, out, errs)
		}
	}
	on(a, exitIncomplete, "run --stage collect first", "", "--stage", "train")
	on(a, exitDone, "share 0/2", "", "--stage", "collect", "--shard", "0/2")
	on(b, exitDone, "share 1/2", "", "--stage", "collect", "--shard", "1/2")
	on(c, exitDone, "share 0/2, 0 rows", "", "--stage", "collect", "--shard", "0/2") // a's share comes from the store
	on(a, exitDone, "rows", "", "--stage", "collect")
	for key := range server.Objects() {
		if strings.Contains(key, ".parts/") {
			t.Errorf("%s is left over in the store", key)
		}
	}
	on(a, exitDone, "train     tworoom lewm s3072: 8 steps", "tworoom scale", "--stage", "train", "--shard", "0/2")
	on(b, exitDone, "train     tworoom scale s3072: 8 steps", "tworoom lewm", "--stage", "train", "--shard", "1/2")
	on(b, exitDone, "2 new of 2", "", "--stage", "eval", "--shard", "0/2") // of the training on a
	on(a, exitDone, "2 new of 2", "", "--stage", "eval", "--shard", "1/2")
	on(c, exitDone, "0 new of 2", "1 new", "--stage", "eval")
	on(a, exitDone, "", "", "--stage", "analyse")
	on(c, exitDone, `{"stage":"eval","done":6,"of":6}`, "", "--watch", "--json")
	on(d, exitDone, "report.html", "", "--stage", "report")
	sameResults(t, "through a store", gridFiles(t, d), gridFiles(t, whole))

	// Without stages, a machine that comes later computes nothing.
	late := t.TempDir()
	on(late, exitDone, `"to_do":0`, "", "--dry-run", "--json")
	on(late, exitDone, "0 new of 2", "steps, loss")
	sameResults(t, "a late machine", gridFiles(t, late), gridFiles(t, whole))
	for key := range server.Objects() {
		if strings.Contains(key, ".locks/") {
			t.Errorf("%s is left over in the store", key)
		}
	}

	// Jobs of a batch system have the store too.
	e := t.TempDir()
	on(e, exitDone, "eval      0 of 1 shards to do", "", "--submit", "slurm", "--print", "--device", "cpu", "--precision", "fp32")
	if script, err := os.ReadFile(filepath.Join(e, "jobs", "eval.sh")); err != nil || !strings.Contains(string(script), " --remote="+store+" ") {
		t.Errorf("%v\n%s", err, script)
	}

	// A file that differs is reported with both names, and nothing is overwritten.
	cells, err := filepath.Glob(filepath.Join(whole, "cells", "*[0-9a-f].json"))
	if err != nil || len(cells) == 0 {
		t.Fatal(cells, err)
	}
	other := "a/run/cells/" + filepath.Base(cells[0])
	theirs := append(server.Objects()[other], ' ')
	server.Replace(other, theirs)
	on(late, exitIncomplete, "s3://"+s3test.Bucket+"/"+other+": the store has another file of that name", "")
	if got := server.Objects()[other]; string(got) != string(theirs) {
		t.Error("it was overwritten")
	}
}

// Unusable stores give a one-line error before anything is written or submitted.
func TestRemoteRefused(t *testing.T) {
	server := s3test.Start(t)
	store := "s3://" + s3test.Bucket + "/a/run"
	for _, c := range []struct {
		store, says string
		code        int
		prepare     func()
	}{
		{"s3://none/x", "there is no bucket none (hint: make it first", exitFailed, func() {}},
		{"http://x", "is not the address of a store", exitUsage, func() {}},
		{store, "the server ignores the condition", exitFailed, func() { server.Careless = true }},
		{store, "the credentials have expired: get new ones", exitFailed, func() { server.Fail = func(*http.Request) (int, string) { return 400, "ExpiredToken" } }},
	} {
		c.prepare()
		for _, more := range [][]string{nil, {"--submit", "slurm", "--print", "--device", "cpu", "--precision", "fp32"}} {
			dir := t.TempDir()
			args := []string{"reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom", "--out", dir, "--remote", c.store}
			out, errs, code := session(append(args, more...)...)
			if code != c.code || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s %v: exit %d\n%s%s", c.store, more, code, out, errs)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s %v: wrote %v, %v", c.store, more, left, err)
			}
		}
	}
}
