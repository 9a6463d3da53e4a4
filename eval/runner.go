package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/envs/policy"
	"scalewm/eval/results"
)

// episode is the state of one episode of a set while the job runs.
type episode struct {
	set, index int // index of the set in Job.Sets, and of the episode in the set
	id         int // index of the episode in the job
	start      Start
	result     results.Row
	step       int           // env steps taken
	frame      []byte        // what the next plan sees, at the model's frame size
	goalFrame  []byte        // at the model's frame size; nil once only its latents are needed
	goal       []float32     // latents of the goal, P*D; nil unless a world model plans
	goalState  []float64     // task state of the goal; nil unless a search compares states
	actions    []float64     // to execute before the next plan, in the task's units
	previous   []float64     // the last executed action; nil before the first
	rest       []float32     // z-scored blocks of the last plan after those in actions; nil without a warm start
	judge      *judge        // decides about success; nil: the env does
	policy     envs.Policy   // random actions: acts instead of a plan; else nil
	world      envs.Snapshot // the simulator's state between two plans; nil before the first
	blind      bool          // no cost of the last plan's final iteration was finite
	done       bool          // succeeded, diverged or used up its budget
	slot       int           // of its copy of an outside world
	pictures   [2][]byte     // of start and goal in an outside world without a data set; nil once they are read
}

// worker holds what one simulating goroutine uses exclusively: simulators and their
// buffers are not safe for concurrent use.
type worker struct {
	envs.Env
	resizer *dataset.Resizer // from the stored to the model's frame size; nil without a model
	px      []byte           // one frame at its stored size
	// fromWorld scales frames of an outside world to their stored size; nil if they have it.
	fromWorld *dataset.Resizer
}

// runner runs the episodes of one job. All episodes of all sets advance together: a
// plan for everyone, then the steps that execute it, then the next plan. That keeps
// the device's batches large, and simulators, which need one core each, busy at the
// same time.
//
// The batching is invisible in the results. Each episode has its own noise stream and
// its own simulator state, which any worker can restore, and no kernel mixes rows of
// different episodes.
type runner struct {
	Job
	agent    Agent
	episodes []*episode
	workers  []*worker
	planner  planner // nil: episodes act by their policy
	// watch, if not nil, is called with the world after its reset (step 0) and after each
	// step.
	watch func(step int, e envs.Env) error
	// film, if not nil, is called with each frame of an outside world instead.
	film func(px []byte)

	// Measured for the run files; no result depends on them.
	began      time.Time
	loading    time.Duration // reading start and goal frames, and encoding the goals
	simulating time.Duration
	rendering  atomic.Int64 // nanoseconds, summed over all workers
	plans      int          // plans of all episodes
}

