package infer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// Analyses become numbers, with their ids. Checkpoints of other seeds and data sets are
// distinguished, and checkpoints on different data sets are never compared.
func TestMeasured(t *testing.T) {
	all := resultstest.Analyses()
	table := analysed(all)
	table.measure()
	for _, c := range []struct {
		of, what      string
		value, lo, hi float64
		n             int
	}{
		{lewm, Spearman, .25, .125, .375, 1500}, {scale, Spearman, .75, .625, .875, 1500}, {scale, "pearson", .75, math.NaN(), math.NaN(), 1500},
		{lewm, R2("ridge", 2, "mean"), .125, math.NaN(), math.NaN(), 0}, {lewm, R2("ridge", 0, "mean"), .8125, math.NaN(), math.NaN(), 0},
		{lewm, R2("ridge", 0, "agent x"), .75, math.NaN(), math.NaN(), 0}, {lewm, R2("mlp", 0, "mean"), .625, math.NaN(), math.NaN(), 0},
		{lewm, RolloutError, .375, math.NaN(), math.NaN(), 0}, {scale, Tau, .5, math.NaN(), math.NaN(), 0},
	} {
		seed := 1
		n := find(t, table, Number{What: c.what, Place: Place{Task: "tworoom"}, Of: arm(c.of), Seed: &seed})
		if e := n.Estimate(); e.Value != c.value || e.Lo != c.lo && !math.IsNaN(c.lo) || e.Hi != c.hi && !math.IsNaN(c.hi) || n.N != c.n || len(n.From) == 0 {
			t.Errorf("%s: %+v", n.Selector(), n)
		}
	}
	if c := table.Checkpoints("cube"); len(c) != 0 {
		t.Errorf("checkpoints of a task without analyses: %v", c)
	}
	titles := func(all []results.Analysis) (out []string) {
		for _, c := range analysed(all).Checkpoints("tworoom") {
			out = append(out, c.Title())
		}
		return out
	}
	more := all[0]
	more.Spec.TrainSeed = 2
	all = append(all, more)
	if got := strings.Join(titles(all), "; "); got != "LeWM, seed 1; LeWM, seed 2; SCALE" {
		t.Errorf("checkpoints %s", got)
	}
	other := all[0]
	other.Spec.Data = "feedbeef00"
	if got := titles(append(all, other)); len(got) != 4 || got[1] != "LeWM, seed 1, data set feedbeef" {
		t.Errorf("with a second data set: %q", got)
	}
	for i := range all { // LeWM's alone
		if all[i].Spec.Method == lewm {
			all[i].Spec.Data = "feedbeef00"
		}
	}
	if pairs := analysed(all).checkpointPairs("tworoom", arm(scale), arm(lewm), func(*Checkpoint) float64 { return 0 }); len(pairs) != 0 {
		t.Errorf("%d pairs of different data sets", len(pairs))
	}
}

// SCALE's Kendall τ is above LeWM's on all of five starts: p = 2/32. Its error is 10 %
// lower. A smaller rollout of the same checkpoint is left out, and protocols are
// distinguished.
func TestRolloutChanges(t *testing.T) {
	of := func(method, protocol string, err, tau float64, starts int) results.Analysis {
		r := &results.Rollout{RollErr: err, Tau: tau, Starts: starts, Candidates: 64}
		for s := range starts {
			r.PerStart = append(r.PerStart, results.PerStart{Start: s, Tau: tau + .01*float64(s*s)*tau})
		}
		return results.Analysis{Spec: results.AnalysisSpec{Analysis: "rollout", Protocol: protocol, Task: "tworoom", Method: method, Weights: method, Device: "cpu"}, Results: results.Results{Rollout: r}}
	}
	table := analysed([]results.Analysis{of(lewm, "paper", .5, .4, 5), of(scale, "paper", .45, .6, 5), of(scale, "paper", .1, .1, 2), of(scale, "strict", .3, .3, 5)})
	table.measure()
	n := Number{What: RolloutError + "_change", Place: Place{Task: "tworoom", Settings: "paper"}, Of: arm(scale), Minus: arm(lewm), Seed: new(int)}
	if c := find(t, table, n); c.Unit != "%" || math.Abs(*c.Value+10) > 1e-9 {
		t.Errorf("%+v", c)
	}
	n.What = Tau + "_change"
	if c := find(t, table, n); c.Unit != "%" || math.Abs(*c.Value-50) > 1e-9 || *c.P != 2./32 {
		t.Errorf("%+v", c)
	}
	if n.Settings = "strict"; table.Find(n) != nil {
		t.Error("a change of another protocol than the baseline's")
	}
	if left := table.Checkpoints("tworoom")[1].Left; len(left) != 1 || !strings.Contains(left[0], "a rollout of 2 starts with 64 candidates is left out next to that of 5 with 64") {
		t.Errorf("left out: %q", left)
	}
}

