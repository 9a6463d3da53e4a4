// Package infer turns the outcomes of episodes into numbers. It pairs arms episode by episode,
// rejects what cannot be paired, estimates, tests, corrects for several tests, decides the
// paper's claims and checks the folder. No other package does, so the same cells give the
// same numbers in the report, its CSV and JSON, `compare` and `eval`.
//
// [Infer] takes the contents of a results folder and returns a [Table] of [Number] rows, which
// reports and other views select from. [Compare] pairs two arms of any origin, including CSV
// files.
//
// The unit of an inference is stated in every number. Intervals over episodes describe the
// checkpoints at hand; only intervals over training seeds describe methods.
//
//	number.go       a number, and the table of all of them
//	build.go        from the contents of a folder to the table
//	fields.go       the role of every field of a cell: place, arm, setting, outcome; conditions of pairs
//	settings.go     which cells, and which blocks, belong together
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
// The statistical procedures are in eval/stats. Monte Carlo tests and bootstraps use fixed random
// streams, so that equal cells give equal numbers. The package knows nothing of pages.
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

// Names of the tests and intervals of a Difference.
const (
	McNemar     = "mcnemar-exact"
	EpisodeFlip = "sign-flip-episodes"
	Newcombe    = "newcombe"
	Bootstrap   = "bootstrap"
)

// Difference is the comparison of two arms at one tier, or averaged over tiers. Rates are in
// percent, differences in points, p-values two-sided. With several training seeds or tiers,
// the outcome of an episode is its average over them.
type Difference struct {
	Tier      string  `json:"tier"`
	N         int     `json:"n"`       // paired episodes, the unit of intervals and tests
	EpisodesA int     `json:"n_a"`     // episodes of A
	EpisodesB int     `json:"n_b"`     // episodes of B
	Sets      int     `json:"sets"`    // sets with paired episodes
	Both      int     `json:"both"`    // pairs in which both succeed, summed over tiers and seeds
	OnlyA     int     `json:"b"`       // pairs in which only A succeeds
	OnlyB     int     `json:"c"`       // pairs in which only B succeeds
	Neither   int     `json:"neither"` // pairs in which neither succeeds
	RateA     float64 `json:"a_percent"`
	RateB     float64 `json:"b_percent"`
	Diff      float64 `json:"diff"` // A - B
	Lo        float64 `json:"lo"`   // 95 % interval
	Hi        float64 `json:"hi"`
	Interval  string  `json:"interval"`
	// Verdict compares the 90 % interval with stats.Margin (two one-sided tests at 5 %).
	Verdict stats.Verdict `json:"within_margin"`
	Test    string        `json:"test"`
	P       float64       `json:"p"`
	MidP    *float64      `json:"mid_p,omitempty"` // of McNemar's test
	SetP    float64       `json:"p_sets"`          // exact sign-flip test with the set as the unit
	// HolmP is P adjusted by Holm: for a tier over the tiers of its comparison, for a mean
	// over the family that was passed to Adjust.
	HolmP *float64 `json:"p_holm,omitempty"`

	Tiers    []string `json:"-"` // tiers that are averaged
	Seeds    int      `json:"-"` // number of training seeds that are averaged
	StepDown float64  `json:"-"` // P adjusted by Westfall and Young, for means; else NaN
	BH       float64  `json:"-"` // P adjusted by Benjamini and Hochberg, for single tiers; else NaN

	episodes []episode
	diffs    []int // A - B of each episode, as a count of successes
}

// adjusted returns the adjusted p-value that readers should use: Holm's for a mean over tiers or
// the only tier, which confirms, and Benjamini and Hochberg's for one tier among several, which
// explores.
func (d *Difference) adjusted() float64 {
	if math.IsNaN(d.BH) {
		return Or(d.HolmP)
	}
	return d.BH
}

// Holm returns the p-value of a mean adjusted by Holm, and NaN for one tier among several: Holm's
// correction over the tiers of a comparison is another family.
func (d *Difference) Holm() float64 {
	if !math.IsNaN(d.BH) {
		return math.NaN()
	}
	return Or(d.HolmP)
}

// Binary reports whether each episode counts 0 or 1 in each arm.
func (d *Difference) Binary() bool { return d.Test == McNemar }

// Comparison is the result of comparing two arms.
type Comparison struct {
	A      string       `json:"a"`
	B      string       `json:"b"`
	ByTier []Difference `json:"rows"`   // by tier, in alphabetical order
	Mean   *Difference  `json:"pooled"` // mean over tiers with the episode as the unit; nil if a tier could not be paired
	Notes  []string     `json:"notes"`  // what was left out, and differences between the arms that do not matter

	Task      string      `json:"-"` // set by blocks, like Of and Minus
	Of, Minus results.Arm `json:"-"`
	Refused   []string    `json:"-"` // what could not be paired, and why
}

