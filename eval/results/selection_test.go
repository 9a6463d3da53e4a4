package results

import (
	"math"
	"strings"
	"testing"
)

// The measures of two clips, by hand: errors .2 and .4, of a latent that never changes .5
// and 1, with other actions .4 and .4. Lower is better for errors, ranks and SIGReg.
func TestSelectionMeasures(t *testing.T) {
	s := &Selection{ProbeR2: .9, Alignment: .8, SIGReg: 1.5, EffectiveRank: .3, PerClip: []ClipScore{
		{Error: .2, NoChange: .5, OtherActions: .4, NextRank: .1, Sensitivity: 1}, {Error: .4, NoChange: 1, OtherActions: .4, NextRank: .2, Sensitivity: 2}}}
	want := map[string]struct{ value, sign float64 }{"rollout_error": {.3, -1}, "over_copy_last": {.4, -1}, "over_shuffled": {.75, -1}, "next_rank": {.15, -1},
		"action_sensitivity": {1.5, 1}, "probe_r2": {.9, 1}, "alignment": {.8, 1}, "sigreg": {1.5, -1}, "effective_rank": {.3, 1}}
	if len(SelectionMeasures) != len(want) {
		t.Errorf("%d measures", len(SelectionMeasures))
	}
	for name, w := range want {
		m, err := SelectionMeasureOf(name)
		if got := float64(m.Value(s)); err != nil || math.Abs(got-w.value) > 1e-12 || m.Sign() != w.sign {
			t.Errorf("%s: %g with sign %g, want %g with %g (%v)", name, got, m.Sign(), w.value, w.sign, err)
		}
		if v := m.Value(nil); v == v {
			t.Errorf("%s of nothing is %g", name, v)
		}
	}
	if _, err := SelectionMeasureOf("loss"); err == nil || !strings.Contains(err.Error(), "(hint: rollout_error, ") {
		t.Error(err)
	}
}
