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
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// Watcher counts what is there of a grid's results while others make them. It reads
// listings and names, and no cell, so that a look at a large grid takes a moment;
// whether a cell is whole the steps and the report find out.
type Watcher struct {
	w *Workspace
	g Graph
}

// Look is what a Watcher sees.
type Look struct {
	Stages   []StageLook `json:"stages"`
	Training []string    `json:"training"` // trainings under way, a line each
}

// StageLook counts a stage: data sets, trainings, cells.
type StageLook struct {
	Stage Stage  `json:"stage"`
	Done  int    `json:"done"`
	Of    int    `json:"of"`
	Note  string `json:"note,omitempty"`
}

// NewWatcher watches the workspace's grid.
func NewWatcher(w *Workspace) *Watcher { return &Watcher{w, w.Graph()} }

// Look looks once.
func (v *Watcher) Look(ctx context.Context) (l Look, err error) {
	if _, err := v.w.listed(true); err != nil {
		return l, err
	}
	at := map[Stage]int{} // places in l.Stages
	for _, s := range v.g {
		stage := s.Stage()
		if stage == StageReport {
			continue
		}
		i, ok := at[stage]
		if !ok {
			i = len(l.Stages)
			at[stage], l.Stages = i, append(l.Stages, StageLook{Stage: stage})
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

// count is how many results a step has, and how many of them are there.
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
	case *Train:
		dir := v.w.checkpoint(s.arm)
		if there = whole(filepath.Join(dir, weights.SidecarName)); there == 0 {
			note = v.underWay(s, dir)
		}
		return 1, there, note, nil
	case Divisible:
		ids, err := s.found(ctx)
		return s.Len(), len(ids), "", err
	}
	return 0, 0, "", nil // a choice of a temperature belongs to no count
}

// underWay tells how far a training has come, "" for one that has not begun.
func (v *Watcher) underWay(s *Train, dir string) string {
	rows, err := metrics.Read(dir)
	if err != nil || len(rows) == 0 {
		return ""
	}
	last := rows[len(rows)-1]
	text := fmt.Sprintf("%s: step %d", s.name(), last.Step+1)
	if r, err := s.training().recipe(); err == nil && r.Train.Steps > 0 { // DINO-WM's is its own
		text += fmt.Sprintf(" of %d", r.Train.Steps)
	} else if err == nil {
		text += fmt.Sprintf(", of %d epochs", r.Train.Epochs)
	}
	return fmt.Sprintf("%s, loss %.4f", text, last.Loss)
}

// notYet drops the errors of what another step has still to make.
func notYet(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, weights.ErrDamaged) || errors.Is(err, cell.ErrTorn) {
		return nil
	}
	return err
}
