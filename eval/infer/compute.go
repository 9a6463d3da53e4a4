package infer

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// Kinds of numbers about what an arm computes at a tier of a block, over its sets and
// training seeds (results.Counts). Arms without a solver have no tier. Numbers that are
// not recorded, such as the decisions in cells of other programs, are not in the table.
const (
	Decisions     = "decisions_per_episode"
	Frames        = "frames_per_decision" // encoded; the goal's frame is one more in each episode
	Calls         = "calls_per_decision"  // of predictors and heads
	Predictions   = "predictor_calls_per_decision"
	HeadCalls     = "head_calls_per_decision"
	Backward      = "backward_passes_per_decision"
	SimulatorWork = "simulator_steps_per_decision"
	// PerEnvStep is the predictor's calls of a plan divided by the env steps that execute it.
	PerEnvStep = "predictor_calls_per_env_step"
	// DecisionMillis is the wall-clock time of a decision in milliseconds: encoding and
	// planning, without rendering and simulation, amortised over the batch.
	DecisionMillis = "ms_per_decision"
	InQuarter      = "success_in_a_quarter" // percentage solved within a quarter of the budget
	InHalf         = "success_in_half"
	MeanSteps      = "mean_steps_to_success" // env steps, over successful episodes
	MedianSteps    = "median_steps_to_success"
)

// compute adds the numbers about compute and speed of a block's arms. Other programs do
// not say what theirs computed.
func (t *Table) compute(b *Block) {
	for _, arm := range NamesOf(b.Every()) {
		if b.foreign[arm] {
			continue
		}
		for _, tier := range b.tiersOf(arm) {
			t.computed(b, arm, tier)
		}
	}
}

// tiersOf returns the block's tiers, or "" for an arm that does not search.
func (b *Block) tiersOf(arm results.Arm) []string {
	if !arm.Plans() {
		return []string{""}
	}
	return b.TierNames()
}

// all returns an arm's cells at a tier, of all training seeds.
func (b *Block) all(arm results.Arm, tier string) (cells []results.Cell) {
	for _, seed := range b.SeedsOf(arm) {
		cells = append(cells, b.at(Trained{Arm: arm, Seed: seed}, tier)...)
	}
	return cells
}

// computed adds the numbers of an arm at a tier.
func (t *Table) computed(b *Block, arm results.Arm, tier string) {
	cells := b.all(arm, tier)
	if len(cells) == 0 {
		return
	}
	var sum, timed results.Counts // timed are the counts of cells with measured times
	var steps []float64
	episodes, quarter, half, seconds := 0, 0, 0, 0.0
	for _, c := range cells {
		run := t.Runs[c.ID]
		seconds += run.Encode + run.Plan
		for _, r := range c.Result.Rows {
			n := results.Compute(c.Spec, r)
			sum, episodes = sum.Plus(n), episodes+1
			if run.Encode+run.Plan > 0 {
				timed = timed.Plus(n)
			}
			if r.Success {
				steps = append(steps, float64(r.Steps))
			}
			if r.Success && r.Steps <= c.Spec.Budget/2 {
				half++
			}
			if r.Success && r.Steps <= c.Spec.Budget/4 {
				quarter++
			}
		}
	}
	add := func(what string, value float64, n int, unit string) {
		t.add(Number{What: what, Place: b.Place.At(tier), Of: arm, Value: some(value), N: n, Unit: unit, From: ids(cells)})
	}
	add(InQuarter, 100*float64(quarter)/float64(episodes), episodes, "episode")
	add(InHalf, 100*float64(half)/float64(episodes), episodes, "episode")
	if len(steps) > 0 {
		add(MeanSteps, mean(steps), len(steps), "success")
		add(MedianSteps, median(steps), len(steps), "success")
	}
	if sum.Decisions == 0 {
		return
	}
	add(Decisions, float64(sum.Decisions)/float64(episodes), episodes, "episode")
	for what, n := range map[string]int{Frames: sum.Frames, Calls: sum.PredictorCalls + sum.HeadCalls, Predictions: sum.PredictorCalls, HeadCalls: sum.HeadCalls, Backward: sum.Backward, SimulatorWork: sum.SimulatorSteps} {
		add(what, float64(n)/float64(sum.Decisions), sum.Decisions, "decision")
	}
	if s := scheduleOf(cells[0].Spec); tier != "" && s.steps > 0 {
		add(PerEnvStep, float64(sum.PredictorCalls)/float64(sum.Decisions)/float64(s.steps), sum.Decisions, "decision")
	}
	if timed.Decisions > 0 {
		add(DecisionMillis, 1000*seconds/float64(timed.Decisions), timed.Decisions, "decision")
	}
}

