package infer

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/eval/stats"
	"scalewm/model"
)

// searches are the successes on one or two sets of ten episodes: those of LeWM, with the
// simulator, with the probe, and with both.
func searches(t *testing.T, seed int, own, latent, probe, both []int) []results.Cell {
	t.Helper()
	return resultstest.Cells(t, []plan{p(lewm, "T3", own...), p("oracle-latent@lewm", "T3", latent...), p("probe@lewm", "T3", probe...), p("oracle-probe@lewm", "T3", both...)}, resultstest.Search(seed))
}

// oracle are cells of the oracle, which has no training seed.
func oracle(t *testing.T, hits ...int) []results.Cell {
	t.Helper()
	return resultstest.Cells(t, []plan{p(model.OracleState, "T3", hits...)}, resultstest.Search(0))
}

// effect returns an effect at T3.
func effect(t *testing.T, table *Table, what, of string) *Number {
	t.Helper()
	return find(t, table, Number{What: what, Place: table.Blocks[0].Place.At("T3"), Of: arm(of)})
}

// Success in % is, with seed 1, 40 of LeWM, 70 with the simulator, 50 with the probe and 90
// with both, and with seed 2 60, 80, 50 and 70; the oracle has 95. Then
//
//	dynamics     ((70-40) + (90-50))/2 = 35   ((80-60) + (70-50))/2 = 20
//	cost         ((50-40) + (90-70))/2 = 15   ((50-60) + (70-80))/2 = -10
//	interaction  (90-70) - (50-40)     = 10   (70-80) - (50-60)     = 0
//	difference   35 - 15               = 20   20 - -10              = 30
//	gap          70 - 40               = 30   80 - 60               = 20
//	encoding     95 - 90               = 5    95 - 70               = 25
//
// and Student's half width of two seeds is t(.975; 1) = 12.7062 times half their difference.
func TestDecompose(t *testing.T) {
	cells := slices.Concat(searches(t, 1, []int{4, 4}, []int{7, 7}, []int{5, 5}, []int{9, 9}), searches(t, 2, []int{6, 6}, []int{8, 8}, []int{5, 5}, []int{7, 7}), oracle(t, 9, 10))
	table := ofCells(t, cells)
	for what, want := range map[string][2]float64{DynamicsEffect: {35, 20}, CostEffect: {15, -10}, Interaction: {10, 0}, DynamicsMinusCost: {20, 30}, PlanningGap: {30, 20}, EncodingEffect: {5, 25}} {
		n := effect(t, table, what, lewm)
		how := n.How.(*Contrast)
		near(t, what+" of seed 1", how.Points[0], want[0], 1e-9)
		near(t, what+" of seed 2", how.Points[1], want[1], 1e-9)
		middle, half := (want[0]+want[1])/2, 12.7062047*math.Abs(want[0]-want[1])/2
		near(t, what, *n.Value, middle, 1e-9)
		near(t, what+" from", *n.Lo, middle-half, 1e-4)
		near(t, what+" to", *n.Hi, middle+half, 1e-4)
		if n.N != 2 || n.Unit != "training seed" || how.Episodes != 20 || len(how.Sets) != 2 || len(n.Notes) != 0 || how.Interval != "student" {
			t.Errorf("%s: %+v, %+v", what, n, how)
		}
		// Two sets and seeds of each arm; the oracle has one run.
		if cells := map[bool]int{true: 8, false: 16}[len(how.Weights) == 2]; what != EncodingEffect && len(n.From) != cells || what == EncodingEffect && len(n.From) != 6 {
			t.Errorf("%s is from %d cells", what, len(n.From))
		}
	}
	// 5 of 100 is what 95 lacks, and the interval that of 1 failure in 20.
	n, iv := effect(t, table, SearchEffect, model.OracleState), stats.Wilson(1, 20, 0.95)
	near(t, "search", *n.Value, 5, 1e-9)
	near(t, "search from", *n.Lo, 100*iv.Lo, 1e-9)
	near(t, "search to", *n.Hi, 100*iv.Hi, 1e-9)
	if n.N != 20 || n.Unit != "episode" || len(n.From) != 2 {
		t.Errorf("search: %+v", n)
	}
}

