// Package infer turns outcomes into numbers, and is the only place that does: it pairs arms episode by episode,
// rejects what does not pair, estimates, tests, adjusts, decides claims and checks the folder, so that the same
// cells have the same numbers everywhere. Everything that is shown is a projection of its Table.
//
//	number.go       a number, and the table of all of them
//	build.go        from the contents of a folder to the table
//	fields.go       what every field of a cell is: place, arm, setting, outcome; what pairs share
//	settings.go     which cells belong together, and which tables do
//	place.go        the table, settings and arm of each cell of a folder
//	block.go        the arms, tiers and sets of one task and solver, and their success
//	side.go, csv.go one side of a comparison, from cells or from a CSV file
//	pairs.go        two sides: pairs, intervals, tests; adjust.go: families of them
//	scores.go       statistics over evaluation sets
//	over.go         numbers over several blocks; seeds.go, factors.go: training seeds, planner noise, settings
//	measured.go     numbers from the analyses of checkpoints
//	paper.go        the published numbers; claims.go: what the paper claims
//	checks.go       whether the evaluation can be trusted
//	why.go          what a number rests on
//
// The statistics themselves are in eval/stats. The package knows nothing of
// pages, and draws nothing but fixed streams for its Monte-Carlo tests and
// bootstraps.
package infer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// Tests and intervals of a Difference.
const (
	McNemar     = "mcnemar-exact"
	EpisodeFlip = "sign-flip-episodes"
	Newcombe    = "newcombe"
	Bootstrap   = "bootstrap"
)

// Difference is the comparison at one tier, or over all. Rates and differences are in
// percent and points; p-values are two-sided. With several training seeds, or
// over several tiers, an episode's outcome is its average over them.
type Difference struct {
	Tier      string  `json:"tier"`
	N         int     `json:"n"`       // paired episodes
	EpisodesA int     `json:"n_a"`     // episodes of A
	EpisodesB int     `json:"n_b"`     // episodes of B
	Sets      int     `json:"sets"`    // sets with paired episodes
	Both      int     `json:"both"`    // outcomes where both succeed,
	OnlyA     int     `json:"b"`       // only A,
	OnlyB     int     `json:"c"`       // only B,
	Neither   int     `json:"neither"` // and neither; summed over tiers and seeds
	RateA     float64 `json:"a_percent"`
	RateB     float64 `json:"b_percent"`
	Diff      float64 `json:"diff"` // A - B
	Lo        float64 `json:"lo"`   // 95 % interval
	Hi        float64 `json:"hi"`
	Interval  string  `json:"interval"`
	// Verdict places the 90 % interval against stats.Margin (two one-sided tests at 5 %).
	Verdict stats.Verdict `json:"within_margin"`
	Test    string        `json:"test"`
	P       float64       `json:"p"`
	MidP    *float64      `json:"mid_p,omitempty"` // of McNemar's test
	SetP    float64       `json:"p_sets"`          // exact sign flip over sets
	// HolmP is P adjusted by Holm: of a tier over the tiers of its comparison, of
	// a mean over the family that Adjust was given.
	HolmP *float64 `json:"p_holm,omitempty"`

	Tiers    []string `json:"-"` // that it averages
	Seeds    int      `json:"-"` // training seeds that it averages
	StepDown float64  `json:"-"` // P of a mean, adjusted by Westfall and Young; else NaN
	BH       float64  `json:"-"` // P of a tier, adjusted by Benjamini and Hochberg; else NaN

	episodes []episode
	diffs    []int // of each episode, in whole outcomes A - B
}

// adjusted is the one adjusted p-value of a row that a reader should use: Holm's
// for a mean over tiers (or the only tier), Benjamini and Hochberg's for a tier
// among others.
func (d *Difference) adjusted() float64 {
	if math.IsNaN(d.BH) {
		return Or(d.HolmP)
	}
	return d.BH
}

// Holm is the p-value of a mean adjusted by Holm; NaN of a tier among others (Holm over the tiers of one comparison is another family).
func (d *Difference) Holm() float64 {
	if !math.IsNaN(d.BH) {
		return math.NaN()
	}
	return Or(d.HolmP)
}

// Binary says whether each episode counts 0 or 1 in each arm.
func (d *Difference) Binary() bool { return d.Test == McNemar }

