package eval

import (
	"context"
	"fmt"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
)

// Evaluation makes the cells of a job and, if Film is a path, a film of its first episode.
type Evaluation struct {
	Job
	Store cell.Store // which may be a listed one
	Load  Load
	Film  string
	Note  func(text string) // of what a person should know
}

// Outcome is what an evaluation left.
type Outcome struct {
	Cells  []results.Cell // existing and new ones
	Failed []Failure
	Made   []string // the sets whose cells were missing, with those that failed
}

// Run makes what is missing and returns every cell of the job. The model is loaded only if there is
// something to make. Sets run together, but only as many as keep the device busy, so that
// an interruption loses little. If sets fail together, each is tried alone.
func (e Evaluation) Run(ctx context.Context) (o Outcome, err error) {
	todo, torn, err := e.Missing(e.Store)
	for _, id := range torn {
		e.Note(fmt.Sprintf("cell %s is torn and is made again", id))
	}
	var a Agent
	if err == nil && (len(todo) > 0 || e.Film != "") {
		a, err = e.Load()
	}
	if err != nil {
		return o, err
	}
	if len(todo) > 0 {
		e.Store = cell.Store{Dir: e.Store.Dir} // which a listing does not show as it becomes
		for group := range slices.Chunk(todo, e.setsTogether(a)) {
			bad, err := e.makeAll(ctx, e.Store, a, group)
			if err != nil {
				return o, err
			}
			o.Failed = append(o.Failed, bad...)
		}
	}
	for _, i := range todo {
		o.Made = append(o.Made, e.Sets[i].Name)
	}
	if o.Cells, o.Failed, err = e.read(e.Store, o.Failed); err != nil || e.Film == "" || len(o.Failed) > 0 {
		return o, err
	}
	film, err := Watch(ctx, e.Job, a, 0)
	if err == nil {
		err = film.Save(e.Film)
	}
	return o, err
}
