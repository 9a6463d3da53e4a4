package eval

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Data is a data set opened for the evaluation of one task. Evaluation starts and
// goals are rows of it, and planned actions are z-scored with the moments of its
// actions. It is safe for concurrent use if its Source is.
type Data struct {
	dataset.Source
	Fingerprint string
	Actions     dataset.Moments // of the action column
	rules       results.Rules
	task        envs.Task
	columns     []string // the task's state, goal and factor columns that the file has
	outside     *World   // simulates the task; nil: its own simulator
	heldOut     []int    // sorted indices of the episodes to draw starts from; nil: all
	state       func() (scaledQ, error)
}

// NewData opens src for evaluations under the given rules. It returns an error if src
// is not a recording of the task with frames, or lacks its state or goal columns.
func NewData(src dataset.Source, task envs.Task, rules results.Rules) (*Data, error) {
	return NewWorldData(src, task, rules, nil)
}

// NewWorldData is NewData for evaluations in an outside world, or in the task's own
// simulator if it is nil.
func NewWorldData(src dataset.Source, task envs.Task, rules results.Rules, outside *World) (*Data, error) {
	d := &Data{Source: src, task: task, rules: rules, outside: outside}
	d.state = sync.OnceValues(d.readState)
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("evaluating %s on this data set: %w", task.Spec.Name, err)
	}
	var err error
	if d.Fingerprint, err = src.Fingerprint(); err != nil {
		return nil, fmt.Errorf("evaluating %s: fingerprint of the data set: %w", task.Spec.Name, err)
	}
	// ScaledByTraining uses the moments of the training episodes only, so that nothing
	// about the held-out ones reaches the planner. The published evaluation uses the
	// moments of the entire file (train == nil).
	var train []int
	n := len(src.Episodes())
	if rules.HeldOut() {
		d.heldOut = dataset.HeldOut(d.Fingerprint, n)
	}
	if rules.Full().Scaling == results.ScaledByTraining {
		train = dataset.TrainEpisodes(d.Fingerprint, n)
	}
	if d.Actions, err = dataset.ColumnMoments(src, "action", train, 0); err != nil {
		return nil, fmt.Errorf("evaluating %s: scaling of the actions: %w", task.Spec.Name, err)
	}
	d.Actions = unitStd(d.Actions)
	return d, nil
}

// Task returns the task that the data set records.
func (d *Data) Task() envs.Task { return d.task }

// HeldOut returns the indices of the episodes that training under the strict protocol
// does not see, if starts are drawn from them alone; otherwise nil.
func (d *Data) HeldOut() []int { return d.heldOut }

// check compares the file with the task and collects the columns that set the task's
// state.
func (d *Data) check() error {
	spec := d.task.Spec
	// Without a simulator no state is ever set, so that no column is needed. An outside world
	// says in the replay gate whether it is the recorded one.
	if d.outside != nil {
		if err := d.outside.checkRules(d.rules); err != nil {
			return err
		}
	}
	if d.task.New == nil {
		return dataset.CheckTask(d.Source, dataset.NoTask, spec.ID, spec.ActionDim)
	}
	if err := dataset.CheckTask(d.Source, spec.Name, spec.ID, spec.ActionDim); err != nil {
		return err
	}
	has := func(names []string) (found bool) {
		for _, c := range d.Columns() {
			if slices.Contains(names, c.Name) {
				found = true
				if !slices.Contains(d.columns, c.Name) {
					d.columns = append(d.columns, c.Name)
				}
			}
		}
		return found
	}
	if !has(spec.StateColumns) {
		return fmt.Errorf("it has none of the state columns %v (hint: is this the right file?)", spec.StateColumns)
	}
	if !has(spec.GoalColumns) {
		return fmt.Errorf("it has none of the goal columns %v (hint: is this the right file?)", spec.GoalColumns)
	}
	// Factors of variation are optional. Where the file has them, SetState restores
	// the world that was recorded.
	for _, f := range spec.Factors {
		has([]string{f.Column().Name})
	}
	if d.rules.State == results.RestStart {
		if err := rest(spec, envs.Row{}); err != nil {
			return err
		}
	}
	return checkJudge(d.task, d.rules)
}

