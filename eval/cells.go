package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"scalewm/dataset/cell"
	"scalewm/dataset/rng"
	"scalewm/eval/results"
)

// Failure is a set that could not be evaluated, or whose cell cannot be used.
type Failure struct {
	Set string
	Err error
}

// Missing returns the indices of the job's sets that have to be evaluated: those
// without a valid cell in the store, or all of them with Fresh. torn lists the ids of
// the cells whose files exist but fail their checksum; their sets are in todo as
// well. Any other read error, such as a permission, is returned: the cell may be
// valid, and must not be replaced.
func (j Job) Missing(store cell.Store) (todo []int, torn []string, err error) {
	ids, err := j.IDs()
	errs := make([]error, len(ids))
	if err == nil {
		j.eachSet(func(i int) { errs[i] = store.Load(ids[i], nil, nil) })
	}
	for i, err := range errs {
		switch {
		case err == nil && !j.Fresh:
			continue
		case errors.Is(err, cell.ErrTorn):
			torn = append(torn, ids[i])
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		}
		todo = append(todo, i)
	}
	return todo, torn, err
}

// IDs returns the ids of the job's cells, in the order of Sets.
func (j Job) IDs() ([]string, error) {
	ids, errs := make([]string, len(j.Sets)), make([]error, len(j.Sets))
	j.eachSet(func(i int) { ids[i], errs[i] = cell.ID(results.Kind, j.Spec(i)) })
	return ids, errors.Join(errs...)
}

// eachSet calls do for every set, up to 16 calls at a time. Each call reads one small
// file or hashes one spec; on a network file system the round trip to the server
// dominates, so the limit is on outstanding requests and independent of the number of
// cores.
func (j Job) eachSet(do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan bool, 16)
	for i := range j.Sets {
		slots <- true
		all.Go(func() {
			do(i)
			<-slots
		})
	}
	all.Wait()
}

// setsPerBatch returns how many sets fill one planning batch. Random actions have no
// batch, so all of their sets run together. In an outside world each set runs alone.
func (j Job) setsPerBatch(a Agent) int {
	if j.Outside != nil { // each episode has a copy of the world
		return 1
	}
	if !j.Arm.Plans() {
		return len(j.Sets)
	}
	n := len(j.Sets[0].Starts)
	return (j.batchSize(a) + n - 1) / n
}

// runSets evaluates the given sets in one batch and saves their cells. If that fails,
// it evaluates each set alone, so that one bad set does not cost the others their
// results. A cell that cannot be saved, for instance because the disk is full, is an
// error and not a Failure: the other cells could not be saved either.
func (j Job) runSets(ctx context.Context, store cell.Store, a Agent, sets []int) ([]Failure, error) {
	if len(sets) == 0 {
		return nil, nil
	}
	part := j
	part.Sets = nil
	for _, i := range sets {
		part.Sets = append(part.Sets, j.Sets[i])
	}
	outs, err := Run(ctx, part, a)
	switch {
	case err == nil:
		return nil, part.save(store, outs)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(sets) == 1:
		return []Failure{{Set: part.Sets[0].Name, Err: err}}, nil
	}
	var failed []Failure
	for i := range sets {
		bad, err := j.runSets(ctx, store, a, sets[i:i+1])
		if err != nil {
			return nil, err
		}
		failed = append(failed, bad...)
	}
	return failed, nil
}

// save writes one cell for each of the job's sets.
func (j Job) save(store cell.Store, sets []SetResult) error {
	for i, r := range sets {
		spec := j.Spec(i)
		id, err := cell.ID(results.Kind, spec)
		if err != nil {
			return err
		}
		// The run file comes before the cell: a valid cell means that its set is done, so
		// after a crash between the two the set is evaluated again and nothing is lost.
		r.Run.Host = Host()
		if err := store.SaveRun(id, r.Run); err != nil {
			return err
		}
		if err := store.Save(id, results.Kind, spec, r.Result); err != nil {
			return err
		}
	}
	return nil
}

// read loads the job's cells, except those of sets that already failed. A cell that
// is torn or whose rows no evaluation can produce becomes a further Failure.
func (j Job) read(store cell.Store, failed []Failure) ([]results.Cell, []Failure, error) {
	ids, err := j.IDs()
	if err != nil {
		return nil, nil, err
	}
	var out []results.Cell
	for i, set := range j.Sets {
		if slices.ContainsFunc(failed, func(f Failure) bool { return f.Set == set.Name }) {
			continue
		}
		c, err := results.Read(store, ids[i])
		switch {
		case errors.Is(err, cell.ErrTorn):
			failed = append(failed, Failure{Set: set.Name, Err: err})
		case err != nil:
			return nil, nil, fmt.Errorf("reading the cell of set %s: %w", set.Name, err)
		default:
			out = append(out, c)
		}
	}
	return out, failed, nil
}