// newRunner allocates the episodes, a simulator for each worker and the planner. The
// caller calls close.
func newRunner(ctx context.Context, j Job, a Agent) (*runner, error) {
	r := &runner{Job: j, agent: a, began: time.Now()}
	for i, set := range j.Sets {
		for k, s := range set.Starts {
			r.episodes = append(r.episodes, r.newEpisode(i, k, s))
		}
	}
	edge := j.frameSize()
	for range min(max(j.Workers, 1), len(r.episodes)) {
		w := &worker{px: make([]byte, edge*edge*3)}
		if j.Outside == nil {
			e, err := newWorld(j.Task, j.Rules)
			if err != nil {
				r.close()
				return nil, err
			}
			w.Env = e
		} else if j.Outside.FrameSize != edge {
			w.fromWorld = dataset.NewResizer(j.Outside.FrameSize, edge)
		}
		r.workers = append(r.workers, w)
	}
	if !j.Arm.Plans() {
		return r, nil
	}
	if size := a.Model().Info().FrameSize; size > 0 {
		for _, w := range r.workers {
			w.resizer = dataset.NewResizer(edge, size)
		}
	}
	var err error
	if r.planner, err = newPlanner(ctx, r); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// newEpisode returns the episode at index of a set. Its planner seed depends on the
// index and the tier only, so that all arms search with the same noise. Steps is the
// full budget until the episode succeeds.
func (r *runner) newEpisode(set, index int, s Start) *episode {
	ep := &episode{set: set, index: index, id: len(r.episodes), start: s}
	ep.result = results.Row{Episode: index, Trajectory: s.Trajectory, Start: s.Row, Steps: r.Budget}
	if r.Arm.Searches() {
		ep.result.PlannerSeed = rng.PlannerSeed(index, r.Tier.Name)
	}
	return ep
}

func (r *runner) close() {
	for _, w := range r.workers {
		if w.Env != nil {
			w.Close()
		}
	}
	if r.planner != nil {
		r.planner.free()
	}
}

// run alternates between planning and executing until every episode has succeeded or
// used up its budget. Finished episodes leave the batch. Random actions need one pass
// over the entire budget.
func (r *runner) run(ctx context.Context) error {
	for _, chunk := range r.chunks() {
		if err := r.runChunk(ctx, chunk); err != nil {
			return err
		}
	}
	return r.checkEnded()
}

// runChunk runs episodes together.
func (r *runner) runChunk(ctx context.Context, eps []*episode) error {
	if err := r.begin(ctx, eps); err != nil {
		return err
	}
	for live := eps; len(live) > 0; live = unfinished(live) {
		if r.planner != nil {
			if err := r.plan(ctx, live); err != nil {
				return err
			}
		}
		simulate := r.simulate
		if r.Outside != nil {
			simulate = r.simulateWorld
		}
		if err := simulate(ctx, live); err != nil {
			return err
		}
		r.report(live[0].step)
	}
	return nil
}

// unfinished returns the episodes that are not done, in order.
func unfinished(eps []*episode) []*episode {
	return slices.DeleteFunc(slices.Clone(eps), func(ep *episode) bool { return ep.done })
}

// report reports the number of finished episodes after the given number of steps.
func (r *runner) report(steps int) {
	if r.Progress != nil {
		r.Progress(int64(len(r.episodes)-len(unfinished(r.episodes))), int64(len(r.episodes)), fmt.Sprintf("%s %s %d steps", r.Arm.Method, r.Tier.Name, steps))
	}
}

// eachLive calls f for every episode, on all workers at once. An error names the set
// and the episode.
func (r *runner) eachLive(ctx context.Context, live []*episode, f func(w *worker, ep *episode) error) error {
	return parallel.For(ctx, len(r.workers), len(live), func(w, i int) error {
		if err := f(r.workers[w], live[i]); err != nil {
			return fmt.Errorf("set %s, episode %d: %w", r.Sets[live[i].set].Name, live[i].index, err)
		}
		return nil
	})
}

// plan sets the next actions of every live episode. The first plan sees the frames of
// start and goal that the data set stores, as in the published evaluation, unless the
// rules draw them; later plans see the frames that simulate rendered.
func (r *runner) plan(ctx context.Context, live []*episode) error {
	first := live[0].step == 0
	for _, ep := range live {
		ep.result.Replans++
		r.plans++
	}
	// A film has one episode, whose costs may well be infinite where its set's are not.
	if err := r.planner.plan(ctx, live); err != nil || !first || r.watch != nil {
		return err
	}
	return r.checkCosts(live)
}

// checkCosts returns an error if no episode of a set had a finite cost in its first
// plan. Its actions would be those of the noise alone, and its success rate would say
// nothing about the model. Single episodes without a finite cost are only counted, in
// NaNCosts.
func (r *runner) checkCosts(live []*episode) error {
	finiteCost := map[int]bool{}
	for _, ep := range live {
		finiteCost[ep.set] = finiteCost[ep.set] || !ep.blind
	}
	for i, set := range r.Sets {
		if finite, live := finiteCost[i]; finite || !live {
			continue
		}
		return fmt.Errorf("planning with %s at tier %s on set %s: no cost that the model gave is finite, so that noise alone would choose the actions (hint: its training diverged or its weights are damaged; look at its metrics.jsonl, or encode a few frames with it)",
			r.Solver, r.Tier.Name, set.Name)
	}
	return nil
}

// begin enters an outside world, loads the frames of start and goal at the model's size and
// lets the planner prepare the episodes. It then drops the goal frames if the planner needs only their
// latents: hundreds of episodes would hold them for the rest of the job.
func (r *runner) begin(ctx context.Context, live []*episode) error {
	size := 0
	if r.planner != nil {
		size = r.agent.Model().Info().FrameBytes()
	}
	for _, ep := range live {
		ep.frame, ep.goalFrame = make([]byte, size), make([]byte, size)
	}
	if r.Outside != nil {
		if err := r.enterWorld(ctx, live); err != nil {
			return err
		}
	}
	if r.planner == nil {
		return nil
	}
	began := time.Now()
	defer func() { r.loading += time.Since(began) }()
	if size == 0 { // no frame is encoded
		return r.planner.begin(ctx, live)
	}
	err := r.eachLive(ctx, live, func(w *worker, ep *episode) error {
		both := [][]byte{ep.frame, ep.goalFrame}
		switch {
		case ep.pictures[0] != nil:
			w.resizeWorld(both[0], ep.pictures[0])
			w.resizeWorld(both[1], ep.pictures[1])
			ep.pictures = [2][]byte{}
			return nil
		case r.Outside != nil && r.Full().Frames == results.Drawn: // enterWorld drew them
			return nil
		}
		return r.Data.frames(w, ep.start, func(i int, px []byte) { w.resizer.Resize(both[i], px) }, r.ids(ep)...)
	})
	if err != nil {
		return err
	}
	if err = r.planner.begin(ctx, live); err == nil && r.agent.World != nil && r.agent.Proposal == nil {
		for _, ep := range live {
			ep.goalFrame = nil
		}
	}
	return err
}

// simulate executes the planned steps of every live episode on all workers. An episode
// that continues leaves a snapshot of its simulator and the frame for its next plan, so
// that any worker can resume it: there are fewer simulators than episodes.
func (r *runner) simulate(ctx context.Context, live []*episode) error {
	began := time.Now()
	defer func() { r.simulating += time.Since(began) }()
	return r.eachLive(ctx, live, func(w *worker, ep *episode) error {
		if err := r.enter(w, ep); err != nil {
			return err
		}
		if err := r.execute(ctx, w, ep); err != nil {
			return err
		}
		if ep.done {
			ep.frame, ep.goalFrame, ep.world = nil, nil, nil
			return nil
		}
		ep.world = w.Snapshot()
		if r.Arm.Replaced.Simulator { // the next plan starts from the snapshot
			return nil
		}
		return r.render(w, ep)
	})
}

// ids names an episode for the random streams of its resets and actions. They depend on
// task, set and index only, never on the worker.
func (r *runner) ids(ep *episode) []any {
	return []any{r.Task.Spec.Name, r.Sets[ep.set].Name, ep.index}
}

// enter puts an episode into a worker's simulator: at its start row if this is its
// first plan, else at the snapshot of its last one.
func (r *runner) enter(world envs.Env, ep *episode) error {
	if ep.world != nil {
		if err := world.Restore(ep.world); err != nil {
			return fmt.Errorf("going back to the step of the last plan: %w", err)
		}
		return nil
	}
	ids := r.ids(ep)
	var err error
	if ep.judge, ep.result.PreSolved, err = r.Data.begin(world, ep.start, ids...); err != nil {
		return err
	}
	if r.planner == nil {
		if ep.policy, err = r.Task.Policy(policy.UniformName); err != nil {
			return err
		}
		if err := ep.policy.Reset(world, rng.Stream("eval random", ids...)); err != nil {
			return fmt.Errorf("resetting the random policy: %w", err)
		}
	}
	return r.notify(0, world)
}

// execute takes the steps of one plan. By default it stops at the first success. The
// goal is tested after each step and never before the first, as in the published
// evaluation: a start that already meets its goal can still fail.
func (r *runner) execute(ctx context.Context, world envs.Env, ep *episode) error {
	dim := r.Task.Spec.ActionDim
	steps := r.Budget - ep.step
	if ep.policy == nil {
		steps = min(steps, len(ep.actions)/dim)
	}
	for k := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		action := make([]float64, dim)
		if ep.policy != nil {
			if err := ep.policy.Act(world, action); err != nil {
				return fmt.Errorf("acting at step %d: %w", ep.step+1, err)
			}
		} else {
			copy(action, ep.actions[k*dim:])
		}
		out, err := world.Step(action)
		// A simulation that diverged is a failed episode, recorded in its row. The next
		// enter resets the simulator.
		if errors.Is(err, envs.ErrDiverged) {
			ep.result.Diverged, ep.done = err.Error(), true
			return nil
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", ep.step+1, err)
		}
		ep.step++
		ep.previous = action
		if err := r.notify(ep.step, world); err != nil {
			return err
		}
		met := out.Terminated
		if ep.judge != nil {
			if met, err = ep.judge.met(world); err != nil {
				return fmt.Errorf("judging step %d: %w", ep.step, err)
			}
		}
		if met && r.counts(ep, ep.step, k == steps-1) {
			ep.result.Success, ep.result.Steps, ep.done = true, ep.step, true
			return nil
		}
	}
	ep.done = ep.step == r.Budget
	return nil
}

