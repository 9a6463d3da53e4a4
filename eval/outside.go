package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/envs/policy"
	"scalewm/eval/results"
)

// World is a world that another program simulates, in place of a task's own simulator. It has
// no snapshots, so that each running episode has its own copy.
type World struct {
	Outside
	ID, Hash         string             // as in results.Spec
	Success          string             // the rule of success, for readers
	Versions         map[string]string  // of the packages that simulate it
	Columns          []envs.Column      // what it shows of its state
	FrameSize        int                // edge of its frames in pixels
	Judges           bool               // it says without a step whether a goal is met
	DrawsGoals       bool               // it draws goals, so that it needs no data set
	Nondeterministic bool               // the same actions may lead to other states
	Replayed         results.ReplayGate // the result of ReplayGate
}

// Outside performs the operations of a World on the copies that have the given slots,
// numbers from 0. Its errors end the evaluation.
type Outside interface {
	// Begin sets copies to rows of a data set, with goals that are rows too. Rows have the
	// values of all columns, back to back. gate says that the rows are those of the replay
	// gate, whose goals are the recorded ones. It returns whether each goal is met already.
	Begin(slots []int, columns []envs.Column, start, goal []float64, gate bool) (met []bool, err error)
	// Reset starts an episode in each copy from a seed, which determines start and goal.
	Reset(slots, seeds []int) (Begun, error)
	// Run executes actions in each copy, up to the first step from counts[i] on, numbered from
	// 0, after which the goal is met.
	Run(slots []int, actions [][]float64, counts []int) ([]Ran, error)
	// Frames returns the frames of the current states.
	Frames(slots []int) ([]byte, error)
	// See returns the frames of the current states and their columns, back to back, NaN where a
	// value is unknown.
	See(slots []int) (frames []byte, columns []float64, err error)
}

// Begun describes episodes that start from seeds.
type Begun struct {
	Met           []bool   // whether the goal is met already
	Start, Goal   []uint64 // hashes of what the world shows, and of its goal
	Frames, Goals []byte   // of start and goal
}

// Ran is the result of Outside.Run for one episode.
type Ran struct {
	Steps int // executed
	Met   bool
	Ended Ended
}

// Ended is why a world ended an episode whose goal was not met.
type Ended int

// Values of Ended.
const (
	GoesOn Ended = iota
	EndedTruncated
	EndedTerminated
	EndedNotFinite
)

// String returns the reason, "" if the episode was not ended.
func (e Ended) String() string {
	return [...]string{"", "the world truncated the episode", "the world terminated the episode", "the world's observation is not finite"}[min(max(e, 0), EndedNotFinite)]
}

// copiesAtOnce is the number of copies of a world if the job's batch does not state it.
const copiesAtOnce = 100

// chunks returns the episodes in the groups that run together: all of them, or as many as
// an outside world has copies.
func (r *runner) chunks() [][]*episode {
	size := max(len(r.episodes), 1)
	if r.Outside != nil {
		size = copiesAtOnce
		if r.Batch > 0 {
			size = r.Batch
		}
	}
	return slices.Collect(slices.Chunk(r.episodes, size))
}

// slots returns the slots of episodes.
func slots(eps []*episode) []int {
	out := make([]int, len(eps))
	for i, ep := range eps {
		out[i] = ep.slot
	}
	return out
}

// enterWorld sets a copy of the outside world to the start of each episode.
func (r *runner) enterWorld(ctx context.Context, eps []*episode) (err error) {
	began := time.Now()
	defer func() { r.simulating += time.Since(began) }()
	for i, ep := range eps {
		ep.slot = i
	}
	if !r.Data.recorded() {
		return r.resetWorld(ctx, eps)
	}
	starts := make([]Start, len(eps))
	for i, ep := range eps {
		starts[i] = ep.start
	}
	if r.Full().Frames == results.Drawn { // the goal is drawn first, as a start
		if err := r.Data.drawGoals(ctx, r, eps, starts); err != nil {
			return err
		}
	}
	met, err := r.Data.beginWorld(r.Outside, slots(eps), starts)
	for i, ep := range eps {
		if err == nil {
			ep.result.PreSolved = met[i]
		}
	}
	if err == nil && r.Full().Frames == results.Drawn {
		err = r.seeWorld(ctx, eps, func(ep *episode) []byte { return ep.frame })
	}
	return err
}

// drawGoals sets the world to the goals of episodes, and draws them.
func (d *Data) drawGoals(ctx context.Context, r *runner, eps []*episode, starts []Start) error {
	rows, err := d.table(d.goalsOf(starts))
	if err == nil {
		_, err = r.Outside.Begin(slots(eps), d.Columns(), rows, rows, false)
	}
	if err != nil {
		return err
	}
	return r.seeWorld(ctx, eps, func(ep *episode) []byte { return ep.goalFrame })
}