// Comparison is what pairing two arms gave.
type Comparison struct {
	A      string       `json:"a"`
	B      string       `json:"b"`
	ByTier []Difference `json:"rows"`   // by tier, in alphabetical order
	Mean   *Difference  `json:"pooled"` // mean over the tiers, the episode as unit; nil where a tier could not be paired
	Notes  []string     `json:"notes"`  // what was left out, and in what the arms differ without harm

	Task      string      `json:"-"` // of both arms, and they, where the caller says so
	Of, Minus results.Arm `json:"-"`
	Refused   []string    `json:"-"` // what could not be paired, and why
}

// All are the rows by tier and, of more than one tier, their mean.
func (c *Comparison) All() []Difference {
	switch {
	case c.Mean == nil:
		return c.ByTier
	case len(c.ByTier) == 1: // its mean, which has the adjusted p-values, under its own name
		r := *c.Mean
		r.Tier = c.ByTier[0].Tier
		return []Difference{r}
	}
	return append(slices.Clone(c.ByTier), *c.Mean)
}

// Err is the first refusal, for a caller that shows a whole comparison or none.
func (c *Comparison) Err() error {
	if len(c.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("pairing %s and %s: %s (hint: both arms need the same task, protocol, data, sets, tiers and planner settings; `scalewm report` lists what a folder holds)", c.A, c.B, c.Refused[0])
}

func (c *Comparison) refuse(format string, args ...any) {
	c.Refused = append(c.Refused, fmt.Sprintf(format, args...))
}

// Options of Compare.
type Options struct {
	SameDevice bool // refuse to pair plans that were made on different kinds of device
	MeanOnly   bool // no rows of single tiers
}

// Compare pairs the outcomes of two arms. What was not evaluated under the same
// conditions is refused; episodes that only one arm has are left out. Training
// seeds that both have are averaged: at a tier those that have it, in the mean all of them, over the tiers that
// every one has.
func Compare(a, b *Side, o Options) *Comparison {
	c := &Comparison{A: a.Name, B: b.Name, Notes: []string{}} // [] in JSON, never null
	seeds, err := seedPairs(a, b)
	if err != nil {
		c.refuse("%v", err)
		return c
	}
	tiers := c.commonTiers(a, b)
	all := table{pairs: map[episode]fourfold{}}
	kinds := map[string]bool{}
	var ps []float64
	averaged := Averaged(tiers)
	var whole []string // tiers of the mean
	paired := 0        // of them
	for _, tier := range tiers {
		here := c.seedsAt(a, b, tier, seeds)
		mean := len(here) == len(seeds) && slices.Contains(averaged, tier)
		if mean {
			whole = append(whole, tier)
		}
		if len(here) == 0 {
			continue
		}
		t := c.pair(a, b, tier, here, o, kinds)
		if len(t.pairs) == 0 {
			continue
		}
		if mean {
			paired++
			all.join(t)
		}
		if n := len(t.pairs); n < t.episodesA || n < t.episodesB {
			c.Notes = append(c.Notes, fmt.Sprintf("tier %s: %d episodes in both arms, of %d and %d", tier, n, t.episodesA, t.episodesB))
		}
		if !o.MeanOnly {
			r := t.row(tier, []string{tier}, len(here))
			c.ByTier = append(c.ByTier, r)
			ps = append(ps, r.P)
		}
	}
	for i, p := range stats.Holm(ps) {
		c.ByTier[i].HolmP = &p
	}
	c.Notes = append(c.Notes, slices.Sorted(maps.Keys(kinds))...)
	switch {
	case paired < len(whole):
		c.refuse("no mean over the tiers, since one of them could not be paired")
		return c
	case len(whole) == 0 && len(tiers) > 0:
		c.refuse("no mean over the tiers, since none of them is there for every training seed")
		return c
	case len(whole) < len(tiers):
		c.Notes = append(c.Notes, "the mean is over "+strings.Join(whole, ", "))
	}
	c.average(&all, whole, len(seeds))
	return c
}

// Averaged are the tiers, of those given, that a mean over tiers is of. T2p is T2 in another reading, and would count it twice
// where both are there.
func Averaged(tiers []string) []string {
	return slices.DeleteFunc(slices.Clone(tiers), func(t string) bool {
		solver, printed := strings.CutSuffix(t, "T2p")
		return printed && slices.Contains(tiers, solver+"T2")
	})
}

// seedsAt lists the training seeds that both arms have at a tier, and notes the others.
func (c *Comparison) seedsAt(a, b *Side, tier string, seeds [][2]int) (here [][2]int) {
	var lack []string
	for _, s := range seeds {
		switch {
		case len(a.at(s[0], tier)) == 0:
			lack = append(lack, fmt.Sprintf("%d of %s", s[0], c.A))
		case len(b.at(s[1], tier)) == 0:
			lack = append(lack, fmt.Sprintf("%d of %s", s[1], c.B))
		default:
			here = append(here, s)
		}
	}
	if len(lack) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("tier %s without training seed %s, not evaluated there", tier, strings.Join(lack, ", ")))
	}
	return here
}

