package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"scalewm/dataset/cell"
)

// Schema is the version of Spec that this program writes. Version 1 had no
// Recipe, Q, LossWeight and Pool, which only the hashes of weights and set told.
const Schema = 2

// Older is the spec of schema 1 of the same evaluation: its cells are those that
// older programs wrote.
func (s Spec) Older() Spec {
	s.Schema, s.Recipe, s.Q, s.LossWeight, s.Pool = 1, "", "", 0, ""
	return s
}

// Find reads the cell of a spec: its own or, where that is missing, the one of
// the same evaluation in the older schema. Its ID says which, also beside an error.
func Find(store cell.Store, s Spec) (Cell, error) {
	c, err := find(store, s)
	if errors.Is(err, fs.ErrNotExist) {
		if old, err := find(store, s.Older()); !errors.Is(err, fs.ErrNotExist) {
			return old, err
		}
	}
	return c, err
}

func find(store cell.Store, s Spec) (c Cell, err error) {
	if c.ID, err = cell.ID(Kind, s); err == nil {
		err = store.Load(c.ID, &c.Spec, &c.Result)
	}
	return c, err
}

// Renewed is Find, and writes what it finds in the older schema in ours, with its
// measured times.
func Renewed(store cell.Store, s Spec) (Cell, error) {
	c, err := Find(store, s)
	if err != nil || c.Spec.Schema == s.Schema {
		return c, err
	}
	run, err := cell.ReadFile(filepath.Join(store.Dir, c.ID+runSuffix), cell.MaxRecord)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("reading the measured times of cell %s: %w", c.ID, err)
	}
	c.Spec = s
	if c.ID, err = cell.ID(Kind, s); err == nil && json.Valid(run) {
		err = store.SaveRun(c.ID, json.RawMessage(run))
	}
	if err == nil {
		err = store.Save(c.ID, Kind, s, c.Result)
	}
	return c, err
}
