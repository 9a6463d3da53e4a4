package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/train"
)

// maxTurns bounds how often one thing is timed.
const maxTurns = 5

// fewClips is the smallest batch that a step is timed with: batch normalisation and
// pairs of clips need some.
const fewClips = 8

// cost counts what training and planning take, and times both on this machine.
func (j measurement) cost(ctx context.Context) (*results.Cost, error) {
	world, ok := j.world.(model.Counted)
	if !ok {
		return nil, fmt.Errorf("models of the family %s do not count their work (hint: a family's model implements model.Counted)", j.world.Info().Kind)
	}
	g := world.Geometry()
	declared, err := g.Declare()
	if err != nil {
		return nil, err
	}
	times := &results.CostTimes{Started: time.Now().UTC().Format(time.RFC3339), Host: eval.Host(), Threads: runtime.GOMAXPROCS(0), Version: j.Version}
	c := &results.Cost{Params: declared.Params().Len(), Times: times}
	sum, total := results.Plans{Tier: "sum"}, results.PlanTime{Tier: "sum"}
	tiers := eval.Tiers()
	for i, t := range tiers {
		n := t.Candidates * t.Iterations
		p := results.Plans{Tier: t.Name, Candidates: t.Candidates, Iterations: t.Iterations, Rollouts: n, PredictorCalls: n * world.PredictorCalls(j.Horizon),
			FLOP: g.EncodeFLOP(2) + float64(t.Iterations)*g.PlanFLOP(t.Candidates, j.Horizon)}
		took, err := j.timePlan(ctx, t)
		if err != nil {
			return nil, err
		}
		j.timed(i+1, len(tiers)+1, "plans of "+t.Name)
		sum.Rollouts, sum.PredictorCalls, sum.FLOP = sum.Rollouts+p.Rollouts, sum.PredictorCalls+p.PredictorCalls, sum.FLOP+p.FLOP
		total.Seconds += took.Seconds
		c.Tiers, times.Plans = append(c.Tiers, p), append(times.Plans, took)
	}
	c.Tiers, times.Plans = append(c.Tiers, sum), append(times.Plans, total)
	err = j.training(ctx, g, c)
	j.timed(len(tiers)+1, len(tiers)+1, "training")
	return c, err
}

func (j measurement) timed(done, of int, what string) {
	if j.Progress != nil {
		j.Progress(int64(done), int64(of), what)
	}
}

// timePlan times whole plans of a tier by CEM, one episode at a time, or of fewer
// iterations where that would take too long.
func (j measurement) timePlan(ctx context.Context, t eval.Tier) (out results.PlanTime, err error) {
	few := t
	few.Iterations = 1
	plan := func() error {
		trial := eval.NewTrial(j.world, few, 1)
		defer trial.Free()
		return trial.Plan(ctx)
	}
	one, err := seconds(plan)
	if err != nil {
		return out, err
	}
	few.Iterations = share(j.Timing, one, 1, t.Iterations)
	out = results.PlanTime{Tier: t.Name, Iterations: few.Iterations}
	out.Seconds, out.Turns, err = j.median(ctx, plan)
	out.Seconds *= float64(t.Iterations) / float64(few.Iterations)
	return out, err
}

// training fills in what a step and an epoch of the checkpoint's training take; a
// checkpoint without a recipe, or one that was not trained, leaves it out.
func (j measurement) training(ctx context.Context, g model.Geometry, c *results.Cost) error {
	side, err := model.Describe(j.Checkpoint)
	if err != nil {
		return err
	}
	o := train.Options{Dev: j.world.Device(), Method: model.MethodOf(side.Method), Model: g, Seed: side.Seed}
	if json.Unmarshal(side.Train, &o.Config) != nil || o.Config.Validate() != nil || !o.Method.Trained() {
		return nil
	}
	for _, q := range j.Task.Spec.Qs {
		if q.Name == side.QName {
			o.Task = train.Task{Name: j.Task.Spec.Name, ID: j.Task.Spec.ID, Q: q}
		}
	}
	info := g.Info()
	clips, _, err := dataset.Split(dataset.Protocol(j.Protocol), j.Data.Source, dataset.Clips(j.Data.Source, info.ClipFrames(), info.FrameSkip), side.Seed)
	if err != nil {
		return err
	}
	c.Batch, c.EpochSteps, c.StepFLOP = o.Config.Batch, len(clips)/o.Config.Batch, g.StepFLOP(o.Config.Batch, o.Config.Directions)
	clock, err := train.ReadClock(j.Checkpoint)
	if err == nil && clock.MsStep > 0 {
		c.Times.Recorded = stepTime(c, side.Device, clock.MsStep)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.Times.Step, err = j.timeStep(ctx, o, c)
	return err
}

// timeStep times steps of a training on made-up clips that lie on the device, on
// fewer of them where the whole batch would take too long.
func (j measurement) timeStep(ctx context.Context, o train.Options, c *results.Cost) (*results.StepTime, error) {
	o.Config.Batch = min(fewClips, c.Batch)
	one, _, err := j.steps(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Config.Batch = share(j.Timing, one, o.Config.Batch, c.Batch)
	took, turns, err := j.steps(ctx, o)
	if err != nil {
		return nil, err
	}
	out := stepTime(c, o.Dev.Kind().String(), 1000*took*float64(c.Batch)/float64(o.Config.Batch))
	out.Clips, out.Turns = o.Config.Batch, turns
	return out, nil
}

// steps is the median of a training's steps, in seconds.
func (j measurement) steps(ctx context.Context, o train.Options) (took float64, turns int, err error) {
	trial, err := train.NewTrial(o)
	if err != nil {
		return 0, 0, err
	}
	defer trial.Free()
	if err := trial.Step(); err != nil { // which makes the memory
		return 0, 0, err
	}
	return j.median(ctx, trial.Step)
}

// stepTime is what follows from the milliseconds of a step.
func stepTime(c *results.Cost, device string, ms float64) *results.StepTime {
	return &results.StepTime{Device: device, MsStep: ms, StepsPerSec: 1000 / ms, EpochSeconds: float64(c.EpochSteps) * ms / 1000}
}

// share is how many of all fit into a time, when so few of them took so many seconds.
func share(fit time.Duration, took float64, few, all int) int {
	return int(min(max(float64(few)*fit.Seconds()/took, float64(few)), float64(all)))
}

// median is that of the seconds that work takes, repeated as long as Timing lasts.
func (j measurement) median(ctx context.Context, work func() error) (float64, int, error) {
	var all []float64
	for began := time.Now(); len(all) == 0 || len(all) < maxTurns && time.Since(began) < j.Timing; {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		took, err := seconds(work)
		if err != nil {
			return 0, 0, err
		}
		all = append(all, took)
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2, n, nil
}

func seconds(work func() error) (float64, error) {
	began := time.Now()
	err := work()
	return time.Since(began).Seconds(), err
}
