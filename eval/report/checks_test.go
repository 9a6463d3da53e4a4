package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

func checkNamed(t *testing.T, r *Report, name string) Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q", name)
	}
	return r.Checks[i]
}

func TestChecksPass(t *testing.T) {
	r := built(t, handPlan, nil)
	for _, c := range r.Checks {
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
				*c = results.Cell{Spec: c.Spec, Result: fakeResult(plan{aux, "T1", nil}, 6)}
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
			got := checkNamed(t, built(t, handPlan, c.edit), c.check)
			if got.Verdict != Warned || !strings.Contains(got.Text, c.want) {
				t.Errorf("%s: %s, want a warning with %q", got.Verdict, got.Text, c.want)
			}
		})
	}
}

func TestCheckComplete(t *testing.T) {
	plans := slices.Clone(handPlan)
	plans[4] = plan{scale, "T3", []int{9, 8}}
	got := checkNamed(t, built(t, plans, nil), "Complete grid")
	if got.Verdict != Warned || !strings.Contains(got.Text, "SCALE at T3 has 2 of 3 sets") {
		t.Errorf("%s: %s", got.Verdict, got.Text)
	}
}

// score makes an arm's score from the rates of sets of n episodes.
func score(n int, rates ...float64) Score {
	s := infer.Score{N: n * len(rates)}
	for i, r := range rates {
		s.BySet = append(s.BySet, infer.SetRate{Set: "s" + itoa(101+i), N: n, Rate: r})
	}
	s.Mean, s.SD = stats.MeanSD(rates)
	return Score{Score: s}
}

func oneArm(s Score) *Report {
	return &Report{Blocks: []*Block{{Task: "cube", Solver: "cem", Tiers: []Tier{{Name: "T1"}},
		Arms: []Arm{{Name: lewm, Method: lewm, Scores: map[string]Score{"T1": s}}}}}}
}

func TestCheckHomogeneous(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Score
		want Verdict
		text string
	}{
		// 200 episodes: one SD is 100 sqrt(.7 x .3 / 200) = 3.2 points, below half the limit.
		{"near", score(200, 70, 72, 77.9), Passed, "within 8 points"},
		{"far", score(200, 70, 72, 80.1), Warned, "set s103 lies 8.1 points from the median"},
		{"small sets", score(10, 70, 70, 90), Skipped, "undecidable"},
		{"one set", score(200, 70), Skipped, "two or more sets"},
	} {
		if got := checkHomogeneous(oneArm(c.s)); got.Verdict != c.want || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %s (%s), want %s with %q", c.name, got.Verdict, got.Text, c.want, c.text)
		}
	}
}

func TestCheckVariance(t *testing.T) {
	// Rates 40, 50, 60 of 100: variance 100 against 100 x 100 x .25 / 100 = 25: ratio 4.
	if got := checkVariance(oneArm(score(100, 40, 50, 60))); got.Verdict != Warned || !strings.Contains(got.Text, "4.00 times") {
		t.Errorf("%s: %s, want a warning with ratio 4.00", got.Verdict, got.Text)
	}
	// 45, 50, 55: variance 25, ratio 1.
	if got := checkVariance(oneArm(score(100, 45, 50, 55))); got.Verdict != Passed || !strings.Contains(got.Text, "1.00 times") {
		t.Errorf("%s: %s, want passed with ratio 1.00", got.Verdict, got.Text)
	}
	if got := checkVariance(oneArm(score(100, 100, 100))); got.Verdict != Skipped {
		t.Errorf("saturated: %s (%s), want skipped", got.Verdict, got.Text)
	}
}

func TestWarningsAsData(t *testing.T) {
	plans := slices.Clone(handPlan)
	plans[len(plans)-1] = plan{random, "", []int{4, 4, 4}}
	text := strings.Join(built(t, plans, nil).Warnings, "\n")
	for _, want := range []string{"random actions solve 40.0 %", "10 episodes a set", "one training seed", "no training metrics", "no clips"} {
		if !strings.Contains(text, want) {
			t.Errorf("no warning %q in:\n%s", want, text)
		}
	}
}

func TestPublished(t *testing.T) {
	p := published
	if len(p.Tables) != 5 {
		t.Fatalf("%d tables, want one a task", len(p.Tables))
	}
	above, auxAbove := 0, 0
	for _, table := range p.Tables {
		if len(table.Rows) != 12 {
			t.Errorf("%s: %d rows, want 3 solvers x 4 methods", table.Label, len(table.Rows))
		}
		avg := map[string]float64{}
		for _, r := range table.Rows {
			sum := 0.0
			for _, m := range r.Mean {
				sum += m
			}
			// Printed means and averages are rounded to 0.1 each.
			if math.Abs(sum/5-r.Average) > 0.1 {
				t.Errorf("%s %s %s: tiers average %.2f, printed %.1f", table.Task, r.Solver, r.Method, sum/5, r.Average)
			}
			avg[r.Solver+r.Method] = r.Average
		}
		for _, s := range []string{"cem", "icem", "mppi"} {
			if avg[s+scale] > avg[s+lewm] {
				above++
			}
			if avg[s+aux] > avg[s+lewm] {
				auxAbove++
			}
		}
	}
	// The paper's text: SCALE improves every task-solver average (15/15), Aux 13 of 15.
	if above != 15 || auxAbove != 13 {
		t.Errorf("SCALE above LeWM on %d, Aux on %d; the paper says 15 and 13", above, auxAbove)
	}
	// Read off the paper's pages by eye.
	for _, c := range []struct {
		task, solver, method, tier string
		mean, sd                   float64
	}{
		{"pusht", "cem", lewm, "T1", 92.3, 2.0},
		{"reacher", "mppi", "dinowm", "T4", 50.2, 8.5},
		{"cube", "icem", scale, "T2", 76.5, 4.5},
		{"tworoom", "cem", scale, "T1", 99.8, 0.4},
		{"tworoom", "cem", aux, "T5", 60.5, 2.0},
		{"pointmaze", "mppi", aux, "T3", 88.0, 1.6},
	} {
		r, label, ok := p.row(c.task, c.solver, c.method)
		mean, sd, okTier := p.at(r, c.tier)
		if !ok || !okTier || mean != c.mean || sd != c.sd || label != "tab:full-"+c.task {
			t.Errorf("%s %s %s %s: %v ± %v in %s, want %v ± %v", c.task, c.solver, c.method, c.tier, mean, sd, label, c.mean, c.sd)
		}
	}
}

// Wherever a report shows success, it says which share of the costs behind it was not finite: of 2 plans of 10 x 3
// costs in each of 10 episodes, 60 of 600.
func TestCostNotes(t *testing.T) {
	const want = "T5: 3.33 % of the costs were NaN or infinite, and counted as the worst" // 60 of 1800 in three sets
	r := built(t, handPlan, func(c *results.Cell) {
		for i := range c.Result.Rows {
			c.Result.Rows[i].Replans = 2
		}
		if c.Spec.Method == lewm && c.Spec.Tier == "T5" && c.Spec.Set == "s101" {
			c.Result.Rows[3].NaNCosts = 60
		}
	})
	files, err := r.Render(Formats())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text := strings.ReplaceAll(string(f.Bytes), `\%`, "%")
		n := map[string]int{"report.html": 2, "report.md": 2, "report.tex": 2, "report-sections.csv": 2, "report.json": 1}[f.Name] // in the front's warnings and below the table
		if got := strings.Count(text, strings.TrimPrefix(want, map[string]string{"report.json": "T5: "}[f.Name])); got != n {
			t.Errorf("%s says so %d times, want %d", f.Name, got, n)
		}
	}
}
