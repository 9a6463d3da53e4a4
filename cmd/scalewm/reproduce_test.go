package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/tensorfile"
	"scalewm/eval/pipeline"
	"scalewm/eval/presets"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/weights"
)

// reproduceArgs returns the command line of the smallest grid, into dir.
func reproduceArgs(dir string, more ...string) []string {
	return append([]string{"reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom", "--methods", "scale,random", "--out", dir}, more...)
}

// gridFiles reads every file below dir by its path, except measured times.
func gridFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "run.json") || strings.HasPrefix(d.Name(), "report") {
			return err // the report has measured times in it
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			out[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameResults(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s: %s differs or is missing", what, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is left over", what, name)
		}
	}
}

// killed runs the program and kills it after the given number of lines of output, in the
// middle of the next step. It reports whether the run ended before that, which must be
// without an error.
func killed(t *testing.T, lines int, args []string) (ended bool) {
	t.Helper()
	cmd := exec.Command("scalewm", args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for range lines {
		if !in.Scan() {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, errs.String())
			}
			return true
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	return false
}

// TestReproduce runs the grid in one process, with another number of workers and kills, in
// shards, and again. The bytes are the same each time, and nothing is computed twice.
func TestReproduce(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	whole := t.TempDir()
	out, errs, code := session(reproduceArgs(whole, "--workers", "1")...)
	if code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	want := gridFiles(t, whole)
	for _, name := range []string{"data/tworoom.h5", "train/tworoom-scale-s3072/weights.safetensors", "watch/tworoom-scale-T4.gif", "watch/tworoom-random-T4.gif", "config.toml"} {
		if len(want[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	if n := countCells(want); n != 2*2+2 { // two tiers and two sets of scale, two sets of random
		t.Errorf("%d cells, want 6", n)
	}

	t.Run("kills", func(t *testing.T) {
		dir := t.TempDir()
		for lines := 0; !killed(t, lines, reproduceArgs(dir, "--workers", "2")); lines++ {
		}
		sameResults(t, "after kills", gridFiles(t, dir), want)
	})
	t.Run("shards", func(t *testing.T) {
		dir := t.TempDir()
		for _, shard := range []string{"1/2", "0/2"} {
			if out, errs, code := session(reproduceArgs(dir, "--shard", shard)...); code != exitDone {
				t.Fatalf("shard %s: exit %d\n%s%s", shard, code, out, errs)
			}
		}
		sameResults(t, "two shards", gridFiles(t, dir), want)
	})
	t.Run("merged", func(t *testing.T) { // three shards of two arms, each in a separate folder
		dir := t.TempDir()
		for i, shard := range []string{"0/3", "1/3", "2/3"} {
			own := filepath.Join(t.TempDir(), shard[:1])
			if out, errs, code := session(reproduceArgs(own, "--shard", shard)...); code != exitDone {
				t.Fatalf("shard %s: exit %d\n%s%s", shard, code, out, errs)
			}
			if n := countCells(gridFiles(t, own)); n != 2 {
				t.Errorf("shard %d made %d cells, want 2 of 6", i, n)
			}
			if out, err := exec.Command("cp", "-r", own+"/.", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		sameResults(t, "three shards merged", gridFiles(t, dir), want)
	})
	t.Run("again", func(t *testing.T) {
		out, _, code := session(reproduceArgs(whole)...)
		if code != exitDone || !strings.Contains(out, "train     tworoom scale s3072: done") || strings.Contains(strings.ReplaceAll(out, "0 new of", ""), "new of") {
			t.Errorf("exit %d\n%s", code, out)
		}
		sameResults(t, "a second run", gridFiles(t, whole), want)
		if out, _, code := session(reproduceArgs(whole, "--dry-run")...); code != exitDone || !strings.HasSuffix(out, "\n6 cells, 0 of them to do\n") {
			t.Errorf("a dry run of a finished grid: exit %d\n%s", code, out)
		}
		if out, errs, code := session(reproduceArgs(whole, "--dry-run", "--protocol", "strict")...); code != exitUsage || !strings.Contains(errs, "a results folder has one protocol of training") {
			t.Errorf("a dry run under the other protocol: exit %d\n%s%s", code, out, errs)
		}
	})
	t.Run("damage", func(t *testing.T) { damaged(t, whole, want) })
}

// TestReproduceTuned checks that the temperature is tuned once, with lewm even though it is
// not an arm, and used by all arms that plan with mppi. A dry run then finds everything done.
func TestReproduceTuned(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	args := reproduceArgs(dir, "--methods", "untrained", "--solvers", "cem,mppi", "--tiers", "T5", "--temperature", "tuned")
	out, errs, code := session(args...)
	if code != exitDone || !strings.Contains(out, "tune      tworoom lewm s3072: temperature ") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if n := countCells(gridFiles(t, dir)); n != 4 {
		t.Errorf("%d cells, want two solvers on two sets", n)
	}
	out, errs, code = session(append(args, "--dry-run", "--verbose")...)
	if code != exitDone || !strings.Contains(out, "tune      tworoom lewm s3072: done") || !strings.HasSuffix(out, "\n4 cells, 0 of them to do\n") {
		t.Errorf("dry run: exit %d\n%s%s", code, out, errs)
	}
}

// TestReproduceTorn checks that a torn cell is reported and computed again.
func TestReproduceTorn(t *testing.T) {
	dir := t.TempDir()
	args := reproduceArgs(dir, "--methods", "random")
	if out, errs, code := session(args...); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	want := gridFiles(t, dir)
	for name := range want {
		if filepath.Dir(name) == "cells" {
			if err := os.Truncate(filepath.Join(dir, name), 100); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if out, _, code := session(append(args, "--dry-run", "--verbose")...); code != exitDone || !strings.Contains(out, "1 of 2 cells to do, 1 of them torn") {
		t.Errorf("dry run: exit %d\n%s", code, out)
	}
	out, errs, code := session(args...)
	if code != exitDone || !strings.Contains(errs, "is torn and is computed again") || !strings.Contains(out, "1 new of 2 cells") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	sameResults(t, "after a torn cell", gridFiles(t, dir), want)
}

func countCells(files map[string][]byte) (n int) {
	for name := range files {
		if filepath.Dir(name) == "cells" {
			n++
		}
	}
	return n
}

// damaged tears or deletes files of a results folder. Each one is reported in a line and
// rebuilt with the same bytes, and results that depend on it stay.
func damaged(t *testing.T, dir string, want map[string][]byte) {
	var torn []string
	for name, b := range want {
		folder := filepath.Dir(name)
		if filepath.Base(folder) == "tworoom-scale-s3072" && (filepath.Base(name) == "metrics.jsonl" || filepath.Base(name) == "weights.json") ||
			folder == "gates" || folder == "sets" || folder == "watch" {
			torn = append(torn, name)
			if err := os.WriteFile(filepath.Join(dir, name), b[:len(b)/2], 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(torn) != 2+1+2+2 {
		t.Fatalf("torn: %v", torn)
	}
	if out, errs, code := session(reproduceArgs(dir, "--dry-run", "--verbose")...); code != exitDone || !strings.Contains(out, "train     tworoom scale s3072: to do again: weights.json is damaged") {
		t.Errorf("dry run: exit %d\n%s%s", code, out, errs)
	}
	out, errs, code := session(reproduceArgs(dir)...)
	if code != exitDone || !strings.Contains(out, "scale s3072 cem T4: 0 new of 2 cells") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, name := range torn {
		switch filepath.Base(filepath.Dir(name)) { // what was there is kept aside
		case "gates", "sets", "watch":
			aside, err := os.ReadFile(filepath.Join(dir, name+".damaged"))
			if b := want[name]; err != nil || !bytes.Equal(aside, b[:len(b)/2]) {
				t.Errorf("%s.damaged: %d bytes, %v", name, len(aside), err)
			}
			if err := os.Remove(filepath.Join(dir, name+".damaged")); err != nil {
				t.Error(err)
			}
		}
		if filepath.Base(name) != "metrics.jsonl" && !strings.Contains(errs, filepath.Base(name)+" is damaged") {
			t.Errorf("%s is made again without a word:\n%s", name, errs)
		}
	}
	sameResults(t, "after damage", gridFiles(t, dir), want)
}

func TestReproduceDryRunLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	out, errs, code := session(reproduceArgs(dir, "--dry-run", "--verbose")...)
	if code != exitDone || !strings.HasPrefix(out, `collect   tworoom: to do: 16 episodes
train     tworoom scale s3072: to do
evaluate  tworoom scale s3072 cem T4: 2 of 2 cells to do
evaluate  tworoom scale s3072 cem T5: 2 of 2 cells to do
evaluate  tworoom random: 2 of 2 cells to do
report    to do
stage    units  to do
collect  1      1
train    1      1
eval     6      6
--measure adds times, disk and memory, --verbose lists every unit
6 cells, 6 of them to do
`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	twice, errs, code := session(reproduceArgs(dir, "--dry-run", "--json", "--tasks", "tworoom,tworoom", "--methods", "scale,random,scale",
		"--tiers", "T4,T5,T4", "--sets", "s101,s102,s101", "--seeds", "3072,3072")...)
	stages := `[{"stage":"collect","units":1,"to_do":1},{"stage":"train","units":1,"to_do":1},{"stage":"eval","units":6,"to_do":6}]`
	if want := `{"cells":6,"to_do":6,"stages":` + stages + "}\n"; code != exitDone || twice != want {
		t.Errorf("names given twice, and JSON: exit %d\n%s%s, want\n%s", code, twice, errs, want)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a dry run made the results folder")
	}
}

func TestReproduceAndEvalUsage(t *testing.T) {
	for _, args := range [][]string{
		{"reproduce"},
		reproduceArgs("x", "--methods", "lewn"),
		reproduceArgs("x", "--tasks", "tworom"),
		reproduceArgs("x", "--seeds", "1,b"),
		reproduceArgs("x", "--seeds", "-1"),
		reproduceArgs("x", "--tiers", "T9"),
		reproduceArgs("x", "--sets", "101"),
		reproduceArgs("x", "--solvers", "guess"),
		reproduceArgs("x", "--protocol", "fair"),
		reproduceArgs("x", "--shard", "2/2"),
		reproduceArgs("x", "--temperature", "hot"),
		reproduceArgs("x", "--icem-clip", "half"),
		reproduceArgs("x", "--pool", "empty"),
		reproduceArgs("x", "--batch", "-1"),
		reproduceArgs("x", "--episodes", "-1"),
		reproduceArgs("x", "--workers", "-1"),
		{"collect", "tworom", "--out", "x"},
		{"collect", "tworoom", "--out", "x", "--episodes", "-1"},
		{"collect", "tworoom", "--out", "x", "--seed", "-1"},
		{"train", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--seed", "-1"},
		{"train", "--task", "tworom", "--data", "d.h5", "--out", "x"},
		{"train", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--method", "lewn"},
		{"train", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--protocol", "fair"},
		{"eval", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--random", "--episodes", "0"},
		{"weights", "convert", "a", "b", "--transformers", "6"},
		{"weights", "convert", "a"},
		reproduceArgs("x", "--solvers", "gd", "--tiers", "T2p"),
		{"reproduce", "--preset", "huge", "--out", "x"},
		{"eval", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--random", "--verify", "-1"},
		{"eval", "--task", "tworoom", "--data", "d.h5", "--out", "x"},
		{"eval", "--task", "tworoom", "--data", "d.h5", "--out", "x", "--random", "--weights", "w"},
		{"eval", "--task", "tworom", "--data", "d.h5", "--out", "x", "--random"},
		{"eval", "--data", "d.h5", "--out", "x", "--random"},
	} {
		if out, errs, code := session(args...); code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a mistyped command left a folder")
	}
}

// What preset and tasks make impossible is a usage error before anything is written.
func TestReproduceRefusesWithoutCollecting(t *testing.T) {
	for _, set := range []string{"model.history=1000", "model.frame_skip=1000", "model.image_size=10000", "eval.episodes=1000000000000", "train.batch=65536", "train.lr=1e300",
		"train.q_columns=state", strings.Repeat("a.", 40_000) + "a=1"} {
		out := filepath.Join(t.TempDir(), "out")
		_, errs, code := session(reproduceArgs(out, "--set", set)...)
		key, _, _ := strings.Cut(set, "=")
		_, err := os.Stat(out)
		if code != exitUsage || err == nil || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "(hint: ") || !strings.Contains(errs, key[strings.LastIndex(key, ".")+1:]) {
			t.Errorf("--set %.40s: exit %d, %v, %.300s", set, code, err, errs)
		}
	}
}

// A run of a complete grid writes no file, not even the same bytes, so that the folder may
// be read-only.
func TestReproduceAgainWritesNothing(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the measured times of a report are those of the first run
		if _, errs, code := session(reproduceArgs(dir)...); code != exitDone {
			t.Fatalf("exit %d: %s", code, errs)
		}
	}
	before := infos(t, dir)
	for _, args := range [][]string{reproduceArgs(dir), {"report", dir, "--out", dir}} {
		if _, errs, code := session(args...); code != exitDone {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
		after := infos(t, dir)
		for path, is := range after {
			if was, ok := before[path]; !ok || !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) {
				t.Errorf("%v wrote %s", args, path)
			}
		}
	}
}

// infos returns the FileInfo of every file below dir.
func infos(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	out := map[string]fs.FileInfo{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = d.Info()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A checkpoint whose predictions overflow has no result: its cell fails, and rollout writes
// no file.
func TestCheckpointThatDiverged(t *testing.T) {
	dir := t.TempDir()
	if _, errs, code := session("reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom", "--methods", "scale", "--tiers", "T5", "--out", dir); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	from, _ := filepath.Glob(filepath.Join(dir, "train", "*"))
	f, side, err := weights.Load(from[0])
	if err != nil {
		t.Fatal(err)
	}
	var ts []tensorfile.Tensor
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "pred") { // finite, as a checkpoint must be, and too large
			for i := range x.F32 {
				x.F32[i] = 1e30
			}
		}
		ts = append(ts, x)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := weights.Save(filepath.Join(bad, weights.FileName), ts, side); err != nil {
		t.Fatal(err)
	}
	data, out := filepath.Join(dir, "data", "tworoom.h5"), filepath.Join(t.TempDir(), "results")
	for _, solver := range []string{"cem", "icem", "mppi", "gd"} {
		text, errs, code := session("eval", "--task", "tworoom", "--weights", bad, "--data", data, "--tier", "T5", "--sets", "s101", "--episodes", "2", "--solver", solver, "--out", out)
		if code != exitIncomplete || text != "" || !strings.Contains(errs, "planning with "+solver+" at tier T5 on set s101: no cost that the model gave is finite") {
			t.Errorf("%s: exit %d, %q, %s", solver, code, text, errs)
		}
	}
	if cells, _ := filepath.Glob(filepath.Join(out, "cells", "*")); len(cells) != 0 {
		t.Errorf("cells %v", cells)
	}
	pred := filepath.Join(out, "pred.h5")
	_, errs, code := session("rollout", "--weights", bad, "--data", data, "--blocks", "2", "--out", pred)
	if _, err := os.Stat(pred); code != exitFailed || err == nil || !strings.Contains(errs, "numbers that the model gave are NaN or infinite (hint: ") {
		t.Errorf("rollout: exit %d, %v, %s", code, err, errs)
	}
}

// A user's copy of nano under another name trains and plans as nano does: the dry runs say the same, and nano's plans
// are in bf16 where the machine multiplies it (docs/reproduce.md).
func TestCopyOfAPreset(t *testing.T) {
	text, err := presets.Files.ReadFile("nano.toml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.toml")
	if err := os.WriteFile(mine, text, 0o644); err != nil {
		t.Fatal(err)
	}
	dryRuns, precisions := map[string]bool{}, map[device.Precision]bool{}
	for _, preset := range []string{"nano", mine} {
		out, errs, code := session("reproduce", "--preset", preset, "--tasks", "tworoom,cube", "--out", filepath.Join(dir, "out"), "--dry-run", "--verbose")
		if code != exitDone || !strings.Contains(out, "train") {
			t.Fatalf("%s: exit %d, %s", preset, code, errs)
		}
		dryRuns[out+errs] = true
		v, _ := lookupVerb("reproduce")
		c := newCommand(v, io.Discard, io.Discard)
		axes, dev := c.gridFlags(), c.deviceFlags("")
		if _, err := c.parse([]string{"--preset", preset, "--tasks", "tworoom", "--device", "cpu"}, 0, 0); err != nil {
			t.Fatal(err)
		}
		grid, err := axes.grid()
		if err != nil {
			t.Fatal(err)
		}
		free, err := dev.openFor(&grid, &pipeline.Options{}, part{})
		if err != nil {
			t.Fatal(err)
		}
		free()
		precisions[device.Precision(grid.Precision)] = true
	}
	want := device.FP32
	if cpu.HasBF16() {
		want = device.BF16
	}
	if len(dryRuns) != 1 || len(precisions) != 1 || !precisions[want] {
		t.Errorf("%d dry runs, plans in %v, want one in %s", len(dryRuns), precisions, want)
	}
}
