package infer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// Group is a set of main blocks that agree in their settings, together with those of MPPI
// at stock temperature. Numbers over several blocks are computed within a group. A folder
// has one group, unless it has several settings of one task that differ in more than
// factors.
type Group struct {
	// Name describes what distinguishes the group from others. It is the Settings of the
	// numbers over its blocks, and "" for the only group.
	Name   string
	Blocks []*Block
}

// Main returns the group's main blocks.
func (g Group) Main() []*Block { return MainBlocks(g.Blocks) }

// Published returns the group of those blocks that may be compared with published numbers.
func (g Group) Published() Group {
	g.Blocks = slices.DeleteFunc(slices.Clone(g.Blocks), func(b *Block) bool { return !b.Published() })
	return g
}

// MainBlocks returns those of the blocks that are main blocks, which means they vary no
// other.
func MainBlocks(blocks []*Block) []*Block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b *Block) bool { return b.Main != nil })
}

// PaperSolvers are the solvers of the paper's tables. fourSolvers has gradient descent in
// addition, which the authors' analysis of state selection includes.
var (
	PaperSolvers = []string{results.CEM, results.ICEM, results.MPPI}
	fourSolvers  = append(slices.Clip(PaperSolvers), results.Descent)
)

// Tasks returns the tasks of blocks, each once, in the order of the blocks.
func Tasks(blocks []*Block) (out []string) {
	for _, b := range blocks {
		if !slices.Contains(out, b.Task) {
			out = append(out, b.Task)
		}
	}
	return out
}

// ArmsOf returns the arms of all blocks, each once, in the order of tables.
func ArmsOf(blocks []*Block) (out []results.Arm) {
	for _, b := range blocks {
		out = append(out, b.Names()...)
	}
	slices.SortFunc(out, results.CompareArms)
	return slices.Compact(out)
}

