package infer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/words"
)

// claims.json has the paper's claims as predicates on numbers: which numbers, and the range each must
// be in.

//go:embed claims.json
var claimsJSON []byte

// Claim is a sentence of the paper with the rule that decides it.
type Claim struct {
	ID    string `json:"id"`
	Claim string `json:"claim"`
	Where string `json:"where"` // section of the paper
	Line  int    `json:"line"`  // line of its LaTeX source
	Mark  string `json:"mark"`  // words in that line, by which a test finds it
	// Measure names the numbers that decide it (see evidences): A minus each of B.
	Measure string        `json:"measure"`
	A       results.Arm   `json:"a"`
	B       []results.Arm `json:"b"`
	Need    Need          `json:"need"`
	// Want is the claimed range by task, "*" for all tasks: "up", "down", "same" (within the
	// margin of 0), "> x", "< x", or a number (within the margin of it).
	Want   map[string]string `json:"want"`
	Margin float64           `json:"margin"`
	Make   string            `json:"make"` // flags of `reproduce` that compute missing numbers
}

// PaperClaims are the paper's claims, in its order.
var PaperClaims = func() []Claim {
	var all struct {
		Claims []Claim `json:"claims"`
	}
	if err := json.Unmarshal(claimsJSON, &all); err != nil {
		panic(fmt.Sprintf("infer: the embedded claims.json: %v", err))
	}
	return all.Claims
}()

// Allows returns the range that a claim states for a task's numbers. It returns false if the claim
// says nothing about the task.
func (c Claim) Allows(task string) (r Range, ok bool) {
	want, ok := c.Want[task]
	if !ok {
		if want, ok = c.Want["*"]; !ok {
			return r, false
		}
	}
	none := math.Inf(1)
	limit := func(sign string) float64 { x, _ := strconv.ParseFloat(strings.TrimPrefix(want, sign), 64); return x }
	switch {
	case want == "up":
		return Range{Lo: 0, Hi: none}, true
	case want == "down":
		return Range{Lo: -none, Hi: 0}, true
	case want == "same":
		return Range{Lo: -c.Margin, Hi: c.Margin}, true
	case want[0] == '>':
		return Range{Lo: limit("> "), Hi: none}, true
	case want[0] == '<':
		return Range{Lo: -none, Hi: limit("< ")}, true
	}
	return Range{Lo: limit("") - c.Margin, Hi: limit("") + c.Margin}, true
}

// Tasks returns the tasks of the paper that a claim is about.
func (c Claim) Tasks() (out []string) {
	for _, task := range results.PaperTasks {
		if _, ok := c.Allows(task); ok {
			out = append(out, task)
		}
	}
	return out
}

// Evidence is one of the numbers that decide a claim, with the verdict on it. A missing number has no
// value.
type Evidence struct {
	*Number
	Stand Verdict
}

// Missing reports whether the folder lacks the number.
func (e Evidence) Missing() bool { return e.Value == nil }

// Finding is a claim with the verdict of the folder and its evidence.
type Finding struct {
	Claim
	Verdict  Verdict
	Evidence []Evidence
}

// evidence returns the numbers A minus B that decide a claim with some measure.
type evidence func(t *Table, g Group, c Claim, b results.Arm) []Number

// evidences has the evidence of every measure.
var evidences = map[string]evidence{
	"averages": func(t *Table, g Group, c Claim, b results.Arm) []Number { return t.averages(g, c, b, PaperSolvers) },
	"icem": func(t *Table, g Group, c Claim, b results.Arm) []Number {
		return t.averages(g, c, b, []string{results.ICEM})
	},
	"tiers":              (*Table).tiers,
	"tasks":              (*Table).tasks,
	"selection":          (*Table).selection,
	"alignment":          ofCheckpoints(Spearman, "bootstrap of episodes", rho),
	"ranking":            (*Table).ranking,
	"rollout error":      (*Table).rolloutError,
	"worst component":    (*Table).worstComponent,
	"leading variance":   ofMeasure("leading_variance"),
	"leading components": ofMeasure("r2_of_leading"),
	"all components":     ofMeasure(R2("ridge", 0, "mean")),
	"training time":      ratioOf("epoch_seconds_ratio", measureOf("epoch_seconds").of),
	"planning time":      ratioOf("plan_seconds_ratio", planTime),
	"planning work":      ratioOf("plan_flop_ratio", ofCost(func(c *results.Cost) float64 { return c.Tiers[len(c.Tiers)-1].FLOP })),
}