// A cost that an earlier version measured without its frozen encoder is left out, whether
// or not there is a current one. Costs of other models have not changed.
func TestOutdatedCost(t *testing.T) {
	of := func(schema int, backbone string, flop float64) results.Analysis {
		return results.Analysis{Spec: results.AnalysisSpec{Schema: schema, Analysis: results.CostAnalysis, Task: "tworoom", Method: "dinowm", Weights: "w", Backbone: backbone},
			Results: results.Results{Cost: &results.Cost{StepFLOP: flop, Tiers: []results.Plans{{Tier: SumOfTiers}}}}}
	}
	for _, c := range []struct {
		cells []results.Analysis
		want  float64
		left  int
	}{
		{[]results.Analysis{of(2, "b", 3e9), of(1, "b", 1e9)}, 3, 1},
		{[]results.Analysis{of(1, "b", 1e9), of(2, "b", 3e9)}, 3, 1},
		{[]results.Analysis{of(1, "b", 1e9)}, math.NaN(), 1},
		{[]results.Analysis{of(1, "", 1e9)}, 1, 0},
	} {
		got := analysed(c.cells).Checkpoints("tworoom")[0]
		if flop := measureOf("gflop_of_step").of(got); !(flop == c.want || math.IsNaN(flop) && math.IsNaN(c.want)) || len(got.Left) != c.left {
			t.Errorf("%v: %g GFLOP, left out %q", c.cells, flop, got.Left)
		}
	}
}

// The paper prints its rollout numbers twice, as values and as changes against LeWM
// (tab:rollout-probe). The changes must follow from the values.
func TestPublishedRolloutsAgree(t *testing.T) {
	table := paper()
	for task, want := range map[string][6]float64{ // error of SCALE, Aux, DINO-WM, then tau; in percent
		"pusht":     {-21.0, -23.1, 704.9, 7.4, 3.6, -4.3},
		"reacher":   {-14.6, -7.0, 223.4, 3.2, 1.5, 2.9},
		"cube":      {-0.7, -25.2, 1.0, 21.3, 13.6, 112.8},
		"tworoom":   {-20.6, -2.5, -58.9, 14.0, -1.1, 33.1},
		"pointmaze": {-12.8, -7.5, -19.3, 0.170, 0.057, 0.288}, // tau as a difference: LeWM's is near 0
	} {
		for i, method := range []string{scale, aux, "dinowm"} {
			value := func(method string) float64 {
				return *find(t, table, Number{What: RolloutError, Source: Paper, Place: Place{Task: task}, Of: arm(method)}).Value
			}
			if got := 100 * (value(method)/value(lewm) - 1); math.Abs(got-want[i]) > 0.6 {
				t.Errorf("%s, %s: error changes by %.1f %%, printed %.1f", task, method, got, want[i])
			}
			tol, unit := 0.06, "%"
			if task == "pointmaze" {
				tol, unit = 0.0006, ""
			}
			if n := find(t, table, Number{What: Tau + "_change", Source: Paper, Place: Place{Task: task}, Of: arm(method), Minus: arm(lewm)}); n.Unit != unit || math.Abs(*n.Value-want[3+i]) > tol {
				t.Errorf("%s, %s: tau changes by %.3f %s, printed %.3f", task, method, *n.Value, n.Unit, want[3+i])
			}
		}
	}
}

