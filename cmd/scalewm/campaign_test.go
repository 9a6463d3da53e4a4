package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/tensorfile"
	"scalewm/eval"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model/lewm"
	"scalewm/model/weights"
)

// The big grid: three methods, 15 solver-tier pairs, six sets, and enough seeds for 10^5
// cells.
const bigSeeds, bigCells = 371, 3 * 371 * 15 * 6

func bigArgs(dir string, more ...string) []string {
	var seeds []string
	for i := range bigSeeds {
		seeds = append(seeds, strconv.Itoa(i+1))
	}
	return append([]string{"reproduce", "--preset", "testdata/tiny.toml", "--tasks", "tworoom", "--methods", "lewm,scale,aux", "--seeds", strings.Join(seeds, ","),
		"--solvers", "all", "--tiers", "all", "--sets", "all", "--episodes", "20", "--dry-run", "--out", dir}, more...)
}

// TestCampaignBigGrid plans a grid of 10^5 cells, splits it into shards, merges their
// folders, finds everything done, and reports on, submits and watches the grid. The cells
// are synthetic, with 20 rows each.
func TestCampaignBigGrid(t *testing.T) {
	if os.Getenv("SCALEWM_CAMPAIGN") == "" {
		t.Skip("campaign: takes minutes (hint: make campaign-grid)")
	}
	dir := t.TempDir()
	total := dryRun(t, "plan", bigArgs(filepath.Join(dir, "empty")), bigCells, bigCells)

	const shards = 8
	began, dealt := time.Now(), 0
	for i := range shards {
		out, _, _ := session(bigArgs(filepath.Join(dir, "empty"), "--shard", fmt.Sprintf("%d/%d", i, shards))...)
		var cells, todo int
		last := out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:]
		if _, err := fmt.Sscanf(last, "%d cells, %d of them to do", &cells, &todo); err != nil {
			t.Fatalf("%q: %v", last, err)
		}
		dealt += cells
	}
	if dealt != bigCells {
		t.Errorf("%d cells in all shards, want %d", dealt, bigCells)
	}
	t.Logf("%d shards planned in %s", shards, time.Since(began))
	total += time.Since(began)

	merged := filepath.Join(dir, "merged")
	folders := fill(t, dir, merged)
	began = time.Now()
	for _, f := range folders {
		if out, err := exec.Command("cp", "-r", f+"/.", merged).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Logf("%d folders merged in %s", len(folders), time.Since(began))
	total += time.Since(began)
	total += dryRun(t, "plan of the merged folder", bigArgs(merged), bigCells, 0)
	t.Logf("in all %s (target 10 s)", total)

	measured(t, "report (target 60 s, 1200 MB)", []string{"report", merged})

	submitting := append(slices.DeleteFunc(bigArgs(merged), func(word string) bool { return word == "--dry-run" }),
		"--device", "cpu", "--precision", "fp32", "--submit", "slurm", "--print", "--shards", "eval:64")
	for _, left := range []struct {
		what   string
		remove string // cells that are not there
	}{{"all done", ""}, {"a sixteenth missing", "0*.json"}} {
		if left.remove != "" {
			gone, _ := filepath.Glob(filepath.Join(merged, results.CellsDir, left.remove))
			for _, path := range gone {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
		measured(t, "64 shards to submit, "+left.what+" (target 10 s)", submitting)
	}
	v := pipeline.NewWatcher(bigWorkspace(t, merged))
	for _, look := range []string{"first", "second"} {
		began := time.Now()
		l, err := v.Look(t.Context())
		if err != nil || l.Stages[2].Of != bigCells {
			t.Fatalf("%+v, %v", l, err)
		}
		t.Logf("%s look at %d of %d cells: %s (target 2 s)", look, l.Stages[2].Done, l.Stages[2].Of, time.Since(began))
	}
}

// dryRun runs a dry run as a process and returns its duration.
func dryRun(t *testing.T, what string, args []string, cells, todo int) time.Duration {
	t.Helper()
	out, took, rss := measured(t, what, args)
	if rss > 1024 {
		t.Errorf("%s: %d MB", what, rss)
	}
	if want := fmt.Sprintf("\n%d cells, %d of them to do\n", cells, todo); !strings.HasSuffix(out, want) {
		t.Errorf("%s: ends with %q, want %q", what, out[len(out)-100:], want)
	}
	return took
}

// measured runs the program and returns its duration and peak memory in MB.
func measured(t *testing.T, what string, args []string) (out string, took time.Duration, rss int64) {
	t.Helper()
	var stdout bytes.Buffer
	cmd := exec.Command("scalewm", args...)
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	rss = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%s: %s (%s of a core), %d MB", what, took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), rss)
	return stdout.String(), took, rss
}

// fill writes the data, the sidecars of the checkpoints and the cells of the big grid, the
// latter split into four folders as by shards.
func fill(t *testing.T, dir, merged string) []string {
	t.Helper()
	if out, errs, code := session("collect", "tworoom", "--out", filepath.Join(merged, "data", "tworoom.h5"), "--episodes", "16", "--seed", "1"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	w := bigWorkspace(t, merged)
	folders := make([]string, 4)
	for i := range folders {
		folders[i] = filepath.Join(dir, fmt.Sprint("shard", i))
	}
	jobs := make(chan func() error)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for f := range jobs {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	data, err := hdf5.Open(filepath.Join(merged, "data", "tworoom.h5"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	fp, err := data.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range pipeline.StepsOf[*pipeline.Train](w.Graph()) {
		writeSidecar(t, w, merged, fp, s.ID())
	}
	for i, s := range pipeline.StepsOf[*pipeline.Evaluate](w.Graph()) {
		j, err := s.Job()
		if err != nil {
			t.Fatal(err)
		}
		store := cell.Store{Dir: filepath.Join(folders[i%4], results.CellsDir)}
		jobs <- func() error { return fakeCells(store, j, rand.New(rand.NewPCG(1, uint64(i)))) }
	}
	close(jobs)
	wg.Wait()
	return folders
}

// fakeCells writes a job's cells, half of whose episodes succeed.
func fakeCells(s cell.Store, j eval.Job, draws *rand.Rand) error {
	for i := range j.Sets {
		result := results.Result{Device: "test", Rows: make([]results.Row, len(j.Sets[i].Starts))}
		for k, start := range j.Sets[i].Starts {
			result.Rows[k] = results.Row{Episode: k, Trajectory: start.Trajectory, Start: start.Row, Success: draws.IntN(2) == 0, Steps: 50, PlanCost: draws.Float64()}
		}
		id, err := cell.ID(results.Kind, j.Spec(i))
		if err == nil {
			err = s.Save(id, results.Kind, j.Spec(i), result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSidecar writes the sidecar of the training step "train TASK METHOD sSEED" on the data
// set with the fingerprint fp.
func writeSidecar(t *testing.T, w *pipeline.Workspace, merged, fp, step string) {
	t.Helper()
	words := strings.Fields(step)[1:]
	arm := strings.Join(words, "-")
	seed, err := strconv.ParseInt(words[2][1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	model := *w.Grid.Preset.Models["model"].(*lewm.Config)
	model.ActionDim = 2 // of Two-Room
	config, err := json.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := json.Marshal(w.Grid.Preset.Train)
	if err != nil {
		t.Fatal(err)
	}
	side := &weights.Sidecar{Kind: "lewm", Schema: 1, Method: words[1], Task: words[0], Seed: seed, Protocol: "paper",
		Device: w.Trainer.Kind().String(), Data: fp, Config: config, Train: recipe}
	err = weights.Save(filepath.Join(merged, "train", arm, weights.FileName), []tensorfile.Tensor{{Name: arm, Shape: []int{1}, F32: []float32{1}}}, side)
	if err != nil {
		t.Fatal(err)
	}
}

// bigWorkspace has the grid that bigArgs describe.
func bigWorkspace(t *testing.T, out string) *pipeline.Workspace {
	t.Helper()
	v, _ := lookupVerb("reproduce")
	c := newCommand(v, io.Discard, io.Discard)
	axes := c.gridFlags()
	c.String("out", "", "")
	c.Bool("dry-run", false, "")
	dev := c.deviceFlags("")
	if _, err := c.parse(bigArgs(out)[1:], 0, 0); err != nil {
		t.Fatal(err)
	}
	grid, err := axes.grid()
	if err != nil {
		t.Fatal(err)
	}
	o := pipeline.Options{Workers: 1, Version: version(), Listener: &listener{command: c}}
	closeAll, err := dev.openFor(&grid, &o, part{})
	if err != nil {
		t.Fatal(err)
	}
	w := pipeline.NewWorkspace(grid, out, o)
	t.Cleanup(func() { w.Close(); closeAll() })
	return w
}