// findings decides the claims from the numbers of a group.
func (t *Table) findings(g Group) (out []Finding) {
	for _, c := range PaperClaims {
		f := Finding{Claim: c}
		for _, b := range c.B {
			for _, n := range evidences[c.Measure](t, g, c, b) {
				if n.Solver == "" { // a number of a block has the block's settings already
					n.Settings = g.Name
				}
				f.Evidence = append(f.Evidence, Evidence{t.add(n), Undecided})
			}
		}
		var stands []Verdict
		for i := range f.Evidence {
			e := &f.Evidence[i]
			if allowed, _ := c.Allows(e.Task); !e.Missing() {
				e.Stand = e.Estimate().Stand(allowed, len(f.Evidence))
			}
			stands = append(stands, e.Stand)
		}
		f.Verdict = c.Need.Decide(stands)
		out = append(out, f)
	}
	return out
}

// Claimed is the prefix of What for numbers that decide claims: the difference of two arms with the
// training seed as the unit if there are several, and else with the unit of its test.
const Claimed = "claimed_"

// claimed returns a number for a claim from a paired difference. Its interval covers the choice of
// episodes. If differences by training seed are given, it covers the variation between trainings
// instead.
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

// averages returns the differences of every task and some solvers, averaged over tiers.
func (t *Table) averages(g Group, c Claim, b results.Arm, solvers []string) (out []Number) {
	for _, task := range c.Tasks() {
		for _, solver := range solvers {
			out = append(out, average(g, Place{Task: task, Solver: solver}, c.A, b))
		}
	}
	return out
}

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

// tiers returns the difference at each tier, averaged over tasks and solvers. The unit is the set,
// or the training seed if all cells have the same several seeds. The note counts the cells.
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
			for _, v := range bySeed {
				if len(v) == len(cells) {
					x = append(x, mean(v))
				}
			}
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

// tasks returns the difference over all cells of each task.
func (t *Table) tasks(g Group, c Claim, b results.Arm) (out []Number) {
	for _, task := range c.Tasks() {
		var d *Difference
		var seeds []float64
		var from []string
		if n := t.Find(Number{What: SetDiff, Place: Place{Task: task, Settings: g.Name}, Of: c.A, Minus: b}); n != nil {
			d, from = n.How.(*SetTest).Pooled, n.From
			_, seeds = seedPoints(tested(g.Blocks, task), PaperSolvers, c.A, b)
		}
		out = append(out, claimed(SetDiff, Place{Task: task}, c.A, b, d, seeds))
		out[len(out)-1].From = from
	}
	return out
}