// With one seed the unit is the episode. In each set success ends at the episodes 4, 7, 5 and
// 9, so that the dynamics change by half a success in the episodes 4, 7 and 8, and by one in 5
// and 6. The 20 episodes have the standard error sqrt((3/4 + 2)/10 - 0.35^2)/sqrt(20) = 8.7 %.
// The gap has the interval of the paired difference, and the encoding that of 1 episode of 10
// that only the oracle solves.
func TestDecomposeOneSeed(t *testing.T) {
	table := ofCells(t, append(searches(t, 1, []int{4, 4}, []int{7, 7}, []int{5, 5}, []int{9, 9}), oracle(t, 10, 10)...))
	n := effect(t, table, DynamicsEffect, lewm)
	near(t, "dynamics", *n.Value, 35, 1e-9)
	near(t, "dynamics from", *n.Lo, 35-1.96*8.7, 2)
	near(t, "dynamics to", *n.Hi, 35+1.96*8.7, 2)
	if n.N != 20 || n.Unit != "episode" || n.How.(*Contrast).Interval != Bootstrap {
		t.Errorf("dynamics: %+v", n)
	}
	gap := effect(t, table, PlanningGap, lewm)
	pair := find(t, table, Number{What: Diff, Place: gap.Place, Of: arm("oracle-latent@lewm"), Minus: arm(lewm)})
	if *gap.Value != *pair.Value || *gap.Lo != *pair.Lo || *gap.Hi != *pair.Hi || *gap.P != *pair.P || gap.N != pair.N || !slices.Equal(gap.From, pair.From) || gap.How.(*Contrast).Interval != Newcombe {
		t.Errorf("the gap is %+v, and the difference %+v", gap, pair)
	}
	encoding, iv := effect(t, table, EncodingEffect, lewm), stats.Newcombe(stats.Fourfold{Both: 18, OnlyA: 2}, 0.95)
	near(t, "encoding", *encoding.Value, 10, 1e-9)
	near(t, "encoding from", *encoding.Lo, 100*iv.Lo, 1e-9)
	near(t, "encoding to", *encoding.Hi, 100*iv.Hi, 1e-9)
}

// The simulator was run on the first set only. There too few episodes differ for a bootstrap,
// and worse dynamics give negative effects: ((3-4) + (5-5))/2 of ten are -5 points.
func TestDecomposeFewer(t *testing.T) {
	table := ofCells(t, searches(t, 1, []int{4, 10}, []int{3}, []int{5, 0}, []int{5}))
	n := effect(t, table, DynamicsEffect, lewm)
	near(t, "dynamics", *n.Value, -5, 1e-9)
	want := []string{"on 10 of the 20 episodes of LeWM: s101", "no interval, since fewer than 10 episodes change, or all alike"}
	if d := cmp.Diff(want, n.Notes); d != "" || n.N != 10 || n.Lo != nil || len(n.From) != 4 {
		t.Errorf("%+v, notes (-want +got):\n%s", n, d)
	}
	near(t, "gap", *effect(t, table, PlanningGap, lewm).Value, -10, 1e-9)
}

// Effects need all of their arms, and seeds that all of them have.
func TestDecomposeMissing(t *testing.T) {
	all := searches(t, 1, []int{4, 4}, []int{7, 7}, []int{5, 5}, []int{9, 9})
	without := func(wrappers ...string) (out []results.Cell) {
		return slices.DeleteFunc(slices.Clone(all), func(c results.Cell) bool { return slices.Contains(wrappers, c.Spec.Wrapper) })
	}
	for _, c := range []struct {
		name  string
		cells []results.Cell
		want  []string
	}{
		{"gap", without("probe", "oracle-probe"), []string{PlanningGap}},
		{"no simulator", without("oracle-latent", "oracle-probe"), nil},
		{"encoding", append(without("oracle-latent", "probe"), oracle(t, 9, 9)...), []string{EncodingEffect, SearchEffect}},
		{"no table", without("probe"), []string{PlanningGap}},
		{"other seed", append(without("oracle-latent"), resultstest.Cells(t, []plan{p("oracle-latent@lewm", "T3", 7, 7)}, func(c *results.Cell) {
			resultstest.Search(1)(c)
			c.Spec.TrainSeed = 2
		})...), nil},
	} {
		table := ofCells(t, c.cells)
		var got []string
		for _, what := range Decomposition {
			if len(ours(table, what)) > 0 {
				got = append(got, what)
			}
		}
		if !slices.Equal(got, c.want) || table.Blocks[0].Headline() != nil {
			t.Errorf("%s: %v, want %v and no headline", c.name, got, c.want)
		}
	}
	two := append(slices.Clone(all), resultstest.Cells(t, []plan{p(lewm, "T3", 4, 4)}, resultstest.Search(2))...)
	if n := effect(t, ofCells(t, two), PlanningGap, lewm); !slices.Equal(n.Notes, []string{"without training seed 2, which not all arms have"}) || n.N != 20 {
		t.Errorf("two seeds of LeWM: %+v", n)
	}
	// Other random draws of the planner are no pair.
	for i := range all {
		if all[i].Spec.Wrapper == "oracle-latent" {
			for k := range all[i].Result.Rows {
				all[i].Result.Rows[k].PlannerSeed++
			}
		}
	}
	if n := effect(t, ofCells(t, all), PlanningGap, lewm); n.Value != nil || len(n.Notes) == 0 || !strings.Contains(n.Notes[0], "planner seed") {
		t.Errorf("other noise: %+v", n)
	}
}

