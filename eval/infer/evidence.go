package infer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/words"
)

// evidence computes the numbers that decide a claim with a certain measure from the blocks
// of a group. It returns a number without a value for each one that the folder cannot give,
// so that the verdict stays Undecided.
type evidence func(t *Table, g Group, c Claim) []Number

// against returns the evidence of the numbers for A and each B.
func against(numbers func(t *Table, g Group, c Claim, b results.Arm) []Number) evidence {
	return func(t *Table, g Group, c Claim) (out []Number) {
		for _, b := range c.B {
			out = append(out, numbers(t, g, c, b)...)
		}
		return out
	}
}

// evidences maps the measures of claims.json to their evidence.
var evidences = map[string]evidence{
	"averages": against(func(t *Table, g Group, c Claim, b results.Arm) []Number { return t.averages(g, c, b, PaperSolvers) }),
	"icem": against(func(t *Table, g Group, c Claim, b results.Arm) []Number {
		return t.averages(g, c, b, []string{results.ICEM})
	}),
	"tiers":              against((*Table).tiers),
	"tasks":              against((*Table).tasks),
	"selection":          against((*Table).selection),
	"alignment":          ofCheckpoints(Spearman, "bootstrap of episodes", rho),
	"ranking":            against((*Table).ranking),
	"rollout error":      against((*Table).rolloutError),
	"median component":   ofEach("r2_of_median", hasProbe),
	"hidden layer":       ofEach("r2_mlp_minus_ridge", hasProbe),
	"temperature":        (*Table).otherTemperatures,
	"leading variance":   ofMeasure("leading_variance"),
	"effective rank":     ofMeasure("effective_rank"),
	"leading components": ofMeasure("r2_of_leading"),
	"all components":     ofMeasure(R2("ridge", 0, "mean")),
	"training time":      ratioOf("epoch_seconds_ratio", measureOf("epoch_seconds").of),
	"planning time":      ratioOf("plan_seconds_ratio", planTime),
	"planning work":      ratioOf("plan_flop_ratio", ofCost(func(c *results.Cost) float64 { return c.Tiers[len(c.Tiers)-1].FLOP })),
}

// Claimed is the prefix of the What of numbers that decide claims. They are differences
// of two arms whose unit is the training seed if there are several, and otherwise the
// unit of the corresponding test.
const Claimed = "claimed_"

// claimed returns a paired difference that a claim is about. The interval of d covers
// the choice of episodes only. With several training seeds, whose differences are in
// seeds, the interval is over seeds instead, because the claim is about methods rather
// than about single checkpoints.
func claimed(what string, at Place, a, b results.Arm, d *Difference, seeds []float64) Number {
	n := Number{What: Claimed + what, Place: at, Of: a, Minus: b}
	switch {
	case d == nil:
	case len(seeds) > 1:
		n = n.put(MeanOf(seeds))
		n.N, n.Unit = len(seeds), "training seed"
	default:
		n = n.put(Estimate{d.Diff, d.Lo, d.Hi})
		n.N, n.Unit, n.How = d.N, "episode", d
	}
	return n
}

// averages returns the difference for every task and each of the solvers, averaged over
// tiers.
func (t *Table) averages(g Group, c Claim, b results.Arm, solvers []string) (out []Number) {
	for _, task := range c.Tasks() {
		for _, solver := range solvers {
			out = append(out, average(g, Place{Task: task, Solver: solver}, c.A, b))
		}
	}
	return out
}

// average returns the difference of a and b in the block of a task and solver, or a
// number without a value if no block compares them.
func average(g Group, at Place, a, b results.Arm) Number {
	for _, block := range g.Blocks {
		for _, p := range block.Pairs {
			if block.Task == at.Task && block.Solver == at.Solver && p.Of == a && p.Minus == b {
				_, seeds := seedPoints(map[string]*Block{at.Solver: block}, []string{at.Solver}, a, b)
				n := claimed(Diff, at, a, b, p.Mean, seeds)
				n.Settings, n.From = block.Settings, union(block.ids(a, block.Averaged()), block.ids(b, block.Averaged()))
				return n
			}
		}
	}
	return claimed(Diff, at, a, b, nil, nil)
}

