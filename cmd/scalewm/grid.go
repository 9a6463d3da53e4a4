package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/model/train"
)

// taskNames reads the --tasks flag.
func taskNames(list string) ([]string, error) {
	if list == "all" {
		return envs.Names(), nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if _, err := envs.Lookup(name); err != nil {
			return nil, usagef("reproduce: %v", err)
		}
	}
	return names, nil
}

// fail notes that a unit failed, and the rest goes on; only an interruption ends the run.
func (r *reproduction) fail(ctx context.Context, unit string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.failed = append(r.failed, fmt.Sprintf("%s: %v", unit, err))
		fmt.Fprintf(r.stderr, "%s failed: %v\n", unit, err)
	}
	return nil
}

// arm is one line of the grid: a method with a training seed, or random actions.
type arm struct {
	method string
	seed   int64
}

// ours lists the arms of the next task that belong to this shard.
func (r *reproduction) ours() []arm {
	var out []arm
	for _, m := range r.methods {
		seeds := r.seeds
		if m == randomArm.Method {
			seeds = seeds[:1] // it is not trained
		}
		for _, s := range seeds {
			if r.shard.Has(r.arms) {
				out = append(out, arm{m, s})
			}
			r.arms++
		}
	}
	return out
}

func (r *reproduction) task(ctx context.Context, name string) error {
	arms := r.ours()
	if len(arms) == 0 {
		return nil
	}
	data := filepath.Join(r.out, "data", name+".h5")
	there, err := r.collect(ctx, name, data)
	if err != nil || ctx.Err() != nil {
		return r.fail(ctx, "collect "+name, err)
	}
	if !there { // a dry run without data
		for _, a := range arms {
			r.say("train and evaluate", fmt.Sprintf("%s %s s%d", name, a.method, a.seed), "to do")
		}
		return nil
	}
	e, err := r.evaluation(ctx, name, data)
	if err != nil {
		return r.fail(ctx, "evaluate "+name, err)
	}
	defer e.close()
	for _, a := range arms {
		if err := r.arm(ctx, e, data, a); err != nil {
			return err
		}
	}
	return nil
}

// collect makes the task's data set, and says whether it is there.
func (r *reproduction) collect(ctx context.Context, task, path string) (bool, error) {
	p := r.preset.Collect
	if _, err := os.Stat(path); r.dry && errors.Is(err, fs.ErrNotExist) {
		r.say("collect", task, fmt.Sprintf("to do: %d episodes", p.Episodes))
		return false, nil
	}
	job, err := collect.Prepare(path, collect.Spec{Task: task, Policy: p.Policy, Episodes: p.Episodes, Seed: p.Seed})
	if err != nil {
		return false, err
	}
	defer job.Close()
	if job.Done {
		r.say("collect", task, "done")
		return true, nil
	}
	fmt.Fprintf(r.stderr, "collecting %d episodes of %s needs about %s of disk while it works\n", p.Episodes, task, hdf5.MB(job.Need))
	began, show := time.Now(), newProgress(r.stderr, "collecting "+task)
	defer show.close()
	res, err := job.Run(ctx, r.workers, show.report)
	if err == nil {
		r.say("collect", task, fmt.Sprintf("%d rows, %s", res.Rows, since(began)))
	}
	return err == nil, err
}

