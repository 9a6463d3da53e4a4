package infer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
)

// errorsOf returns clips of episodes 0, 1, 2, ... with the given errors, one each.
func errorsOf(errs ...float64) (clips []results.ClipScore) {
	for e, v := range errs {
		clips = append(clips, results.ClipScore{Episode: e, Error: v, NoChange: 1, OtherActions: 1})
	}
	return clips
}

// candidate returns a checkpoint with these errors.
func candidate(run string, seed, step int, errs ...float64) Candidate {
	c := Candidate{Run: run, Method: arm(lewm), Seed: seed, Step: step, Weights: run}
	c.Add(&results.Selection{PerClip: errorsOf(errs...)})
	return c
}

func measureNamed(t *testing.T, name string) results.SelectionMeasure {
	t.Helper()
	m, err := results.SelectionMeasureOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Differences of three clips in three episodes are .1, .2, .3: their mean is .2, their
// deviation .1, and Student's quantile for two degrees of freedom 4.30265, so that the
// interval is .2 ± 4.30265 * .1/sqrt(3) = .2 ± .24841. Lower errors are better.
func TestSelectionInterval(t *testing.T) {
	m := measureNamed(t, "rollout_error")
	a, b := errorsOf(.1, .1, .1), errorsOf(.2, .3, .4)
	if i := pairedInterval(m, a, b); math.Abs(i.Lo-(.2-.24841)) > 1e-5 || math.Abs(i.Hi-(.2+.24841)) > 1e-5 {
		t.Errorf("%+v", i)
	}
	// Two clips of one episode count as one: differences .15 (of two clips) and .3 in two
	// episodes. Pseudo-values: 2 * .2 - .3 = .1 and 2 * .2 - .15 = .25, mean .175, deviation
	// .106066, quantile 12.7062: half width .95297.
	a[1].Episode, b[1].Episode = 0, 0
	if i := pairedInterval(m, a, b); math.Abs(i.Lo-(.175-.95297)) > 1e-5 || math.Abs(i.Hi-(.175+.95297)) > 1e-5 {
		t.Errorf("of two episodes: %+v", i)
	}
	a, b = errorsOf(.1), errorsOf(.2)
	if i := pairedInterval(m, a, b); i.Lo == i.Lo {
		t.Errorf("of one episode: %+v", i)
	}
}

// The lowest error is first, ties keep their order, and a checkpoint without measures is
// last. The rules of recommendations follow.
func TestSelectionRanks(t *testing.T) {
	m := measureNamed(t, DefaultMeasure)
	broken := Candidate{Run: "broken", Method: arm(lewm), Missing: "it collapsed"}
	broken.Add(nil)
	good, equal, bad := candidate("good", 1, 9, .1, .11, .12, .13), candidate("equal", 1, 8, .13, .12, .11, .1), candidate("bad", 1, 7, .5, .52, .54, .56)
	s := Rank("tworoom", []Candidate{broken, bad, equal, good}, m)
	var order []string
	for _, c := range s.Ranking {
		order = append(order, c.Run)
	}
	if !slices.Equal(order, []string{"equal", "good", "bad", "broken"}) || math.Abs(float64(s.Ranking[0].Score)+.115) > 1e-12 {
		t.Errorf("order %v, score %g", order, s.Ranking[0].Score)
	}
	other := good
	other.Method = arm(scale)
	seen := good
	seen.Seen = true
	same := candidate("same", 1, 8, 2, 2.1, 2.2, 2.3)
	seed := candidate("seed", 2, 9, .5, .52, .54, .56)
	for name, c := range map[string]struct {
		task string
		all  []Candidate
		m    string
		best string // "" for no recommendation
		why  string
	}{
		"clear":           {"tworoom", []Candidate{bad, good, broken}, DefaultMeasure, "good", "the best by rollout_error, by more than the noise"},
		"one":             {"tworoom", []Candidate{good, broken}, DefaultMeasure, "", "1 checkpoint with a value"},
		"tied":            {"tworoom", []Candidate{bad, equal, good}, DefaultMeasure, "", "equal is the best by rollout_error, but its difference from good is within"},
		"twice":           {"tworoom", []Candidate{good, good}, DefaultMeasure, "", "difference from good"},
		"no interval":     {"tworoom", []Candidate{{Run: "a", Measures: map[string]results.Number{"probe_r2": .9}}, {Run: "b", Measures: map[string]results.Number{"probe_r2": .1}}}, "probe_r2", "", "probe_r2 has no interval"},
		"not predictive":  {"pointmaze", []Candidate{seed, good}, DefaultMeasure, "", "on pointmaze no measure was found to predict success within methods"},
		"between methods": {"pointmaze", []Candidate{bad, other}, DefaultMeasure, "", "success across methods"},
		"between steps":   {"pointmaze", []Candidate{bad, good}, DefaultMeasure, "good", "the best by rollout_error"},
		"other measures":  {"reacher", []Candidate{bad, other}, DefaultMeasure, "", "on reacher rollout_error was not found to predict success across methods (--measure: next_rank and probe_r2)"},
		"untested":        {"cube", []Candidate{bad, good}, DefaultMeasure, "good", "untested on this task"},
		"seen":            {"tworoom", []Candidate{bad, seen}, DefaultMeasure, "good", "its training has seen these rows"},
		"useless":         {"tworoom", []Candidate{candidate("worse", 1, 9, 9, 9.1, 9.2, 9.3), same}, DefaultMeasure, "same", "no better than the last latent"},
	} {
		s := Rank(c.task, c.all, measureNamed(t, c.m))
		if got := s.Recommend; (got == nil) != (c.best == "") || got != nil && *got != c.best || !strings.Contains(s.Reason, c.why) {
			t.Errorf("%s: recommends %v: %s", name, got, s.Reason)
		}
	}
	if s := Rank("tworoom", []Candidate{bad, good}, m); strings.Contains(s.Reason, "untested") || strings.Contains(s.Reason, "seen") || strings.Contains(s.Reason, "unchanged") {
		t.Errorf("caveats without a cause: %s", s.Reason)
	}
}

// Two methods with two seeds each, and two saved steps of the first training. Errors are
// lower where success is higher but for scale, where the better score (.2) has 40 % and
// the worse (.5) 70 %.
func TestSelectionPredicts(t *testing.T) {
	with := func(method string, seed, step int, err, success float64) Candidate {
		c := candidate(method, seed, step, err, err)
		c.Method, c.Success = arm(method), &success
		return c
	}
	unknown := candidate("unknown", 9, 9, .1, .1)
	s := Selected{Task: "tworoom", Ranking: []Candidate{with(lewm, 1, 30, .1, 80), with(lewm, 2, 30, .3, 60), with(scale, 1, 30, .2, 40), with(scale, 2, 30, .5, 70),
		with(lewm, 1, 10, .6, 20), with(lewm, 1, 20, .4, 90), unknown}}
	s.Predict()
	got := map[string]Prediction{}
	for _, p := range s.Predicts {
		if p.Measure == "rollout_error" {
			got[p.Kind] = p
		}
	}
	for kind, want := range map[string]struct {
		runs, groups                  int
		rho, hit, hitLo, regret, base float64
	}{
		// Within methods: lewm chooses 80 of (80, 60), scale 40 of (40, 70). Centred scores .1,
		// -.1, .15, -.15 (ranks 3 2 4 1), centred successes 10, -10, -15, 15 (ranks 3 2 1 4):
		// rho = 1 - 6 * 18/60 = -.8. Wilson of 1 in 2: .0945 at the lower end.
		WithinMethods: {4, 2, -.8, .5, .0945, 15, 12.5},
		// Across methods: seed 1 chooses lewm's 80 of (80, 40), seed 2 lewm's 60 of (60, 70).
		// Centred scores .05, -.05, .1, -.1 (3 2 4 1), successes 20, -20, -5, 5 (4 1 2 3) in the
		// order lewm 1, scale 1, lewm 2, scale 2: rho = 1 - 6 * (1+1+4+4)/60 = 0.
		AcrossMethods: {4, 2, 0, .5, .0945, 5, 12.5},
		// Across steps: scores -.1, -.4, -.6, successes 80, 90, 20: rho = .5, the choice 80 of
		// 90. Wilson of 0 in 1 begins at 0. At random: 90 - 190/3.
		AcrossSteps: {3, 1, .5, 0, 0, 10, 90 - 190./3},
	} {
		p := got[kind]
		near := func(a results.Number, b float64) bool { return math.Abs(float64(a)-b) < 1e-4 }
		if p.Task != "tworoom" || p.Runs != want.runs || p.Groups != want.groups || !near(p.Spearman, want.rho) || !near(p.HitRate, want.hit) || !near(p.HitLo, want.hitLo) || !near(p.Regret, want.regret) || !near(p.Chance, want.base) {
			t.Errorf("%s: %+v, want %+v", kind, p, want)
		}
	}
	// Regrets of two groups, 0 and 30: every resample has the mean 0, 15 or 30, and the ends
	// of the interval are 0 and 30. One group has no interval.
	if p := got[WithinMethods]; p.RegretLo != 0 || p.RegretHi != 30 {
		t.Errorf("interval of the regret [%g, %g]", p.RegretLo, p.RegretHi)
	}
	if p := got[AcrossSteps]; p.RegretLo == p.RegretLo {
		t.Errorf("interval of one group from %g", p.RegretLo)
	}
	// All checkpoints have the same probe_r2, 0.
	for _, p := range s.Predicts {
		if p.Measure == "probe_r2" && p.Spearman == p.Spearman {
			t.Errorf("equal scores have the correlation %g", p.Spearman)
		}
	}
}

// Success is the mean over the evaluations that all checkpoints have, whatever their
// method. Cells of other tasks, checkpoints and settings do not count, nor do those of searches
// with replaced components.
func TestSelectionSuccess(t *testing.T) {
	cell := func(weights, method, task, tier string, budget, hits int) results.Cell {
		c := results.Cell{Spec: results.Spec{Task: task, Method: method, Weights: weights, Solver: "cem", Tier: tier, Set: "s101", Rules: results.Rules{Budget: budget, Temperature: float64(len(method))}}}
		for i := range 4 {
			c.Result.Rows = append(c.Result.Rows, results.Row{Episode: i, Success: i < hits})
		}
		return c
	}
	all := []Candidate{{Run: "a", Weights: "a"}, {Run: "b", Weights: "b"}, {Run: "c", Weights: "c"}}
	cells := []results.Cell{cell("a", lewm, "tworoom", "T1", 50, 4), cell("a", lewm, "tworoom", "T5", 50, 2), cell("b", scale, "tworoom", "T5", 50, 1), cell("b", scale, "tworoom", "T1", 60, 4),
		cell("b", scale, "reacher", "T1", 50, 4), cell("d", lewm, "tworoom", "T5", 50, 4)}
	for _, weights := range []string{"a", "b"} {
		probed := cell(weights, lewm, "tworoom", "T5", 50, 4)
		probed.Spec.Wrapper = "probe"
		cells = append(cells, probed)
	}
	got, err := successes("tworoom", all, cells)
	if err != nil || len(got) != 2 || got["a"] != 50 || got["b"] != 25 { // T5 only
		t.Errorf("%v, %v", got, err)
	}
	if got, err = successes("tworoom", all, cells[:2]); err != nil || got["a"] != 75 {
		t.Errorf("%v, %v", got, err)
	}
	for what, some := range map[string][]results.Cell{"no cells of these checkpoints": cells[4:], "no evaluation is common": {cells[0], cells[2]}} {
		if _, err := successes("tworoom", all, some); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
