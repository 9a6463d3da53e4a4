package eval

import (
	"context"
	"fmt"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
)

// Evaluation evaluates a job and stores its cells. If Film is a path, it also writes
// a film of the first episode of the first set.
type Evaluation struct {
	Job
	Store cell.Store // may be a listed store
	Load  Load
	Film  string            // path of a GIF; "": no film
	Note  func(text string) // reports what a user should know, such as a torn cell
}

// Outcome is the result of Evaluation.Run.
type Outcome struct {
	Cells     []results.Cell // existing and new ones
	Failed    []Failure
	Evaluated []string // names of the sets that had to be evaluated, including failed ones
}

// Run evaluates the sets whose cells are missing and returns all cells of the job. It
// loads the model only if there is something to run, so that a completed evaluation
// returns without touching a GPU.
//
// Sets run in groups just large enough to fill the device, and each group is saved as
// soon as it is done: an interruption loses at most one group. If a group fails, each
// of its sets is tried alone. A film is written only if no set failed.
func (e Evaluation) Run(ctx context.Context) (o Outcome, err error) {
	todo, torn, err := e.Missing(e.Store)
	for _, id := range torn {
		e.Note(fmt.Sprintf("cell %s is torn and is computed again", id))
	}
	var a Agent
	if err == nil && (len(todo) > 0 || e.Film != "") {
		a, err = e.Load()
	}
	if err != nil {
		return o, err
	}
	if len(todo) > 0 {
		text, err := e.costNote(len(todo))
		if err != nil {
			return o, err
		}
		if text != "" {
			e.Note(text)
		}
		// A listed store is a snapshot: it would not find the cells that are saved below.
		e.Store = cell.Store{Dir: e.Store.Dir}
		for group := range slices.Chunk(todo, e.setsPerBatch(a)) {
			bad, err := e.runSets(ctx, e.Store, a, group)
			if err != nil {
				return o, err
			}
			o.Failed = append(o.Failed, bad...)
		}
	}
	for _, i := range todo {
		o.Evaluated = append(o.Evaluated, e.Sets[i].Name)
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