// counts reports whether meeting the goal after a step of an episode, from 1, is a success.
// last says that it is the last step of its plan. Random actions have the plans of a
// search.
func (r *runner) counts(ep *episode, step int, last bool) bool {
	switch r.Success {
	case results.SuccessLast:
		return step == r.Budget
	case results.SuccessPlan:
		return last || r.planner == nil && step%(r.Executed()*r.Steps()) == 0
	}
	return true
}

// notify calls watch if it is set.
func (r *runner) notify(step int, world envs.Env) error {
	if r.watch == nil {
		return nil
	}
	return r.watch(step, world)
}

// render draws the frame that the episode's next plan will see.
func (r *runner) render(w *worker, ep *episode) error {
	began := time.Now()
	if err := w.Frame(w.px); err != nil {
		return fmt.Errorf("drawing the frame for the next plan: %w", err)
	}
	w.resizer.Resize(ep.frame, w.px)
	r.rendering.Add(int64(time.Since(began)))
	return nil
}

// setResults returns the rows by set. Sets that ran together share the measured times
// in proportion to their numbers of episodes.
func (r *runner) setResults() []SetResult {
	out := make([]SetResult, len(r.Sets))
	for _, ep := range r.episodes {
		ep.result.PlanCost = finite(ep.result.PlanCost)
		if r.Collision == results.Swept {
			ep.result.Route = route(ep.judge.Track)
		}
		out[ep.set].Result.Rows = append(out[ep.set].Result.Rows, ep.result)
	}
	for i := range out {
		if r.Outside != nil {
			out[i].Result.Replayed = &r.Outside.Replayed
		}
		if r.planner != nil {
			out[i].Result.Device = r.agent.Model().Device().Kind().String()
		}
		out[i].Run = r.times(float64(len(out[i].Result.Rows)) / float64(len(r.episodes)))
	}
	return out
}

// times returns the measured times of a set with this share of the job's episodes.
func (r *runner) times(share float64) results.Run {
	run := results.Run{
		Started: r.began.UTC().Format(time.RFC3339), Workers: len(r.workers), Version: r.Version, Trained: r.Arm.Trained,
		Seconds:  share * time.Since(r.began).Seconds(),
		Simulate: share * r.simulating.Seconds(),
		Render:   share * time.Duration(r.rendering.Load()).Seconds(),
		Episode:  time.Since(r.began).Seconds() / float64(len(r.episodes)),
	}
	if r.Outside != nil {
		run.Packages = r.Outside.Versions
	}
	if r.planner != nil {
		encoding, planning := r.planner.spent()
		run.Encode = share * (r.loading + encoding).Seconds()
		run.Plan = share * planning.Seconds()
		run.PlanMillis = 1000 * planning.Seconds() / float64(r.plans)
	}
	return run
}

// finite limits a cost to what JSON can represent. The planner already counts NaN as
// +Inf, which becomes the largest float64 here.
func finite(v float64) float64 {
	return math.Max(-math.MaxFloat64, math.Min(v, math.MaxFloat64))
}
