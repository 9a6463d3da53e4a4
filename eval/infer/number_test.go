package infer

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// everything returns a table of cells of several solvers, settings, seeds and states,
// and of analyses.
func everything(t *testing.T) *Table {
	t.Helper()
	cells := append(factorCells(t), resultstest.Cells(t, []plan{p(scale, "T1", 6, 6, 6)}, func(c *results.Cell) { c.Spec.Recipe, c.Spec.Q, c.Spec.Weights = "r", "half", "half" })...)
	cells = append(cells, resultstest.Cells(t, []plan{p(random, "", 1, 1, 1)}, nil)...)
	table, err := Infer(&results.Contents{Cells: cells, Analyses: resultstest.Analyses()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A description identifies one number, which Find and Select return, and the cells of
// each number exist.
func TestNumbers(t *testing.T) {
	table := everything(t)
	cells := map[string]bool{}
	for _, c := range table.Cells {
		cells[c.ID] = true
	}
	for _, a := range table.Analyses {
		cells[a.ID] = true
	}
	seen := map[key]bool{}
	for _, n := range table.Numbers {
		if k := n.key(); seen[k] {
			t.Errorf("two numbers are %+v", k)
		} else {
			seen[k] = true
		}
		if table.Find(*n) != n {
			t.Errorf("%s of %s is not found", n.Selector(), n.Source)
		}
		if n.Source != Ours {
			continue
		}
		if got, err := table.Select(n.Selector()); err != nil || got != n {
			t.Errorf("%s selects %+v, %v", n.Selector(), got, err)
		}
		if n.Value != nil && len(n.From) == 0 {
			t.Errorf("%s rests on nothing", n.Selector())
		}
		for _, id := range n.From {
			if !cells[id] {
				t.Errorf("%s rests on %s, which is not in the folder", n.Selector(), id)
			}
		}
		if len(union(n.From)) != len(n.From) {
			t.Errorf("%s rests on %q, want each once", n.Selector(), n.From)
		}
	}
	for _, what := range []string{Success, Diff, SeedDiff, SetDiff, Gain, StateDiff, Spearman, RolloutError, Tau, Aggregates[0]} {
		if len(ours(table, what)) == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// Two runs give the numbers in the same order.
func TestSameOrder(t *testing.T) {
	order := func() (out []string) {
		for _, n := range everything(t).Numbers {
			out = append(out, fmt.Sprint(n.Source, n.Selector()))
		}
		return out
	}
	first := order()
	for range 2 {
		if again := order(); !slices.Equal(first, again) {
			i := 0
			for first[i] == again[i] {
				i++
			}
			t.Fatalf("number %d is %s, and in another run %s", i, first[i], again[i])
		}
	}
}

func TestSelect(t *testing.T) {
	table := ofPlans(t, resultstest.HandPlan, nil)
	for selector, want := range map[string]string{
		"difference,tier=T1,a=scale,b=lewm": "difference,task=tworoom,solver=cem,tier=T1,a=scale,b=lewm",
		"success,a=scale,tier=T5":           "success,task=tworoom,solver=cem,tier=T5,a=scale,seed=0",
		"set_difference,a=scale,b=lewm":     "set_difference,task=tworoom,a=scale,b=lewm",
		"difference,a=scale,b=lewm":         "difference,task=tworoom,solver=cem,tier=mean,a=scale,b=lewm",
	} {
		if n, err := table.Select(selector); err != nil || n.Selector() != want {
			t.Errorf("%s: %v, want %s", selector, err, want)
		}
	}
	for selector, want := range map[string]string{
		"success,a":             `unknown part "a" of the selector (hint: `,
		"success,who=scale":     `unknown part "who=scale" of the selector (hint: `,
		"success,a=nobody":      "no number success fits",
		"nothing":               `there is no number "nothing" (hint: one of `,
		"difference,tier=T1":    "4 numbers fit the selector",
		"success,source=author": "no number success fits",
	} {
		if n, err := table.Select(selector); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %+v, %v; want %q", selector, n, err, want)
		}
	}
}

// At T1 SCALE solves all episodes that LeWM solves and the next 2, 2 and 1 of the sets
// (resultstest.HandPlan).
func TestWhy(t *testing.T) {
	dir := t.TempDir()
	resultstest.Write(t, dir)
	c, err := results.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Infer(&c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	why := func(selector string) Why {
		t.Helper()
		n, err := table.Select(selector)
		if err != nil {
			t.Fatal(err)
		}
		w, err := table.Why(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range w.Cells {
			if b, err := os.ReadFile(c.Path); err != nil || fmt.Sprintf("%x", sha256.Sum256(b)) != c.SHA256 || c.Device != "cpu avx2 fp32" {
				t.Errorf("%s: cell %+v, %v", selector, c, err)
			}
		}
		return w
	}
	w := why("difference,tier=T1,a=scale,b=lewm")
	want := []any{OfPair{0, 0, "T1", "s101", 10, 8, 2, 0, 0}, OfPair{0, 0, "T1", "s102", 10, 7, 2, 0, 1}, OfPair{0, 0, "T1", "s103", 10, 9, 1, 0, 0}}
	if d := cmp.Diff(want, w.Rows); d != "" || len(w.Cells) != 6 || w.Test.Name != McNemar || w.Test.Interval != Newcombe || *w.Test.P != 2./32 {
		t.Errorf("%d cells, %+v, rows (-want +got):\n%s", len(w.Cells), w.Test, d)
	}
	w = why("success,a=scale,tier=T5")
	for i, hits := range []int{6, 6, 7} {
		if r := w.Rows[i].(OfCell); r.Hits != hits || r.N != 10 || r.Tier != "T5" || r.Arm != arm(scale) || r.Cell != w.Cells[i].ID {
			t.Errorf("set %d: %+v", i, r)
		}
	}
	if len(w.Rows) != 3 || w.Test.Name != "mean-of-sets" || w.Test.Interval != "wilson" {
		t.Errorf("%d rows, %+v", len(w.Rows), w.Test)
	}
	if w := why("set_difference,a=scale,b=lewm"); w.Test.Name != "wilcoxon-signed-rank-exact-sets" || len(w.Cells) != 18 {
		t.Errorf("%d cells, %+v", len(w.Cells), w.Test)
	}
}
