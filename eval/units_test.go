package eval

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
)

func smallGrid() Grid {
	return Grid{Tasks: []string{"pusht", "cube"}, Methods: []string{"lewm", "scale", Random}, Seeds: []int64{1, 2},
		Solvers: []string{CEM, MPPI}, Tiers: []string{"T1", "T5"},
		Sets: map[string][]string{"pusht": {"s101", "s102", "s103"}, "cube": {"s101"}}}
}

// names lists units as a dry run does.
func names(units []Unit) []string {
	var out []string
	for _, u := range units {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", u.Verb, u.Name(), strings.Join(u.Sets, ","))))
	}
	return out
}

// TestUnits: the whole list of a grid of one task, by hand.
func TestUnits(t *testing.T) {
	g := smallGrid()
	g.Tasks, g.Methods, g.Seeds, g.Tuned = []string{"cube"}, []string{"scale", "lewm", Random}, []int64{7}, true
	want := []string{"collect cube", "train cube lewm s7", "tune cube lewm s7", "train cube scale s7",
		"evaluate cube scale s7 cem T1 s101", "evaluate cube scale s7 cem T5 s101", "evaluate cube scale s7 mppi T1 s101", "evaluate cube scale s7 mppi T5 s101",
		"evaluate cube lewm s7 cem T1 s101", "evaluate cube lewm s7 cem T5 s101", "evaluate cube lewm s7 mppi T1 s101", "evaluate cube lewm s7 mppi T5 s101",
		"evaluate cube random s101", "report"}
	if got := names(g.Units()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	g.Solvers = []string{CEM}
	if got := names(g.Units()); strings.Contains(strings.Join(got, "\n"), "tune") {
		t.Errorf("tuned without mppi: %v", got)
	}
}

// cellsOf counts how often each cell is listed.
func cellsOf(units []Unit) map[string]int {
	out := map[string]int{}
	for _, u := range units {
		for _, s := range u.Sets {
			out[u.Name()+" "+s]++
		}
	}
	return out
}

// TestShards: whatever the number of shards, every cell is listed once in all,
// after the data and the checkpoint that it needs; no two shards of a grid with
// enough arms train the same one.
func TestShards(t *testing.T) {
	g := smallGrid()
	whole := cellsOf(g.Units())
	if len(whole) != 2*2*4*3+3+2*2*4+1 { // two methods x two seeds x four jobs, and random, of three sets and of one
		t.Errorf("%d cells", len(whole))
	}
	for _, n := range []int{1, 2, 3, 7, 10, 11, 24, 200} {
		all, trained := map[string]int{}, map[string]int{}
		for i := range n {
			g.Shard = cell.Shard{I: i, N: n}
			units := g.Units()
			seen := map[string]bool{}
			for _, u := range units {
				seen[string(u.Verb)+u.Task] = true
				switch u.Verb {
				case Train:
					seen[u.Arm()] = true
					trained[u.Arm()]++
				case Evaluate:
					if !seen["collect"+u.Task] || u.Method != Random && !seen[u.Arm()] {
						t.Errorf("%d of %d: %s comes before what it needs", i, n, u.Name())
					}
				}
			}
			for c, k := range cellsOf(units) {
				all[c] += k
			}
		}
		if len(all) != len(whole) {
			t.Errorf("%d shards: %d cells of %d", n, len(all), len(whole))
		}
		for c, k := range all {
			if k != 1 {
				t.Errorf("%d shards: %s is listed %d times", n, c, k)
			}
		}
		if n <= 10 { // arms: 2 tasks x (2 methods x 2 seeds + random)
			for arm, k := range trained {
				if k != 1 {
					t.Errorf("%d shards: %s is trained %d times", n, arm, k)
				}
			}
		}
	}
}

// Ladder of gradient descent (docs/sources.md#tiers), and tiers of the others.
func TestTierFor(t *testing.T) {
	for i, want := range [][2]int{{100, 90}, {75, 30}, {50, 10}, {20, 5}, {10, 3}} {
		tier := Tiers()[i]
		if got, err := tier.For(Descent); err != nil || got.Candidates != want[0] || got.Iterations != want[1] || got.Elites != 0 || got.Name != tier.Name {
			t.Errorf("gd at %s: %+v, %v", tier.Name, got, err)
		}
		if got, err := tier.For(ICEM); err != nil || got != tier {
			t.Errorf("icem at %s: %+v, %v", tier.Name, got, err)
		}
	}
	if _, err := newTier("T2p", 100, 20).For(Descent); err == nil {
		t.Error("gd has no T2p")
	}
}

func TestParseSolvers(t *testing.T) {
	if s, err := ParseSolvers("all"); err != nil || !slices.Equal(s, []string{CEM, ICEM, MPPI}) {
		t.Errorf("all: %v, %v", s, err)
	}
	if s, err := ParseSolvers("mppi, gd,mppi"); err != nil || !slices.Equal(s, []string{MPPI, Descent}) {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "cem,", "CEM", "pgd"} {
		if s, err := ParseSolvers(bad); err == nil {
			t.Errorf("%q gave %v", bad, s)
		}
	}
}
