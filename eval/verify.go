package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/dataset/rng"
	"scalewm/eval/record"
)

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
		if one.id, err = cell.ID(record.Kind, one.Spec(0)); err != nil {
			return nil, nil, err
		}
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
	var old record.Result
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
func difference(old, now record.Result) string {
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

func text(r record.Row) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("eval: a row does not marshal: " + err.Error())
	}
	return b
}
