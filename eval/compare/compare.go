package compare

import (
	"fmt"
	"slices"

	"scalewm/dataset/rng"
	"scalewm/eval/stats"
)

// Mean is the name of the row over all tiers.
const Mean = "mean"

// Tests and intervals of a Row.
const (
	McNemar     = "mcnemar-exact"
	EpisodeFlip = "sign-flip-episodes"
	Newcombe    = "newcombe"
	Bootstrap   = "bootstrap"
)

// Row is the comparison at one tier, or over all. Rates and differences are in
// percent and points; p-values are two-sided.
type Row struct {
	Tier     string  `json:"tier"`
	N        int     `json:"n"`       // paired episodes
	EpisodeA int     `json:"n_a"`     // episodes of A
	EpisodeB int     `json:"n_b"`     // episodes of B
	Sets     int     `json:"sets"`    // sets with paired episodes
	Both     int     `json:"both"`    // outcomes where both succeed,
	OnlyA    int     `json:"b"`       // only A,
	OnlyB    int     `json:"c"`       // only B,
	Neither  int     `json:"neither"` // and neither; over all tiers, summed over them
	RateA    float64 `json:"a_percent"`
	RateB    float64 `json:"b_percent"`
	Diff     float64 `json:"diff"` // A - B
	Lo       float64 `json:"lo"`   // 95 % interval
	Hi       float64 `json:"hi"`
	Interval string  `json:"interval"`
	// Verdict places the 90 % interval against stats.Margin (two one-sided tests at 5 %).
	Verdict stats.Verdict `json:"within_margin"`
	Test    string        `json:"test"`
	P       float64       `json:"p"`
	MidP    *float64      `json:"mid_p,omitempty"`  // of McNemar's test
	SetP    float64       `json:"p_sets"`           // exact sign flip over sets
	HolmP   *float64      `json:"p_holm,omitempty"` // P of a tier, adjusted for the number of tiers
}

// Result is a whole comparison.
type Result struct {
	A     string   `json:"a"`
	B     string   `json:"b"`
	Rows  []Row    `json:"rows"`   // by tier
	Mean  Row      `json:"pooled"` // mean over the tiers, the episode as unit
	Notes []string `json:"notes"`  // what was left out
}

// Compare pairs the outcomes of two arms. Arms that were not evaluated under
// the same conditions are an error; episodes that only one has are left out.
func Compare(a, b *Arm) (*Result, error) {
	tiers, notes := commonTiers(a, b)
	if len(tiers) == 0 {
		return nil, fmt.Errorf("pairing %s and %s: they have no tier in common (%v and %v) (hint: evaluate both at the same tiers)", a.Name, b.Name, a.tiers(), b.tiers())
	}
	r := &Result{A: a.Name, B: b.Name, Notes: append([]string{}, notes...)} // [] in JSON where there are none
	var ps []float64
	all := &table{pairs: map[episode]fourfold{}}
	for _, tier := range tiers {
		t, err := pairTier(a, b, tier)
		if err != nil {
			return nil, fmt.Errorf("pairing %s and %s: %w", a.Name, b.Name, err)
		}
		row := t.row(tier)
		if row.N < row.EpisodeA || row.N < row.EpisodeB {
			r.Notes = append(r.Notes, fmt.Sprintf("tier %s: %d episodes in both arms, of %d and %d", tier, row.N, row.EpisodeA, row.EpisodeB))
		}
		t.binary(&row)
		r.Rows = append(r.Rows, row)
		ps = append(ps, row.P)
		all.join(t)
	}
	for i, p := range stats.Holm(ps) {
		r.Rows[i].HolmP = &p
	}
	if err := r.pool(all, len(tiers)); err != nil {
		return nil, fmt.Errorf("pairing %s and %s: %w", a.Name, b.Name, err)
	}
	return r, nil
}

// pool adds the row over all tiers.
func (r *Result) pool(all *table, tiers int) error {
	if tiers == 1 {
		r.Mean = r.Rows[0]
		r.Mean.Tier, r.Mean.HolmP = Mean, nil
		return nil
	}
	all.keepComplete(tiers)
	if len(all.pairs) == 0 {
		return fmt.Errorf("no episode is there at all of the %d tiers (hint: compare the tiers one by one, with CSV files of one tier)", tiers)
	}
	r.Mean = all.row(Mean)
	all.averaged(&r.Mean, tiers)
	return nil
}

// commonTiers lists the tiers to compare, and notes the others.
func commonTiers(a, b *Arm) (tiers, notes []string) {
	ta, tb := a.tiers(), b.tiers()
	if slices.Equal(ta, []string{anyTier}) {
		return tb, nil
	}
	if slices.Equal(tb, []string{anyTier}) {
		return ta, nil
	}
	for _, t := range ta {
		if slices.Contains(tb, t) {
			tiers = append(tiers, t)
		} else {
			notes = append(notes, fmt.Sprintf("tier %s is only in %s", t, a.Name))
		}
	}
	for _, t := range tb {
		if !slices.Contains(ta, t) {
			notes = append(notes, fmt.Sprintf("tier %s is only in %s", t, b.Name))
		}
	}
	return tiers, notes
}

// intervals fills in the 95 % interval and what the 90 % one says of the margin.
func (r *Row) intervals(of func(level float64) stats.Interval) {
	iv := of(0.95)
	r.Lo, r.Hi = 100*iv.Lo, 100*iv.Hi
	r.Verdict = of(stats.EquivalenceLevel).Judge(stats.Margin / 100.0)
}

// binary tests outcomes of one tier.
func (t *table) binary(r *Row) {
	pairs := stats.Fourfold{Both: r.Both, OnlyA: r.OnlyA, OnlyB: r.OnlyB, Neither: r.Neither}
	r.intervals(func(level float64) stats.Interval { return stats.Newcombe(pairs, level) })
	r.Interval = Newcombe
	p, mid := stats.McNemar(r.OnlyA, r.OnlyB)
	r.P, r.MidP, r.Test = p, &mid, McNemar
}

// averaged tests means over tiers, with the episode as unit: the tiers of an
// episode are not independent.
func (t *table) averaged(r *Row, tiers int) {
	var bySet [][]float64
	for _, set := range t.sets() {
		var d []float64
		for _, e := range set {
			d = append(d, float64(t.pairs[e].diff())/float64(tiers))
		}
		bySet = append(bySet, d)
	}
	r.intervals(stats.Bootstrap(bySet, rng.Stream("compare bootstrap")).Interval)
	r.Interval = Bootstrap
	r.P, r.Test = stats.SignFlip(bySet, rng.Stream("compare sign flip")), EpisodeFlip
}
