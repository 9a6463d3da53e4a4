package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/tensorfile"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// Watcher counts the results of a grid while other processes compute them. It reads
// listings and not cells, so that a look at a large grid takes a moment. Steps and
// the report find damaged cells.
type Watcher struct {
	w *Workspace
	g Graph
}

// Progress is the state of a grid at a moment.
type Progress struct {
	Stages   []StageProgress `json:"stages"`
	Training []string        `json:"training"` // a line for each training in progress
}

// StageProgress is the number of data sets, trainings or cells of a stage, and of those
// that exist.
type StageProgress struct {
	Stage Stage  `json:"stage"`
	Done  int    `json:"done"`
	Of    int    `json:"of"`
	Note  string `json:"note,omitempty"`
}

// NewWatcher returns a Watcher of the workspace's grid.
func NewWatcher(w *Workspace) *Watcher { return &Watcher{w, w.Graph()} }

// Look lists the results folder and counts.
func (v *Watcher) Look(ctx context.Context) (l Progress, err error) {
	if _, err := v.w.listed(true); err != nil {
		return l, err
	}
	// Indices in l.Stages.
	at := map[Stage]int{}
	for _, s := range v.g {
		stage := s.Stage()
		if stage == StageReport {
			continue
		}
		i, ok := at[stage]
		if !ok {
			i = len(l.Stages)
			at[stage], l.Stages = i, append(l.Stages, StageProgress{Stage: stage})
		}
		of, there, note, err := v.count(ctx, s)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return l, err
		}
		l.Stages[i].Of += of
		l.Stages[i].Done += there
		if note == "" {
			continue
		}
		if stage == StageTrain {
			l.Training = append(l.Training, note)
		} else {
			l.Stages[i].Note = note
		}
	}
	return l, nil
}

// count returns how many results a step has, how many of them exist, and a note on an
// unfinished one.
func (v *Watcher) count(ctx context.Context, s Step) (of, there int, note string, err error) {
	whole := func(path string) int {
		if _, err := os.Stat(path); err == nil {
			return 1
		}
		return 0
	}
	switch s := s.(type) {
	case *Collect:
		path := v.w.dataPath(s.task.Spec.Name)
		if there = whole(path); there == 0 {
			if n := collect.Parts(path); n > 0 {
				note = fmt.Sprintf("%d parts of %s", n, s.task.Spec.Name)
			}
		}
		return 1, there, note, nil
	case *Gap:
		return 1, 0, "", nil
	case *Install:
		return 1, whole(filepath.Join(v.w.checkpoint(s.arm), weights.SidecarName)), "", nil
	case *Train:
		dir := v.w.checkpoint(s.arm)
		if there = whole(filepath.Join(dir, weights.SidecarName)); there == 0 {
			note = v.progressNote(s, dir)
		}
		return 1, there, note, nil
	case Divisible:
		ids, err := s.found(ctx)
		return s.Len(), len(ids), "", err
	}
	return 0, 0, "", nil // tuning is not counted
}

// progressNote returns how far a training has come, "" if it has not begun.
func (v *Watcher) progressNote(s *Train, dir string) string {
	rows, err := metrics.Read(dir)
	if err != nil || len(rows) == 0 {
		return ""
	}
	last := rows[len(rows)-1]
	text := fmt.Sprintf("%s: step %d", s.name(), last.Step+1)
	// The recipe of the arm, since a family may have its own number of steps.
	if r, err := s.training().recipe(); err == nil && r.Train.Steps > 0 {
		text += fmt.Sprintf(" of %d", r.Train.Steps)
	} else if err == nil {
		text += fmt.Sprintf(", of %d epochs", r.Train.Epochs)
	}
	return fmt.Sprintf("%s, loss %.4f", text, last.Loss)
}

// ignoreMissing returns nil for errors that only say that an earlier step has not made its
// result yet, or has to make it again; else err.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, tensorfile.ErrDamaged) || errors.Is(err, cell.ErrTorn) {
		return nil
	}
	return err
}