// evaluation opens the data, draws the sets and passes the render gate.
func (r *reproduction) evaluation(ctx context.Context, name, data string) (*evaluation, error) {
	task, err := envs.Lookup(name)
	if err != nil {
		return nil, err
	}
	e := &evaluation{task: task, out: r.out, workers: r.workers}
	if _, err := e.choose(r.protocol, r.solvers, r.tiers, strings.Join(r.sets, ",")); err != nil {
		return nil, err
	}
	if err := e.openData(data, r.sets, r.preset.Eval.Episodes); err != nil {
		return nil, err
	}
	if _, err := eval.RenderGate(ctx, e.data); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// arm trains, where there is something to train, and evaluates.
func (r *reproduction) arm(ctx context.Context, e *evaluation, data string, a arm) error {
	if a.method == randomArm.Method {
		return r.judge(ctx, e, randomArm)
	}
	unit := fmt.Sprintf("%s %s s%d", e.task.Spec.Name, a.method, a.seed)
	dir := filepath.Join(r.out, "train", fmt.Sprintf("%s-%s-s%d", e.task.Spec.Name, a.method, a.seed))
	there, err := r.train(ctx, e, data, dir, unit, a)
	if err != nil || ctx.Err() != nil {
		return r.fail(ctx, "train "+unit, err)
	}
	if !there {
		r.say("evaluate", unit, fmt.Sprintf("to do: %d cells", len(r.solvers)*len(e.tiers)*len(e.sets)))
		return nil
	}
	loaded, err := loadArm(r.planner, dir, e.task.Spec.Name)
	if err != nil {
		return r.fail(ctx, "evaluate "+unit, err)
	}
	defer loaded.World.(interface{ Free() }).Free()
	return r.judge(ctx, e, loaded)
}

// sharedFrames makes the frames that all of a task's arms train on, once.
func (e *evaluation) sharedFrames(ctx context.Context, o train.Options) (dataset.FrameReader, error) {
	if e.frames == nil {
		frames, free, err := o.OpenFrames(ctx)
		if err != nil {
			return nil, err
		}
		e.frames, e.freeFrames = frames, free
	}
	return e.frames, nil
}

// train makes the checkpoint in dir, and says whether it is there.
func (r *reproduction) train(ctx context.Context, e *evaluation, data, dir, unit string, a arm) (bool, error) {
	if r.dry {
		there, err := trained(dir)
		state := "to do"
		if there {
			state = "done"
		}
		r.say("train", unit, state)
		return there, err
	}
	o := train.Options{Dev: r.trainer, Data: e.file, DataPath: data, Method: a.method, Seed: a.seed, Protocol: r.protocol, Out: dir, Workers: r.workers}
	if err := r.preset.applyTo(&o, e.task.Spec.Name); err != nil {
		return false, err
	}
	o.Begin = func() error { return r.preset.writeTo(dir) }
	began, show := time.Now(), newProgress(r.stderr, "training "+unit)
	o.Progress = show.report
	o.Frames = func(ctx context.Context) (dataset.FrameReader, error) { return e.sharedFrames(ctx, o) }
	defer show.close()
	res, err := train.Run(ctx, o)
	if err != nil {
		return false, err
	}
	state := "done"
	if !res.Skipped {
		state = fmt.Sprintf("%d steps, loss %.4f, %s", res.Steps, res.Loss, since(began))
	}
	r.say("train", unit, state)
	return true, nil
}

// judge makes the missing cells of an arm, or counts them in a dry run.
func (r *reproduction) judge(ctx context.Context, e *evaluation, a eval.Arm) error {
	for i, j := range e.jobs(a) {
		todo, err := j.Missing(e.store())
		if err != nil {
			return r.fail(ctx, "evaluate "+label(j), err)
		}
		if r.dry {
			r.say("evaluate", label(j), fmt.Sprintf("%d of %d cells to do", len(todo), len(j.Sets)))
			continue
		}
		began := time.Now()
		cells, bad, err := e.run(ctx, r.command, j, i == 0)
		if err := r.fail(ctx, "evaluate "+label(j), err); err != nil {
			return err
		}
		for _, b := range bad {
			if err := r.fail(ctx, "evaluate "+label(j)+" "+b.Set, b.Err); err != nil {
				return err
			}
		}
		if len(cells) == 0 {
			continue
		}
		s := newScore(cells)
		r.scores = append(r.scores, s)
		r.say("evaluate", label(j), fmt.Sprintf("%d new of %d cells, success %.1f %%, %s", len(todo)-len(bad), len(j.Sets), s.Mean, since(began)))
	}
	return nil
}

// say prints what became of a unit.
func (r *reproduction) say(verb, unit, state string) {
	fmt.Fprintf(r.stdout, "%-9s %s: %s\n", verb, unit, state)
}

func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
