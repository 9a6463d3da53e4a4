package infer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/eval/stats"
)

// paper returns a table with the published numbers only.
func paper() *Table {
	t := empty(&results.Contents{})
	t.publish()
	return t
}

// printed returns the paper's success of a method at a tier.
func printed(t *testing.T, of *Table, task, solver, method, tier string) *Number {
	t.Helper()
	return find(t, of, Number{What: Success, Source: Paper, Place: Place{Task: task, Solver: solver, Tier: tier}, Of: arm(method)})
}

// fromPaper returns blocks with the paper's means: one arm for each method, with six
// sets. Set k is shifted by k - 2 points, the same for all methods.
func fromPaper(t *testing.T) (*Table, Group) {
	t.Helper()
	table := paper()
	for _, task := range results.PaperTasks {
		for _, solver := range PaperSolvers {
			b := &Block{Place: Place{Task: task, Solver: solver}, sides: map[results.Arm]*Side{}}
			for _, tier := range PaperTiers {
				b.Tiers = append(b.Tiers, Tier{Name: tier})
			}
			for _, method := range []string{lewm, scale, aux, "dinowm"} {
				b.sides[arm(method)] = &Side{Name: method} // without outcomes
				b.Arms = append(b.Arms, Trained{Arm: arm(method)})
				for _, tier := range PaperTiers {
					mean := *printed(t, table, task, solver, method, tier).Value
					s := Score{Mean: mean + 0.5, SD: math.Sqrt(3.5)} // of -2, ..., 3
					for k, set := range []string{"s101", "s102", "s103", "s104", "s105", "s106"} {
						s.BySet = append(s.BySet, SetRate{Set: set, N: 100, Rate: mean + float64(k-2)})
					}
					table.add(Number{What: Success, Place: b.Place.At(tier), Of: arm(method), Seed: new(int), Value: some(s.Mean), SD: some(s.SD), How: &s})
				}
				if method != lewm {
					b.Pairs = append(b.Pairs, &Comparison{A: method, B: lewm, Of: arm(method), Minus: arm(lewm)})
				}
			}
			table.Blocks = append(table.Blocks, b)
		}
	}
	return table, Group{Blocks: table.Blocks}
}

// ours returns the numbers of a kind that are not published.
func ours(table *Table, what string) []*Number {
	return table.Where(what, func(n *Number) bool { return n.Source == Ours })
}

// TestSetTestsArePerTask checks that from the paper's means every task has a number for
// every comparison. Its difference is the mean over the task's 15 cells, summed here
// from the tables, and equal differences on six sets have p = 2/64.
func TestSetTestsArePerTask(t *testing.T) {
	table, g := fromPaper(t)
	table.setTests(g, Options{})
	tests := ours(table, SetDiff)
	if len(tests) != 15 {
		t.Fatalf("%d numbers, want 3 comparisons x 5 tasks", len(tests))
	}
	for i, n := range tests {
		s := n.How.(*SetTest)
		if v := []string{scale, aux, "dinowm"}[i/5]; n.Of != arm(v) || n.Minus != arm(lewm) || n.Task != results.PaperTasks[i%5] || s.Cells != 15 || len(s.Sets) != 6 || n.N != 6 || *n.P != 0.03125 {
			t.Errorf("number %d: %+v", i, n)
		}
		want := 0.0
		for _, solver := range PaperSolvers {
			for _, tier := range PaperTiers {
				want += (*printed(t, table, n.Task, solver, n.Of.Method, tier).Value - *printed(t, table, n.Task, solver, lewm, tier).Value) / 15
			}
		}
		near(t, n.Selector(), *n.Value, want, 1e-6)
	}
}

// The counts in the paper's text (SCALE leads LeWM in 15 of 15 averages, Aux in 13;
// docs/sources.md#significance) follow from its tables.
func TestTallies(t *testing.T) {
	table, g := fromPaper(t)
	table.tallies(g)
	for _, method := range []string{scale, aux, "dinowm"} {
		at := func(what, source string) *Number {
			return table.Find(Number{What: what, Source: source, Of: arm(method), Minus: arm(lewm)})
		}
		if got, want := at("averages_led", Ours), at("averages_led", Paper); got == nil || want == nil || *got.Value != *want.Value || got.N != want.N {
			t.Errorf("%s: averages led %+v, the paper says %+v", method, got, want)
		}
		sum := 0.0
		for _, what := range []string{"cells_up", "cells_down", "cells_tied"} {
			got, want := at(what, Ours), at(what, Paper)
			if sum += *got.Value; got.N != 75 || want != nil && *got.Value != *want.Value || want == nil && method == scale {
				t.Errorf("%s: %s %+v, the paper says %+v", method, what, got, want)
			}
		}
		if sum != 75 {
			t.Errorf("%s: %v cells, want 75", method, sum)
		}
	}
}

