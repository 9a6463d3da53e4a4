package dataset

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The numbers of rows and of starts are of docs/sources.md#published-sets: a start has a
// goal 25 rows later, and no published episode is shorter.
func TestPublishedSets(t *testing.T) {
	for task, starts := range map[string]int{"pusht": 1_869_611, "tworoom": 670_809, "pointmaze": 150_000, "reacher": 1_760_000, "cube": 1_760_000} {
		p, ok := PublishedSet(task)
		if !ok || p.Rows-25*p.Episodes != starts {
			t.Errorf("%s: %d rows in %d episodes, want %d starts", task, p.Rows, p.Episodes, starts)
		}
		if mean := float64(p.Rows) / float64(p.Episodes); mean < float64(p.Shortest) || mean > float64(p.Longest) {
			t.Errorf("%s: episodes of %d to %d rows have a mean of %g", task, p.Shortest, p.Longest, mean)
		}
		for _, f := range p.Figures {
			if f.SD != nil && f.Mean != nil && len(f.SD) != len(f.Mean) || len(f.Low) != len(f.High) {
				t.Errorf("%s: the figures of %s differ in number", task, f.Of)
			}
		}
		if !IsPublished(task, p.Episodes, p.Rows) || IsPublished(task, p.Episodes, p.Rows-1) || IsPublished(task, p.Episodes-1, p.Rows) {
			t.Errorf("%s: the counts of the published set are not distinguished from others", task)
		}
	}
	if _, ok := PublishedSet("pendulum"); ok || IsPublished("pendulum", 0, 0) {
		t.Error("the pendulum has no published set")
	}
}

// Two episodes of 3 and 2 rows whose actions are those of newFake: (-3, 0), (-2, 1), none,
// (0, 9), none. The state of all rows is computed by testQ from the row's number.
func TestCompare(t *testing.T) {
	p := Published{Task: "x", Episodes: 4, Rows: 5, Shortest: 1, Longest: 3, Figures: []Figure{
		{Of: "action", Mean: []float64{1, math.NaN()}, SD: []float64{0, 0}, Low: []float64{-3, -1}, High: []float64{0, 8}},
		{Of: "velocity", Mean: []float64{1}}, {Of: "step_idx", Mean: []float64{1, 2}}, {Of: "q", Mean: []float64{0, 0}},
	}}
	src := newFake(t, 3, 2)
	got, missing, err := p.Compare(src, testQ)
	if err != nil || len(missing) != 2 || !strings.HasPrefix(missing[0], "velocity: ") || missing[1] != "step_idx: it has 1 numbers, the published one 2" {
		t.Fatalf("%v, %q", err, missing)
	}
	q, err := ColumnMoments(src, "action", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Comparison{{"episodes", 2, 4, -2}, {"rows", 5, 5, 0}, {"rows of the shortest episode", 2, 1, 1}, {"rows of the longest episode", 3, 3, 0},
		{"mean rows of an episode", 2.5, 1.25, 1.25}, {"action[0] mean", -5. / 3, 1, -8. / 3}, {"action[1] SD", q.Std[1], 0, q.Std[1]},
		{"action[0] least", -3, -3, 0}, {"action[1] greatest", 9, 8, 1}} {
		if !slices.ContainsFunc(got, func(c Comparison) bool {
			return c.Quantity == want.Quantity && c.Published == want.Published && math.Abs(c.Here-want.Here)+math.Abs(c.Difference-want.Difference) < 1e-12
		}) {
			t.Errorf("no %+v among %+v", want, got)
		}
	}
	if len(got) != 5+7+2 || !strings.HasPrefix(got[12].Quantity, "q: ") {
		t.Errorf("%d comparisons: an unknown value was compared, or a known one left out: %+v", len(got), got)
	}
}

func TestCountsNote(t *testing.T) {
	p := Published{Task: "x", Episodes: 4, Rows: 50}
	for _, c := range []struct {
		episodes, rows int
		want           string
	}{{4, 50, "4 episodes and 50 rows, as the published set of x"}, {4, 49, "4 episodes, as the published set of x, but 49 rows, not 50"},
		{5, 50, "50 rows, as the published set of x, but 5 episodes, not 4"}, {5, 49, ""}} {
		if got := p.CountsNote(c.episodes, c.rows); got != c.want {
			t.Errorf("%d, %d: %q, want %q", c.episodes, c.rows, got, c.want)
		}
	}
}