// resetWorld starts episodes from the seeds of their sets, and compares them with the set.
func (r *runner) resetWorld(ctx context.Context, eps []*episode) error {
	seeds := make([]int, len(eps))
	for i, ep := range eps {
		seeds[i] = r.Sets[ep.set].Seeded[ep.index].Seed
	}
	b, err := r.Outside.Reset(slots(eps), seeds)
	if err != nil {
		return err
	}
	size := r.Outside.FrameSize * r.Outside.FrameSize * 3
	for i, ep := range eps {
		if is, want := seeded(i, seeds, b), r.Sets[ep.set].Seeded[ep.index]; is != want && !r.Outside.Nondeterministic {
			return fmt.Errorf("set %s, episode %d: the seed %d gives the start %s and the goal %s, not %s and %s as when the set was drawn (hint: is reset(seed=) of the world deterministic? deterministic=False accepts one that is not)",
				r.Sets[ep.set].Name, ep.index, is.Seed, is.Start, is.Goal, want.Start, want.Goal)
		}
		ep.result.PreSolved = b.Met[i]
		ep.pictures = [2][]byte{b.Frames[i*size:][:size], b.Goals[i*size:][:size]}
	}
	return nil
}

// seeWorld draws the copies of episodes, and resizes each frame to the model's size.
func (r *runner) seeWorld(ctx context.Context, eps []*episode, to func(*episode) []byte) error {
	began := time.Now()
	frames, err := r.Outside.Frames(slots(eps))
	if err != nil {
		return err
	}
	r.rendering.Add(int64(time.Since(began)))
	size := len(frames) / len(eps)
	return parallel.For(ctx, len(r.workers), len(eps), func(w, i int) error {
		r.workers[w].resizeWorld(to(eps[i]), frames[i*size:][:size])
		return nil
	})
}

// resizeWorld scales a frame of an outside world to the size of the data set's frames and
// from that to the model's, as the frames that the model was trained on.
func (w *worker) resizeWorld(dst, px []byte) {
	if w.fromWorld != nil {
		w.fromWorld.Resize(w.px, px)
		px = w.px
	}
	w.resizer.Resize(dst, px)
}

// simulateWorld executes the planned steps of episodes in their copies of the outside world.
func (r *runner) simulateWorld(ctx context.Context, live []*episode) error {
	began := time.Now()
	defer func() { r.simulating += time.Since(began) }()
	dim, first := r.Task.Spec.ActionDim, live[0].step == 0
	actions, counts := make([][]float64, len(live)), make([]int, len(live))
	for i, ep := range live {
		if r.planner == nil {
			actions[i] = r.randomActions(ep)
		} else {
			actions[i] = ep.actions[:min(len(ep.actions), (r.Budget-ep.step)*dim)]
		}
		for counts[i] < len(actions[i])/dim && !r.counts(ep, ep.step+counts[i]+1, counts[i] == len(actions[i])/dim-1) {
			counts[i]++
		}
	}
	if r.film != nil {
		return r.filmWorld(live[0], actions[0], counts[0])
	}
	ran, err := r.Outside.Run(slots(live), actions, counts)
	if err != nil {
		return err
	}
	for i, ep := range live {
		ep.advance(actions[i], dim, ran[i], r.Budget)
	}
	if first {
		if err := r.checkFirstStep(live); err != nil {
			return err
		}
	}
	rest := unfinished(live)
	if r.planner == nil || len(rest) == 0 || r.agent.Model().Info().FrameSize == 0 {
		return nil
	}
	return r.seeWorld(ctx, rest, func(ep *episode) []byte { return ep.frame })
}

// filmWorld executes an episode's actions one by one, and films each frame.
func (r *runner) filmWorld(ep *episode, actions []float64, from int) error {
	dim := r.Task.Spec.ActionDim
	see := func() error {
		px, err := r.Outside.Frames([]int{ep.slot})
		if err == nil {
			r.film(px)
			if r.planner != nil && len(ep.frame) > 0 {
				r.workers[0].resizeWorld(ep.frame, px)
			}
		}
		return err
	}
	if ep.step == 0 {
		if err := see(); err != nil {
			return err
		}
	}
	for k := 0; k < len(actions)/dim && !ep.done; k++ {
		one := actions[k*dim : (k+1)*dim]
		ran, err := r.Outside.Run([]int{ep.slot}, [][]float64{one}, []int{max(from-k, 0)})
		if err != nil {
			return err
		}
		ep.advance(one, dim, ran[0], r.Budget)
		if err := see(); err != nil {
			return err
		}
	}
	return nil
}

// advance records the steps of a run.
func (ep *episode) advance(actions []float64, dim int, ran Ran, budget int) {
	ep.step += ran.Steps
	if ran.Steps > 0 {
		ep.previous = actions[(ran.Steps-1)*dim : ran.Steps*dim]
	}
	switch {
	case ran.Met:
		ep.result.Success, ep.result.Steps, ep.done = true, ep.step, true
	case ran.Ended != GoesOn:
		ep.result.Diverged, ep.done = fmt.Sprintf("%s after step %d", ran.Ended, ep.step), true
	default:
		ep.done = ep.step == budget
	}
	if ep.done {
		ep.frame, ep.goalFrame = nil, nil
	}
}