// ArmPairs returns the pairs of methods that at least one block compares, in the order of
// tables.
func ArmPairs(blocks []*Block) (out [][2]results.Arm) {
	for _, b := range blocks {
		for _, c := range b.Pairs {
			if v := [2]results.Arm{c.Of, c.Minus}; !c.Of.Replaced() && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	// Pairs of one arm are in the order in which the table of methods lists its comparisons.
	place := func(v [2]results.Arm) int {
		return slices.Index(v[0].Entry().Against, v[1].Entry().Name)
	}
	slices.SortStableFunc(out, func(v, w [2]results.Arm) int {
		return cmp.Or(results.CompareArms(v[0], w[0]), place(v)-place(w), results.CompareArms(v[1], w[1]))
	})
	return out
}

// testBlocks returns the blocks of a task that enter the paper's test, by solver. The paper
// runs MPPI at the stock temperature. That block is used if it has all arms and tiers
// of the one at the chosen temperature; a mixture of both would not be a test of one
// protocol.
func testBlocks(blocks []*Block, task string) map[string]*Block {
	of := map[string]*Block{}
	for _, b := range blocks {
		switch {
		case b.Task != task:
		case b.Solver == results.StockMPPI && (b.Main == nil || b.hasArmsOf(b.Main)):
			of[results.MPPI] = b
		case slices.Contains(fourSolvers, b.Solver) && of[b.Solver] == nil:
			of[b.Solver] = b
		}
	}
	return of
}

// hasArmsOf reports whether b has all learned arms and tiers that another block has.
func (b *Block) hasArmsOf(o *Block) bool {
	for _, a := range o.Arms {
		for _, tier := range o.TierNames() {
			if !a.Floor() && len(o.at(a, tier)) > 0 && len(b.at(a, tier)) == 0 {
				return false
			}
		}
	}
	return true
}

// over adds the numbers over several blocks of a group.
func (t *Table) over(g Group, o Options) {
	t.setTests(g, o)
	t.tallies(g)
	t.gains(g, o)
	t.aggregates(g)
	for _, task := range Tasks(g.Blocks) {
		for _, method := range model.MethodNames(model.Method.UsesQ) {
			t.states(g, task, results.Arm{Method: method})
		}
	}
}

// setTests adds the paper's test for every task and pair of arms
// (docs/sources.md#significance).
func (t *Table) setTests(g Group, o Options) {
	for _, v := range ArmPairs(g.Blocks) {
		for _, task := range Tasks(g.Blocks) {
			if n, ok := t.setTest(testBlocks(g.Blocks, task), PaperSolvers, v[0], v[1], o); ok {
				n.What, n.Task, n.Settings = SetDiff, task, g.Name
				t.add(n)
				t.add(Number{What: "set_difference_cells", Place: n.Place, Of: n.Of, Minus: n.Minus, Value: some(float64(n.How.(*SetTest).Cells)), From: n.From})
			}
		}
	}
}

// setTest returns the paper's test of two arms over a task's blocks of the given
// solvers. It returns false if no cell has both arms. The notes of the number name the
// cells and sets of the paper's test that are missing.
//
// The p-value is that of the test over sets, the paper's. The interval is that of the
// difference over the same cells with the episode as the unit: six sets are too few for
// a useful interval.
func (t *Table) setTest(of map[string]*Block, solvers []string, a, b results.Arm, o Options) (n Number, ok bool) {
	n = Number{Of: a, Minus: b, Unit: "set"}
	var cells []map[string]float64
	var named []string
	as, bs := map[string]*Side{}, map[string]*Side{}
	for _, solver := range solvers {
		var without []string
		for _, tier := range PaperTiers {
			var d map[string]float64
			if x := of[solver]; x != nil {
				d = t.setDifferences(x, tier, a, b)
			}
			if len(d) == 0 {
				without = append(without, tier)
				continue
			}
			x := of[solver]
			cells, named = append(cells, d), append(named, solver+" "+tier)
			as[solver], bs[solver] = x.sides[a], x.sides[b]
			n.From = union(n.From, x.ids(a, []string{tier}), x.ids(b, []string{tier}))
		}
		switch len(without) {
		case 0:
		case len(PaperTiers):
			n.Notes = append(n.Notes, words.Solver(solver))
		default:
			n.Notes = append(n.Notes, words.Solver(solver)+" at "+words.Listing(without))
		}
	}
	if len(cells) == 0 {
		return n, false
	}
	test, ok := TestSets(cells)
	if lack := paperSets - len(test.Sets); lack > 0 {
		n.Notes = append(n.Notes, words.Count(lack, "set"))
	}
	n.N, n.How = len(test.Sets), &test
	if ok {
		n.Value, n.P = some(test.Mean), some(test.P)
		o.MeanOnly = true
		// The interval is shown only if its difference covers exactly the cells of the test.
		if d := Compare(Join(a.String(), as), Join(b.String(), bs), o).Mean; d != nil && slices.Equal(slices.Sorted(slices.Values(named)), d.Tiers) {
			test.Pooled, n.Lo, n.Hi = d, some(d.Lo), some(d.Hi)
		}
	}
	return n, true
}

// setDifferences returns, by set, the success of A minus that of B at a tier, in
// points. It averages over the training seeds that both have there, and includes only
// sets that both have.
func (t *Table) setDifferences(b *Block, tier string, armA, armB results.Arm) map[string]float64 {
	seedsAt := func(arm results.Arm) (seeds []int) {
		for _, n := range t.BySeed(b, arm, tier) {
			seeds = append(seeds, *n.Seed)
		}
		return seeds
	}
	var as, bs []int
	for _, s := range SeedPairs(seedsAt(armA), seedsAt(armB)) {
		as, bs = append(as, s[0]), append(bs, s[1])
	}
	out := map[string]float64{}
	if len(as) == 0 {
		return out
	}
	ra, rb := t.setRates(b, tier, armA, as...), t.setRates(b, tier, armB, bs...)
	for set, x := range ra {
		if y, ok := rb[set]; ok {
			out[set] = x - y
		}
	}
	return out
}

// setRates returns an arm's success by set at a tier, in percent. It averages over the
// given training seeds, or over all if none are given.
func (t *Table) setRates(b *Block, tier string, arm results.Arm, seeds ...int) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, x := range t.BySeed(b, arm, tier) {
		if len(seeds) > 0 && !slices.Contains(seeds, *x.Seed) {
			continue
		}
		for _, s := range x.How.(*Score).BySet {
			sum[s.Set] += s.Rate
			n[s.Set]++
		}
	}
	for set := range sum {
		sum[set] /= n[set]
	}
	return sum
}

// inOrder returns the values of a map in the alphabetical order of its keys.
func inOrder(rates map[string]float64) (x []float64) {
	for _, set := range slices.Sorted(maps.Keys(rates)) {
		x = append(x, rates[set])
	}
	return x
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// tallies counts where each arm leads the arms that it is compared with, on the paper's
// solvers and tiers: averages over tiers, over all training seeds and for each one, and
// single cells.
func (t *Table) tallies(g Group) {
	// Rates are decimals, and sums of equal decimals may differ in the last bits.
	const tie = 1e-9
	for _, v := range ArmPairs(g.Main()) {
		leads, of, up, down, tied := 0, 0, 0, 0, 0
		var from []string
		for _, b := range g.Main() {
			if !slices.Contains(PaperSolvers, b.Solver) {
				continue
			}
			sum, cells := 0.0, 0
			for _, tier := range PaperTiers {
				// Sorted, so that the rounding of the sum does not depend on the order of sets.
				points := inOrder(t.setDifferences(b, tier, v[0], v[1]))
				slices.Sort(points)
				if len(points) == 0 {
					continue
				}
				d := mean(points)
				sum += d
				cells++
				switch {
				case d > tie:
					up++
				case d < -tie:
					down++
				default:
					tied++
				}
			}
			if cells > 0 {
				of++
				from = append(from, slices.Concat(b.ids(v[0], PaperTiers), b.ids(v[1], PaperTiers))...)
				if sum > tie {
					leads++
				}
			}
		}
		if of == 0 {
			continue
		}
		t.tally(Number{Place: Place{Settings: g.Name}, Of: v[0], Minus: v[1], From: union(from)}, leads, of, []int{up, down, tied})
		t.talliesBySeed(g, v)
	}
}

// talliesBySeed counts, for each training seed, the averages over tiers in which the
// first arm of v leads.
func (t *Table) talliesBySeed(g Group, v [2]results.Arm) {
	led, of, from := map[int]int{}, map[int]int{}, map[int][]string{}
	for _, b := range g.Blocks {
		if !slices.Contains(PaperSolvers, b.Solver) {
			continue
		}
		for _, seed := range b.SeedsOf(v[0]) {
			n := Number{What: Success, Place: b.Place.At(Mean), Of: v[0], Seed: &seed}
			x := t.Find(n)
			n.Of = v[1]
			if y := t.Find(n); x != nil && y != nil {
				from[seed] = union(from[seed], x.From, y.From)
				if of[seed]++; *x.Value > *y.Value+1e-9 {
					led[seed]++
				}
			}
		}
	}
	for _, seed := range slices.Sorted(maps.Keys(of)) {
		t.tally(Number{Place: Place{Settings: g.Name}, Of: v[0], Minus: v[1], Seed: &seed, From: from[seed]}, led[seed], of[seed], nil)
	}
}

// tally adds the counts of a pair: the averages that it leads, out of of, and unless
// cells is nil the number of cells in which it is better, worse and equal.
func (t *Table) tally(n Number, leads, of int, cells []int) {
	count := func(what string, k, all int, unit string) {
		n.What, n.Value, n.N, n.Unit = what, some(float64(k)), all, unit
		t.add(n)
	}
	count("averages_led", leads, of, "average")
	for i, what := range []string{"cells_up", "cells_down", "cells_tied"} {
		if cells != nil {
			count(what, cells[i], cells[0]+cells[1]+cells[2], "cell")
		}
	}
}

// gains adds the gain of iCEM over CEM for every task, and every arm with both solvers.
// The episodes are the same, so the solvers are paired like two arms.
func (t *Table) gains(g Group, o Options) {
	o.MeanOnly = true
	for _, task := range Tasks(g.Main()) {
		of := testBlocks(g.Main(), task)
		cem, icem := of[results.CEM], of[results.ICEM]
		if cem == nil || icem == nil {
			continue
		}
		for _, arm := range ArmsOf([]*Block{cem, icem}) {
			a, b := icem.sides[arm], cem.sides[arm]
			if a == nil || b == nil || !arm.Plans() {
				continue
			}
			if d := Compare(a, b, o).Mean; d != nil {
				n := Number{Place: Place{Task: task, Settings: g.Name}, Of: arm, P: some(d.P), N: d.N, Unit: "episode",
					From: union(icem.ids(arm, d.Tiers), cem.ids(arm, d.Tiers)), How: d}
				t.gain(n.put(Estimate{d.Diff, d.Lo, d.Hi}), d.RateB, d.RateA)
			}
		}
	}
}

// gain adds such a gain, and the successes of both solvers.
func (t *Table) gain(n Number, cem, icem float64) {
	n.What = Gain
	t.add(n)
	for what, v := range map[string]float64{"success_by_cem": cem, "success_by_icem": icem} {
		t.add(Number{What: what, Source: n.Source, Place: n.Place, Of: n.Of, Value: some(v), N: n.N, Unit: n.Unit, From: n.From})
	}
}

// Aggregates are the kinds of an arm's numbers over the cells that all arms have.
var Aggregates = []string{"success_mean", "success_interquartile_mean", "gap_to_100_percent"}

// aggregates adds these numbers over the cells (task, solver, tier) that all planning
// arms have. Cells that an arm lacks would make the arms incomparable.
func (t *Table) aggregates(g Group) {
	blocks := g.Main()
	names := slices.DeleteFunc(ArmsOf(blocks), func(a results.Arm) bool { return !a.Plans() })
	several := slices.ContainsFunc(blocks, (*Block).SeveralSeeds)
	cells, from := map[results.Arm][][]float64{}, map[results.Arm][]string{}
	for _, b := range blocks {
		for _, tier := range b.Averaged() {
			rates := map[results.Arm][]float64{}
			for _, m := range names {
				if x := t.runs(b, tier, m, several); len(x) > 0 {
					rates[m] = x
				}
			}
			if len(rates) < len(names) {
				continue
			}
			for m, r := range rates {
				cells[m], from[m] = append(cells[m], r), append(from[m], b.ids(m, []string{tier})...)
			}
		}
	}
	for _, m := range names {
		if len(cells[m]) == 0 {
			continue
		}
		mean, iqm, gap := Aggregate(m.String(), cells[m])
		for i, e := range []Estimate{mean, iqm, gap} {
			n := Number{What: Aggregates[i], Place: Place{Settings: g.Name}, Of: m, N: len(cells[m]), Unit: "cell", From: union(from[m])}
			t.add(n.put(e))
		}
	}
}

// runs returns an arm's success in the runs of a cell, in percent. With several training
// seeds a run is a seed, whose success is its mean over sets, as in rliable's matrix of
// runs and tasks. With one seed the sets take the place of runs.
func (t *Table) runs(b *Block, tier string, arm results.Arm, several bool) (x []float64) {
	if !several {
		return inOrder(t.setRates(b, tier, arm))
	}
	for _, n := range t.BySeed(b, arm, tier) {
		x = append(x, n.How.(*Score).Mean)
	}
	return x
}

// pairsOf returns the comparisons of blocks.
func pairsOf(blocks []*Block) (out []*Comparison) {
	for _, b := range blocks {
		out = append(out, b.Pairs...)
	}
	return out
}

// adjustVaried adjusts the comparisons of blocks that vary a main block. Those that
// vary the same factors in the same way are one family, so that a study of a setting
// does not weaken the tests of the main comparison.
func adjustVaried(blocks []*Block) {
	families := map[string][]*Block{}
	for _, b := range blocks {
		if b.Main != nil {
			what := strings.Join(b.Varied, " ") + ": " + b.Settings
			families[what] = append(families[what], b)
		}
	}
	for _, family := range families {
		Adjust(pairsOf(family))
	}
}
