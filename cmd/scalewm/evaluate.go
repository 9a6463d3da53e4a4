package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/record"
	"scalewm/model/device"
	"scalewm/model/lewm"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// evaluation is what all arms of a task meet. `eval` runs one arm of it,
// `reproduce` all.
type evaluation struct {
	settings
	task    envs.Task
	workers int
	out     string // cells go to out/cells, sets to out/sets, films to out/watch
	where   string // what a progress line begins with

	file  *hdf5.File
	data  *eval.Data
	drawn []eval.Set
	gate  record.Gate

	// Frames at the model's size, where several arms of this task train.
	frames     dataset.FrameReader
	freeFrames func() error
}

// close gives back the data set and the frames.
func (e *evaluation) close() {
	if e.freeFrames != nil {
		e.freeFrames()
	}
	e.file.Close()
}

// openData opens the data set and draws the sets of so many episodes.
func (e *evaluation) openData(path string, episodes int) (err error) {
	if e.file, err = hdf5.Open(path); err != nil {
		return err
	}
	if err = e.draw(episodes); err != nil {
		e.file.Close()
	}
	return err
}

func (e *evaluation) draw(episodes int) (err error) {
	if e.data, err = eval.NewData(e.file, e.task, e.protocol); err != nil {
		return err
	}
	e.data.Pool = e.pool
	for _, name := range e.sets {
		s, err := e.data.Set(name, episodes)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(e.drawn, func(d eval.Set) bool { return d.Name == s.Name }) {
			return usagef("--sets: two sets are named %s (hint: name each once, drawn or as a file)", s.Name)
		}
		e.drawn = append(e.drawn, s)
	}
	return nil
}

func (e *evaluation) store() cell.Store {
	return cell.Store{Dir: filepath.Join(e.out, record.CellsDir)}
}

// ladder keeps the cells of tuning apart from those of the results.
func (e *evaluation) ladder() cell.Store {
	return cell.Store{Dir: filepath.Join(e.out, "tuning")}
}

// renderGate compares drawn and stored frames, and keeps the verdict beside the
// sets' files.
func (e *evaluation) renderGate(ctx context.Context) (record.Gate, error) {
	diff, err := eval.RenderGate(ctx, e.data)
	if err != nil {
		return record.Gate{}, err
	}
	e.gate = record.Gate{Task: e.task.Spec.Name, Data: e.data.Fingerprint, Error: diff, Limit: eval.MaxRenderError}
	err = cell.WriteFile(filepath.Join(e.out, record.GatesDir, e.task.Spec.Name+".json"), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(e.gate)
	})
	for _, s := range e.drawn {
		if err == nil {
			err = e.data.WriteSet(filepath.Join(e.out, "sets", e.task.Spec.Name+"-"+s.Name+".json"), s)
		}
	}
	return e.gate, err
}

func (e *evaluation) plansWith(solver string) bool { return slices.Contains(e.solvers, solver) }

// bare is a job without a planner: all that random actions need.
func (e *evaluation) bare(a eval.Arm, sets []eval.Set) eval.Job {
	return eval.Job{Task: e.task, Data: e.data, Protocol: e.protocol, Arm: a, Sets: sets,
		Clip: e.clip, Workers: e.workers, Batch: e.batch, Version: version()}
}

// job is one unit: an arm with a solver at a tier on some sets.
func (e *evaluation) job(a eval.Arm, solver string, t eval.Tier, sets []eval.Set) (j eval.Job, err error) {
	j = e.bare(a, sets)
	j.Solver = solver
	if j.Tier, err = t.For(solver); err != nil {
		return j, err
	}
	if solver == eval.MPPI {
		j.Temperature, err = e.temperature.For(e.task.Spec.Name, a.Method)
	}
	return j, err
}

// jobs are an arm's units: one for each solver and tier, one in all for random actions.
func (e *evaluation) jobs(a eval.Arm) ([]eval.Job, error) {
	if !a.Plans() {
		return []eval.Job{e.bare(a, e.drawn)}, nil
	}
	var out []eval.Job
	for _, solver := range e.solvers {
		for _, tier := range e.tiers {
			j, err := e.job(a, solver, tier, e.drawn)
			if err != nil {
				return nil, err
			}
			out = append(out, j)
		}
	}
	return out, nil
}

// fits refuses a checkpoint that was made for something else.
func (e *evaluation) fits(a eval.Arm, path string) error {
	if err := e.bare(a, e.drawn).Check(); err != nil {
		return fmt.Errorf("evaluating %s: %w", path, err)
	}
	return nil
}