// Host returns the name of this machine, or "unknown".
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// Verdict is the result of evaluating an existing cell again.
type Verdict struct {
	ID       string `json:"id"`
	Unit     string `json:"unit"`    // solver, tier and set
	StoredOn string `json:"made_on"` // device kind that computed the stored cell
	RunOn    string `json:"run_on"`  // device kind of the second run
	Same     bool   `json:"same"`
	// Compare is what was compared: "bytes", "outcomes" if the device kinds differ, or
	// "checksum" if the file is damaged and nothing was run.
	Compare string `json:"compared"`
	Differs string `json:"differs"` // the first difference; "" if there is none
}

// Verify evaluates up to n existing cells of the jobs of one arm again and compares
// the results with the stored ones. On the same kind of device every row must have
// the same bytes; on another kind only success and number of steps of each episode
// are compared, since the last bits of a cost may differ there. The sample is a
// random permutation with a fixed seed, so that repeating the command verifies the
// same cells.
//
// Cells with a wrong checksum need no run. Each of them gives a verdict in addition
// to the n.
func Verify(ctx context.Context, store cell.Store, jobs []Job, a Agent, n int) (out []Verdict, err error) {
	// Jobs of one cell each: the sets that have a readable cell.
	var units []Job
	for _, j := range jobs {
		for i := range j.Sets {
			one := j
			one.Sets = j.Sets[i : i+1]
			ids, err := one.IDs()
			if err != nil {
				return nil, err
			}
			switch err := store.Load(ids[0], nil, nil); {
			case errors.Is(err, cell.ErrTorn):
				out = append(out, Verdict{ID: ids[0], Unit: one.unitName(), Compare: "checksum",
					Differs: "the file is torn or was edited: its checksum is wrong (hint: eval without --verify computes the cell again)"})
			case err == nil:
				units = append(units, one)
			case !errors.Is(err, fs.ErrNotExist):
				return nil, err
			}
		}
	}
	if len(units) == 0 && len(out) == 0 {
		return nil, fmt.Errorf("verifying the cells of %s: none match (hint: give the checkpoint, solver, tiers and sets of an earlier eval into this folder)", store.Dir)
	}
	for _, k := range rng.Stream("verify", len(units)).Perm(len(units))[:min(n, len(units))] {
		v, err := units[k].verify(ctx, store, a)
		if err != nil {
			return out, fmt.Errorf("verifying cell %s: %w", v.ID, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// unitName returns the name of the job's only cell in a Verdict.
func (j Job) unitName() string {
	if !j.Arm.Plans() {
		return j.Sets[0].Name
	}
	return j.Solver + " " + j.Tier.Name + " " + j.Sets[0].Name
}

// verify evaluates the job's only cell again and compares it with the stored one.
func (j Job) verify(ctx context.Context, store cell.Store, a Agent) (v Verdict, err error) {
	ids, err := j.IDs()
	if err != nil {
		return v, err
	}
	v.ID, v.Unit, v.Compare = ids[0], j.unitName(), "bytes"
	var old results.Result
	if err := store.Load(v.ID, nil, &old); err != nil {
		return v, err
	}
	outs, err := Run(ctx, j, a)
	if err != nil {
		return v, err
	}
	now := outs[0].Result
	if v.StoredOn, v.RunOn = old.Device, now.Device; v.StoredOn != v.RunOn {
		v.Compare = "outcomes"
	}
	v.Differs = difference(old, now)
	v.Same = v.Differs == ""
	return v, nil
}

// difference describes the first row that differs between two results of a cell, or
// returns "". Across device kinds it compares only success and number of steps.
func difference(old, now results.Result) string {
	if len(old.Rows) != len(now.Rows) {
		return fmt.Sprintf("%d episodes, now %d", len(old.Rows), len(now.Rows))
	}
	for i, a := range old.Rows {
		b := now.Rows[i]
		switch {
		case a.Success != b.Success || a.Steps != b.Steps:
			return fmt.Sprintf("episode %d: success %v after %d steps, now %v after %d", a.Episode, a.Success, a.Steps, b.Success, b.Steps)
		case old.Device == now.Device && !bytes.Equal(text(a), text(b)):
			return fmt.Sprintf("episode %d: %s, now %s", a.Episode, text(a), text(b))
		}
	}
	return ""
}

// text returns the JSON of a row, which covers every field that a cell stores.
func text(r results.Row) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("eval: a row does not marshal: " + err.Error())
	}
	return b
}
