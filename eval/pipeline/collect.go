package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/record"
)

// Collect makes a task's data set, data/TASK.h5, and checks that this machine
// draws the task as the data set has it: gates/TASK.json. It also leaves the
// episodes of the evaluation sets, sets/TASK-SET.json.
type Collect struct {
	w    *Workspace
	task envs.Task
}

func collectSteps(w *Workspace, a arm) []Step { return []Step{&Collect{w, a.task}} }

func collectID(task envs.Task) string { return "collect " + task.Spec.Name }

func (c *Collect) ID() string      { return collectID(c.task) }
func (c *Collect) Needs() []string { return nil }

// spec is the data set that the preset asks for.
func (c *Collect) spec() collect.Spec {
	p, name := c.w.Grid.Preset.Collect, c.task.Spec.Name
	return collect.Spec{Task: name, Policy: p.Policy, Episodes: p.EpisodesOf(name), Seed: p.Seed}
}

func (c *Collect) State(context.Context) (State, error) {
	_, err := os.Stat(c.w.dataPath(c.task.Spec.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return State{Text: fmt.Sprintf("to do: %d episodes", c.spec().Episodes)}, nil
	}
	if err == nil {
		_, err = c.w.openSets(c.task)
	}
	return done, err
}

func (c *Collect) Run(ctx context.Context) (string, error) {
	began := time.Now()
	res, there, err := c.w.Collect(ctx, c.w.dataPath(c.task.Spec.Name), c.spec())
	if err == nil {
		_, err = c.w.RenderGate(ctx, c.task)
	}
	switch {
	case err != nil:
		return "", err
	case there:
		return done.Text, nil
	}
	return fmt.Sprintf("%d rows, %s", res.Rows, since(began)), nil
}

// Collect makes a data set, unless it is there already.
func (w *Workspace) Collect(ctx context.Context, path string, s collect.Spec) (res collect.Result, there bool, err error) {
	job, err := collect.Prepare(path, s)
	if err != nil {
		return res, false, err
	}
	defer job.Close()
	job.Spawn = w.Spawn
	if !job.Done {
		w.Listener.Note(fmt.Sprintf("collecting %d episodes of %s needs about %s of disk while it works", s.Episodes, s.Task, hdf5.MB(job.Need)))
	}
	res, err = job.Run(ctx, w.Workers, w.Listener.Progress)
	return res, job.Done, err
}

// RenderGate compares frames that are drawn here with the task's stored ones and
// keeps the verdict in the results folder, with the episodes of the sets.
func (w *Workspace) RenderGate(ctx context.Context, task envs.Task) (record.Gate, error) {
	t, err := w.openSets(task)
	if err != nil {
		return record.Gate{}, err
	}
	diff, err := eval.RenderGate(ctx, t.data)
	if err != nil {
		return record.Gate{}, err
	}
	gate := record.Gate{Task: task.Spec.Name, Data: t.data.Fingerprint, Error: diff, Limit: eval.MaxRenderError}
	err = cell.WriteFile(filepath.Join(w.Dir, record.GatesDir, gate.Task+".json"), func(out io.Writer) error {
		return json.NewEncoder(out).Encode(gate)
	})
	for _, s := range t.sets {
		if err == nil {
			err = t.data.WriteSet(filepath.Join(w.Dir, "sets", gate.Task+"-"+s.Name+".json"), s)
		}
	}
	return gate, err
}