// All returns the rows by tier and, if there are several, their mean.
func (c *Comparison) All() []Difference {
	switch {
	case c.Mean == nil:
		return c.ByTier
	case len(c.ByTier) == 1: // the mean has the adjusted p-values; give it the tier's name
		r := *c.Mean
		r.Tier = c.ByTier[0].Tier
		return []Difference{r}
	}
	return append(slices.Clone(c.ByTier), *c.Mean)
}

// Err returns an error if anything could not be paired, for callers that show a comparison
// completely or not at all.
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
	SameDevice bool // do not pair plans from different kinds of device
	MeanOnly   bool // skip the rows of single tiers, to save time
}

// Compare pairs the outcomes of two arms and estimates their difference.
//
// A set that was not evaluated under the same conditions in both arms is not paired, and
// Refused says why. Episodes that only one arm has are dropped. Training seeds that both arms
// have are averaged: at a tier those that were evaluated there, in the mean all of them, over
// the tiers that all of them have.
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
	var complete []string // tiers that every training seed has: those of the mean
	paired := 0           // how many of them could be paired
	for _, tier := range tiers {
		here := c.seedsAt(a, b, tier, seeds)
		mean := len(here) == len(seeds) && slices.Contains(averaged, tier)
		if mean {
			complete = append(complete, tier)
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
	case paired < len(complete):
		c.refuse("no mean over the tiers, because one of them could not be paired")
		return c
	case len(complete) == 0 && len(tiers) > 0:
		c.refuse("no mean over the tiers, because no tier has all training seeds")
		return c
	case len(complete) < len(tiers):
		c.Notes = append(c.Notes, "the mean is over "+strings.Join(complete, ", "))
	}
	c.average(&all, complete, len(seeds))
	return c
}

// Averaged returns the tiers over which a mean is taken. It drops T2p, the paper's printed
// reading of T2, if T2 is there too, because T2 would count twice.
func Averaged(tiers []string) []string {
	return slices.DeleteFunc(slices.Clone(tiers), func(t string) bool {
		solver, printed := strings.CutSuffix(t, "T2p")
		return printed && slices.Contains(tiers, solver+"T2")
	})
}

// seedsAt returns the training seeds that both arms have at a tier, and notes the others.
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

// seedPairs returns the SeedPairs of two arms, or an error if there are none.
func seedPairs(a, b *Side) ([][2]int, error) {
	out := SeedPairs(a.seeds(), b.seeds())
	if len(out) == 0 {
		return nil, errors.New("the arms share no training seed")
	}
	return out, nil
}

// SeedPairs returns the pairs of training seeds that are compared: the seeds that both arms have,
// or the only seed of each arm, whatever it is.
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

// commonTiers returns the tiers to compare, and notes the others.
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

// episode identifies an episode: its set and its index in the set.
type episode struct {
	set string
	n   int
}

// list adds the episodes of o to a set of episodes.
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

// fourfold counts the pairs of outcomes of one episode, one per tier and training seed.
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

// table holds the pairs of one or more tiers.
type table struct {
	pairs                map[episode]fourfold
	episodesA, episodesB int
}

// pair pairs the outcomes at one tier, set by set. A set whose conditions differ between the arms
// is rejected completely, since its difference would not be due to the models. Differing kinds
// of device are added to kinds.
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
		c.refuse("tier %s: the arms have %d and %d episodes, and none in common", tier, len(inA), len(inB))
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

// keepComplete drops the episodes that do not have all pairs, one per tier and seed.
func (t *table) keepComplete(want int) {
	maps.DeleteFunc(t.pairs, func(_ episode, f fourfold) bool { return f.total() != want })
}

// row estimates and tests the difference. With one tier and one seed an episode counts 0 or 1 in
// each arm, which allows McNemar's exact test and Newcombe's interval. Otherwise the average
// of an episode is the unit, because its outcomes at several tiers are not independent; then
// the test flips signs by episode, and the interval is a bootstrap over episodes.
func (t *table) row(name string, tiers []string, seeds int) Difference {
	r := Difference{Tier: name, Tiers: tiers, Seeds: seeds, N: len(t.pairs), EpisodesA: t.episodesA, EpisodesB: t.episodesB, StepDown: math.NaN(), BH: math.NaN()}
	want := len(tiers) * seeds
	var sum fourfold
	var bySet [][]float64 // A - B of each episode, in [-1, 1]
	var setDiffs []int    // A - B of each set, as a count of successes
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
