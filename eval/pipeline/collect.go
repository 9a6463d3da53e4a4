package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
)

// Collect is the step that collects a task's data set, data/TASK.h5, or uses the file that
// was given, and checks that this machine draws the task as the data set has it, with the result in
// gates/TASK.json. It also writes the starts of the evaluation sets,
// sets/TASK-SET-FINGERPRINT.json.
type Collect struct {
	w     *Workspace
	task  envs.Task
	share cell.Shard // share of the parts to make; the zero value makes the rest and the file
}

// collectSteps returns the collection of a task's data set. It uses only the task of
// a.
func collectSteps(w *Workspace, a arm) []Step { return []Step{&Collect{w: w, task: a.task}} }

func collectID(task envs.Task) string { return "collect " + task.Spec.Name }

// given reports whether the data set exists already and is used as it is.
func (c *Collect) given() bool { return c.w.Grid.Data[c.task.Spec.Name] != "" }

func (c *Collect) ID() string      { return collectID(c.task) }
func (c *Collect) Stage() Stage    { return StageCollect }
func (c *Collect) Needs() []string { return nil }

// spec returns the spec of the data set that the preset describes.
func (c *Collect) spec() collect.Spec {
	p, name := c.w.Grid.Preset.Collect, c.task.Spec.Name
	return collect.Spec{Task: name, Policy: p.Policy, Episodes: p.EpisodesOf(name), Seed: p.Seed}
}

// State implements Step. Besides the data set itself it checks that existing results
// of the folder are on this data set: if the file is gone and the preset describes
// another one, every later step would fail.
func (c *Collect) State(context.Context) (State, error) {
	if c.given() {
		_, err := c.fits()
		return done, err
	}
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
	case !there && c.wasGiven():
		return State{}, Requestf("the results on %s in %s are from a data set that was given (hint: --data %[1]s=FILE)", c.task.Spec.Name, c.w.dir)
	case !there:
		text := fmt.Sprintf("to do: %d episodes", c.spec().Episodes)
		if n := collect.Parts(c.w.dataPath(c.task.Spec.Name)); n > 0 {
			text += fmt.Sprintf(", %d parts of them exist", n)
		}
		if of := c.w.resultsOn(c.task); of != "" {
			text += fmt.Sprintf("; the folder has results on the data set with the fingerprint %.12s, and any other is an error", of)
		}
		return State{Text: text}, c.w.checkFolder(c.task, "")
	}
	_, err = c.fits()
	return done, err
}

// wasGiven reports whether the folder has results on a data set of the task that this program
// did not collect.
func (c *Collect) wasGiven() bool {
	gate, err := results.ReadGate(results.Folder(c.w.dir).Gate(c.task.Spec.Name))
	return err == nil && gate.Given()
}

// fits draws the sets. It returns a RequestError if the folder has results on another data
// set of the task.
func (c *Collect) fits() (d drawn, err error) {
	if _, d, err = c.w.openSets(c.task); err == nil {
		err = c.w.checkFolder(c.task, d.data.Fingerprint)
	}
	return d, err
}

// Share implements Shareable.
func (c *Collect) Share(shard cell.Shard) Step {
	if c.given() {
		return c
	}
	return &Collect{c.w, c.task, shard}
}

