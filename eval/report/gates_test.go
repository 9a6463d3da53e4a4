package report

import (
	"slices"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// asMPPI makes the made-up cells MPPI's at a temperature.
func asMPPI(temperature float64) func(*results.Cell) {
	return func(c *results.Cell) {
		if c.Spec.Method != random {
			c.Spec.Solver, c.Spec.Temperature = results.MPPI, temperature
		}
	}
}

// Tables of a chosen temperature are of s102 and later, for the floor too; at
// the stock temperature they are of all sets (docs/sources.md#mppi-temperature).
func TestTuningSetIsLeftOut(t *testing.T) {
	r := built(t, handPlan, asMPPI(64))
	b := r.Blocks[0]
	if !slices.Equal(b.Sets, []string{"s102", "s103"}) {
		t.Errorf("sets %v", b.Sets)
	}
	for _, a := range b.Arms {
		if s := a.Scores["T1"]; len(s.BySet) != 2 || s.N != 2*fakeEpisodes {
			t.Errorf("%s: %d sets, %d episodes", a.Method, len(s.BySet), s.N)
		}
	}
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "tworoom, MPPI: 12 cells of set s101 left out") { // 4 methods x 3 tiers
		t.Errorf("warnings do not say so:\n%s", text)
	}
	if r := built(t, handPlan, asMPPI(0.5)); len(r.Blocks[0].Sets) != 3 {
		t.Errorf("stock temperature: sets %v", r.Blocks[0].Sets)
	}
	only := []plan{{lewm, "T1", []int{8}}, {scale, "T1", []int{9}}}
	if r := built(t, only, asMPPI(64)); len(r.Blocks[0].Sets) != 1 {
		t.Errorf("with s101 alone: sets %v", r.Blocks[0].Sets)
	}
}

func TestRenderGate(t *testing.T) {
	for _, tc := range []struct {
		gates []results.Gate
		state Verdict
		text  string
	}{
		{nil, Skipped, "does not say"},
		{[]results.Gate{{Task: "tworoom", Limit: 3}, {Task: "reacher", Error: 2.34, Limit: 3}}, Passed, "2.34 levels at most (Reacher)"},
		{[]results.Gate{{Task: "tworoom", Limit: 3}, {Task: "reacher", Error: 4.83, Limit: 3}}, Warned, "Reacher differs by 4.83 levels"},
	} {
		if c := checkRender(tc.gates); c.Verdict != tc.state || !strings.Contains(c.Text, tc.text) {
			t.Errorf("%+v, want %v: %s", c, tc.state, tc.text)
		}
	}
}

// MPPI at stock and at chosen temperatures in one folder are two tables, and
// the paper's test over sets reads the stock one, which has all six sets.
func TestStockTemperatureBesideTheChosenOne(t *testing.T) {
	d := &Data{Cells: append(cellsOf(t, handPlan, asMPPI(64)), cellsOf(t, handPlan[:len(handPlan)-1], asMPPI(0.5))...)}
	r, err := Build(d, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Blocks) != 2 || r.Blocks[0].Solver != results.MPPI || r.Blocks[1].Solver != infer.StockMPPI {
		t.Fatalf("blocks %+v", r.Blocks)
	}
	if a, b := r.Blocks[0].Sets, r.Blocks[1].Sets; len(a) != 2 || len(b) != 3 {
		t.Errorf("sets %v and %v, want two and three", a, b)
	}
	for _, l := range r.Groups[0].SetTests {
		if len(l.Sets) != 3 || l.Cells != 3 {
			t.Errorf("%s over sets: %d cells of %v, want the stock block's alone", l.A, l.Cells, l.Sets)
		}
	}
	dino := []plan{{"dinowm", "T1", []int{8, 8, 8}}}
	d.Cells = append(d.Cells, cellsOf(t, dino, asMPPI(0.5))...)
	if r, err = Build(d, infer.Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range r.Blocks {
		if !slices.Contains(armsOf(r.Blocks[i].Arms), "dinowm") {
			t.Errorf("%s has no DINO-WM", r.Blocks[i].Solver)
		}
	}
}