// choose tunes mppi's temperature with the baseline's checkpoint.
func (e *evaluation) choose(ctx context.Context, c *command, a eval.Arm) (eval.Choice, error) {
	j, err := e.tuningJob(a)
	if err != nil {
		return eval.Choice{}, err
	}
	show := newProgress(c.stderr, e.where+"tuning mppi on "+e.task.Spec.Name)
	defer show.close()
	j.Progress = show.report
	return eval.Tune(ctx, e.ladder(), j)
}

// tuningJob is the baseline on the set that the temperature is chosen on.
func (e *evaluation) tuningJob(a eval.Arm) (eval.Job, error) {
	s, err := e.data.Set(eval.TuningSet, len(e.drawn[0].Starts))
	return e.bare(a, []eval.Set{s}), err
}

// chosen is what choose found before.
func (e *evaluation) chosen(a eval.Arm) (eval.Choice, error) {
	j, err := e.tuningJob(a)
	if err != nil {
		return eval.Choice{}, err
	}
	return eval.Tuned(e.ladder(), j)
}

// lastChoice is the temperature that was chosen for this task and data.
func (e *evaluation) lastChoice(a eval.Arm) (eval.Choice, error) {
	return eval.FindChoice(e.ladder(), e.bare(a, e.drawn))
}

// label says which unit a job is: "tworoom lewm s3072 cem T1".
func label(j eval.Job) string {
	u := eval.Unit{Task: j.Task.Spec.Name, Method: j.Arm.Method, Seed: int64(j.Arm.TrainSeed), Solver: j.Solver, Tier: j.Tier.Name}
	return u.Name()
}

// loadArm reads a checkpoint onto a device and checks that it is the task's.
func loadArm(dev device.Device, path, task string) (eval.Arm, error) {
	m, side, err := lewm.Load(dev, path)
	if err != nil {
		return eval.Arm{}, err
	}
	arm, err := describeArm(side, dev, path, task)
	if err != nil {
		m.Free()
		return eval.Arm{}, err
	}
	arm.World = m
	return arm, nil
}

// describeArm is the arm of a checkpoint without the model. A published
// checkpoint does not say its task.
func describeArm(side *weights.Sidecar, dev device.Device, path, task string) (eval.Arm, error) {
	if side.Task != task && side.Task != "" {
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on the task %s, not %s (hint: give the checkpoint's own --task and data set)", path, side.Task, task)
	}
	arm := eval.Arm{Method: side.Method, TrainSeed: int(side.Seed), Weights: side.SHA256, Protocol: dataset.Protocol(side.Protocol),
		Precision: string(dev.Kind().Precision)}
	if side.Method == train.Untrained {
		arm.Protocol = ""
	}
	return arm, nil
}

// randomArm acts uniformly at random.
var randomArm = eval.Arm{Method: eval.Random}

// readArm describes the checkpoint in a folder of train, fs.ErrNotExist where
// there is none.
func readArm(dev device.Device, dir, task string) (eval.Arm, error) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if err != nil {
		return eval.Arm{}, err
	}
	return describeArm(side, dev, dir, task)
}

// watch leaves a film of the first episode of the first set, unless it is there.
func (e *evaluation) watch(ctx context.Context, j eval.Job) error {
	// random actions have no tier; their film carries the name of the first
	path := filepath.Join(e.out, "watch", strings.Join([]string{e.task.Spec.Name, j.Arm.Method, e.tiers[0].Name}, "-")+".gif")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	film, err := eval.Watch(ctx, j, 0)
	if err != nil {
		return err
	}
	return film.Save(path)
}

// run makes the missing cells of one job, and the film of an arm's first.
func (e *evaluation) run(ctx context.Context, c *command, j eval.Job, film bool) ([]record.Cell, []eval.Failure, error) {
	_, torn, err := j.Missing(e.store())
	if err != nil {
		return nil, nil, err
	}
	for _, id := range torn {
		fmt.Fprintf(c.stderr, "%s: cell %s is torn and is made again\n", label(j), id)
	}
	show := newProgress(c.stderr, e.where+"evaluating "+label(j))
	defer show.close()
	j.Progress = show.report
	cells, failed, err := eval.Cells(ctx, e.store(), j)
	if err == nil && film && len(failed) == 0 {
		err = e.watch(ctx, j)
	}
	return cells, failed, err
}
