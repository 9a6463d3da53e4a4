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

// Failure is a set whose cell could not be made.
type Failure struct {
	Set string
	Err error
}

// Missing lists the sets of a job (by index) whose cells are not in the store,
// and the ids of those among them whose files are there and torn.
func (j Job) Missing(store cell.Store) (todo []int, torn []string, err error) {
	ids, err := j.IDs()
	if err != nil {
		return nil, nil, err
	}
	errs := make([]error, len(ids))
	j.eachSet(func(i int) { errs[i] = store.Load(ids[i], nil, nil) })
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
	return todo, torn, nil
}

// IDs are the names of the job's cells, set by set.
func (j Job) IDs() ([]string, error) {
	ids, errs := make([]string, len(j.Sets)), make([]error, len(j.Sets))
	j.eachSet(func(i int) { ids[i], errs[i] = cell.ID(results.Kind, j.Spec(i)) })
	return ids, errors.Join(errs...)
}

// eachSet does something for every set, 16 of them side by side: files on a network wait for
// their server.
func (j Job) eachSet(do func(i int)) {
	var all sync.WaitGroup
	turns := make(chan bool, 16)
	for i := range j.Sets {
		turns <- true
		all.Go(func() {
			do(i)
			<-turns
		})
	}
	all.Wait()
}

// Cells makes the cells of a job that the store, which may be a listed one, has not,
// and returns every cell of the job that is then there. Sets run side by side, but only as many as keep the device
// busy, so that an interruption loses little. If sets fail together, each is
// tried alone, so that a failing one does not take the others with it.
func Cells(ctx context.Context, store cell.Store, j Job) ([]results.Cell, []Failure, error) {
	todo, _, err := j.Missing(store)
	if err != nil {
		return nil, nil, err
	}
	if len(todo) == 0 {
		return j.load(store, nil)
	}
	var failed []Failure
	for group := range slices.Chunk(todo, j.setsTogether()) {
		bad, err := j.makeAll(ctx, store, group)
		if err != nil {
			return nil, nil, err
		}
		failed = append(failed, bad...)
	}
	return j.load(cell.Store{Dir: store.Dir}, failed)
}

// setsTogether is how many sets it takes to fill a batch.
func (j Job) setsTogether() int {
	if !j.Arm.Plans() {
		return len(j.Sets)
	}
	n := len(j.Sets[0].Starts)
	return (j.sideBySide() + n - 1) / n
}

// makeAll runs and saves sets together, or one by one where that fails. A cell
// that cannot be saved (a full disk) is an error: more of them would not fit either.
func (j Job) makeAll(ctx context.Context, store cell.Store, sets []int) ([]Failure, error) {
	if len(sets) == 0 {
		return nil, nil
	}
	part := j
	part.Sets = nil
	for _, i := range sets {
		part.Sets = append(part.Sets, j.Sets[i])
	}
	outs, err := Run(ctx, part)
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
		bad, err := j.makeAll(ctx, store, sets[i:i+1])
		if err != nil {
			return nil, err
		}
		failed = append(failed, bad...)
	}
	return failed, nil
}

