package infer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// paper.json holds the published numbers in the form of Number, so that views can show them
// next to ours.
//
//go:embed paper.json
var paperJSON []byte

// published are the numbers of the paper and of its authors' result files.
var published = func() []Number {
	var p struct {
		Numbers []Number `json:"numbers"`
	}
	if err := json.Unmarshal(paperJSON, &p); err != nil {
		panic(fmt.Sprintf("infer: the embedded paper.json: %v", err))
	}
	return p.Numbers
}()

// PaperTiers are the compute tiers of the paper, in descending order of compute.
var PaperTiers = []string{"T1", "T2", "T3", "T4", "T5"}

// paperSets is the number of evaluation sets in the paper's test.
const paperSets = 6

// Training seeds of the authors. The paper's tables have the first; their repository has
// results of all from the first to the last.
const (
	PaperSeed = 3072
	lastSeed  = 3074
)

// publish adds the published numbers, and the numbers derived from them, with the
// formulas that are used for ours.
func (t *Table) publish() {
	for _, n := range published {
		t.add(n)
	}
	// The published numbers are complete: each one that is looked up below exists, so a nil
	// pointer here is a mistake in paper.json, which a test would find.
	for _, n := range published {
		find := func(what, solver string, of results.Arm) *Number {
			return t.Find(Number{What: what, Source: n.Source, Place: Place{Task: n.Task, Solver: solver, Tier: n.Tier}, Of: of})
		}
		switch {
		case n.What == Success && n.Source == Paper && n.Solver == results.ICEM && n.Tier == Mean:
			cem := find(Success, results.CEM, n.Of)
			t.gain(Number{Source: Paper, Place: Place{Task: n.Task}, Of: n.Of, Value: some(*n.Value - *cem.Value)}, *cem.Value, *n.Value)
		case (n.What == Tau || n.What == RolloutError) && n.Of != paperBaseline:
			t.change(Number{Source: n.Source, Place: n.Place, Of: n.Of, Minus: paperBaseline}, n.What, *n.Value, *find(n.What, "", paperBaseline).Value, Or(n.P))
		case n.What == ByState && n.Of.Variants == "":
			half := find(ByState, "", StateArm(n.Of, "half"))
			t.add(Number{What: StateDiff, Source: n.Source, Place: n.Place, Of: n.Of, Value: some(*n.Value - *half.Value)})
		}
	}
	for _, b := range t.Blocks {
		t.overPaperTiers(b)
	}
	t.publishSeeds()
}

// PaperMean is an arm's success in a block, averaged over those tiers of the paper that
// the folder has. There is one number of ours and one of the paper, over the same
// tiers.
const PaperMean = "success_over_tiers_of_the_paper"

// overPaperTiers adds these numbers for the arms that the paper has.
func (t *Table) overPaperTiers(b *Block) {
	for _, a := range b.Arms {
		var ours, theirs []float64
		var from []string
		paper := Number{What: Success, Source: Paper, Place: Place{Task: b.Task, Solver: b.Solver}, Of: a.Arm}
		for _, tier := range PaperTiers {
			paper.Tier = tier
			if p, s := t.Find(paper), t.score(b, a, tier); p != nil && s != nil {
				ours, theirs, from = append(ours, s.Mean), append(theirs, *p.Value), append(from, ids(b.at(a, tier))...)
			}
		}
		paper.Tier = Mean
		average := t.Find(paper)
		if average == nil || len(ours) == 0 {
			continue
		}
		t.add(Number{What: PaperMean, Place: b.Place, Of: a.Arm, Seed: &a.Seed, Value: some(mean(ours)), N: len(ours), Unit: "tier", From: union(from)})
		over := Number{What: PaperMean, Source: Paper, Place: b.Place, Of: a.Arm, Seed: &a.Seed, Value: average.Value, N: len(ours), Unit: "tier"}
		// With all tiers, use the average as printed instead of recomputing it from rounded rates.
		if len(ours) < len(PaperTiers) {
			over.Value = some(mean(theirs))
		}
		t.add(over)
	}
}

