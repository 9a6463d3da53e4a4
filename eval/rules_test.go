package eval

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/eval/results"
)

// Horizon, replan interval, budget and success rule determine how often an episode is
// planned and when it ends. A plan of T5 takes 10 candidates x 3 iterations x one predictor
// call per block of the horizon.
func TestRulesOfAnEpisode(t *testing.T) {
	for _, c := range []struct {
		name                    string
		horizon, replan, budget int
		success                 string
		plans                   int // of an episode that ends with its budget
	}{
		{"published", 5, 0, 50, "", 2},
		{"one block at a time", 5, 1, 25, "", 5},
		{"a short plan", 2, 0, 50, "", 5},
		{"an uneven budget", 5, 2, 25, "", 3},
		{"success at the end", 5, 0, 50, results.SuccessLast, 2},
	} {
		j := testJob(t, "T5", 8, "s101")
		j.Horizon, j.Replan, j.Budget, j.Success = c.horizon, c.replan, c.budget, c.success
		must(t, j.Rules.Check())
		j.World = newDotWorld(t, j.World.Device(), j.Data.Actions, c.horizon)
		for i, row := range run(t, j)[0].Rows {
			steps := 5 * j.Executed()
			if plans := (row.Steps + steps - 1) / steps; row.Steps > c.budget || row.Replans != plans || row.PredictorCalls != plans*10*3*c.horizon {
				t.Errorf("%s, episode %d: %d steps, %d plans, %d calls", c.name, i, row.Steps, row.Replans, row.PredictorCalls)
			}
			if ended := row.Steps == c.budget; ended && row.Replans != c.plans || !ended && (!row.Success || c.success != "") {
				t.Errorf("%s, episode %d: %+v", c.name, i, row)
			}
		}
		spec := j.Spec(0)
		if spec.Horizon != c.horizon || spec.Replan != c.replan || spec.Budget != c.budget || spec.Success != c.success {
			t.Errorf("%s: the cell says %+v", c.name, spec.Rules)
		}
	}
}

// Goals are GoalOffset rows ahead, and a set file with another offset is an error.
func TestGoalOffset(t *testing.T) {
	src := recordEpisodes(t, 8)
	near := rules(results.Paper)
	near.GoalOffset = 10
	d, err := NewData(src, tworoom(), near)
	must(t, err)
	set, err := d.Set("s101", 3)
	must(t, err)
	e, err := tworoom().New(nil)
	must(t, err)
	start := set.Starts[0]
	must(t, d.setTo(e, start))
	goal := src.state[2*(d.fileRow(start)+10):][:2]
	must(t, e.SetState(map[string][]float64{"state": goal}))
	if !e.Solved() {
		t.Errorf("the goal of %v is not the state 10 rows ahead, %v", start, goal)
	}
	path := filepath.Join(t.TempDir(), "near.json")
	must(t, os.WriteFile(path, d.EncodeSet(set), 0o666))
	if again, err := d.Set(path, 3); err != nil || again.Hash != set.Hash {
		t.Errorf("read again: %+v, %v", again, err)
	}
	far, err := NewData(src, tworoom(), rules(results.Paper))
	must(t, err)
	if _, err := far.Set(path, 3); err == nil || !strings.Contains(err.Error(), "its goals are 10 rows ahead, and those of this evaluation 25 (hint: ") {
		t.Errorf("goals 10 rows ahead where 25 are asked for: %v", err)
	}
}

// Split overrides the protocol's choice of episodes for starts.
func TestSplit(t *testing.T) {
	src := recordEpisodes(t, 40)
	held := dataset.HeldOut("a-recording-for-tests", 40)
	for _, c := range []struct {
		protocol, split string
		heldOut         bool
	}{{results.Paper, "", false}, {results.Paper, results.SplitHeldOut, true}, {results.Strict, "", true}, {results.Strict, results.SplitAll, false}} {
		r := rules(c.protocol)
		r.Split = c.split
		d, err := NewData(src, tworoom(), r)
		must(t, err)
		set, err := d.Set("s101", 12)
		must(t, err)
		other := slices.ContainsFunc(set.Starts, func(s Start) bool { return !slices.Contains(held, s.Trajectory) })
		if other == c.heldOut {
			t.Errorf("protocol %s, split %q: starts %v, held-out episodes %v", c.protocol, c.split, set.Starts, held)
		}
	}
}
