package infer

import (
	"fmt"
	"strings"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/eval/stats"
)

// sided returns the outcomes of 100 episodes in two sets at the given tiers. An episode
// succeeds at a tier unless fails says otherwise.
func sided(t *testing.T, name string, tiers []string, fails func(episode int, tier string) bool) *Side {
	var csv strings.Builder
	csv.WriteString("set,episode,tier,success\n")
	for e := range 100 {
		for _, tier := range tiers {
			fmt.Fprintf(&csv, "s10%d,%d,%s,%v\n", 1+e%2, e/2, tier, !fails(e, tier))
		}
	}
	return parse(t, name, csv.String())
}

// TestFewPairs lists which intervals are not from a bootstrap: those of one tier, which are
// Newcombe's in any case, and means in which fewer than ten episodes differ, or all by the
// same amount. No interval is a point, and each contains its difference.
func TestFewPairs(t *testing.T) {
	tiers := []string{"T1", "T2"}
	never := func(int, string) bool { return false }
	for _, c := range []struct {
		name  string
		tiers []string
		fails func(int, string) bool
		want  string
	}{
		{"one tier, none differs", tiers[:1], never, Newcombe},
		{"one tier, many differ", tiers[:1], func(e int, _ string) bool { return e < 40 }, Newcombe},
		{"none differs", tiers, never, Newcombe},
		{"one differs", tiers, func(e int, _ string) bool { return e == 7 }, Newcombe},
		{"nine differ", tiers, func(e int, _ string) bool { return e < 9 }, Newcombe},
		{"ten differ", tiers, func(e int, _ string) bool { return e < 10 }, Bootstrap},
		{"forty differ, at one tier", tiers, func(e int, tier string) bool { return e < 40 && tier == "T2" }, Bootstrap},
		{"all differ equally", tiers, func(int, string) bool { return true }, Newcombe},
	} {
		a, b := sided(t, "a", c.tiers, never), sided(t, "b", c.tiers, c.fails)
		d := Compare(a, b, Options{}).Mean
		if d == nil || d.Interval != c.want || !(d.Lo < d.Hi) || !(d.Lo <= d.Diff && d.Diff <= d.Hi) {
			t.Errorf("%s: %+v, want an interval from %s", c.name, d, c.want)
		}
		if none := d.OnlyA+d.OnlyB == 0; none && d.Verdict != stats.Undecided {
			t.Errorf("%s: %s", c.name, d.Verdict)
		}
	}
	// The bootstrap is that of earlier versions.
	d := Compare(sided(t, "a", tiers, never), sided(t, "b", tiers, func(e int, _ string) bool { return e < 10 }), Options{}).Mean
	bySet := make([][]float64, 2)
	for e := range 100 {
		x := 0.0
		if e < 10 {
			x = 1
		}
		bySet[e%2] = append(bySet[e%2], x)
	}
	iv := stats.Bootstrap(bySet, rng.Stream("report bootstrap")).Interval(.95)
	near(t, "from", d.Lo, 100*iv.Lo, 1e-12)
	near(t, "to", d.Hi, 100*iv.Hi, 1e-12)
}

// TestNothingDiffers has arms that solve the same of eight episodes. Nothing is decided, no
// interval is a point, and nothing is equivalent. The same holds for two training seeds, whose
// differences are all zero.
func TestNothingDiffers(t *testing.T) {
	for _, seeds := range []int{1, 2} {
		var cells []results.Cell
		for seed := range seeds {
			for _, hits := range []int{8, 6} {
				var plans []resultstest.Plan
				for _, method := range []string{lewm, scale, aux} {
					for _, tier := range []string{"T1", "T3"} {
						plans = append(plans, resultstest.P(method, tier, hits))
					}
				}
				cells = append(cells, resultstest.Cells(t, plans, func(c *results.Cell) {
					c.Spec.TrainSeed, c.Spec.Weights = seed, fmt.Sprint(c.Spec.Method, seed)
					c.Spec.Task, c.Spec.SetHash = map[int]string{8: "tworoom", 6: "reacher"}[hits], fmt.Sprint(hits)
					c.Spec.Episodes, c.Result.Rows = 8, c.Result.Rows[:8]
				})...)
			}
		}
		table, err := Infer(&results.Contents{Cells: cells}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range table.Claims {
			if f.Verdict != Undecided {
				t.Errorf("%d seeds: %s %s", seeds, f.ID, f.Verdict)
			}
		}
		compared := 0
		for _, n := range table.Numbers {
			if n.Source == Ours && n.Lo != nil && !(*n.Lo < *n.Hi) {
				t.Errorf("%d seeds: %s is %v to %v", seeds, n.Selector(), *n.Lo, *n.Hi)
			}
			if d, is := n.How.(*Difference); is && d != nil {
				if compared++; d.Verdict != stats.Undecided {
					t.Errorf("%d seeds: %s is %s", seeds, n.Selector(), d.Verdict)
				}
			}
		}
		if len(table.Claims) != len(PaperClaims) || compared < 6 {
			t.Errorf("%d claims, %d differences", len(table.Claims), compared)
		}
	}
}

// TestBaseline pairs the arms of a folder with an arm that is not LeWM: the one that was
// chosen, or the first if the folder has no LeWM.
func TestBaseline(t *testing.T) {
	pairs := func(cells []results.Cell, name string) (out string, claims int) {
		table, err := Infer(&results.Contents{Cells: cells}, Options{Baseline: name})
		if err != nil {
			return err.Error(), 0
		}
		for _, c := range table.Blocks[0].Pairs {
			out += fmt.Sprintf("%s-%s ", c.Of, c.Minus)
		}
		return out + "baseline " + table.Baseline.String(), len(table.Claims)
	}
	all := resultstest.Cells(t, resultstest.HandPlan, nil)
	without := resultstest.Cells(t, []resultstest.Plan{resultstest.P(aux, "T1", 8, 7, 9), resultstest.P(scale, "T1", 8, 8, 9), resultstest.P("random", "", 1, 2, 3)}, nil)
	for _, c := range []struct {
		cells  []results.Cell
		name   string
		want   string
		claims int
	}{
		{all, "", "scale-lewm scale-aux aux-lewm untrained-lewm baseline lewm", len(PaperClaims)},
		{all, "aux", "lewm-aux scale-aux untrained-aux random-aux baseline aux", 0},
		{without, "", "aux-scale random-scale baseline scale", 0},
		{without, "aux", "scale-aux random-aux baseline aux", 0},
		{without, "lewm", "report: --baseline: the folder has no arm lewm (hint: it has scale, aux and random)", 0},
	} {
		if got, claims := pairs(c.cells, c.name); got != c.want || claims != c.claims {
			t.Errorf("--baseline %q: %q, %d claims, want %q, %d", c.name, got, claims, c.want, c.claims)
		}
	}
}