// The published sets scatter by chance only. docs/sources.md#set-spread has the
// expected ratios: 1.04 over the tables, 1.16 for CEM, .93 for iCEM, 1.02 for MPPI.
func TestPublishedSetsAreHomogeneous(t *testing.T) {
	for solver, ratio := range map[string]float64{"cem": 1.16, "icem": 0.93, "mppi": 1.02} {
		var between, binomial float64
		for _, n := range paper().Where(Success, func(n *Number) bool { return n.Source == Paper && n.Solver == solver && n.Tier != Mean }) {
			if p := *n.Value / 100; p > 0 && p < 1 && Or(n.SD) > 0 {
				between += *n.SD * *n.SD / 1e4
				binomial += p * (1 - p) / 100
			}
		}
		if got := between / binomial; math.Abs(got-ratio) > 0.011 {
			t.Errorf("%s: ratio %.3f, want %.2f", solver, got, ratio)
		}
	}
	if h := stats.Homogeneous([][]int{{50, 60, 40}}, [][]int{{100, 100, 100}}); math.Abs(h.Ratio-4) > 1e-12 {
		t.Errorf("variance .01 over .25/100: ratio %v", h.Ratio)
	}
}

// TestAggregates checks that all four methods share 75 cells of the paper's tables. The
// mean is that of the printed rates plus half a point, the mean shift of the six sets,
// and SCALE's is above LeWM's as the paper says.
func TestAggregates(t *testing.T) {
	table, g := fromPaper(t)
	table.aggregates(g)
	means, middles, shortfalls := ours(table, Aggregates[0]), ours(table, Aggregates[1]), ours(table, Aggregates[2])
	if len(means) != 4 || means[0].Of != arm(lewm) || means[1].Of != arm(scale) {
		t.Fatalf("%+v", means)
	}
	sum := 0.0
	for _, n := range table.Where(Success, func(n *Number) bool { return n.Source == Paper && n.Of == arm(lewm) && n.Tier != Mean }) {
		sum += *n.Value / 75
	}
	if means[0].N != 75 || math.Abs(*means[0].Value-sum-0.5) > 1e-9 || !(*means[1].Value > *means[0].Value) || !(*middles[1].Value > *middles[0].Value) {
		t.Errorf("LeWM %+v, SCALE %+v; mean of the tables %v", means[0], means[1], sum)
	}
	for i := range means {
		for _, n := range []*Number{means[i], middles[i], shortfalls[i]} {
			if !(*n.Lo <= *n.Value && *n.Value <= *n.Hi && *n.Hi-*n.Lo < 3) {
				t.Errorf("%s: %+v", n.Selector(), n.Estimate())
			}
		}
		if g := 100 - *means[i].Value; *shortfalls[i].Value < g-1e-9 { // rates above 100 do not make up for others
			t.Errorf("%s: gap %v below %v", means[i].Of, *shortfalls[i].Value, g)
		}
	}
}

// sixSets returns cells of LeWM and SCALE with CEM and iCEM at all tiers and six sets
// of 10 episodes. LeWM succeeds in 5 with CEM and 6 with iCEM. SCALE succeeds in 2
// more, except on the first set, where it succeeds in one fewer.
func sixSets(t *testing.T) []results.Cell {
	t.Helper()
	var plans []plan
	for _, tier := range PaperTiers {
		plans = append(plans, p(lewm, tier, 5, 5, 5, 5, 5, 5), p(scale, tier, 4, 7, 7, 7, 7, 7))
	}
	return append(resultstest.Cells(t, plans, nil), resultstest.Cells(t, plans, func(c *results.Cell) {
		c.Spec.Solver, c.Spec.Clip = "icem", "raw"
		c.Result.Rows[c.Result.Hits()].Success = true
	})...)
}

// TestSetTestOfCells has 10 cells that differ by -10, +20, ... +20 points on the six sets. The
// mean is 15, and the Wilcoxon ranks are 1 (negative) and five times 4. The sign vectors whose
// rank sum is at least as far from 0 as 19 are those of equal signs, with or without an exception
// for rank 1: 4 of 64. By episode the difference is +15 points as well. iCEM gains 10 points for
// both arms. Everything that is missing is named.
func TestSetTestOfCells(t *testing.T) {
	table := ofCells(t, sixSets(t))
	tests, gains := ours(table, SetDiff), ours(table, Gain)
	if len(tests) != 1 || len(gains) != 2 {
		t.Fatalf("%d tests, %d gains", len(tests), len(gains))
	}
	n, s := tests[0], tests[0].How.(*SetTest)
	if s.Cells != 10 || n.N != 6 || *n.P != 4.0/64 || s.Pooled == nil || s.Pooled.N != 60 || !slices.Equal(n.Notes, []string{"MPPI"}) {
		t.Errorf("%+v, %+v", n, s)
	}
	near(t, "mean", *n.Value, 15, 1e-9)
	near(t, "episodes' mean", s.Pooled.Diff, 15, 1e-9)
	for _, n := range gains {
		near(t, n.Selector(), *n.Value, 10, 1e-9)
	}
}

