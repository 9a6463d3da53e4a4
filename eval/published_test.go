package eval

import (
	"context"
	"slices"
	"testing"

	"scalewm/dataset"
	"scalewm/eval/results"
)

// Hashes of sets in the authors' result files (docs/sources.md#published-set-hashes). Episodes
// of these tasks all have one length, so that the counts determine the sets.
func TestAuthorsHash(t *testing.T) {
	for task, sets := range map[string]int{"cube": 101, "reacher": 102, "pointmaze": 103} {
		p, _ := dataset.PublishedSet(task)
		if p.Shortest != p.Longest {
			t.Fatalf("%s has episodes of %d to %d rows", task, p.Shortest, p.Longest)
		}
		starts, err := Draw(slices.Repeat([]int{p.Longest}, p.Episodes), 100, uint64(sets), results.Published())
		must(t, err)
		if got, want := AuthorsHash(sets, 25, starts), p.Sets[sets]; got != want {
			t.Errorf("%s s%d: %s, want %s", task, sets, got, want)
		}
	}
}

// The starts that are solved already, counted one after the other.
func TestSolvedStarts(t *testing.T) {
	src := recordEpisodes(t, 7)
	copy(src.state[:2*5], src.state[2*results.Published().GoalOffset:]) // five rows stand on their goals
	d, err := NewData(src, tworoom(), results.Published())
	must(t, err)
	e, err := tworoom().New(nil)
	must(t, err)
	table, want := newTable(d.lengths()), int64(0)
	valid := table.Valid(results.Published().GoalOffset)
	for _, row := range valid {
		if must(t, d.setTo(e, table.at(row))); e.Solved() {
			want++
		}
	}
	solved, starts, err := d.SolvedStarts(context.Background(), nil)
	if err != nil || starts != int64(len(valid)) || solved != want || want < 5 || want == starts {
		t.Errorf("%d of %d solved, %v, want %d of %d", solved, starts, err, want, len(valid))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := d.SolvedStarts(ctx, nil); err == nil {
		t.Error("a cancelled count ends without an error")
	}
}
