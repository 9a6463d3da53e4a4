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
// and the ids of those among them whose files exist and are torn.
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

// setsTogether is how many sets it takes to fill a batch.
func (j Job) setsTogether(a Agent) int {
	if !j.Arm.Plans() {
		return len(j.Sets)
	}
	n := len(j.Sets[0].Starts)
	return (j.sideBySide(a) + n - 1) / n
}

// makeAll runs and saves sets together, or one by one where that fails. A cell
// that cannot be saved (a full disk) is an error: more of them would not fit either.
func (j Job) makeAll(ctx context.Context, store cell.Store, a Agent, sets []int) ([]Failure, error) {
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
		bad, err := j.makeAll(ctx, store, a, sets[i:i+1])
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

// read reads the job's cells except those that failed. Cells with rows that no evaluation has fail too.
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

// Verify runs up to n cells of the jobs of one arm again, chosen by their ids alone, and
// compares them with what the store holds: byte by byte on the same kind of
// device; on another, success and steps of each episode. Files whose checksum is
// wrong need no run: each of them is a verdict beside the n.
func Verify(ctx context.Context, store cell.Store, jobs []Job, a Agent, n int) (out []Verdict, err error) {
	var units []Job // of one cell each
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
				out = append(out, Verdict{ID: ids[0], Unit: one.verified(), Compare: "checksum",
					Differs: "the file is torn or was edited: its checksum is wrong (hint: eval without --verify makes the cell again)"})
			case err == nil:
				units = append(units, one)
			case !errors.Is(err, fs.ErrNotExist):
				return nil, err
			}
		}
	}
	if len(units) == 0 && len(out) == 0 {
		return nil, fmt.Errorf("verifying the cells of %s: there are none (hint: give the folder, checkpoint, solver, tiers and sets that they were made with)", store.Dir)
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

// verified is what a verdict calls the job's only cell.
func (j Job) verified() string {
	if !j.Arm.Plans() {
		return j.Sets[0].Name
	}
	return j.Solver + " " + j.Tier.Name + " " + j.Sets[0].Name
}

// verify runs the job's only cell again.
func (j Job) verify(ctx context.Context, store cell.Store, a Agent) (v Verdict, err error) {
	ids, err := j.IDs()
	if err != nil {
		return v, err
	}
	v.ID, v.Unit, v.Compare = ids[0], j.verified(), "bytes"
	var old results.Result
	if err := store.Load(v.ID, nil, &old); err != nil {
		return v, err
	}
	outs, err := Run(ctx, j, a)
	if err != nil {
		return v, err
	}
	now := outs[0].Result
	if v.Made, v.Now = old.Device, now.Device; v.Made != v.Now {
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
