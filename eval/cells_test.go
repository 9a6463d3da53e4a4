package eval

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/results"
)

// files returns the bytes of every cell file of a store by name, without the run
// files.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	must(t, err)
	out := map[string][]byte{}
	for _, p := range paths {
		if filepath.Ext(p[:len(p)-len(".json")]) == ".run" {
			continue
		}
		out[filepath.Base(p)], err = os.ReadFile(p)
		must(t, err)
	}
	return out
}

func sameFiles(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d cells, want %d", what, len(got), len(want))
	}
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Errorf("%s: cell %s differs", what, name)
		}
	}
}

// TestCellBytes checks that cells have the same bytes if two workers compute them, if
// the sets run one at a time in another order, and after a torn and a missing cell
// were replaced.
func TestCellBytes(t *testing.T) {
	ctx := context.Background()
	j := testJob(t, "T4", 5, "s101", "s102", "s103")
	dir := t.TempDir()
	cells, failed, err := j.cells(ctx, cell.Store{Dir: dir})
	if err != nil || len(failed) > 0 || len(cells) != 3 {
		t.Fatalf("%d cells, failed %v, %v", len(cells), failed, err)
	}
	want := files(t, dir)
	if len(want) != 3 || cells[1].Spec.Set != "s102" || cells[1].Spec.Episodes != 5 || len(cells[1].Result.Rows) != 5 {
		t.Errorf("%d files, second cell %+v", len(want), cells[1].Spec)
	}

	other := cell.Store{Dir: t.TempDir()}
	j.Workers = 2
	for _, i := range []int{2, 0, 1} {
		one := j
		one.Sets = j.Sets[i : i+1]
		if _, _, err := one.cells(ctx, other); err != nil {
			t.Fatal(err)
		}
	}
	sameFiles(t, "one set at a time, two workers", files(t, other.Dir), want)

	must(t, os.WriteFile(filepath.Join(dir, cells[0].ID+".json"), want[cells[0].ID+".json"][:40], 0o666))
	must(t, os.Remove(filepath.Join(dir, cells[2].ID+".json")))
	if todo, torn, err := j.Missing(cell.Store{Dir: dir}); err != nil || !slices.Equal(todo, []int{0, 2}) || !slices.Equal(torn, []string{cells[0].ID}) {
		t.Errorf("missing %v, torn %v, %v", todo, torn, err)
	}
	if _, _, err := j.cells(ctx, cell.Store{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "after a torn and a missing cell", files(t, dir), want)
}

// TestSpecs checks which fields of a job change the id of its cell and which do not.
func TestSpecs(t *testing.T) {
	j := testJob(t, "T4", 5, "s101", "s102")
	id := func(change func(*trial)) string {
		c := j
		change(&c)
		s, err := cell.ID(results.Kind, c.Spec(0))
		must(t, err)
		return s
	}
	base := id(func(*trial) {})
	// Batches and workers change no result. A temperature matters to MPPI only, and
	// clipping bounds matter to iCEM only.

	if id(func(j *trial) { j.Workers, j.Batch, j.Temperature, j.Clip = 9, 7, 3, string(plan.ClipNone) }) != base {
		t.Error("what no result of CEM depends on names another cell")
	}
	changes := map[string]func(*trial){
		"method":             func(j *trial) { j.Arm.Method = "scale" },
		"seed":               func(j *trial) { j.Arm.TrainSeed++ },
		"weights":            func(j *trial) { j.Arm.Weights = "v" },
		"set":                func(j *trial) { j.Sets = j.Sets[1:] },
		"tier":               func(j *trial) { j.Tier = newTier("T2p", 100, 20) },
		"random":             func(j *trial) { j.Arm = Arm{Method: "random"} },
		"rules":              func(j *trial) { j.Protocol = results.Strict },
		"solver":             func(j *trial) { j.Solver = "icem" },
		"bounds":             func(j *trial) { j.Solver, j.Clip = results.ICEM, string(plan.ClipNone) },
		"mppi":               func(j *trial) { j.Solver, j.Temperature = results.MPPI, 1 },
		"mppi's temperature": func(j *trial) { j.Solver, j.Temperature = results.MPPI, 2 },
		"action clip":        func(j *trial) { j.ActionClip = true },
		"planner noise":      func(j *trial) { j.PlannerNoise = 1 },
		"recipe":             func(j *trial) { j.Arm.Recipe.Hash = "0a" },
		"task state":         func(j *trial) { j.Arm.Recipe.Q = "half" },
		"weight of a term":   func(j *trial) { j.Arm.Recipe.Weight = .3 },
		"pool": func(j *trial) {
			j.Sets = []Set{{Name: "s101", Hash: j.Sets[0].Hash, Starts: j.Sets[0].Starts, Pool: results.FullPool}}
		},
		"precision": func(j *trial) { j.Precision = "bf16" },
	}
	ids := map[string]string{}
	for what, change := range changes {
		if other, ok := ids[id(change)]; ok || id(change) == base {
			t.Errorf("another %s names the same cell (%s)", what, other)
		}
		ids[id(change)] = what
	}
	r := Job{Task: j.Task, Data: j.Data, Rules: results.Rules{ActionClip: true}, Arm: Arm{Method: "random"}, Sets: j.Sets, Solver: "cem", Tier: j.Tier}.Spec(0)
	if r.Solver != "" || r.Tier != "" || r.Candidates != 0 || r.Precision != "" || r.Weights != "" || r.ActionClip {
		t.Errorf("the random arm's spec has a planner: %+v", r)
	}
}

// fragile is a task whose SetState fails at one position.
type fragile struct {
	envs.Env
	x float64
}

var errFragile = errors.New("the world broke")

func (f fragile) SetState(row envs.Row) error {
	if row["state"][0] == f.x {
		return errFragile
	}
	return f.Env.SetState(row)
}

// TestFailedSet checks that a failing set is reported by name and that the other sets
// are evaluated.
func TestFailedSet(t *testing.T) {
	j := testJob(t, "T5", 3, "s101", "s102")
	x := j.Data.Source.(*recording).state[2*j.Data.fileRow(j.Sets[0].Starts[0])]
	plain := j.Task.New
	j.Task.New = func(o envs.Options) (envs.Env, error) {
		e, err := plain(o)
		return fragile{e, x}, err
	}
	dir := t.TempDir()
	cells, failed, err := j.cells(context.Background(), cell.Store{Dir: dir})
	must(t, err)
	if len(cells) != 1 || cells[0].Spec.Set != "s102" || len(failed) != 1 || failed[0].Set != "s101" || !errors.Is(failed[0].Err, errFragile) {
		t.Errorf("cells %+v, failed %+v", cells, failed)
	}
	if len(files(t, dir)) != 1 {
		t.Error("the failed set left a cell")
	}
}

// TestSideBySide checks how many sets fill a batch of 4096 candidates: many at a low
// tier, one at the highest. Random actions have no batch, so that all sets run
// together.
func TestSideBySide(t *testing.T) {
	plans := testJob(t, "T1", 1, "s101")
	for _, tc := range []struct {
		arm                   trial
		tier                  Tier
		batch, episodes, want int
	}{
		{plans, newTier("T1", 300, 30), 0, 100, 1},
		{plans, newTier("T1", 300, 30), 0, 10, 2},
		{plans, newTier("T5", 10, 3), 0, 10, 41},
		{plans, newTier("T5", 10, 3), 16, 10, 2},
		{trial{}, Tier{}, 0, 10, 6},
	} {
		j := Job{Arm: tc.arm.Arm, Tier: tc.tier, Batch: tc.batch}
		for range 6 {
			j.Sets = append(j.Sets, Set{Starts: make([]Start, tc.episodes)})
		}
		if got := j.setsPerBatch(tc.arm.Agent); got != tc.want {
			t.Errorf("%s, sets of %d: %d side by side, want %d", tc.tier.Name, tc.episodes, got, tc.want)
		}
	}
}

// TestVerify checks that valid cells are reproduced, that an edited row is found, and
// that only outcomes are compared if the cell is from another kind of device.
func TestVerify(t *testing.T) {
	ctx := context.Background()
	j := testJob(t, "T5", 3, "s101", "s102", "s103")
	store := cell.Store{Dir: t.TempDir()}
	if _, err := Verify(ctx, store, []Job{j.Job}, j.Agent, 1); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("an empty store: %v", err)
	}
	cells, _, err := j.cells(ctx, store)
	must(t, err)
	verdicts, err := Verify(ctx, store, []Job{j.Job}, j.Agent, 9)
	must(t, err)
	if len(verdicts) != 3 {
		t.Fatalf("%d verdicts on 3 cells", len(verdicts))
	}
	for _, v := range verdicts {
		if !v.Same || v.Compare != "bytes" || v.Differs != "" || v.StoredOn != v.RunOn {
			t.Errorf("%+v", v)
		}
	}
	if some, err := Verify(ctx, store, []Job{j.Job}, j.Agent, 2); err != nil || len(some) != 2 {
		t.Errorf("a sample of 2: %v, %v", some, err)
	}

	put := func(change func(*results.Result)) Verdict {
		c := cells[0]
		c.Result.Rows = append([]results.Row{}, c.Result.Rows...)
		change(&c.Result)
		must(t, store.Save(c.ID, results.Kind, c.Spec, c.Result))
		one := j
		one.Sets = j.Sets[:1]
		vs, err := Verify(ctx, store, []Job{one.Job}, one.Agent, 1)
		must(t, err)
		return vs[0]
	}
	if v := put(func(r *results.Result) { r.Rows[1].PlanCost++ }); v.Same || !strings.HasPrefix(v.Differs, "episode 1: ") {
		t.Errorf("another cost: %+v", v)
	}
	if v := put(func(r *results.Result) { r.Device, r.Rows[1].PlanCost = "cuda/sm_90a/fp32", 0 }); !v.Same || v.Compare != "outcomes" {
		t.Errorf("another cost on another device: %+v", v)
	}
	if v := put(func(r *results.Result) { r.Device, r.Rows[2].Steps = "cuda/sm_90a/fp32", 77 }); v.Same || !strings.Contains(v.Differs, "after 77 steps") {
		t.Errorf("another outcome on another device: %+v", v)
	}
	if v := put(func(r *results.Result) { r.Rows = r.Rows[1:] }); v.Same || v.Differs != "2 episodes, now 3" {
		t.Errorf("a missing episode: %+v", v)
	}
	must(t, os.Truncate(store.Path(cells[0].ID), 30))
	vs, err := Verify(ctx, store, []Job{j.Job}, j.Agent, 1)
	if err != nil || len(vs) != 2 || vs[0].ID != cells[0].ID || vs[0].Same || vs[0].Compare != "checksum" || !vs[1].Same {
		t.Errorf("a torn cell and one more: %+v, %v", vs, err)
	}
}

// A cell with a valid checksum but impossible rows fails its set with an error that
// names the file, and no other set.
func TestCellsWithImpossibleRows(t *testing.T) {
	j, store := testJob(t, "T5", 2, "s101", "s102"), cell.Store{Dir: t.TempDir()}
	cells, failed, err := j.cells(t.Context(), store)
	if err != nil || len(cells) != 2 || len(failed) != 0 {
		t.Fatalf("%d cells, %v, %v", len(cells), failed, err)
	}
	cells[0].Result.Rows[1].Steps = results.Published().Budget + 1
	must(t, store.Save(cells[0].ID, results.Kind, cells[0].Spec, cells[0].Result))
	again, failed, err := j.cells(t.Context(), store)
	if err != nil || len(again) != 1 || again[0].ID != cells[1].ID || len(failed) != 1 || failed[0].Set != "s101" || !strings.Contains(failed[0].Err.Error(), store.Path(cells[0].ID)+": not a valid cell: episode 1 has 51 steps") {
		t.Errorf("%d cells, %v, %v; want the failure of s101", len(again), failed, err)
	}
}