// tiers returns the difference at each tier, averaged over tasks and solvers. The unit
// is the evaluation set. It is the training seed if all cells have the same seeds, at
// least two. The note counts the cells.
func (t *Table) tiers(g Group, c Claim, b results.Arm) (out []Number) {
	for _, tier := range PaperTiers {
		var cells []map[string]float64
		bySeed := map[int][]float64{}
		n := claimed(Diff, Place{Tier: tier}, c.A, b, nil, nil)
		for _, block := range g.Blocks {
			d := t.setDifferences(block, tier, c.A, b)
			if len(d) == 0 || !slices.Contains(PaperSolvers, block.Solver) {
				continue
			}
			cells, n.From = append(cells, d), union(n.From, block.ids(c.A, []string{tier}), block.ids(b, []string{tier}))
			seeds, x := seedPoints(map[string]*Block{block.Solver: block}, []string{block.Solver}, c.A, b, block.Solver+" "+tier)
			for i, seed := range seeds {
				bySeed[seed] = append(bySeed[seed], x[i])
			}
		}
		if test, ok := TestSets(cells); ok {
			n = n.put(MeanOf(test.Points))
			n.N, n.Unit = len(test.Sets), "set"
			var x []float64
			// Only seeds that every cell has: the means of seeds are over equal cells.
			for _, v := range bySeed {
				if len(v) == len(cells) {
					x = append(x, mean(v))
				}
			}
			// The map's order is random. Sorting makes the rounding of the sum reproducible.
			if slices.Sort(x); len(x) > 1 {
				n = n.put(MeanOf(x))
				n.N, n.Unit = len(x), "training seed"
			}
			n.Notes = []string{words.Count(test.Cells, "cell")}
		}
		out = append(out, n)
	}
	return out
}

// tasks returns the difference of each task over all its cells, paired episode by
// episode.
func (t *Table) tasks(g Group, c Claim, b results.Arm) (out []Number) {
	for _, task := range c.Tasks() {
		var d *Difference
		var seeds []float64
		var from []string
		if n := t.Find(Number{What: SetDiff, Place: Place{Task: task, Settings: g.Name}, Of: c.A, Minus: b}); n != nil {
			d, from = n.How.(*SetTest).Pooled, n.From
			_, seeds = seedPoints(testBlocks(g.Blocks, task), PaperSolvers, c.A, b)
		}
		out = append(out, claimed(SetDiff, Place{Task: task}, c.A, b, d, seeds))
		out[len(out)-1].From = from
	}
	return out
}

// selection is like tasks, with gradient descent as a fourth solver, for the claims
// about state selection.
func (t *Table) selection(g Group, c Claim, b results.Arm) (out []Number) {
	for _, task := range c.Tasks() {
		of := testBlocks(g.Blocks, task)
		n, ok := t.setTest(of, fourSolvers, c.A, b, Options{})
		var d *Difference
		if ok {
			d = n.How.(*SetTest).Pooled
		}
		_, seeds := seedPoints(of, fourSolvers, c.A, b)
		out = append(out, claimed(StateDiff, Place{Task: task}, c.A, b, d, seeds))
		out[len(out)-1].From = n.From
	}
	return out
}

// checkpointsWith returns the checkpoints checkpointsWith an arm on a task for which number is not NaN, one for
// each training seed and data set.
func (t *Table) checkpointsWith(task string, arm results.Arm, number func(*Checkpoint) float64) (out []*Checkpoint) {
	type place struct {
		seed int
		data string
	}
	seen := map[place]bool{}
	for _, c := range t.Checkpoints(task) {
		if p := (place{c.Seed, c.Data}); c.Arm == arm && !math.IsNaN(number(c)) && !seen[p] {
			seen[p] = true
			out = append(out, c)
		}
	}
	return out
}

// checkpointPairs pairs the checkpoints of two arms that have the same training seed and data set.
// It returns one pair for each seed.
func (t *Table) checkpointPairs(task string, a, b results.Arm, number func(*Checkpoint) float64) (out [][2]*Checkpoint) {
	seeds := map[int]bool{}
	for _, x := range t.checkpointsWith(task, a, number) {
		for _, y := range t.checkpointsWith(task, b, number) {
			if x.Seed == y.Seed && x.Data == y.Data && !seeds[x.Seed] {
				seeds[x.Seed] = true
				out = append(out, [2]*Checkpoint{x, y})
			}
		}
	}
	return out
}