// Set returns the evaluation set of a name, which gives the seed to draw n episodes,
// or the set stored in a file (a name that ends in .json). A file is used as it is: n
// is ignored.
func (d *Data) Set(name string, n int) (Set, error) {
	if isSetFile(name) {
		return d.readSet(name)
	}
	seed, err := setSeed(name)
	if err != nil {
		return Set{}, err
	}
	list, err := d.draw(n, seed)
	if err != nil {
		return Set{}, fmt.Errorf("set %s: %w", name, err)
	}
	set := newSet(name, list)
	set.Pool = d.rules.Short().Pool
	return set, nil
}

// lengths returns the number of rows of each episode.
func (d *Data) lengths() []int {
	eps := d.Episodes()
	out := make([]int, len(eps))
	for i, e := range eps {
		out[i] = e.Len
	}
	return out
}

// drawLengths returns lengths with 0 for the episodes that no start may come from. Keeping
// their entries keeps episode indices equal to those of the file.
func (d *Data) drawLengths() []int {
	lengths := d.lengths()
	for i := range lengths {
		if _, held := slices.BinarySearch(d.heldOut, i); !held && d.heldOut != nil {
			lengths[i] = 0
		}
	}
	return lengths
}

// gateRows is the number of rows that the render gate compares. A mean absolute error
// above MaxRenderError grey levels means that the simulator draws the task
// differently from the recording. Then the first plan would see the world of the
// recording and all later plans a different one (docs/sources.md#render-gate).
const (
	gateRows       = 20
	MaxRenderError = 3.0
)

// RenderGate sets the task to 20 recorded states, draws them, and returns the mean
// absolute difference from the stored frames in grey levels per byte. It returns an
// error in addition if the difference exceeds MaxRenderError. The rows are the same
// for every call on a data set.
func RenderGate(ctx context.Context, d *Data) (float64, error) {
	e, err := d.world()
	if err != nil {
		return 0, fmt.Errorf("render gate of %s: %w", d.task.Spec.Name, err)
	}
	defer e.Close()
	t := newTable(d.lengths())
	valid := t.Valid(d.rules.GoalOffset)
	if len(valid) == 0 {
		return 0, fmt.Errorf("render gate of %s: no episode of the data set is longer than %d rows (hint: collect longer episodes)", d.task.Spec.Name, d.rules.GoalOffset)
	}
	r := rng.Stream("render gate", d.Fingerprint)
	sum := 0.0
	for range gateRows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		diff, err := d.renderError(e, t.at(valid[r.IntN(len(valid))]))
		if err != nil {
			return 0, fmt.Errorf("render gate of %s: %w", d.task.Spec.Name, err)
		}
		sum += diff
	}
	mean := sum / gateRows
	if mean > MaxRenderError {
		return mean, fmt.Errorf("render gate of %s: frames drawn here differ from the stored ones by %.2f levels on average, more than %.1f (hint: was the data set drawn by another renderer or with other options?)", d.task.Spec.Name, mean, MaxRenderError)
	}
	return mean, nil
}

// renderError returns the mean absolute difference at one start.
func (d *Data) renderError(e envs.Env, s Start) (float64, error) {
	if err := d.setTo(e, s, d.task.Spec.Name, "render gate"); err != nil {
		return 0, err
	}
	ours, stored := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	if err := e.Frame(ours); err != nil {
		return 0, fmt.Errorf("drawing row %d: %w", d.fileRow(s), err)
	}
	if err := d.Frame(d.fileRow(s), stored); err != nil {
		return 0, fmt.Errorf("reading the frame of row %d: %w", d.fileRow(s), err)
	}
	return meanDifference(ours, stored), nil
}