// A replaced search is compared with its origin, and one of the baseline with the searches
// that are compared with the baseline; the oracle's run is paired with every training seed.
func TestReplacedPairs(t *testing.T) {
	var cells []results.Cell
	for seed := 1; seed <= 2; seed++ {
		cells = slices.Concat(cells, searches(t, seed, []int{4, 4 + seed}, []int{7, 7}, []int{5, 5}, []int{9, 9}),
			resultstest.Cells(t, []plan{p(scale, "T3", 8, 8), p("probe@scale", "T3", 9, 9), p("topk=8@lewm", "T3", 3, 3), p(untrained, "T3", 1, 1)}, resultstest.Search(seed)))
	}
	table := ofCells(t, append(cells, oracle(t, 9, 9)...))
	var got []string
	for _, c := range table.Blocks[0].Pairs {
		got = append(got, c.A+" - "+c.B)
		if len(c.Refused) > 0 {
			t.Errorf("%s - %s: %v", c.A, c.B, c.Refused)
		}
	}
	slices.Sort(got)
	want := []string{"oracle-latent@lewm - lewm", "oracle-latent@lewm - scale", "oracle-probe@lewm - lewm", "oracle-probe@lewm - scale", "oracle-state - lewm", "probe@lewm - lewm", "probe@lewm - scale",
		"probe@scale - scale", "scale - lewm", "topk=8@lewm - lewm", "topk=8@lewm - scale", "untrained - lewm"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pairs (-want +got):\n%s", d)
	}
	// The oracle's 90 % minus 45 with seed 1 and 50 with seed 2.
	n := find(t, table, Number{What: BlockSeedDiff, Place: table.Blocks[0].Place.At("T3"), Of: arm(model.OracleState), Minus: arm(lewm)})
	near(t, "oracle", *n.Value, 42.5, 1e-9)
	near(t, "SD over seeds", *n.SD, 5/math.Sqrt2, 1e-9)
	if n.N != 2 || table.Blocks[0].Headline().A != scale {
		t.Errorf("oracle: %+v, headline %s", n, table.Blocks[0].Headline().A)
	}
	if seeds, _ := BySeed(table.Blocks[0].sides[arm(model.OracleState)], table.Blocks[0].sides[arm(lewm)]); !slices.Equal(seeds, []int{1, 2}) {
		t.Errorf("the oracle is paired with the seeds %v", seeds)
	}
}