// save writes the results of the job's sets, a cell each.
func (j Job) save(store cell.Store, sets []SetResult) error {
	for i, r := range sets {
		spec := j.Spec(i)
		id, err := cell.ID(results.Kind, spec)
		if err != nil {
			return err
		}
		// The cell comes last: it is what says that nothing is left to write.
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

// load reads the job's cells, except those that failed. Cells with rows that no evaluation has fail too.
func (j Job) load(store cell.Store, failed []Failure) ([]results.Cell, []Failure, error) {
	bad := map[string]bool{}
	for _, f := range failed {
		bad[f.Set] = true
	}
	var out []results.Cell
	var errs []error
	for i, set := range j.Sets {
		if bad[set.Name] {
			continue
		}
		id, err := cell.ID(results.Kind, j.Spec(i))
		var c results.Cell
		if err == nil {
			c, err = results.Read(store, id)
		}
		switch {
		case errors.Is(err, cell.ErrTorn):
			failed = append(failed, Failure{Set: set.Name, Err: err})
		case err != nil:
			errs = append(errs, fmt.Errorf("reading the cell of set %s: %w", set.Name, err))
		default:
			out = append(out, c)
		}
	}
	return out, failed, errors.Join(errs...)
}

// Host is the name of this machine.
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// Verdict is what running a cell again showed.
type Verdict struct {
	ID      string `json:"id"`
	Unit    string `json:"unit"`    // solver, tier and set
	Made    string `json:"made_on"` // device kinds of the file and of now
	Now     string `json:"run_on"`
	Same    bool   `json:"same"`
	Compare string `json:"compared"` // bytes, outcomes where the kinds differ, checksum where the file is damaged
	Differs string `json:"differs"`  // the first difference, "" where there is none
}

// Verify runs up to n cells of the jobs again, chosen by their ids alone, and
// compares them with what the store holds: byte by byte on the same kind of
// device; on another, success and steps of each episode. Files whose checksum is
// wrong need no run: each of them is a verdict beside the n.
func Verify(ctx context.Context, store cell.Store, jobs []Job, n int) ([]Verdict, error) {
	var units []verifiable
	var out []Verdict
	for _, j := range jobs {
		whole, damaged, err := j.there(store)
		if err != nil {
			return nil, err
		}
		units, out = append(units, whole...), append(out, damaged...)
	}
	if len(units) == 0 && len(out) == 0 {
		return nil, fmt.Errorf("verifying the cells of %s: there are none (hint: give the folder, checkpoint, solver, tiers and sets that they were made with)", store.Dir)
	}
	for _, k := range rng.Stream("verify", len(units)).Perm(len(units))[:min(n, len(units))] {
		v, err := units[k].verify(ctx, store, units[k].id)
		if err != nil {
			return out, fmt.Errorf("verifying cell %s: %w", units[k].id, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// verifiable is a job of one cell, and the cell's name.
type verifiable struct {
	Job
	id string
}

// there sorts a job's cells: those that can be run again, and verdicts on files
// that were torn or edited. What is not there is neither.
func (j Job) there(store cell.Store) (whole []verifiable, damaged []Verdict, err error) {
	todo, torn, err := j.Missing(store)
	if err != nil {
		return nil, nil, err
	}
	for i, set := range j.Sets {
		one := verifiable{Job: j}
		one.Sets = []Set{set}
		one.id, _ = cell.ID(results.Kind, one.Spec(0)) // Missing has reported errors
		switch {
		case slices.Contains(torn, one.id):
			damaged = append(damaged, Verdict{ID: one.id, Unit: one.verified(), Compare: "checksum",
				Differs: "the file is torn or was edited: its checksum is wrong (hint: eval without --verify makes the cell again)"})
		case !slices.Contains(todo, i):
			whole = append(whole, one)
		}
	}
	return whole, damaged, nil
}

// verified is what a verdict calls the job's only cell.
func (j Job) verified() string {
	if !j.Arm.Plans() {
		return j.Sets[0].Name
	}
	return j.Solver + " " + j.Tier.Name + " " + j.Sets[0].Name
}

// verify runs the job's only cell again.
func (j Job) verify(ctx context.Context, store cell.Store, id string) (Verdict, error) {
	var old results.Result
	if err := store.Load(id, nil, &old); err != nil {
		return Verdict{}, err
	}
	outs, err := Run(ctx, j)
	if err != nil {
		return Verdict{}, err
	}
	now := outs[0].Result
	v := Verdict{ID: id, Made: old.Device, Now: now.Device, Compare: "bytes", Unit: j.verified()}
	if old.Device != now.Device {
		v.Compare = "outcomes"
	}
	v.Differs = difference(old, now)
	v.Same = v.Differs == ""
	return v, nil
}

// difference names the first row that differs, or is "". Results of different
// device kinds are compared by what happened alone.
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

func text(r results.Row) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("eval: a row does not marshal: " + err.Error())
	}
	return b
}
