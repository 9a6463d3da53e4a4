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

// maxTurns is the maximum number of repetitions of a measurement.
const maxTurns = 5

// minClips is the smallest batch with which steps are timed. BatchNorm and the pairs
// of clips need several clips.
const minClips = 8

// cost counts the work of planning and training, and measures the time of both on
// this machine.
func (j measurement) cost(ctx context.Context) (*results.Cost, error) {
	world, ok := j.world.(model.Counted)
	if !ok {
		return nil, fmt.Errorf("models of the family %s do not count their work (hint: a family's model must implement model.Counted)", j.world.Info().Kind)
	}
	g := world.Geometry()
	// A declared model has no memory, but its set knows the number of parameters.
	declared, err := g.Declare()
	if err != nil {
		return nil, err
	}
	times := &results.CostTimes{Started: time.Now().UTC().Format(time.RFC3339), Host: eval.Host(), Threads: runtime.GOMAXPROCS(0), Version: j.Version}
	c := &results.Cost{Params: declared.Params().Len(), Times: times}
	// The last row of both tables is the sum over the tiers.
	sum, total := results.Plans{Tier: "sum"}, results.PlanTime{Tier: "sum"}
	tiers := eval.Tiers()
	for i, t := range tiers {
		n := t.Candidates * t.Iterations
		p := results.Plans{Tier: t.Name, Candidates: t.Candidates, Iterations: t.Iterations, Rollouts: n, PredictorCalls: n * world.PredictorCalls(j.Horizon),
			// A plan encodes two frames, the start and the goal.
			FLOP: g.EncodeFLOP(2) + float64(t.Iterations)*g.PlanFLOP(t.Candidates, j.Horizon)}
		took, err := j.timePlan(ctx, t)
		if err != nil {
			return nil, err
		}
		j.reportTiming(i+1, len(tiers)+1, "plans of "+t.Name)
		sum.Rollouts, sum.PredictorCalls, sum.FLOP = sum.Rollouts+p.Rollouts, sum.PredictorCalls+p.PredictorCalls, sum.FLOP+p.FLOP
		total.Seconds += took.Seconds
		c.Tiers, times.Plans = append(c.Tiers, p), append(times.Plans, took)
	}
	c.Tiers, times.Plans = append(c.Tiers, sum), append(times.Plans, total)
	err = j.training(ctx, g, c)
	j.reportTiming(len(tiers)+1, len(tiers)+1, "training")
	return c, err
}

// reportTiming reports progress.
func (j measurement) reportTiming(done, of int, what string) {
	if j.Progress != nil {
		j.Progress(int64(done), int64(of), what)
	}
}

// timePlan measures plans of a tier by CEM for one episode. If a complete plan would
// take too long, it measures fewer iterations and extrapolates, since each iteration
// does the same work.
func (j measurement) timePlan(ctx context.Context, t eval.Tier) (out results.PlanTime, err error) {
	few := t
	few.Iterations = 1
	plan := func() error {
		trial := eval.NewTrial(j.world, few, 1)
		defer trial.Free()
		return trial.Plan(ctx)
	}
	one, err := seconds(plan) // a single iteration, which also allocates memory
	if err != nil {
		return out, err
	}
	// plan captures few, so that the measurement below uses the new number of iterations.
	few.Iterations = affordable(j.Timing, one, 1, t.Iterations)
	out = results.PlanTime{Tier: t.Name, Iterations: few.Iterations}
	out.Seconds, out.Turns, err = j.median(ctx, plan)
	out.Seconds *= float64(t.Iterations) / float64(few.Iterations)
	return out, err
}