// ofCheckpoints returns the evidence of a number of single checkpoints: its difference
// or, with several training seeds, the mean difference over them. The note is attached
// to the number of a single checkpoint, and says where its interval comes from.
func ofCheckpoints(what, note string, number func(*Checkpoint) Estimate) evidence {
	return against(func(t *Table, _ Group, c Claim, b results.Arm) (out []Number) {
		for _, task := range c.Tasks() {
			var diffs []Estimate
			var from []string
			for _, x := range t.checkpointPairs(task, c.A, b, func(c *Checkpoint) float64 { return number(c).Value }) {
				diffs, from = append(diffs, number(x[0]).Minus(number(x[1]))), union(from, x[0].ids, x[1].ids)
			}
			out = append(out, overTrainings(Number{What: Claimed + what, Place: Place{Task: task}, Of: c.A, Minus: b, From: from}, diffs, note))
		}
		return out
	})
}

// ofMeasure is ofCheckpoints for a measure without an interval. Only several training
// seeds give it one.
func ofMeasure(what string) evidence {
	return ofCheckpoints(what, "no interval", func(c *Checkpoint) Estimate { return pointEstimate(measureOf(what).of(c)) })
}

// overTrainings sets n to the mean of x over training seeds or, if there is only one,
// to that estimate with the note.
func overTrainings(n Number, x []Estimate, note string) Number {
	if len(x) == 0 {
		return n
	}
	n.N, n.Unit = len(x), "training seed"
	if len(x) == 1 {
		if note != "" {
			n.Notes = []string{note}
		}
		return n.put(x[0])
	}
	var values []float64
	for _, e := range x {
		values = append(values, e.Value)
	}
	return n.put(MeanOf(values))
}

// ofEach returns the evidence of a measure of each arm and task, instead of a difference.
// Checkpoints for which has is not NaN count, even if the measure itself is not finite.
func ofEach(what string, has func(*Checkpoint) float64) evidence {
	return func(t *Table, _ Group, c Claim) (out []Number) {
		for _, arm := range append([]results.Arm{c.A}, c.B...) {
			for _, task := range c.Tasks() {
				n := Number{What: Claimed + what, Place: Place{Task: task}, Of: arm}
				var of []Estimate
				for _, x := range t.checkpointsWith(task, arm, has) {
					of, n.From = append(of, pointEstimate(measureOf(what).of(x))), union(n.From, x.ids)
				}
				out = append(out, overTrainings(n, of, "no interval"))
			}
		}
		return out
	}
}

// hasProbe is 0 if a checkpoint has probes, else NaN.
func hasProbe(c *Checkpoint) float64 {
	if c.Probe == nil {
		return math.NaN()
	}
	return 0
}

// ranking returns the differences of Kendall's τ, paired by start.
func (t *Table) ranking(_ Group, c Claim, b results.Arm) []Number {
	return t.byStart(Tau, c, b, func(r *results.Rollout, i int) float64 { return r.PerStart[i].Tau })
}

// rolloutError returns the differences of the rollout error, paired by start. Each
// error is divided by the scale of its own model's latents, since errors in different
// latent spaces are not comparable.
func (t *Table) rolloutError(_ Group, c Claim, b results.Arm) []Number {
	return t.byStart(RolloutError, c, b, func(r *results.Rollout, i int) float64 { return r.PerStart[i].Error / r.Scale })
}