// randomActions returns the random actions of an episode up to the end of what would be a plan.
func (r *runner) randomActions(ep *episode) []float64 {
	dim := r.Task.Spec.ActionDim
	if ep.policy == nil {
		ep.policy = policy.NewUniform()
		if err := ep.policy.Reset(nil, rng.Stream("eval random", r.ids(ep)...)); err != nil {
			panic("eval: a uniform policy needs no world: " + err.Error())
		}
	}
	steps := min(r.Executed()*r.Steps(), r.Budget-ep.step)
	out := make([]float64, steps*dim)
	for k := range steps {
		if err := ep.policy.Act(bounds{spec: r.Task.Spec}, out[k*dim:][:dim]); err != nil {
			panic("eval: a uniform policy needs bounds only: " + err.Error())
		}
	}
	return out
}

// bounds is an Env of which a uniform policy reads the bounds of actions.
type bounds struct {
	envs.Env
	spec *envs.Spec
}

func (b bounds) Spec() *envs.Spec { return b.spec }

// checkFirstStep returns an error if all of several episodes met their goals after their
// first step by the world's own verdict. Such a world says that it has terminated whatever
// happens.
func (r *runner) checkFirstStep(live []*episode) error {
	if r.Outside.Judges || len(live) < 2 || slices.ContainsFunc(live, func(ep *episode) bool { return !ep.result.Success || ep.step > 1 }) {
		return nil
	}
	return errors.New("the world says terminated after the first step of every episode, so that its verdict is no success (hint: set_state has to begin an episode that can continue, or success= decides in place of terminated)")
}

// checkEnded returns an error if the world ended every episode of a set before its budget, and
// none succeeded.
func (r *runner) checkEnded() error {
	for i, set := range r.Sets {
		ended, all := "", r.Outside != nil && r.film == nil
		for _, ep := range r.episodes {
			if ep.set == i {
				ended, all = ep.result.Diverged, all && ep.result.Diverged != ""
			}
		}
		if all {
			return fmt.Errorf("set %s: in every episode, %s (hint: a larger max_episode_steps of gymnasium.make, a smaller budget=, or a world whose numbers stay finite)", set.Name, ended)
		}
	}
	return nil
}

// recorded reports whether starts and goals are rows of a data set.
func (d *Data) recorded() bool { return d.Source != nil }

// goalsOf returns the rows of the goals of starts.
func (d *Data) goalsOf(starts []Start) []Start {
	goals := slices.Clone(starts)
	for i := range goals {
		goals[i].Row += d.rules.GoalOffset
	}
	return goals
}

// table returns the values of all columns at starts, back to back.
func (d *Data) table(starts []Start) ([]float64, error) {
	var out []float64
	for _, s := range starts {
		for _, c := range d.Columns() {
			v, err := d.Read(c.Name, d.fileRow(s), d.fileRow(s)+1)
			if err != nil && !errors.Is(err, dataset.ErrInexact) {
				return nil, fmt.Errorf("reading column %s of row %d: %w", c.Name, d.fileRow(s), err)
			}
			out = append(out, v...)
		}
	}
	return out, nil
}

// beginWorld sets copies of a world to starts and their goals.
func (d *Data) beginWorld(w *World, slots []int, starts []Start) ([]bool, error) {
	from, err := d.table(starts)
	if err != nil {
		return nil, err
	}
	to, err := d.table(d.goalsOf(starts))
	if err != nil {
		return nil, err
	}
	return w.Begin(slots, d.Columns(), from, to, false)
}

// frameSize returns the edge of the frames of start and goal.
func (j Job) frameSize() int {
	switch {
	case j.Data.recorded():
		return j.Data.FrameSize()
	case j.Outside != nil:
		return j.Outside.FrameSize
	}
	return envs.FrameSize
}

// checkRules returns an error for rules that need a task's own simulator.
func (w *World) checkRules(r results.Rules) error {
	switch {
	case judges(r):
		return errors.New("the protocol's rule of success reads columns of a built-in task (hint: success= is the rule of your world)")
	case r.State == results.RestStart, r.GoalSource == results.Replayed, r.Filters != "":
		return errors.New("the protocol changes starts or goals as only a built-in task can (hint: starts.state, goal.source and starts.filters of the protocol)")
	case r.Full().Solved == results.Excluded && r.Full().Sampling != results.Permutation:
		return errors.New("the protocol tests every row of the data set for solved starts, which takes an outside world too long (hint: protocol=\"strict\" tests only those that it draws)")
	}
	return nil
}

// checkWorld returns an error if the job cannot run in an outside world.
func (j Job) checkWorld() error {
	if j.Arm.Replaced.Simulator {
		return fmt.Errorf("a search in the simulator needs snapshots, which %s does not have (hint: metrics can be replaced)", j.Outside.ID)
	}
	return j.Outside.checkRules(j.Rules)
}