// EqualCompute is a difference of success between plans that cost equally many predictor
// calls per env step although their tiers or schedules differ, in points. Of one arm it is
// a plan of its place minus the first plan with equal compute, in the order of Schedule.
// Of two arms it is their difference under one such plan. Its notes are words about the
// plan of Of and that of Minus.
const EqualCompute = "equal_compute_difference"

// schedule is when an arm plans.
type schedule struct {
	steps int    // env steps that execute a plan
	words string // for readers
}

func scheduleOf(s results.Spec) schedule {
	out := schedule{s.Executed() * s.Rules.Steps(), fmt.Sprintf("%s, %d of %d blocks executed", s.Tier, s.Executed(), s.Horizon)}
	if s.WarmStart {
		out.words += ", warm start"
	}
	return out
}

// ofSchedule are the settings in which plans of equal compute may differ: those of the
// tier, the schedule and the noise.
var ofSchedule = map[string]bool{"candidates": true, "iterations": true, "elites": true, "horizon": true, "block": true, "replan": true, "warm_start": true, "noise_key": true}

// costed is an arm's plans at a tier of a block, and what they cost.
type costed struct {
	schedule
	*Block
	tier string
	rate float64 // predictor calls per env step
}

// costs returns the plans of an arm in blocks, first those that execute the most env steps.
func (t *Table) costs(blocks []*Block, arm results.Arm) (out []costed) {
	for _, b := range blocks {
		for _, tier := range b.TierNames() {
			if n := t.Find(Number{What: PerEnvStep, Place: b.Place.At(tier), Of: arm}); n != nil {
				out = append(out, costed{scheduleOf(b.all(arm, tier)[0].Spec), b, tier, *n.Value})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b costed) int { return b.steps - a.steps })
	return out
}

// equals reports whether two plans of an arm cost the same under settings that differ in
// their schedules only.
func (x costed) equals(y costed) bool {
	return x.Solver == y.Solver && x.rate == y.rate && x.settings.value.agreesBut(y.settings.value, ofSchedule)
}

// equalCompute adds the differences at equal compute, adjusted by Holm within each task.
func (t *Table) equalCompute(o Options) {
	for _, task := range Tasks(t.Blocks) {
		blocks := slices.DeleteFunc(MainBlocks(t.Blocks), func(b *Block) bool { return b.Task != task })
		var all []*Number
		seen := map[Place]bool{}
		for _, arm := range ArmsOf(blocks) {
			var refs []costed
			for _, x := range t.costs(blocks, arm) {
				at := slices.IndexFunc(refs, x.equals)
				if at < 0 {
					refs = append(refs, x)
					continue
				}
				all = append(all, t.atEqual(arm, x, refs[at], o))
				for _, u := range []costed{refs[at], x} {
					if p := u.Place.At(u.tier); !seen[p] {
						seen[p], all = true, append(all, t.armsAt(u)...)
					}
				}
			}
		}
		all = slices.DeleteFunc(all, func(n *Number) bool { return n.P == nil })
		ps := make([]float64, len(all))
		for i, n := range all {
			ps[i] = *n.P
		}
		for i, p := range stats.Holm(ps) {
			all[i].Adjusted = some(p)
		}
	}
}

// atEqual adds the difference of an arm between two plans. Both sides lose their tier, so
// that they are paired like arms without one: on equal episodes, goals, budgets and rules
// of success, whatever their planners' settings.
func (t *Table) atEqual(arm results.Arm, x, y costed, o Options) *Number {
	side := func(u costed) *Side {
		s := &Side{Name: u.words}
		for _, c := range u.all(arm, u.tier) {
			c.Spec.Tier = anyTier
			s.Add(c) // fails only for a repeated episode, and each slot has one cell
		}
		return s
	}
	c := Compare(side(x), side(y), o)
	c.Of, c.Minus = arm, arm
	n := x.difference(EqualCompute, c, c.Mean)
	n.Tier, n.Notes, n.From = x.tier, []string{x.words, y.words}, union(x.ids(arm, []string{x.tier}), y.ids(arm, []string{y.tier}))
	if c.Mean == nil {
		n.Notes = append(n.Notes, c.Refused...)
	}
	return t.add(n)
}

// armsAt adds the block's differences of methods at a tier.
func (t *Table) armsAt(u costed) (out []*Number) {
	for _, n := range t.Where(Diff, func(n *Number) bool { return n.Place == u.Place.At(u.tier) && n.Value != nil && !n.Of.Replaced() }) {
		same := *n
		same.What, same.Notes = EqualCompute, []string{u.words, u.words}
		out = append(out, t.add(same))
	}
	return out
}

// agreesBut reports whether v and o agree in all settings but those named.
func (v values) agreesBut(o values, but map[string]bool) bool {
	v = maps.Clone(v)
	maps.DeleteFunc(v, func(k setKey, _ string) bool { return but[k.name] })
	return v.agrees(o)
}
