package pipeline

import (
	"errors"
	"path/filepath"
	"testing"

	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// A failure during a measurement is returned as its error.
func TestDouble(t *testing.T) {
	no := errors.New("no")
	if _, err := timeDoubling(t.Context(), 2, func(int) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

// with extends a range at the end where the time is outside. Ranges print in the unit
// that suits their size.
func TestSeconds(t *testing.T) {
	s := Seconds{}.with(3).with(2).with(2.5).times(2).plus(Seconds{1, 1})
	if s != (Seconds{5, 7}) {
		t.Errorf("%+v", s)
	}
	for s, want := range map[Seconds]string{{5, 7}: "5 s to 7 s", {60, 60}: "60 s", {60, 7200}: "60 s to 2.0 h", {600, 900}: "10 min to 15 min"} {
		if s.String() != want {
			t.Errorf("%+v reads %q, want %q", s, s, want)
		}
	}
}

// A trial times episodes only and draws no film, whose time would count as theirs.
func TestTrialMakesNoFilm(t *testing.T) {
	w := tinyWorkspace(t, "tworoom")
	w.Grid.Methods = lookUp(t, model.LookUp, model.Untrained)
	dir := t.TempDir()
	r := &Rates{step: map[string]Seconds{}, weights: map[string]int64{}, planned: map[[2]string]map[eval.Tier]Seconds{}, analysis: map[string]Seconds{}}
	if err := w.timeArms(t.Context(), r, dir); err != nil {
		t.Fatal(err)
	}
	films, err := filepath.Glob(filepath.Join(dir, "*", "watch", "*"))
	if err != nil || len(films) > 0 || len(r.planned) != 1 {
		t.Errorf("films %q, plans %v (%v)", films, r.planned, err)
	}
}

// A tier that was not measured costs in proportion to its rollouts: T1 has 9,000, T5
// 30.
func TestPlanIsScaled(t *testing.T) {
	tiers := eval.Tiers()
	s := &Evaluate{solver: results.CEM, tier: tiers[0]}
	r := &Rates{planned: map[[2]string]map[eval.Tier]Seconds{{"", results.CEM}: {tiers[4]: {1, 2}}}}
	if got := r.plan(s); got != (Seconds{300, 600}) {
		t.Errorf("T1 from T5: %+v", got)
	}
	s.tier = tiers[4]
	if got := r.plan(s); got != (Seconds{1, 2}) {
		t.Errorf("T5: %+v", got)
	}
}
