package infer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/eval/stats"
)

func checkNamed(t *testing.T, table *Table, name string) Check {
	t.Helper()
	i := slices.IndexFunc(table.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q", name)
	}
	return table.Checks[i]
}

func TestChecksPass(t *testing.T) {
	for _, c := range ofPlans(t, resultstest.HandPlan, nil).Checks {
		want := Passed
		if c.Name == "Sets agree" { // 10 episodes: one SD is 100 sqrt(.8 x .2 / 10) = 12.6 points or more
			want = Skipped
		}
		if c.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", c.Name, c.Verdict, c.Text, want)
		}
	}
}

func TestChecksWarn(t *testing.T) {
	for _, c := range []struct {
		check string
		edit  func(*results.Cell)
		want  string
	}{
		{"Same episodes", func(c *results.Cell) {
			if c.Spec.Method == aux && c.Spec.Set == "s102" {
				c.Spec.SetHash = "another"
			}
		}, "tworoom s102 of 10 episodes, protocol paper has 2"},
		{"Same data", func(c *results.Cell) {
			if c.Spec.Method == aux {
				c.Spec.Data = "another"
			}
		}, "tworoom has 2"},
		{"One model per arm", func(c *results.Cell) {
			if c.Spec.Tier == "T5" && c.Spec.Method == scale {
				c.Spec.Weights = "another"
			}
		}, "SCALE seed 0 has 2"},
		{"One device kind", func(c *results.Cell) {
			if c.Spec.Method == scale {
				c.Result.Device = "cuda"
			}
		}, "cpu avx2 fp32 and cuda"},
		{"Equal planner noise", func(c *results.Cell) {
			if c.Spec.Method == untrained && c.Spec.Tier == "T3" && c.Spec.Set == "s103" {
				c.Result.Rows[9].PlannerSeed++
			}
		}, "tworoom T3 s103"},
		{"More compute does not hurt", func(c *results.Cell) {
			if c.Spec.Method == aux && c.Spec.Tier == "T1" {
				c.Result = resultstest.Result(p(aux, "T1"), 6)
			}
		}, "Aux rises by 10.0 points from T1 to T3"}, // 60 to 70
		{"No start is solved already", func(c *results.Cell) {
			c.Result.Rows[0].PreSolved = true
		}, "10.0 % of the starts; without them success at T1 is LeWM 77.8, SCALE 96.3, "}, // (24-3)/27, (29-3)/27
		{"Finite costs", func(c *results.Cell) {
			if c.Spec.Method == lewm && c.Spec.Set == "s101" {
				c.Result.Rows[1].NaNCosts = 2
			}
		}, "6 costs were NaN or infinite and counted as the worst, in 3 cells"},
	} {
		t.Run(c.check, func(t *testing.T) {
			got := checkNamed(t, ofPlans(t, resultstest.HandPlan, c.edit), c.check)
			if got.Verdict != Warned || !strings.Contains(got.Text, c.want) {
				t.Errorf("%s: %s, want a warning with %q", got.Verdict, got.Text, c.want)
			}
		})
	}
}

func TestCheckComplete(t *testing.T) {
	plans := slices.Clone(resultstest.HandPlan)
	plans[4] = p(scale, "T3", 9, 8)
	got := checkNamed(t, ofPlans(t, plans, nil), "Complete grid")
	if got.Verdict != Warned || !strings.Contains(got.Text, "SCALE at T3 has 2 of 3 sets") {
		t.Errorf("%s: %s", got.Verdict, got.Text)
	}
}

// empty returns a table without numbers.
func empty(c *results.Contents, blocks ...*Block) *Table {
	return &Table{Contents: c, Blocks: blocks, Baseline: paperBaseline, byKey: map[key]*Number{}, checkpoints: map[string][]*Checkpoint{}}
}

// oneArm returns the table of an arm with these rates on sets of n episodes.
func oneArm(n int, rates ...float64) *Table {
	s := Score{N: n * len(rates)}
	for i, r := range rates {
		s.BySet = append(s.BySet, SetRate{Set: fmt.Sprint("s", 101+i), N: n, Rate: r})
	}
	s.Mean, s.SD = stats.MeanSD(rates)
	b := &Block{Place: Place{Task: "cube", Solver: "cem"}, Tiers: []Tier{{Name: "T1"}}, Arms: []Trained{{Arm: arm(lewm)}}}
	t := empty(nil, b)
	t.add(Number{What: Success, Place: b.Place.At("T1"), Of: arm(lewm), Seed: new(int), How: &s})
	return t
}

func TestCheckHomogeneous(t *testing.T) {
	for _, c := range []struct {
		name  string
		table *Table
		want  Verdict
		text  string
	}{
		// With 200 episodes one SD is 100 sqrt(.7 x .3 / 200) = 3.2 points, below half the limit.
		{"near", oneArm(200, 70, 72, 77.9), Passed, "within 8 points"},
		{"far", oneArm(200, 70, 72, 80.1), Warned, "set s103 lies 8.1 points from the median"},
		{"small sets", oneArm(10, 70, 70, 90), Skipped, "undecidable"},
		{"one set", oneArm(200, 70), Skipped, "two or more sets"},
	} {
		if got := c.table.checkHomogeneous(); got.Verdict != c.want || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %s (%s), want %s with %q", c.name, got.Verdict, got.Text, c.want, c.text)
		}
	}
}

func TestCheckVariance(t *testing.T) {
	// Rates of 40, 50, 60 of 100 have variance 100; the binomial one is 100 x 100 x .25 / 100 = 25.
	if got := oneArm(100, 40, 50, 60).checkVariance(); got.Verdict != Warned || !strings.Contains(got.Text, "4.00 times") {
		t.Errorf("%s: %s, want a warning with ratio 4.00", got.Verdict, got.Text)
	}
	// Rates of 45, 50, 55 have variance 25, so the ratio is 1.
	if got := oneArm(100, 45, 50, 55).checkVariance(); got.Verdict != Passed || !strings.Contains(got.Text, "1.00 times") {
		t.Errorf("%s: %s, want passed with ratio 1.00", got.Verdict, got.Text)
	}
	if got := oneArm(100, 100, 100).checkVariance(); got.Verdict != Skipped {
		t.Errorf("saturated: %s (%s), want skipped", got.Verdict, got.Text)
	}
}

func TestHighFloor(t *testing.T) {
	plans := slices.Clone(resultstest.HandPlan)
	plans[len(plans)-1] = p(random, "", 4, 4, 4)
	if text := strings.Join(ofPlans(t, plans, nil).Warnings, "\n"); !strings.Contains(text, "random actions solve 40.0 %") {
		t.Errorf("no such warning in:\n%s", text)
	}
}

func TestCheckRender(t *testing.T) {
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
