package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/stats"
)

// episode is one that both arms have.
type episode struct {
	set string
	n   int
}

// fourfold counts the outcomes of one episode's pairs, one a tier.
type fourfold struct{ both, onlyA, onlyB, neither int }

// diff is the successes of A minus those of B.
func (f fourfold) diff() int { return f.onlyA - f.onlyB }

func (f fourfold) tiers() int { return f.both + f.onlyA + f.onlyB + f.neither }

func (f fourfold) plus(g fourfold) fourfold {
	return fourfold{f.both + g.both, f.onlyA + g.onlyA, f.onlyB + g.onlyB, f.neither + g.neither}
}

// table holds the paired outcomes of some tiers.
type table struct {
	pairs                map[episode]fourfold
	episodesA, episodesB int
}

// pairTier pairs one tier, after checking that its conditions agree.
func pairTier(a, b *Arm, tier string) (*table, error) {
	oa, ob := a.at(tier), b.at(tier)
	t := &table{pairs: map[episode]fourfold{}, episodesA: len(oa), episodesB: len(ob)}
	for _, e := range slices.SortedFunc(maps.Keys(oa), compareEpisodes) {
		x := oa[e]
		y, ok := ob[e]
		if !ok {
			continue
		}
		if err := x.given.Unlike(y.given); err != nil {
			return nil, fmt.Errorf("tier %s, set %s, episode %d: %w, so the difference would not be the model's (hint: evaluate both arms with the same data, sets, tiers and protocol on the same kind of device)", tier, e.set, e.n, err)
		}
		t.pairs[e] = pairOf(x.success, y.success)
	}
	if len(t.pairs) == 0 {
		return nil, fmt.Errorf("tier %s: none of their %d and %d episodes is in both (hint: evaluate both arms on the same sets)", tier, len(oa), len(ob))
	}
	return t, nil
}

// at are the arm's outcomes at a tier, those of an arm without tiers at any.
func (a *Arm) at(tier string) map[episode]outcome {
	out := map[episode]outcome{}
	for u, o := range a.outcomes {
		switch u.tier {
		case tier:
			out[episode{u.set, u.episode}] = o
		case anyTier:
			o.given = o.given.Unplanned()
			out[episode{u.set, u.episode}] = o
		}
	}
	return out
}

func pairOf(a, b bool) fourfold {
	switch {
	case a && b:
		return fourfold{both: 1}
	case a:
		return fourfold{onlyA: 1}
	case b:
		return fourfold{onlyB: 1}
	}
	return fourfold{neither: 1}
}

// join adds the outcomes of another tier.
func (t *table) join(o *table) {
	for e, f := range o.pairs {
		t.pairs[e] = t.pairs[e].plus(f)
	}
	t.episodesA, t.episodesB = max(t.episodesA, o.episodesA), max(t.episodesB, o.episodesB)
}

// keepComplete drops the episodes that are not there at every tier.
func (t *table) keepComplete(tiers int) {
	maps.DeleteFunc(t.pairs, func(_ episode, f fourfold) bool { return f.tiers() != tiers })
}

// sets are the episodes of each set, both in order.
func (t *table) sets() [][]episode {
	var out [][]episode
	for i, e := range slices.SortedFunc(maps.Keys(t.pairs), compareEpisodes) {
		if i == 0 || e.set != out[len(out)-1][0].set {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e)
	}
	return out
}

func compareEpisodes(a, b episode) int {
	return cmp.Or(strings.Compare(a.set, b.set), cmp.Compare(a.n, b.n))
}

// row fills in what needs no model of the outcomes: counts, rates and the sign
// flip over sets.
func (t *table) row(tier string) Row {
	r := Row{Tier: tier, N: len(t.pairs), EpisodeA: t.episodesA, EpisodeB: t.episodesB}
	var sum fourfold
	var bySet []int
	for _, set := range t.sets() {
		var s fourfold
		for _, e := range set {
			s = s.plus(t.pairs[e])
		}
		sum = sum.plus(s)
		bySet = append(bySet, s.diff())
	}
	r.Both, r.OnlyA, r.OnlyB, r.Neither = sum.both, sum.onlyA, sum.onlyB, sum.neither
	scale := 100 / float64(sum.tiers())
	r.RateA, r.RateB = scale*float64(sum.both+sum.onlyA), scale*float64(sum.both+sum.onlyB)
	r.Diff = scale * float64(sum.diff())
	r.Sets, r.SetP = len(bySet), stats.SignFlipExact(bySet)
	return r
}
