package dataset

import "testing"

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