// training sets the cost of a training step and of an epoch, for the recipe of the
// checkpoint. It sets nothing for a checkpoint without a recipe, or one that was not
// trained.
func (j measurement) training(ctx context.Context, g model.Geometry, c *results.Cost) error {
	side, err := model.Describe(j.Checkpoint, j.Key)
	if err != nil {
		return err
	}
	o := train.Options{Dev: j.world.Device(), Method: model.MethodOf(side.Method), Model: g, Seed: side.Seed}
	if json.Unmarshal(side.Train, &o.Config) != nil || o.Config.Validate() != nil || !o.Method.Trained() {
		return nil
	}
	// The loss may use another task state than the analyses.
	for _, q := range j.Task.Spec.Qs {
		if q.Name == side.QName {
			o.Task = train.Task{Name: j.Task.Spec.Name, ID: j.Task.Spec.ID, Q: q}
		}
	}
	// The same split as in the training gives the number of steps per epoch.
	info := g.Info()
	clips, _, err := dataset.Split(dataset.Protocol(j.Protocol), j.Data.Source, dataset.Clips(j.Data.Source, info.ClipFrames(), info.FrameSkip), side.Seed)
	if err != nil {
		return err
	}
	c.Batch, c.EpochSteps, c.StepFLOP = o.Config.Batch, len(clips)/o.Config.Batch, g.StepFLOP(o.Config.Batch, o.Config.Directions)
	if info.Backbone != "" {
		c.EncoderFLOP = g.EncodeFLOP(o.Config.Batch * info.ClipFrames())
	}
	// The run's own time, on the device of the training, is reported next to a
	// measurement on this device. A copied checkpoint may lack run.json.
	clock, err := train.ReadClock(j.Checkpoint)
	if err == nil && clock.MsStep > 0 {
		c.Times.Recorded = stepTime(c, side.Device, clock.MsStep)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.Times.Step, err = j.timeStep(ctx, o, c, (*train.Trial).Step)
	if err == nil && c.EncoderFLOP > 0 {
		c.Times.OnFeatures, err = j.timeStep(ctx, o, c, (*train.Trial).StepOnFeatures)
	}
	return err
}

// timeStep measures training steps on synthetic clips that are on the device. If a
// step on a complete batch would take too long, it measures smaller batches and
// extrapolates in proportion to the number of clips.
func (j measurement) timeStep(ctx context.Context, o train.Options, c *results.Cost, step func(*train.Trial) error) (*results.StepTime, error) {
	// A small batch first shows how many clips fit into the time.
	o.Config.Batch = min(minClips, c.Batch)
	one, _, err := j.medianStep(ctx, o, step)
	if err != nil {
		return nil, err
	}
	o.Config.Batch = affordable(j.Timing, one, o.Config.Batch, c.Batch)
	took, turns, err := j.medianStep(ctx, o, step)
	if err != nil {
		return nil, err
	}
	out := stepTime(c, o.Dev.Kind().String(), 1000*took*float64(c.Batch)/float64(o.Config.Batch))
	out.Clips, out.Turns = o.Config.Batch, turns
	return out, nil
}

// medianStep returns the median time in seconds of a kind of training step, and the
// number of steps.
func (j measurement) medianStep(ctx context.Context, o train.Options, step func(*train.Trial) error) (took float64, turns int, err error) {
	trial, err := train.NewTrial(o)
	if err != nil {
		return 0, 0, err
	}
	defer trial.Free()
	if err := trial.Step(); err != nil { // the first step allocates memory, and computes features
		return 0, 0, err
	}
	return j.median(ctx, func() error { return step(trial) })
}

// stepTime derives the rates from the milliseconds per step.
func stepTime(c *results.Cost, device string, ms float64) *results.StepTime {
	return &results.StepTime{Device: device, MsStep: ms, StepsPerSec: 1000 / ms, EpochSeconds: float64(c.EpochSteps) * ms / 1000}
}

// affordable returns how many units of work fit into a duration, given that few units
// took the given number of seconds. The result is at least few and at most all.
func affordable(fit time.Duration, took float64, few, all int) int {
	return int(min(max(float64(few)*fit.Seconds()/took, float64(few)), float64(all)))
}

// median runs work until Timing has passed, at least once and at most maxTurns times.
// It returns the median time in seconds and the number of runs.
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
	n := len(all) // an even number has two middle elements, whose mean is the median
	return (all[(n-1)/2] + all[n/2]) / 2, n, nil
}

// seconds returns the time of one run of work.
func seconds(work func() error) (float64, error) {
	began := time.Now()
	err := work()
	return time.Since(began).Seconds(), err
}