// byStart returns the mean difference of a number of rollouts, paired by start. With
// one training seed the start is the unit. With several the seed is the unit, and its
// value is the mean over its starts.
func (t *Table) byStart(what string, c Claim, b results.Arm, number func(r *results.Rollout, i int) float64) (out []Number) {
	for _, task := range c.Tasks() {
		n := Number{What: Claimed + what, Place: Place{Task: task}, Of: c.A, Minus: b}
		var seeds []Estimate
		starts := 0
		for _, x := range t.checkpointPairs(task, c.A, b, measureOf("rollout_starts").of) {
			var diffs []float64
			for i, s := range x[0].Rollout.PerStart {
				for j, o := range x[1].Rollout.PerStart {
					if s.Start == o.Start {
						diffs = append(diffs, number(x[0].Rollout, i)-number(x[1].Rollout, j))
					}
				}
			}
			if starts = len(diffs); starts > 0 {
				seeds, n.From = append(seeds, MeanOf(diffs)), union(n.From, x[0].ids, x[1].ids)
			}
		}
		out = append(out, overTrainings(n, seeds, words.Count(starts, "start")))
	}
	return out
}

// ratioOf returns the evidence of the ratio of two checkpoints' costs, averaged over
// tasks. The task is the unit of its interval.
func ratioOf(what string, cost func(*Checkpoint) float64) evidence {
	return against(func(t *Table, _ Group, c Claim, b results.Arm) []Number {
		n := Number{What: Claimed + what, Of: c.A, Minus: b, Unit: "task"}
		var ratios []float64
		for _, task := range c.Tasks() {
			positive := func(c *Checkpoint) float64 {
				if v := cost(c); v > 0 {
					return v
				}
				return math.NaN()
			}
			// The first seed is enough: cost does not depend on the weights.
			if all := t.checkpointPairs(task, c.A, b, positive); len(all) > 0 {
				x := all[0]
				ratios, n.From = append(ratios, cost(x[0])/cost(x[1])), union(n.From, x[0].ids, x[1].ids)
			}
		}
		if n.N = len(ratios); n.N > 0 {
			n = n.put(MeanOf(ratios))
		}
		if n.N == 1 {
			n.Notes = []string{"no interval"}
		}
		return []Number{n}
	})
}

// otherTemperatures returns, for each task, the success of A with MPPI at each other
// temperature within a factor of four of the stock one, minus that at the stock
// temperature, averaged over tiers. The episodes are the same, so the interval of
// independent rates is too wide.
func (t *Table) otherTemperatures(_ Group, c Claim) (out []Number) {
	for _, task := range c.Tasks() {
		at := map[float64]*Block{}
		for _, b := range t.Blocks {
			for slot, x := range b.cells {
				if b.Task == task && slot.arm == c.A && x.Spec.Solver == results.MPPI {
					at[x.Spec.Temperature] = b
				}
			}
		}
		none := Number{What: Claimed + "temperature", Place: Place{Task: task, Solver: results.MPPI}, Of: c.A}
		stock, compared := at[results.StockTemperature], false
		for _, temperature := range slices.Sorted(maps.Keys(at)) {
			if ratio := temperature / results.StockTemperature; stock == nil || ratio == 1 || ratio < .25 || ratio > 4 {
				continue
			}
			n := none
			var diffs []Estimate
			for _, tier := range stock.Averaged() {
				x, y := t.BySeed(at[temperature], c.A, tier), t.BySeed(stock, c.A, tier)
				if len(x) > 0 && len(y) > 0 {
					diffs = append(diffs, x[0].Estimate().Minus(y[0].Estimate()))
					n.From = union(n.From, x[0].From, y[0].From)
				}
			}
			if n.N = len(diffs); n.N > 0 {
				var sum Estimate
				for _, d := range diffs {
					sum = Estimate{sum.Value + d.Value, sum.Lo + d.Lo, sum.Hi + d.Hi}
				}
				k := float64(n.N)
				n = n.put(Estimate{sum.Value / k, sum.Lo / k, sum.Hi / k})
				n.Unit, n.Settings, compared = "tier", fmt.Sprintf("temperature %g", temperature), true
				out = append(out, n)
			}
		}
		if !compared {
			out = append(out, none)
		}
	}
	return out
}

// planTime returns the seconds that one plan takes, summed over tiers: the last entry
// of Plans is this sum.
func planTime(c *Checkpoint) float64 {
	return ofTimes(func(t *results.CostTimes) float64 {
		if len(t.Plans) == 0 {
			return math.NaN()
		}
		return t.Plans[len(t.Plans)-1].Seconds
	})(c)
}