// A cell that lacks a set removes the set from the test, and a tier that lacks an arm
// removes its cell. Both are named.
func TestSetTestNamesGaps(t *testing.T) {
	n := ours(ofCells(t, slices.DeleteFunc(sixSets(t), func(c results.Cell) bool {
		s := c.Spec
		return s.Method == scale && s.Solver == "icem" && (s.Tier == "T2" || s.Set == "s106")
	})), SetDiff)[0]
	if s := n.How.(*SetTest); s.Cells != 9 || n.N != 5 || !slices.Equal(n.Notes, []string{"iCEM at T2", "MPPI", "1 set"}) || s.Pooled.N != 50 {
		t.Errorf("%+v, %d episodes", n, s.Pooled.N)
	}
}

// asMPPI changes the cells of the test folder to MPPI at a temperature.
func asMPPI(temperature float64) func(*results.Cell) {
	return func(c *results.Cell) {
		if c.Spec.Method != random {
			c.Spec.Solver, c.Spec.Temperature = results.MPPI, temperature
		}
	}
}

// Tables of a chosen temperature have the sets from s102 on, for the floor too. At the
// stock temperature they have all sets (docs/sources.md#mppi-temperature).
func TestTuningSetIsLeftOut(t *testing.T) {
	table := ofPlans(t, resultstest.HandPlan, asMPPI(64))
	b := table.Blocks[0]
	if !slices.Equal(b.Sets, []string{"s102", "s103"}) {
		t.Errorf("sets %v", b.Sets)
	}
	for _, a := range b.Arms {
		if _, s := scoreAt(t, table, b, a.Method, "T1"); len(s.BySet) != 2 || s.N != 2*resultstest.Episodes {
			t.Errorf("%s: %d sets, %d episodes", a.Method, len(s.BySet), s.N)
		}
	}
	if text := strings.Join(table.Warnings, "\n"); !strings.Contains(text, "tworoom, MPPI: 12 cells of set s101 left out") { // 4 methods x 3 tiers
		t.Errorf("warnings do not say so:\n%s", text)
	}
	if b := ofPlans(t, resultstest.HandPlan, asMPPI(0.5)).Blocks[0]; len(b.Sets) != 3 {
		t.Errorf("stock temperature: sets %v", b.Sets)
	}
	if b := ofPlans(t, []plan{p(lewm, "T1", 8), p(scale, "T1", 9)}, asMPPI(64)).Blocks[0]; len(b.Sets) != 1 {
		t.Errorf("with s101 alone: sets %v", b.Sets)
	}
}

// MPPI at the stock temperature and at a chosen one in one folder are two tables. The
// paper's test over sets uses the first, which has all sets.
func TestStockTemperatureNextToTheChosenOne(t *testing.T) {
	plans := resultstest.HandPlan
	cells := append(resultstest.Cells(t, plans, asMPPI(64)), resultstest.Cells(t, plans[:len(plans)-1], asMPPI(0.5))...)
	table := ofCells(t, cells)
	if len(table.Blocks) != 2 || table.Blocks[0].Solver != results.MPPI || table.Blocks[1].Solver != results.StockMPPI {
		t.Fatalf("blocks %+v", table.Blocks)
	}
	if a, b := table.Blocks[0].Sets, table.Blocks[1].Sets; len(a) != 2 || len(b) != 3 {
		t.Errorf("sets %v and %v, want two and three", a, b)
	}
	for _, n := range ours(table, SetDiff) {
		if s := n.How.(*SetTest); n.N != 3 || s.Cells != 3 {
			t.Errorf("%s over sets: %d cells of %v, want the stock block's alone", n.Of, s.Cells, s.Sets)
		}
	}
	for _, b := range ofCells(t, append(cells, resultstest.Cells(t, []plan{p("dinowm", "T1", 8, 8, 8)}, asMPPI(0.5))...)).Blocks {
		if !slices.Contains(b.Names(), arm("dinowm")) {
			t.Errorf("%s has no DINO-WM", b.Solver)
		}
	}
}