// Replaced searches change no number about methods, no claim and no family of tests, with
// one training seed and with two. The others of the folder have fewer sets than theirs.
func TestReplacedChangeNothing(t *testing.T) {
	for _, seeds := range [][]int{{1}, {1, 2}} {
		var without, replaced []results.Cell
		for _, seed := range seeds {
			without = append(without, resultstest.Cells(t, resultstest.HandPlan[:12], resultstest.Search(seed))...)
			for _, tier := range []string{"T1", "T3"} {
				replaced = append(replaced, resultstest.Cells(t, []plan{p("oracle-latent@lewm", tier, 9), p("probe@lewm", tier, 6, 7, 8), p("oracle-probe@lewm", tier, 9), p("whiten@scale", tier, 4, 4, 4), p("probe@untrained", tier, 3)}, resultstest.Search(seed))...)
			}
		}
		without = append(without, resultstest.Cells(t, resultstest.HandPlan[12:], nil)...)
		replaced = append(replaced, oracle(t, 10, 9, 10)...)
		analyses := resultstest.Analyses()
		for i := range analyses {
			analyses[i].Spec.Weights = fmt.Sprintf("weights-of-%s-1", analyses[i].Spec.Method)
		}
		infer := func(cells []results.Cell) *Table {
			table, err := Infer(&results.Contents{Cells: cells, Analyses: analyses, Gates: []results.Gate{resultstest.Gate}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
		text := func(x any) string {
			b, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		a, b := infer(without), infer(append(slices.Clone(without), replaced...))
		if len(a.Claims) == 0 || text(a.Claims) != text(b.Claims) {
			t.Errorf("%d seeds: the claims differ", len(seeds))
		}
		for _, n := range a.Numbers {
			if m := b.Find(*n); m == nil || text(m) != text(n) {
				t.Errorf("%d seeds: %s is %s, without replaced searches %s", len(seeds), n.Selector(), text(m), text(n))
			}
		}
		for _, n := range b.Numbers {
			// The paper's tables show all numbers of the named kinds.
			if a.Find(*n) == nil && !slices.Contains(Decomposition, n.What) && (!n.Of.Replaced() || slices.Contains(slices.Concat(Aggregates, []string{SetDiff, SeedDiff, Gain, "averages_led"}), n.What)) {
				t.Errorf("%d seeds: %s exists with replaced searches only", len(seeds), n.Selector())
			}
		}
		if d := cmp.Diff(a.Warnings, b.Warnings); d != "" {
			t.Errorf("%d seeds: warnings (-without +with):\n%s", len(seeds), d)
		}
		for i, c := range a.Checks {
			if c.Verdict != b.Checks[i].Verdict {
				t.Errorf("%d seeds: %s is %s, without replaced searches %s", len(seeds), c.Name, b.Checks[i].Verdict, c.Verdict)
			}
		}
	}
}

// The oracle has neither precision nor recipe nor other actions than the data set's. It belongs
// to all blocks with its solver, in any order of the cells.
func TestOracleJoinsAll(t *testing.T) {
	cells := oracle(t, 9, 9)
	for i := range cells {
		cells[i].Spec.Precision = ""
	}
	for _, precision := range []string{"bf16", "fp32"} {
		cells = append(cells, resultstest.Cells(t, []plan{p(lewm, "T3", 4, 4), p("oracle-probe@lewm", "T3", 7, 7)}, func(c *results.Cell) {
			resultstest.Search(1)(c)
			c.Spec.Precision, c.Spec.Recipe, c.Spec.Actions = precision, "recipe", "checkpoint"
		})...)
	}
	for range 2 {
		table := ofCells(t, cells)
		if len(table.Blocks) != 2 {
			t.Fatalf("%d blocks, want those of fp32 and bf16", len(table.Blocks))
		}
		for _, b := range table.Blocks {
			near(t, b.Title(), *find(t, table, Number{What: EncodingEffect, Place: b.Place.At("T3"), Of: arm(lewm)}).Value, 20, 1e-9)
			near(t, b.Title(), *find(t, table, Number{What: Diff, Place: b.Place.At("T3"), Of: arm(model.OracleState), Minus: arm(lewm)}).Value, 50, 1e-9)
		}
		slices.Reverse(cells)
	}
}

// A folder of replaced searches alone has their numbers.
func TestOnlyReplaced(t *testing.T) {
	table := ofCells(t, slices.DeleteFunc(append(searches(t, 1, []int{4, 4}, []int{7, 7}, []int{5, 5}, []int{9, 9}), oracle(t, 9, 9)...), func(c results.Cell) bool { return c.Spec.Method == lewm && c.Spec.Wrapper == "" }))
	if n := effect(t, table, EncodingEffect, lewm); *n.Value != 0 || len(table.Blocks[0].Names()) != 0 {
		t.Errorf("encoding: %+v", n)
	}
}

// The cells of an effect are shown with their successes.
func TestWhyOfAnEffect(t *testing.T) {
	dir := t.TempDir()
	store := cell.Store{Dir: filepath.Join(dir, results.CellsDir)}
	for _, c := range searches(t, 1, []int{4, 10}, []int{7}, []int{5, 0}, []int{9}) {
		if err := store.Save(c.ID, results.Kind, c.Spec, c.Result); err != nil {
			t.Fatal(err)
		}
	}
	c, err := results.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Infer(&c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := table.Select("dynamics_effect,tier=T3,a=lewm")
	if err != nil {
		t.Fatal(err)
	}
	w, err := table.Why(n)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range w.Rows {
		got[r.(OfCell).Arm.String()+" "+r.(OfCell).Set] = r.(OfCell).Hits
	}
	want := map[string]int{"lewm s101": 4, "oracle-latent@lewm s101": 7, "probe@lewm s101": 5, "oracle-probe@lewm s101": 9}
	if d := cmp.Diff(want, got); d != "" || w.Test.Name != "paired-contrast" || len(w.Cells) != 4 {
		t.Errorf("%+v, rows (-want +got):\n%s", w.Test, d)
	}
}
