package main

import (
	"fmt"
	"os"
	"path/filepath"

	"scalewm/eval"
	"scalewm/model/weights"
)

// dryRun says of each unit what is there and what would be done. It opens data
// sets and reads sidecars and cells, and writes nothing.
func (r *reproduction) dryRun(asJSON bool) error {
	cells, todo := 0, 0
	for _, u := range r.grid.Units() {
		if u.Task != r.stage.name {
			r.stage.leave()
			r.stage.name = u.Task
		}
		state, missing, err := r.state(u)
		if err != nil {
			r.stage.leave()
			return fmt.Errorf("%s %s: %w", u.Verb, u.Name(), err)
		}
		cells, todo = cells+len(u.Sets), todo+missing
		r.say(u, state)
	}
	r.stage.leave()
	fmt.Fprintf(r.stdout, "%d cells, %d of them to do\n", cells, todo)
	if asJSON {
		return r.printJSON(map[string]int{"cells": cells, "to_do": todo})
	}
	return nil
}

// state is what a dry run says of a unit, and how many cells it would make.
func (r *reproduction) state(u eval.Unit) (state string, cells int, err error) {
	done := true
	switch u.Verb {
	case eval.Collect:
		if done, err = r.look(u); !done {
			p := r.collection(u.Task)
			return fmt.Sprintf("to do: %d episodes", p.Episodes), 0, err
		}
	case eval.Train:
		side, err := weights.ReadSidecar(filepath.Join(r.armPath(u), weights.SidecarName))
		switch {
		case notYet(err):
			done = false
		case err != nil:
			return "", 0, err
		case side.Protocol != string(r.protocol):
			return fmt.Sprintf("refused: the folder holds a training under the protocol %s (hint: choose another --out)", side.Protocol), 0, nil
		}
	case eval.TuneMPPI:
		done, err = r.tuned(u)
	case eval.Evaluate:
		return r.cells(u)
	case eval.Report:
		done = false
	}
	if done {
		return "done", 0, err
	}
	return "to do", 0, err
}

// look opens the task's data, if it is there.
func (r *reproduction) look(u eval.Unit) (there bool, err error) {
	if _, err := os.Stat(r.dataPath(u.Task)); err != nil {
		if notYet(err) {
			return false, nil
		}
		return false, err
	}
	r.stage.evaluation, err = r.evaluation(u.Task)
	return err == nil, err
}

// tuned says whether mppi's temperature was chosen, and takes it over.
func (r *reproduction) tuned(u eval.Unit) (bool, error) {
	e := r.stage.evaluation
	if e == nil {
		return false, nil
	}
	a, err := readArm(r.planner, r.armPath(u), u.Task)
	if err == nil {
		var c eval.Choice
		if c, err = e.chosen(a); err == nil {
			e.temperature = e.temperature.Chosen(c)
		}
	}
	if notYet(err) {
		return false, nil
	}
	return err == nil, err
}

// cells counts the cells of a unit that are not there.
func (r *reproduction) cells(u eval.Unit) (state string, todo int, err error) {
	todo = len(u.Sets)
	var torn []string
	e := r.stage.evaluation
	if e != nil && (u.Solver != eval.MPPI || !e.temperature.NeedsTuning()) {
		_, missing, broken, err := r.missing(e, u)
		if err != nil && !notYet(err) {
			return "", 0, err
		}
		if err == nil {
			todo, torn = len(missing), broken
		}
	}
	state = fmt.Sprintf("%d of %d cells to do", todo, len(u.Sets))
	if len(torn) > 0 {
		state += fmt.Sprintf(", %d of them torn", len(torn))
	}
	return state, todo, nil
}
