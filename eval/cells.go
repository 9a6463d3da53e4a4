package eval

import (
	"context"
	"errors"
	"fmt"
	"os"

	"scalewm/dataset/cell"
	"scalewm/eval/record"
)

// Failure is a set whose cell could not be made.
type Failure struct {
	Set string
	Err error
}

// Missing lists the sets of a job (by index) whose cells are not in the store.
func (j Job) Missing(store cell.Store) ([]int, error) {
	var out []int
	for i := range j.Sets {
		id, err := cell.ID(record.Kind, j.Spec(i))
		if err != nil {
			return nil, err
		}
		done, err := store.Done(id)
		if err != nil {
			return nil, err
		}
		if !done {
			out = append(out, i)
		}
	}
	return out, nil
}

// Cells makes the missing cells of a job, all sets side by side, and returns
// every cell of the job that is then there. If the sets fail together, each is
// tried alone, so that a failing one does not take the others with it.
func Cells(ctx context.Context, store cell.Store, j Job) ([]record.Cell, []Failure, error) {
	todo, err := j.Missing(store)
	if err != nil {
		return nil, nil, err
	}
	var failed []Failure
	if err := j.make(ctx, store, todo); err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		for _, i := range todo {
			switch one := j.make(ctx, store, []int{i}); {
			case ctx.Err() != nil:
				return nil, nil, ctx.Err()
			case one != nil:
				failed = append(failed, Failure{Set: j.Sets[i].Name, Err: one})
			}
		}
	}
	cells, err := j.load(store, failed)
	return cells, failed, err
}

// make runs and saves the cells of some sets.
func (j Job) make(ctx context.Context, store cell.Store, sets []int) error {
	if len(sets) == 0 {
		return nil
	}
	part := j
	part.Sets = nil
	for _, i := range sets {
		part.Sets = append(part.Sets, j.Sets[i])
	}
	outs, err := Run(ctx, part)
	if err != nil {
		return err
	}
	for i, out := range outs {
		spec := part.Spec(i)
		id, err := cell.ID(record.Kind, spec)
		if err != nil {
			return err
		}
		if err := store.Save(id, record.Kind, spec, out.Result); err != nil {
			return err
		}
		out.Run.Host = host()
		if err := store.SaveRun(id, out.Run); err != nil {
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
