package eval

import (
	"slices"
	"testing"

	"scalewm/eval/results"
)

// Tiers of gradient descent (docs/sources.md#tiers) and of the other solvers.
func TestTierFor(t *testing.T) {
	for i, want := range [][2]int{{100, 90}, {75, 30}, {50, 10}, {20, 5}, {10, 3}} {
		tier := Tiers()[i]
		if got, err := tier.For(results.Descent); err != nil || got.Candidates != want[0] || got.Iterations != want[1] || got.Elites != 0 || got.Name != tier.Name {
			t.Errorf("gd at %s: %+v, %v", tier.Name, got, err)
		}
		if got, err := tier.For(results.ICEM); err != nil || got != tier {
			t.Errorf("icem at %s: %+v, %v", tier.Name, got, err)
		}
	}
	if _, err := newTier("T2p", 100, 20).For(results.Descent); err == nil {
		t.Error("gd has no T2p")
	}
}

func TestParseSolvers(t *testing.T) {
	if s, err := ParseSolvers("all"); err != nil || !slices.Equal(s, []string{results.CEM, results.ICEM, results.MPPI}) {
		t.Errorf("all: %v, %v", s, err)
	}
	if s, err := ParseSolvers("mppi, gd,mppi"); err != nil || !slices.Equal(s, []string{results.MPPI, results.Descent}) {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "cem,", "CEM", "pgd"} {
		if s, err := ParseSolvers(bad); err == nil {
			t.Errorf("%q gave %v", bad, s)
		}
	}
}
