package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/eval/report"
	"scalewm/model/train"
)

// train makes the checkpoint of an arm. Another process that trains it in the
// same folder is waited for.
func (r *reproduction) train(ctx context.Context, u eval.Unit) error {
	dir := r.armPath(u)
	release, err := cell.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer release()
	e := r.stage.evaluation
	o := train.Options{Dev: r.trainer, Data: e.file, DataPath: r.dataPath(u.Task), Method: u.Method, Seed: u.Seed,
		Protocol: r.protocol, Out: dir, Workers: r.workers}
	if err := r.preset.applyTo(&o, u.Task); err != nil {
		return err
	}
	o.Begin = func() error { return r.preset.writeTo(dir) }
	began, show := time.Now(), newProgress(r.stderr, r.where+"training "+u.Name())
	o.Progress = show.report
	o.Frames = func(ctx context.Context) (dataset.FrameReader, error) { return e.sharedFrames(ctx, o) }
	res, err := train.Run(ctx, o)
	show.close() // before the unit's line, which would end up in the bar's
	if err != nil {
		return err
	}
	state := "done"
	switch {
	case res.Skipped:
	case res.Steps == 0:
		state = "initial weights"
	default:
		state = fmt.Sprintf("%d steps, loss %.4f, %s", res.Steps, res.Loss, since(began))
	}
	r.say(u, state)
	return nil
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

// tune chooses mppi's temperature on the task.
func (r *reproduction) tune(ctx context.Context, u eval.Unit) error {
	began := time.Now()
	if err := r.load(u); err != nil {
		return err
	}
	r.stage.where = r.where
	c, err := r.stage.choose(ctx, r.command, r.stage.arm)
	if err != nil {
		return err
	}
	r.stage.temperature = r.stage.temperature.Chosen(c)
	r.say(u, fmt.Sprintf("temperature %g of %v, %s", c.Temperature, c.Ladder, since(began)))
	return nil
}

// load puts the unit's model on the device, where it is not there already.
func (r *reproduction) load(u eval.Unit) error {
	s := &r.stage
	if s.arm.World != nil && s.arm.Method == u.Method && int64(s.arm.TrainSeed) == u.Seed {
		return nil
	}
	if s.free != nil {
		s.free()
	}
	s.arm, s.free = eval.Arm{}, nil
	a, err := loadArm(r.planner, r.armPath(u), u.Task)
	if err != nil {
		return err
	}
	s.arm, s.free = a, a.World.Free
	return s.fits(a, r.armPath(u))
}

// evaluate makes the missing cells of a unit; a model is loaded only for them.
func (r *reproduction) evaluate(ctx context.Context, u eval.Unit) error {
	j, todo, _, err := r.missing(r.stage.evaluation, u)
	if err != nil {
		return err
	}
	film := r.films(u)
	if u.Method != eval.Random && (len(todo) > 0 || film) {
		if err := r.load(u); err != nil {
			return err
		}
		j.Arm = r.stage.arm
	}
	r.stage.where = r.where
	began := time.Now()
	cells, bad, err := r.stage.run(ctx, r.command, j, film)
	if err != nil {
		return err
	}
	for _, b := range bad {
		r.fail(string(u.Verb)+" "+u.Name()+" "+b.Set, b.Err)
	}
	if len(cells) == 0 {
		return nil
	}
	s := newScore(cells)
	r.scores = append(r.scores, s)
	r.say(u, fmt.Sprintf("%d new of %d cells, success %.1f %%, %s", len(todo)-len(bad), len(j.Sets), s.Mean, since(began)))
	return nil
}

// films says whether the unit shows its method: one film each, whatever the shards.
func (r *reproduction) films(u eval.Unit) bool {
	g := r.grid
	if u.Sets[0] != g.Sets[u.Task][0] {
		return false
	}
	return u.Method == eval.Random || u.Seed == g.Seeds[0] && u.Solver == g.Solvers[0] && u.Tier == g.Tiers[0]
}

// describe reads what the unit's checkpoint is, once for all units of its arm,
// which follow each other.
func (r *reproduction) describe(u eval.Unit) (a eval.Arm, err error) {
	s, dir := &r.stage, r.armPath(u)
	if s.folder == dir {
		return s.described, nil
	}
	if a, err = readArm(r.planner, dir, u.Task); err == nil {
		s.described, s.folder = a, dir
	}
	return a, err
}

// missing is the job of an evaluation unit, without its model, and which of its
// cells are to be made (all of them where the checkpoint is not there).
func (r *reproduction) missing(e *evaluation, u eval.Unit) (j eval.Job, todo []int, torn []string, err error) {
	a := randomArm
	if u.Method != eval.Random {
		if a, err = r.describe(u); err != nil {
			return j, nil, nil, err
		}
	}
	var sets []eval.Set
	for i, name := range r.grid.Sets[u.Task] {
		if slices.Contains(u.Sets, name) {
			sets = append(sets, e.drawn[i])
		}
	}
	if u.Method == eval.Random {
		j = e.bare(a, sets)
	} else {
		tier := e.tiers[slices.Index(r.grid.Tiers, u.Tier)]
		if j, err = e.job(a, u.Solver, tier, sets); err != nil {
			return j, nil, nil, err
		}
	}
	todo, torn, err = j.Missing(e.store())
	return j, todo, torn, err
}

// report makes the page of everything in the folder.
func (r *reproduction) report() error {
	if !slices.ContainsFunc(r.scores, func(s score) bool { return s.Solver != "" }) {
		return nil // no model was evaluated: there is nothing to compare
	}
	_, err := makeReport(r.stdout, r.out, r.out, report.Formats())
	return err
}