// selection is tasks with gradient descent as a fourth solver, as in the paper's state selection.
func (t *Table) selection(g Group, c Claim, b results.Arm) (out []Number) {
	for _, task := range c.Tasks() {
		of := tested(g.Blocks, task)
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

// of returns an arm's checkpoints on a task, one per training seed and data set, that have a number.
func (t *Table) of(task string, arm results.Arm, number func(*Checkpoint) float64) (out []*Checkpoint) {
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

// both returns the pairs of two arms' checkpoints with equal training seeds on one data set, one pair
// per seed.
func (t *Table) both(task string, a, b results.Arm, number func(*Checkpoint) float64) (out [][2]*Checkpoint) {
	seeds := map[int]bool{}
	for _, x := range t.of(task, a, number) {
		for _, y := range t.of(task, b, number) {
			if x.Seed == y.Seed && x.Data == y.Data && !seeds[x.Seed] {
				seeds[x.Seed] = true
				out = append(out, [2]*Checkpoint{x, y})
			}
		}
	}
	return out
}

// ofCheckpoints returns the evidence of differences of a number of checkpoints: one pair, or the mean
// over training seeds if there are several. The note says what the interval of a single pair
// covers.
func ofCheckpoints(what, note string, number func(*Checkpoint) Estimate) evidence {
	return func(t *Table, _ Group, c Claim, b results.Arm) (out []Number) {
		for _, task := range c.Tasks() {
			var diffs []Estimate
			var from []string
			for _, x := range t.both(task, c.A, b, func(c *Checkpoint) float64 { return number(c).Value }) {
				diffs, from = append(diffs, number(x[0]).Minus(number(x[1]))), union(from, x[0].ids, x[1].ids)
			}
			out = append(out, overTrainings(Number{What: Claimed + what, Place: Place{Task: task}, Of: c.A, Minus: b, From: from}, diffs, note))
		}
		return out
	}
}

// ofMeasure is ofCheckpoints for a number without an interval: only several training seeds give one.
func ofMeasure(what string) evidence {
	return ofCheckpoints(what, "no interval", func(c *Checkpoint) Estimate { return lone(measureOf(what).of(c)) })
}

// overTrainings returns the mean over training seeds, or the only number with its note.
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

// worstComponent returns the smallest R² of any component of the state, for either arm.
func (t *Table) worstComponent(_ Group, c Claim, b results.Arm) (out []Number) {
	worst := measureOf("r2_of_worst").of
	for _, arm := range []results.Arm{c.A, b} {
		for _, task := range c.Tasks() {
			n := Number{What: Claimed + "r2_of_worst", Place: Place{Task: task}, Of: arm}
			var least []Estimate
			for _, x := range t.of(task, arm, func(c *Checkpoint) float64 {
				if c.Probe == nil {
					return math.NaN()
				}
				return 0
			}) {
				least, n.From = append(least, lone(worst(x))), union(n.From, x.ids)
			}
			out = append(out, overTrainings(n, least, "no interval"))
		}
	}
	return out
}

// ranking returns the difference of Kendall's τ, paired by start.
func (t *Table) ranking(_ Group, c Claim, b results.Arm) []Number {
	return t.byStart(Tau, c, b, func(r *results.Rollout, i int) float64 { return r.PerStart[i].Tau })
}

// rolloutError returns the difference of the rollout errors, each relative to its own latents.
func (t *Table) rolloutError(_ Group, c Claim, b results.Arm) []Number {
	return t.byStart(RolloutError, c, b, func(r *results.Rollout, i int) float64 { return r.PerStart[i].Error / r.Scale })
}

// byStart pairs two arms' rollouts by start. With several training seeds, the unit is the seed with
// the mean over its starts.
func (t *Table) byStart(what string, c Claim, b results.Arm, number func(r *results.Rollout, i int) float64) (out []Number) {
	for _, task := range c.Tasks() {
		n := Number{What: Claimed + what, Place: Place{Task: task}, Of: c.A, Minus: b}
		var seeds []Estimate
		starts := 0
		for _, x := range t.both(task, c.A, b, measureOf("rollout_starts").of) {
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

// ratioOf returns the evidence of the ratio of two arms' costs, averaged over tasks.
func ratioOf(what string, cost func(*Checkpoint) float64) evidence {
	return func(t *Table, _ Group, c Claim, b results.Arm) []Number {
		n := Number{What: Claimed + what, Of: c.A, Minus: b, Unit: "task"}
		var ratios []float64
		for _, task := range c.Tasks() {
			positive := func(c *Checkpoint) float64 {
				if v := cost(c); v > 0 {
					return v
				}
				return math.NaN()
			}
			if all := t.both(task, c.A, b, positive); len(all) > 0 { // the cost does not depend on the seed
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
	}
}

// planTime returns the seconds of a plan, summed over tiers.
func planTime(c *Checkpoint) float64 {
	return ofTimes(func(t *results.CostTimes) float64 {
		if len(t.Plans) == 0 {
			return math.NaN()
		}
		return t.Plans[len(t.Plans)-1].Seconds
	})(c)
}