// There are two methods with three checkpoints each. Within each method better alignment goes
// with less success, but the better aligned method has more. By hand: ranks of all differ by 2, 0 and 2
// in both methods, so 1 - 6*16/(6*35) = 0.54, z = 0.608 with deviation sqrt((1+0.54^2/2)/3) = 0.618. Within
// methods -1, taken as -(1 - 6/210): z = -2.120 with deviation sqrt((1+0.971^2/2)/2) = 0.858, so up to
// tanh(-2.120 + 1.681) = -0.41. The mean with a second task of the same numbers has 1/sqrt(2) of the deviations: from
// tanh(0.608 - 0.857) to tanh(0.608 + 0.857), and tanh(-2.120 + 1.189) = -0.73 within.
func TestPredict(t *testing.T) {
	table := empty(&results.Contents{}, &Block{Place: Place{Task: "tworoom"}}, &Block{Place: Place{Task: "reacher"}})
	for _, b := range table.Blocks {
		add := func(method string, seed int, alignment, success float64) {
			weights := fmt.Sprint(b.Task, method, seed)
			spec := results.AnalysisSpec{Analysis: "rank", Task: b.Task, Method: method, TrainSeed: seed, Weights: weights, Device: "cpu"}
			table.Analyses = append(table.Analyses, results.Analysis{ID: weights, Spec: spec, Results: results.Results{Rank: []results.Rank{{Spearman: results.Number(alignment)}}}})
			b.Arms = append(b.Arms, Trained{Arm: arm(method), Seed: seed, Weights: weights})
			table.add(Number{What: Success, Place: b.Place.At(Mean), Of: arm(method), Seed: &seed, Value: &success})
		}
		for i, method := range []string{lewm, scale} {
			for seed := range 3 {
				add(method, seed, float64(3*i+seed), float64(30*i+30-10*seed))
			}
		}
		add(untrained, 0, 9, 1) // a floor takes no part
	}
	table.predict(Group{Blocks: table.Blocks})
	if all := table.Where(Predicts(Spearman), func(*Number) bool { return true }); len(all) != 3 {
		t.Fatalf("%d correlations, want one a task and their mean", len(all))
	}
	for _, c := range []struct {
		what, task    string
		n             int
		value, lo, hi float64
	}{
		{Predicts(Spearman), "tworoom", 6, .54, -.54, .95}, {Within(Spearman), "tworoom", 6, -1, -1, -.41},
		{Predicts(Spearman), "", 12, .54, -.24, .90}, {Within(Spearman), "", 12, -.97, -1, -.73},
	} {
		n := find(t, table, Number{What: c.what, Place: Place{Task: c.task}})
		near(t, n.Selector(), *n.Value, c.value, .005)
		near(t, n.Selector()+" from", *n.Lo, c.lo, .005)
		near(t, n.Selector()+" to", *n.Hi, c.hi, .005)
		if n.N != c.n {
			t.Errorf("%s is over %d checkpoints, want %d", n.Selector(), n.N, c.n)
		}
	}
	if n := find(t, table, Number{What: Methods(Spearman), Place: Place{Task: "tworoom"}}); *n.Value != 2 {
		t.Errorf("%v methods", *n.Value)
	}
}

// SCALE trained with half the state succeeds in 6 of 10 at two tiers on two sets, and
// with the full state in 7 and 9: 60 and 80 %.
func TestStates(t *testing.T) {
	cells := append(resultstest.Cells(t, []plan{p(scale, "T1", 6, 6), p(scale, "T3", 6, 6)}, func(c *results.Cell) { c.Spec.Q, c.Spec.Weights = "half", "half" }),
		resultstest.Cells(t, []plan{p(scale, "T1", 7, 7), p(scale, "T3", 9, 9)}, func(c *results.Cell) { c.Spec.Q = "full" })...)
	table := ofCells(t, cells)
	for state, want := range map[string]float64{"half": 60, "full": 80} {
		n := find(t, table, Number{What: ByState, Place: Place{Task: "tworoom"}, Of: StateArm(arm(scale), state)})
		near(t, n.Selector(), *n.Value, want, 1e-9)
		if n.N != 2 || len(n.Notes) != 1 {
			t.Errorf("%+v", n)
		}
	}
	near(t, "difference", *find(t, table, Number{What: StateDiff, Place: Place{Task: "tworoom"}, Of: arm(scale)}).Value, 20, 1e-9)
}

// The changes in the paper's table of rollouts (tab:rollout-probe), which rounds the errors
// they are computed from: -21.0 % and +704.9 % on Push-T, and +.170 where LeWM's τ is near 0.
func TestPublishedChanges(t *testing.T) {
	table := empty(&results.Contents{})
	table.publish()
	for _, c := range []struct {
		what, task, of string
		want, within   float64
		unit           string
	}{
		{RolloutError, "pusht", scale, -21, .2, "%"},
		{RolloutError, "pusht", "dinowm", 704.9, 1, "%"},
		{Tau, "pusht", scale, 7.4, .05, "%"},
		{Tau, "pointmaze", scale, .17, .001, ""},
	} {
		n := find(t, table, Number{What: c.what + "_change", Source: Paper, Place: Place{Task: c.task}, Of: arm(c.of), Minus: arm(lewm)})
		if near(t, c.what+" on "+c.task, *n.Value, c.want, c.within); n.Unit != c.unit {
			t.Errorf("%s on %s in %q", c.what, c.task, n.Unit)
		}
	}
}
