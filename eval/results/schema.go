package results

import (
	"encoding/json"
	"errors"
	"io/fs"

	"scalewm/dataset/cell"
)

// Schema is the version of Spec that this program writes. Version 1 had no
// Recipe, Q, LossWeight, Backbone and Pool, which only the hashes of weights and set told.
const Schema = 2

// Older is the spec of schema 1 of the same evaluation: its cells are those that
// older programs wrote.
func (s Spec) Older() Spec {
	s.Schema, s.Recipe, s.Q, s.LossWeight, s.Backbone, s.Pool = 1, "", "", 0, "", ""
	return s
}

// Find says which cell has the evaluation of a spec: its own or, where that is
// missing, the one in the older schema. The file is checked and not decoded; the id
// stands beside an error too.
func Find(store cell.Store, s Spec) (id string, err error) {
	if id, err = cell.ID(Kind, s); err != nil {
		return "", err
	}
	if err = store.Load(id, nil, nil); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	old, err2 := cell.ID(Kind, s.Older())
	if err2 != nil {
		return "", err2
	}
	if err2 = store.Load(old, nil, nil); !errors.Is(err2, fs.ErrNotExist) {
		return old, err2
	}
	return id, err
}

// Renewed reads the cell that Find finds; one in the older schema it writes in ours,
// with its measured times.
func Renewed(store cell.Store, s Spec) (c Cell, err error) {
	if c.ID, err = Find(store, s); err == nil {
		c, err = Read(store, c.ID)
	}
	if err != nil || c.Spec.Schema == s.Schema {
		return c, err
	}
	var run json.RawMessage
	timed := store.LoadRun(c.ID, &run) == nil // else the times are lost, which no comparison reads
	c.Spec = s
	if c.ID, err = cell.ID(Kind, s); err == nil && timed {
		err = store.SaveRun(c.ID, run)
	}
	if err == nil {
		err = store.Save(c.ID, Kind, s, c.Result)
	}
	return c, err
}