// Run implements Step. It runs the render gate after collecting the complete data
// set, not after a share of it.
func (c *Collect) Run(ctx context.Context) (string, error) {
	began := time.Now()
	path := c.w.dataPath(c.task.Spec.Name)
	if c.given() {
		return "given: " + path, c.gate(ctx)
	}
	if of := c.w.resultsOn(c.task); of != "" && !exists(path) {
		c.w.Listener.Note(fmt.Sprintf("the results in %s are from a data set with the fingerprint %.12s, which is missing; if collecting gives a different one, the run ends with an error (hint: put that data set at %s)", c.w.dir, of, path))
	}
	res, there, err := c.collect(ctx, path)
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

// gate runs the render gate, after checking that the folder has no results on another
// data set of the task.
func (c *Collect) gate(ctx context.Context) error {
	d, err := c.fits()
	if err == nil {
		_, err = renderGate(ctx, c.w.dir, d.data, d.sets, c.w.Listener.Note)
	}
	return err
}

// CollectData collects a data set into path, or makes one share of its parts. If the
// file exists with the same spec, it does nothing and exists is true. It resumes
// after an interruption: finished parts are kept. It returns an error if another
// process is working on the same file; shares of the same data set may run at the
// same time.
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

// renderGate compares frames drawn here with stored ones. It writes the result, and
// the files of the evaluation sets and their manifests, to a results folder. A difference above the limit
// is an error, and nothing is written.
func renderGate(ctx context.Context, dir string, d *eval.Data, sets []eval.Set, note func(text string)) (results.Gate, error) {
	diff, err := eval.RenderGate(ctx, d)
	if err != nil {
		return results.Gate{}, err
	}
	gate := results.Gate{Task: d.Task().Spec.Name, Data: d.Fingerprint, Error: diff, Limit: eval.MaxRenderError,
		Origin: originOf(d.Source, d.Task().Spec.Name), Episodes: len(d.Episodes()), Rows: d.Rows()}
	return gate, writeGate(dir, gate, sets, d.EncodeSet, note)
}

// replayGate is renderGate for an outside world. It sets the world's result of the gate.
func replayGate(ctx context.Context, dir string, d *eval.Data, w *eval.World, sets []eval.Set, note func(text string)) (gate results.Gate, err error) {
	var levels float64
	if w.Replayed, levels, err = eval.ReplayGate(ctx, d, w); err != nil {
		return gate, err
	}
	gate = results.Gate{Task: d.Task().Spec.Name, Data: d.Fingerprint, Error: levels, Limit: eval.MaxReplayError, Origin: results.OriginGiven}
	if d.Source == nil {
		return gate, writeGate(dir, gate, sets, func(s eval.Set) []byte { return d.EncodeSeeded(w, s) }, note)
	}
	if r := w.Replayed; r.Passed < r.Rows {
		note("replay gate: " + r.String())
	}
	gate.Episodes, gate.Rows = len(d.Episodes()), d.Rows()
	return gate, writeGate(dir, gate, sets, d.EncodeSet, note)
}

// writeGate writes the verdict of a gate, for the report, and the sets.
func writeGate(dir string, gate results.Gate, sets []eval.Set, encode func(eval.Set) []byte, note func(text string)) error {
	verdict, err := json.Marshal(gate)
	if err != nil {
		return fmt.Errorf("writing the verdict of the gate: %w", err)
	}
	err = writeUnlessSame(results.Folder(dir).Gate(gate.Task), append(verdict, '\n'), note, func(there []byte) bool {
		_, err := results.ParseGate(there)
		return err == nil
	})
	for _, s := range sets {
		text := encode(s)
		if err == nil {
			err = writeUnlessSame(results.Folder(dir).Set(gate.Task, s.Name, s.Hash), text, note, func(there []byte) bool { return eval.SameSet(there, text) })
		}
		if err == nil && s.Manifest != "" {
			err = writeUnlessSame(results.Folder(dir).Manifest(s.Manifest), s.Text, note, func([]byte) bool { return false })
		}
	}
	return err
}

// originOf says where a task's data set comes from.
func originOf(src dataset.Source, task string) string {
	_, collected := src.Attr(collect.SpecAttr)
	switch {
	case collected:
		return results.OriginCollected
	case dataset.IsPublished(task, len(src.Episodes()), src.Rows()):
		return results.OriginPublished
	}
	return results.OriginGiven
}

// writeUnlessSame writes a file that can be rebuilt at any time, unless it already has these
// bytes. An existing file that is not valid is set aside first; a valid one, such as
// another machine's gate, is replaced.
func writeUnlessSame(path string, text []byte, note func(text string), whole func(there []byte) bool) error {
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