// average adds the mean over the tiers.
func (c *Comparison) average(all *table, tiers []string, seeds int) {
	if len(tiers) > 0 {
		all.keepComplete(len(tiers) * seeds)
		if len(all.pairs) == 0 {
			c.refuse("no episode is there at all of the %d tiers", len(tiers))
			return
		}
		r := all.row(Mean, tiers, seeds)
		c.Mean = &r
	}
}

// seedPairs are SeedPairs of two arms, or an error.
func seedPairs(a, b *Side) ([][2]int, error) {
	out := SeedPairs(a.seeds(), b.seeds())
	if len(out) == 0 {
		return nil, errors.New("the arms share no training seed")
	}
	return out, nil
}

// SeedPairs lists the training seeds of two arms that are compared: those that both have, or the only one of each.
func SeedPairs(as, bs []int) (out [][2]int) {
	for _, s := range as {
		if slices.Contains(bs, s) {
			out = append(out, [2]int{s, s})
		}
	}
	if len(out) == 0 && len(as) == 1 && len(bs) == 1 {
		out = append(out, [2]int{as[0], bs[0]})
	}
	return out
}

// commonTiers lists the tiers to compare, and notes the others.
func (c *Comparison) commonTiers(a, b *Side) (tiers []string) {
	ta, tb := a.tiers(), b.tiers()
	if slices.Equal(ta, []string{anyTier}) {
		return tb
	}
	if slices.Equal(tb, []string{anyTier}) {
		return ta
	}
	only := func(x, y []string, name string) {
		for _, t := range x {
			if !slices.Contains(y, t) {
				c.Notes = append(c.Notes, fmt.Sprintf("tier %s is only in %s", t, name))
			}
		}
	}
	only(ta, tb, c.A)
	only(tb, ta, c.B)
	tiers = slices.DeleteFunc(ta, func(t string) bool { return !slices.Contains(tb, t) })
	if len(tiers) == 0 {
		c.refuse("they have no tier in common")
	}
	return tiers
}

// episode is one that both arms have.
type episode struct {
	set string
	n   int
}

// list adds their episodes to a list.
func (o outcomes) list(to map[episode]bool) {
	for set, rows := range o {
		for n := range rows {
			to[episode{set, n}] = true
		}
	}
}

func compareEpisodes(a, b episode) int {
	return cmp.Or(strings.Compare(a.set, b.set), cmp.Compare(a.n, b.n))
}

// fourfold counts the pairs of one episode, one a tier and training seed.
type fourfold struct{ both, onlyA, onlyB, neither int }

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

func (f fourfold) diff() int { return f.onlyA - f.onlyB }

func (f fourfold) total() int { return f.both + f.onlyA + f.onlyB + f.neither }

func (f fourfold) plus(g fourfold) fourfold {
	return fourfold{f.both + g.both, f.onlyA + g.onlyA, f.onlyB + g.onlyB, f.neither + g.neither}
}

// table holds the pairs of some tiers.
type table struct {
	pairs                map[episode]fourfold
	episodesA, episodesB int
}

