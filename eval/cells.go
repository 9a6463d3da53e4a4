package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/eval/record"
)

// Failure is a set whose cell could not be made.
type Failure struct {
	Set string
	Err error
}

// Missing lists the sets of a job (by index) whose cells are not in the store,
// and the ids of those among them whose files are there and torn.
func (j Job) Missing(store cell.Store) (todo []int, torn []string, err error) {
	for i := range j.Sets {
		id, err := cell.ID(record.Kind, j.Spec(i))
		if err != nil {
			return nil, nil, err
		}
		switch err := store.Load(id, nil, nil); {
		case err == nil:
			continue
		case errors.Is(err, cell.ErrTorn):
			torn = append(torn, id)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		}
		todo = append(todo, i)
	}
	return todo, torn, nil
}

// Cells makes the missing cells of a job and returns every cell of the job that
// is then there. Sets run side by side, but only as many as keep the device
// busy, so that an interruption loses little. If sets fail together, each is
// tried alone, so that a failing one does not take the others with it.
func Cells(ctx context.Context, store cell.Store, j Job) ([]record.Cell, []Failure, error) {
	todo, _, err := j.Missing(store)
	if err != nil {
		return nil, nil, err
	}
	if len(todo) == 0 {
		cells, err := j.load(store, nil)
		return cells, nil, err
	}
	var failed []Failure
	for group := range slices.Chunk(todo, j.setsAbreast()) {
		bad, err := j.makeAll(ctx, store, group)
		if err != nil {
			return nil, nil, err
		}
		failed = append(failed, bad...)
	}
	cells, err := j.load(store, failed)
	return cells, failed, err
}

// setsAbreast is how many sets it takes to fill a batch.
func (j Job) setsAbreast() int {
	if !j.Arm.Plans() {
		return len(j.Sets)
	}
	n := len(j.Sets[0].Starts)
	return (j.abreast() + n - 1) / n
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

// save writes an outcome for each set of the job.
func (j Job) save(store cell.Store, outs []Outcome) error {
	for i, out := range outs {
		spec := j.Spec(i)
		id, err := cell.ID(record.Kind, spec)
		if err != nil {
			return err
		}
		// The cell comes last: it is what says that nothing is left to write.
		out.Run.Host = host()
		if err := store.SaveRun(id, out.Run); err != nil {
			return err
		}
		if err := store.Save(id, record.Kind, spec, out.Result); err != nil {
			return err
		}
	}
	return nil
}

// load reads the job's cells, except those that failed.
func (j Job) load(store cell.Store, failed []Failure) ([]record.Cell, error) {
	bad := map[string]bool{}
	for _, f := range failed {
		bad[f.Set] = true
	}
	var out []record.Cell
	var errs []error
	for i, set := range j.Sets {
		if bad[set.Name] {
			continue
		}
		var c record.Cell
		var err error
		if c.ID, err = cell.ID(record.Kind, j.Spec(i)); err == nil {
			err = store.Load(c.ID, &c.Spec, &c.Result)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the cell of set %s: %w", set.Name, err))
			continue
		}
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}

func host() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
