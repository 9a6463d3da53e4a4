package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
)

// Collect makes a task's data set, data/TASK.h5, and checks that this machine
// draws the task as the data set has it: gates/TASK.json. It also leaves the
// episodes of the evaluation sets, sets/TASK-SET-FINGERPRINT.json.
type Collect struct {
	w     *Workspace
	task  envs.Task
	share cell.Shard // of its episodes, which the step without one puts together
}

func collectSteps(w *Workspace, a arm) []Step { return []Step{&Collect{w: w, task: a.task}} }

func collectID(task envs.Task) string { return "collect " + task.Spec.Name }

func (c *Collect) ID() string      { return collectID(c.task) }
func (c *Collect) Stage() Stage    { return StageCollect }
func (c *Collect) Needs() []string { return nil }

// spec is the data set that the preset asks for.
func (c *Collect) spec() collect.Spec {
	p, name := c.w.Grid.Preset.Collect, c.task.Spec.Name
	return collect.Spec{Task: name, Policy: p.Policy, Episodes: p.EpisodesOf(name), Seed: p.Seed}
}

func (c *Collect) State(context.Context) (State, error) {
	if policy := c.spec().Policy; policy != "" {
		if _, err := c.task.Policy(policy); err != nil {
			return State{}, Requestf("the preset's collect.policy: %v", err)
		}
	}
	there, err := collect.Find(c.w.dataPath(c.task.Spec.Name), c.spec())
	switch {
	case errors.Is(err, collect.ErrOther):
		return State{}, Requestf("%v", err)
	case err != nil:
		return State{}, err
	case !there:
		text := fmt.Sprintf("to do: %d episodes", c.spec().Episodes)
		if n := collect.Parts(c.w.dataPath(c.task.Spec.Name)); n > 0 {
			text += fmt.Sprintf(", %d parts of them are there", n)
		}
		if of := c.w.resultsOn(c.task); of != "" {
			text += fmt.Sprintf("; the folder's results are of a data set with the fingerprint %.12s, another will be refused", of)
		}
		return State{Text: text}, c.w.belongs(c.task, "")
	}
	t, err := c.w.openSets(c.task)
	if err == nil {
		err = c.w.belongs(c.task, t.data.Fingerprint)
	}
	return done, err
}

// Share implements Shareable.
func (c *Collect) Share(shard cell.Shard) Step { return &Collect{c.w, c.task, shard} }

func (c *Collect) Run(ctx context.Context) (string, error) {
	began := time.Now()
	path := c.w.dataPath(c.task.Spec.Name)
	if of := c.w.resultsOn(c.task); of != "" && !isThere(path) {
		c.w.Listener.Note(fmt.Sprintf("the results in %s are of a data set with the fingerprint %.12s, which is not there; if the preset collects another, it will be refused (hint: put that data set at %s)", c.w.dir, of, path))
	}
	res, there, err := CollectData(ctx, path, c.spec(), c.share, c.w.Options)
	whole := there || c.share.N <= 1
	if err == nil && whole {
		err = c.gate(ctx)
	}
	switch {
	case err != nil:
		return "", err
	case there:
		return done.Text, nil
	case !whole:
		return fmt.Sprintf("share %s, %d rows, %s", c.share, res.NewRows, since(began)), nil
	}
	return fmt.Sprintf("%d rows, %s", res.Rows, since(began)), nil
}

// gate compares frames that are drawn here with the task's stored ones, unless the folder has other results.
func (c *Collect) gate(ctx context.Context) error {
	t, err := c.w.openSets(c.task)
	if err == nil {
		err = c.w.belongs(c.task, t.data.Fingerprint)
	}
	if err == nil {
		_, err = renderGate(ctx, c.w.dir, t.data, t.sets, c.w.Listener.Note)
	}
	return err
}

// CollectData makes a data set, or a share of its episodes, unless it exists.
func CollectData(ctx context.Context, path string, s collect.Spec, share cell.Shard, o Options) (res collect.Result, exists bool, err error) {
	job, err := collect.PrepareShare(ctx, path, s, share)
	if err != nil {
		return res, false, err
	}
	defer job.Close()
	job.Spawn = o.Spawn
	if !job.Done {
		o.Listener.Note(fmt.Sprintf("collecting %d episodes of %s needs about %s of disk while it works", s.Episodes, s.Task, hdf5.MB(job.Need)))
	}
	res, err = job.Run(ctx, o.Workers, o.Listener.Progress)
	return res, job.Done, err
}

// renderGate compares frames that are drawn here with stored ones and writes the verdict to a results
// folder, with the episodes of the sets.
func renderGate(ctx context.Context, dir string, d *eval.Data, sets []eval.Set, note func(text string)) (results.Gate, error) {
	diff, err := eval.RenderGate(ctx, d)
	if err != nil {
		return results.Gate{}, err
	}
	gate := results.Gate{Task: d.Task().Spec.Name, Data: d.Fingerprint, Error: diff, Limit: eval.MaxRenderError}
	verdict, err := json.Marshal(gate)
	if err != nil {
		return gate, fmt.Errorf("writing the verdict of the render gate: %w", err)
	}
	err = keep(results.Folder(dir).Gate(gate.Task), append(verdict, '\n'), note, func(there []byte) bool {
		_, err := results.ParseGate(there)
		return err == nil
	})
	for _, s := range sets {
		text := d.EncodeSet(s)
		if err == nil {
			err = keep(results.Folder(dir).Set(gate.Task, s.Name, s.Hash), text, note, func(there []byte) bool { return bytes.Equal(there, text) })
		}
	}
	return gate, err
}

// keep writes a file that can be rebuilt at any time, unless it exists. A damaged one is set aside.
func keep(path string, text []byte, note func(text string), whole func(there []byte) bool) error {
	same := false
	err := setAside(path, note, func() (bool, error) {
		there, err := safefile.Read(path, safefile.MaxSet)
		same = err == nil && bytes.Equal(there, text)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err != nil || !same && !whole(there), nil
	})
	if err != nil || same {
		return err
	}
	return safefile.WriteBytes(path, text)
}