// publishSeeds adds the authors' differences by training seed, for the pairs of arms
// that the folder compares.
func (t *Table) publishSeeds() {
	// averages returns an arm's averages over tiers for CEM, iCEM and MPPI, in this order.
	// Not all seeds were run with MPPI, so the result may be shorter.
	averages := func(task string, arm results.Arm, seed int) (x []float64) {
		for _, solver := range PaperSolvers {
			n := Number{What: Success, Source: Paper, Place: Place{Task: task, Solver: solver, Tier: Mean}, Of: arm}
			if seed != PaperSeed {
				n.Source, n.Seed = Authors, &seed
			}
			if n := t.Find(n); n != nil {
				x = append(x, *n.Value)
			}
		}
		return x
	}
	for _, v := range ArmPairs(t.Blocks) {
		led, of := map[int]int{}, map[int]int{}
		for _, task := range results.PaperTasks {
			s := &Seeds{}
			var all [][2][]float64
			n := len(PaperSolvers)
			for seed := PaperSeed; seed <= lastSeed; seed++ {
				x, y := averages(task, v[0], seed), averages(task, v[1], seed)
				for i := range min(len(x), len(y)) {
					if of[seed]++; x[i] > y[i] {
						led[seed]++
					}
				}
				// n becomes the number of solvers that all seeds have. Points are averaged
				// over these only.
				if len(x) > 0 && len(x) == len(y) {
					s.Seeds, all, n = append(s.Seeds, seed), append(all, [2][]float64{x, y}), min(n, len(x))
				}
			}
			if s.Solvers = PaperSolvers[:n]; len(all) < 2 {
				continue
			}
			for _, x := range all {
				s.Points = append(s.Points, mean(x[0][:n])-mean(x[1][:n]))
			}
			t.publishSeedDiff(Number{Source: Authors, Place: Place{Task: task}, Of: v[0], Minus: v[1]}, s)
		}
		for seed := PaperSeed; seed <= lastSeed; seed++ {
			source := Authors
			if seed == PaperSeed {
				source = Paper
			}
			if of[seed] > 0 {
				t.tally(Number{Source: source, Of: v[0], Minus: v[1], Seed: &seed}, led[seed], of[seed], nil)
			}
		}
	}
}

// publishSeedDiff adds such a difference. With at least three seeds it adds the number
// of seeds that an effect needs. Two rounded numbers give no useful standard deviation and
// no interval.
func (t *Table) publishSeedDiff(n Number, s *Seeds) {
	mean := t.seedDiff(n, s)
	if len(s.Seeds) < 3 {
		mean.Lo, mean.Hi = nil, nil
		return
	}
	_, sd := stats.MeanSD(s.Points)
	n.What, n.Value, n.Unit = "sd_of_seeds", some(sd), "points"
	t.add(n)
	for _, effect := range Effects {
		t.need(n, SeedsFor(effect), stats.StudentUnits(float64(effect), sd, MostSeeds), "training seed")
	}
}

// Kinds of numbers about the choice of the supervised task state. ByState is a method's
// success with one of States, averaged over the solvers and tiers that all its states have.
// StateDiff is the difference of the full and the half state, paired by episode.
const (
	ByState   = "success_by_state"
	StateDiff = "state_difference"
)

// States are the supervised states, the smallest first.
var States = []string{"half", results.DefaultQ, "native"}

// StateArm returns the arm of a method that was trained with a supervised state.
func StateArm(arm results.Arm, state string) results.Arm {
	if state == results.DefaultQ {
		return arm
	}
	return arm.With(state)
}

// states adds these numbers for a method and a task, if it has at least two states
// there. The notes of a success list the solvers.
func (t *Table) states(g Group, task string, arm results.Arm) {
	of := testBlocks(g.Blocks, task)
	var there []results.Arm
	for _, state := range States {
		a := StateArm(arm, state)
		for _, solver := range fourSolvers {
			if b := of[solver]; b != nil && b.sides[a] != nil && !slices.Contains(there, a) {
				there = append(there, a)
			}
		}
	}
	if len(there) < 2 {
		return
	}
	sums := map[results.Arm]float64{}
	cells, solvers, from := 0, []string(nil), map[results.Arm][]string{}
	for _, solver := range fourSolvers {
		for _, tier := range PaperTiers {
			rates := map[results.Arm]float64{}
			for _, a := range there {
				if b := of[solver]; b != nil {
					if by := inOrder(t.setRates(b, tier, a)); len(by) > 0 {
						rates[a] = mean(by)
					}
				}
			}
			if len(rates) == len(there) {
				if cells++; !slices.Contains(solvers, solver) {
					solvers = append(solvers, solver)
				}
				for a, v := range rates {
					sums[a] += v
					from[a] = union(from[a], of[solver].ids(a, []string{tier}))
				}
			}
		}
	}
	if cells == 0 {
		return
	}
	at := Place{Task: task, Settings: g.Name}
	for _, a := range there {
		t.add(Number{What: ByState, Place: at, Of: a, Value: some(sums[a] / float64(cells)), N: cells, Unit: "cell", From: from[a], Notes: solvers})
	}
	n := Number{What: StateDiff, Place: at, Of: arm}
	if x, ok := t.setTest(of, fourSolvers, arm, StateArm(arm, "half"), Options{}); ok && x.How.(*SetTest).Pooled != nil {
		d := x.How.(*SetTest).Pooled
		n = n.put(Estimate{d.Diff, d.Lo, d.Hi})
		n.P, n.N, n.Unit, n.From, n.How = some(d.P), d.N, "episode", x.From, d
	}
	t.add(n)
}
