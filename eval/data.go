package eval

import (
	"context"
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/dataset/rng/numpy"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Data is a data set opened for evaluation: starts and goals are its rows, and
// actions are scaled as its actions are.
type Data struct {
	dataset.Source
	Fingerprint string
	Actions     dataset.Moments // of the action column
	rules       results.Rules
	task        envs.Task
	columns     []string // state, goal and factor columns of the task that the file has
	heldOut     []int    // episodes that starts are drawn from, nil for all
}

// NewData checks that src is a recording of the task with frames and prepares
// it for evaluations by some rules.
func NewData(src dataset.Source, task envs.Task, rules results.Rules) (*Data, error) {
	d := &Data{Source: src, task: task, rules: rules}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("evaluating %s on this data set: %w", task.Spec.Name, err)
	}
	var err error
	if d.Fingerprint, err = src.Fingerprint(); err != nil {
		return nil, fmt.Errorf("evaluating %s: fingerprint of the data set: %w", task.Spec.Name, err)
	}
	var train []int
	n := len(src.Episodes())
	if rules.HeldOut() {
		d.heldOut = dataset.HeldOut(d.Fingerprint, n)
	}
	if rules.Protocol == results.Strict {
		train = dataset.TrainEpisodes(d.Fingerprint, n)
	}
	if d.Actions, err = dataset.ColumnMoments(src, "action", train, 0); err != nil {
		return nil, fmt.Errorf("evaluating %s: scaling of the actions: %w", task.Spec.Name, err)
	}
	d.Actions = filled(d.Actions)
	return d, nil
}

// Task is what the data are a recording of.
func (d *Data) Task() envs.Task { return d.task }

// HeldOut lists the episodes that strict trainings do not see if starts are drawn from them alone,
// as under the strict protocol; else it is empty.
func (d *Data) HeldOut() []int { return d.heldOut }

// check compares the file with the task and collects the columns it is set by.
func (d *Data) check() error {
	spec := d.task.Spec
	if err := dataset.CheckTask(d.Source, spec.Name, spec.ID, spec.ActionDim); err != nil {
		return err
	}
	if d.task.New == nil { // no world is ever set to its rows
		return nil
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
	for _, f := range spec.Factors { // so that set-state makes the world that was recorded
		has([]string{f.Column().Name})
	}
	return nil
}

// row reads the task's columns of a row of the file.
func (d *Data) row(i int) (envs.Row, error) {
	row := envs.Row{}
	for _, c := range d.columns {
		v, err := d.Read(c, i, i+1)
		if err != nil {
			return nil, fmt.Errorf("reading column %s of row %d: %w", c, i, err)
		}
		row[c] = v
	}
	return row, nil
}

// fileRow is the row of the file where s begins.
func (d *Data) fileRow(s Start) int { return d.Episodes()[s.Trajectory].Offset + s.Row }

// setTo puts the world at a start and its goal, as after the original's reset.
func (d *Data) setTo(e envs.Env, s Start, ids ...any) error {
	if err := e.Reset(rng.Stream("eval reset", ids...)); err != nil {
		return fmt.Errorf("resetting the task: %w", err)
	}
	from := d.fileRow(s)
	start, err := d.row(from)
	if err != nil {
		return err
	}
	goal, err := d.row(from + d.rules.GoalOffset)
	if err != nil {
		return err
	}
	if err := e.SetState(start); err != nil {
		return fmt.Errorf("setting the state of row %d: %w", from, err)
	}
	if err := e.SetGoal(goal); err != nil {
		return fmt.Errorf("setting the goal of row %d: %w", from+d.rules.GoalOffset, err)
	}
	return nil
}

// Set draws the named set of n episodes, or reads the one in a file, whole.
func (d *Data) Set(name string, n int) (Set, error) {
	if isSetFile(name) {
		return d.readSet(name)
	}
	seed, err := setSeed(name)
	if err != nil {
		return Set{}, err
	}
	var starts []Start
	if d.rules.Protocol == results.Strict {
		starts, err = d.drawStrict(n, seed)
	} else {
		starts, err = Draw(d.drawn(), n, seed, d.rules)
	}
	if err != nil {
		return Set{}, fmt.Errorf("set %s: %w", name, err)
	}
	set := newSet(name, starts)
	if d.rules.Protocol == results.Paper { // strict has its own pool
		set.Pool = d.rules.Pool
	}
	return set, nil
}

func (d *Data) lengths() []int {
	eps := d.Episodes()
	out := make([]int, len(eps))
	for i, e := range eps {
		out[i] = e.Len
	}
	return out
}

// drawn are the lengths of the episodes that starts are drawn from, 0 of others.
func (d *Data) drawn() []int {
	lengths := d.lengths()
	for i := range lengths {
		if _, held := slices.BinarySearch(d.heldOut, i); !held && d.heldOut != nil {
			lengths[i] = 0
		}
	}
	return lengths
}

// drawStrict draws from the held-out episodes and passes over starts that
// already meet their goal.
func (d *Data) drawStrict(n int, seed uint64) ([]Start, error) {
	e, err := d.task.New(nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	v := newValidStarts(d.drawn(), d.rules.GoalOffset)
	var out []Start
	for _, k := range numpy.New(seed).Choice(int64(v.count), int64(v.count)) {
		if len(out) == n {
			break
		}
		s := v.at(int(k))
		if err := d.setTo(e, s, d.task.Spec.Name, "strict"); err != nil {
			return nil, err
		}
		if !e.Solved() {
			out = append(out, s)
		}
	}
	if len(out) < n {
		return nil, fmt.Errorf("only %d of %d starts in the %d held-out episodes are not solved already, %d are wanted (hint: fewer episodes, or a larger data set)", len(out), v.count, len(d.heldOut), n)
	}
	slices.SortFunc(out, func(a, b Start) int { return d.fileRow(a) - d.fileRow(b) })
	return out, nil
}

// The render gate compares gateRows rows; a mean absolute error above
// MaxRenderError grey levels means that the task is not drawn as it was
// recorded, and every plan but the first would see another world (docs/sources.md#render-gate).
const (
	gateRows       = 20
	MaxRenderError = 3.0
)

// RenderGate puts the task into recorded states, draws it and returns the mean
// absolute difference from the stored frames in levels a byte. Beyond
// MaxRenderError it is also an error.
func RenderGate(ctx context.Context, d *Data) (float64, error) {
	e, err := d.task.New(nil)
	if err != nil {
		return 0, fmt.Errorf("render gate of %s: %w", d.task.Spec.Name, err)
	}
	defer e.Close()
	v := newValidStarts(d.lengths(), d.rules.GoalOffset)
	if v.count == 0 {
		return 0, fmt.Errorf("render gate of %s: no episode of the data set is longer than %d rows (hint: collect longer episodes)", d.task.Spec.Name, d.rules.GoalOffset)
	}
	r := rng.Stream("render gate", d.Fingerprint)
	sum := 0.0
	for range gateRows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		diff, err := d.renderError(e, v.at(r.IntN(v.count)))
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

// renderError is the mean absolute difference at one start.
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
	sum := 0
	for i, v := range ours {
		if v > stored[i] {
			sum += int(v - stored[i])
		} else {
			sum += int(stored[i] - v)
		}
	}
	return float64(sum) / float64(len(ours)), nil
}
