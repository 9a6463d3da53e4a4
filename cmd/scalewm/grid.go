package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
)

// stage is the task that is being worked on: its data set, opened when the
// first unit needs it, and the arm that was loaded last.
type stage struct {
	*evaluation
	name string
	arm  eval.Arm
	free func() // of the arm's model

	described eval.Arm // the arm of the last unit without its model,
	folder    string   // and its checkpoint's
}

// leave gives back what the task's units shared.
func (s *stage) leave() {
	if s.free != nil {
		s.free()
	}
	if s.evaluation != nil {
		s.close()
	}
	*s = stage{}
}

// do runs a unit, unless one that it needs has failed. Only an interruption is
// an error: a failing unit is noted, and the rest goes on.
func (r *reproduction) do(ctx context.Context, u eval.Unit) error {
	if u.Task != r.stage.name {
		r.stage.leave()
		r.stage.name = u.Task
	}
	if r.broken[u.Task] || r.broken[u.Arm()] {
		return ctx.Err()
	}
	err := r.run(ctx, u)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.fail(string(u.Verb)+" "+u.Name(), err)
		switch u.Verb {
		case eval.Collect:
			r.broken[u.Task] = true
		case eval.Train:
			r.broken[u.Arm()] = true
		}
	}
	return nil
}

// fail notes that a unit failed.
func (r *reproduction) fail(unit string, err error) {
	r.failed = append(r.failed, fmt.Sprintf("%s: %v", unit, err))
	fmt.Fprintf(r.stderr, "%s failed: %v\n", unit, err)
}

func (r *reproduction) run(ctx context.Context, u eval.Unit) error {
	switch u.Verb {
	case eval.Collect:
		return r.collect(ctx, u)
	case eval.Report:
		return r.report()
	}
	if err := r.open(ctx); err != nil {
		r.broken[u.Task] = true
		return err
	}
	switch u.Verb {
	case eval.Train:
		return r.train(ctx, u)
	case eval.TuneMPPI:
		return r.tune(ctx, u)
	}
	return r.evaluate(ctx, u)
}

func (r *reproduction) dataPath(task string) string { return filepath.Join(r.out, "data", task+".h5") }
func (r *reproduction) armPath(u eval.Unit) string  { return filepath.Join(r.out, "train", u.Arm()) }

// collection is what is collected of a task.
func (r *reproduction) collection(task string) collect.Spec {
	p := r.preset.Collect
	return collect.Spec{Task: task, Policy: p.Policy, Episodes: atMost(p.Episodes, p.AtMost[task]), Seed: p.Seed}
}

// collect makes the task's data set.
func (r *reproduction) collect(ctx context.Context, u eval.Unit) error {
	spec := r.collection(u.Task)
	job, err := prepareCollection(r.dataPath(u.Task), spec)
	if err != nil {
		return err
	}
	defer job.Close()
	if job.Done {
		r.say(u, "done")
		return nil
	}
	fmt.Fprintf(r.stderr, "collecting %d episodes of %s needs about %s of disk while it works\n", spec.Episodes, u.Task, hdf5.MB(job.Need))
	began, show := time.Now(), newProgress(r.stderr, r.where+"collecting "+u.Task)
	res, err := job.Run(ctx, r.workers, show.report)
	show.close()
	if err == nil {
		r.say(u, fmt.Sprintf("%d rows, %s", res.Rows, since(began)))
	}
	return err
}

// open opens the stage's data, draws the sets and passes the render gate.
func (r *reproduction) open(ctx context.Context) error {
	if r.stage.evaluation != nil {
		return nil
	}
	e, err := r.evaluation(r.stage.name)
	if err != nil {
		return err
	}
	if _, err := e.renderGate(ctx); err != nil {
		e.close()
		return err
	}
	r.stage.evaluation = e
	return nil
}

// evaluation opens a task's data and draws its sets.
func (r *reproduction) evaluation(name string) (*evaluation, error) {
	task, err := envs.Lookup(name)
	if err != nil {
		return nil, err
	}
	e := &evaluation{settings: r.settings, task: task, out: r.out, workers: r.workers}
	e.sets = r.grid.Sets[name]
	return e, e.openData(r.dataPath(name), atMost(r.episodes, r.preset.Eval.AtMost[name]))
}

// say prints what became of a unit.
func (r *reproduction) say(u eval.Unit, state string) {
	name := u.Name()
	if name != "" {
		name += ": "
	}
	fmt.Fprintf(r.stdout, "%-9s %s%s\n", u.Verb, name, state)
}

func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }

// atMost is n, or the cap where there is one that is lower.
func atMost(n, cap int) int {
	if cap > 0 {
		return min(n, cap)
	}
	return n
}

// notYet says that something is not there and no error.
func notYet(err error) bool { return errors.Is(err, fs.ErrNotExist) }