// pair pairs one tier, set by set. A set whose conditions differ between the
// arms is refused; kinds of device that differ are noted in kinds.
func (c *Comparison) pair(a, b *Side, tier string, seeds [][2]int, o Options, kinds map[string]bool) *table {
	t := &table{pairs: map[episode]fourfold{}}
	inA, inB := map[episode]bool{}, map[episode]bool{}
	refused := len(c.Refused)
	for _, s := range seeds {
		xs, ys := a.at(s[0], tier), b.at(s[1], tier)
		xs.list(inA)
		ys.list(inB)
		for _, set := range slices.Sorted(maps.Keys(xs)) {
			for _, n := range slices.Sorted(maps.Keys(xs[set])) {
				x, e := xs[set][n], episode{set, n}
				y, ok := ys[set][n]
				if !ok {
					continue
				}
				if err := x.given.unlike(y.given, o.SameDevice); err != nil {
					c.refuse("tier %s, set %s, episode %d: %v, so the difference would not be the model's", tier, set, n, err)
					maps.DeleteFunc(t.pairs, func(e episode, _ fourfold) bool { return e.set == set })
					break
				}
				if p, q := x.given.of(device), y.given.of(device); p != "" && q != "" && p != q {
					kinds[fmt.Sprintf("%s planned on %s, %s on %s", c.A, p, c.B, q)] = true
				}
				t.pairs[e] = t.pairs[e].plus(pairOf(x.success, y.success))
			}
		}
	}
	t.episodesA, t.episodesB = len(inA), len(inB)
	t.keepComplete(len(seeds))
	if len(t.pairs) == 0 && len(c.Refused) == refused {
		c.refuse("tier %s: none of their %d and %d episodes is in both", tier, len(inA), len(inB))
	}
	return t
}

// join adds the pairs of another tier.
func (t *table) join(o *table) {
	for e, f := range o.pairs {
		t.pairs[e] = t.pairs[e].plus(f)
	}
	t.episodesA, t.episodesB = max(t.episodesA, o.episodesA), max(t.episodesB, o.episodesB)
}

// keepComplete drops the episodes that are not there at every tier and seed.
func (t *table) keepComplete(want int) {
	maps.DeleteFunc(t.pairs, func(_ episode, f fourfold) bool { return f.total() != want })
}

// row estimates and tests the difference. An episode counts 0 or 1 in each arm
// where there is one tier and one seed; else its average is the unit, since its
// outcomes at several tiers are not independent.
func (t *table) row(name string, tiers []string, seeds int) Difference {
	r := Difference{Tier: name, Tiers: tiers, Seeds: seeds, N: len(t.pairs), EpisodesA: t.episodesA, EpisodesB: t.episodesB, StepDown: math.NaN(), BH: math.NaN()}
	want := len(tiers) * seeds
	var sum fourfold
	var bySet [][]float64 // A - B an episode, in [-1, 1]
	var setDiffs []int
	r.episodes = slices.SortedFunc(maps.Keys(t.pairs), compareEpisodes)
	for i, e := range r.episodes {
		if i == 0 || e.set != r.episodes[i-1].set {
			bySet, setDiffs = append(bySet, nil), append(setDiffs, 0)
		}
		last, f := len(bySet)-1, t.pairs[e]
		bySet[last] = append(bySet[last], float64(f.diff())/float64(want))
		setDiffs[last] += f.diff()
		r.diffs = append(r.diffs, f.diff())
		sum = sum.plus(f)
	}
	r.Both, r.OnlyA, r.OnlyB, r.Neither = sum.both, sum.onlyA, sum.onlyB, sum.neither
	percent := func(n int) float64 { return 100 * float64(n) / float64(sum.total()) }
	r.RateA, r.RateB, r.Diff = percent(sum.both+sum.onlyA), percent(sum.both+sum.onlyB), percent(sum.diff())
	r.Sets, r.SetP = len(bySet), stats.SignFlipExact(setDiffs)
	var interval func(level float64) stats.Interval
	if want == 1 {
		counts := stats.Fourfold{Both: sum.both, OnlyA: sum.onlyA, OnlyB: sum.onlyB, Neither: sum.neither}
		interval = func(level float64) stats.Interval { return stats.Newcombe(counts, level) }
		p, mid := stats.McNemar(sum.onlyA, sum.onlyB)
		r.P, r.MidP, r.Test, r.Interval = p, &mid, McNemar, Newcombe
	} else {
		r.P = stats.SignFlip(bySet, rng.Stream("report sign flip"))
		interval = stats.Bootstrap(bySet, rng.Stream("report bootstrap")).Interval
		r.Test, r.Interval = EpisodeFlip, Bootstrap
	}
	iv := interval(0.95)
	r.Lo, r.Hi = 100*iv.Lo, 100*iv.Hi
	r.Verdict = interval(stats.EquivalenceLevel).Within(stats.Margin / 100.0)
	return r
}
