// Package infer computes the numbers of a results folder from its cells. It pairs arms
// episode by episode, estimates and tests their differences, adjusts p-values for
// multiplicity, decides the paper's claims, and checks that the folder can be trusted. It
// is the only package that does so: the report, its CSV and JSON, and the verbs show rows
// of its Table, so a number has the same value everywhere.
//
// Infer computes the Table of a folder's contents. Load and Compare pair two arms without a
// folder, for `scalewm compare`. The main types are Number (a row of the Table), Block (the
// arms, tiers and sets of one task and solver), Comparison and Difference (two arms), and
// Group (blocks with equal settings).
//
// The episode is the unit of tests and intervals, because evaluation sets scatter as random
// samples of one population do (docs/sources.md#set-spread). Arms run the same episodes
// with the same planner noise, so differences are paired, which removes the variance
// between episodes. Such an interval covers the choice of episodes, not the luck of
// training. Where a folder has several training seeds, differences by seed are given in
// addition, with intervals over seeds.
//
//	number.go       Number and Table
//	build.go        Infer: from the contents of a folder to the table
//	fields.go       the role of every field of a cell; what pairs must share
//	settings.go     which cells belong together, and which blocks do
//	place.go        the table, settings and arm of each cell of a folder
//	block.go        the arms, tiers and sets of one task and solver, and their success
//	compute.go      what arms compute, how fast they succeed, and differences at equal compute
//	side.go, csv.go one side of a comparison, from cells or from a CSV file
//	foreign.go      outcomes that other programs computed, with the cells of a folder
//	pairs.go        two sides: pairs, intervals, tests; adjust.go: families of them
//	decompose.go    why a method succeeds or fails: effects of replacing components of its search
//	scores.go       statistics over evaluation sets
//	over.go         numbers over several blocks; seeds.go, factors.go: training seeds, planner noise, settings
//	measured.go     numbers from the analyses of checkpoints
//	paper.go        the published numbers
//	claims.go       what the paper claims, and whether it holds; evidence.go: the numbers that decide
//	checks.go       whether the evaluation can be trusted
//	why.go          the cells and the test behind a number
//
// The statistics themselves are in package stats. Monte Carlo tests and bootstraps draw
// from named streams of package rng, so results are reproducible. The package does not
// depend on the documents that show its numbers.
package infer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// Tests and intervals of a Difference.
const (
	McNemar     = "mcnemar-exact"      // test of binary outcomes
	EpisodeFlip = "sign-flip-episodes" // test of averaged outcomes
	Newcombe    = "newcombe"           // interval of binary outcomes
	Bootstrap   = "bootstrap"          // interval of averaged outcomes
)

// Difference is the comparison of two arms at one tier, or averaged over tiers. Rates are
// in percent and differences in points. P-values are two-sided. With several training
// seeds or tiers, the outcome of an episode is its average over them, because outcomes of
// one episode are not independent.
type Difference struct {
	Tier      string `json:"tier"`
	N         int    `json:"n"`    // paired episodes
	EpisodesA int    `json:"n_a"`  // episodes of A
	EpisodesB int    `json:"n_b"`  // episodes of B
	Sets      int    `json:"sets"` // sets with paired episodes
	// Numbers of pairs of outcomes in which both arms succeed, only A, only B, neither.
	// They are summed over tiers and seeds.
	Both     int     `json:"both"`
	OnlyA    int     `json:"b"`
	OnlyB    int     `json:"c"`
	Neither  int     `json:"neither"`
	RateA    float64 `json:"a_percent"`
	RateB    float64 `json:"b_percent"`
	Diff     float64 `json:"diff"` // A - B
	Lo       float64 `json:"lo"`   // 95 % interval
	Hi       float64 `json:"hi"`
	Interval string  `json:"interval"`
	// Verdict says whether the difference is within stats.Margin: the 90 % interval is
	// compared with it, which is two one-sided tests at 5 % (docs/sources.md#equivalence).
	Verdict stats.Verdict `json:"within_margin"`
	Test    string        `json:"test"`
	P       float64       `json:"p"`
	MidP    *float64      `json:"mid_p,omitempty"` // of McNemar's test; nil for other tests
	SetP    float64       `json:"p_sets"`          // of the exact sign-flip test over sets
	// HolmP is P adjusted by Holm's procedure. For a tier the family is the tiers of its
	// comparison. For a mean it is the family of Adjust, and nil before Adjust.
	HolmP *float64 `json:"p_holm,omitempty"`

	Tiers    []string `json:"-"` // the tiers that the difference averages
	Seeds    int      `json:"-"` // the number of training seeds that it averages
	StepDown float64  `json:"-"` // P of a mean, adjusted by Westfall and Young; otherwise NaN
	BH       float64  `json:"-"` // P of a tier, adjusted by Benjamini and Hochberg; otherwise NaN

	episodes []episode // the paired episodes, sorted
	diffs    []int     // diffs[i] is successes of A minus successes of B in episodes[i]
}

// adjusted returns the adjusted p-value that a reader should use: Holm's for a mean
// over tiers or the only tier, and Benjamini and Hochberg's for one tier of several.
func (d *Difference) adjusted() float64 {
	if math.IsNaN(d.BH) {
		return Or(d.HolmP)
	}
	return d.BH
}

// Holm returns the p-value of a mean, adjusted by Holm's procedure. It is NaN for one
// tier of several, whose HolmP belongs to another family of tests.
func (d *Difference) Holm() float64 {
	if !math.IsNaN(d.BH) {
		return math.NaN()
	}
	return Or(d.HolmP)
}

// Binary reports whether an episode counts 0 or 1 in each arm: one tier and one seed.
func (d *Difference) Binary() bool { return d.Test == McNemar }

// Comparison is the result of pairing two arms.
type Comparison struct {
	A      string       `json:"a"`
	B      string       `json:"b"`
	ByTier []Difference `json:"rows"` // Compare sorts them by the name of the tier
	// Mean is the mean over tiers, with the episode as the unit. It is nil if some tier
	// could not be paired.
	Mean  *Difference `json:"pooled"`
	Notes []string    `json:"notes"` // what was left out, and differences that do not prevent pairing

	Task      string      `json:"-"` // of both arms; set by the caller of Compare if it is known
	Of, Minus results.Arm `json:"-"` // likewise: the arms A and B
	Refused   []string    `json:"-"` // what could not be paired, and why
}

// All returns the rows by tier and, if there are several tiers, their mean.
func (c *Comparison) All() []Difference {
	switch {
	case c.Mean == nil:
		return c.ByTier
	case len(c.ByTier) == 1:
		// The mean equals the only tier, but it has the adjusted p-values. Return it under
		// the name of the tier.
		r := *c.Mean
		r.Tier = c.ByTier[0].Tier
		return []Difference{r}
	}
	return append(slices.Clone(c.ByTier), *c.Mean)
}

// Err returns an error with the first refusal, for callers that show all of a
// comparison or nothing.
func (c *Comparison) Err() error {
	if len(c.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("pairing %s and %s: %s (hint: both arms need the same task, protocol, data, sets, tiers and planner settings; `scalewm report` lists what a folder holds)", c.A, c.B, c.Refused[0])
}

func (c *Comparison) refuse(format string, args ...any) {
	c.Refused = append(c.Refused, fmt.Sprintf(format, args...))
}

// Options are the options of Compare and Infer.
type Options struct {
	SameDevice bool // do not pair outcomes that were computed on different kinds of device
	MeanOnly   bool // leave ByTier empty, which saves the tests and bootstraps of single tiers
	// Baseline is the name of the arm with which Infer compares the others. "" is LeWM, the
	// paper's, or the first arm of a folder without it.
	Baseline string
	baseline results.Arm // the arm of that name
	// With are the arms of other programs that Infer compares with those of the folder.
	With []*Foreign
}

// Compare pairs the outcomes of two arms episode by episode. Outcomes that were not
// evaluated under the same conditions are refused (Comparison.Refused). Episodes that
// only one arm has are left out.
//
// Training seeds that both arms have are averaged: at a tier those that were evaluated
// there, and in the mean over tiers all of them, over the tiers that every seed has.
// Each episode of a Difference therefore averages the same number of outcomes.
func Compare(a, b *Side, o Options) *Comparison {
	c := &Comparison{A: a.Name, B: b.Name, Notes: []string{}} // [] in JSON instead of null
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
	var pooled []string // tiers of the mean: those that every seed has
	paired := 0         // how many of them could be paired
	for _, tier := range tiers {
		here := c.seedsAt(a, b, tier, seeds)
		mean := len(here) == len(seeds) && slices.Contains(averaged, tier)
		if mean {
			pooled = append(pooled, tier)
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
	case paired < len(pooled):
		c.refuse("no mean over the tiers, since one of them could not be paired")
		return c
	case len(pooled) == 0 && len(tiers) > 0:
		c.refuse("no mean over the tiers, since no tier was evaluated with every training seed")
		return c
	case len(pooled) < len(tiers):
		c.Notes = append(c.Notes, "the mean is over "+strings.Join(pooled, ", "))
	}
	c.average(&all, pooled, len(seeds))
	return c
}

// Averaged returns those of the tiers that a mean over tiers includes. T2p is another
// reading of T2. If both exist, T2p is left out, because the mean would count T2 twice.
// Names may have a solver in front, see Join.
func Averaged(tiers []string) []string {
	return slices.DeleteFunc(slices.Clone(tiers), func(t string) bool {
		solver, printed := strings.CutSuffix(t, "T2p")
		return printed && slices.Contains(tiers, solver+"T2")
	})
}

// seedsAt returns the pairs of training seeds that both arms have at a tier, and notes
// the others.
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

// average adds the mean over the tiers, whose pairs are in all.
func (c *Comparison) average(all *table, tiers []string, seeds int) {
	if len(tiers) > 0 {
		all.keepComplete(len(tiers) * seeds)
		if len(all.pairs) == 0 {
			c.refuse("no episode was evaluated at all of the %d tiers", len(tiers))
			return
		}
		r := all.row(Mean, tiers, seeds)
		c.Mean = &r
	}
}

// seedPairs returns SeedPairs of two arms, or an error if they share no seed. The only run of
// an arm without a model is paired with every seed of a trained one.
func seedPairs(a, b *Side) (out [][2]int, err error) {
	as, bs := a.seeds(), b.seeds()
	switch {
	case a.untrained && !b.untrained && len(as) == 1:
		as = slices.Repeat(as, len(bs))
	case b.untrained && !a.untrained && len(bs) == 1:
		bs = slices.Repeat(bs, len(as))
	default:
		out, as = SeedPairs(as, bs), nil
	}
	for i := range as {
		out = append(out, [2]int{as[i], bs[i]})
	}
	if len(out) == 0 {
		return nil, errors.New("the arms share no training seed")
	}
	return out, nil
}

// SeedPairs returns the pairs of training seeds that are compared: those that both arms
// have or, if they have none in common, the only seed of each. Trainings with equal
// seeds see the same batches, so pairing them removes that part of the variance of
// training.
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

// commonTiers returns the tiers that both arms have, and notes the others. An arm
// without tiers is compared at all tiers of the other arm.
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

// episode identifies an episode by its set and its index in the set.
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

// fourfold counts the paired outcomes of an episode, one for each tier and training
// seed, by who succeeds.
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

// table holds the pairs of one or more tiers, and how many episodes each arm has there.
type table struct {
	pairs                map[episode]fourfold
	episodesA, episodesB int
}

// pair pairs the outcomes of one tier, set by set. If the conditions of one episode
// differ between the arms, its set is refused. Pairs across kinds of device are noted
// in kinds.
func (c *Comparison) pair(a, b *Side, tier string, seeds [][2]int, o Options, kinds map[string]bool) *table {
	t := &table{pairs: map[episode]fourfold{}}
	inA, inB := map[episode]bool{}, map[episode]bool{}
	refused := len(c.Refused)
	for _, s := range seeds {
		xs := a.at(s[0], tier)
		ys := b.at(s[1], tier).named(xs)
		xs.list(inA)
		ys.list(inB)
		for _, set := range slices.Sorted(maps.Keys(xs)) {
			for _, n := range slices.Sorted(maps.Keys(xs[set])) {
				x, e := xs[set][n], episode{set, n}
				y, ok := ys[set][n]
				if !ok {
					continue
				}
				if err := x.values.mismatch(y.values, o.SameDevice); err != nil {
					c.refuse("tier %s, set %s, episode %d: %v, so the difference would not be the model's", tier, set, n, err)
					// keepComplete drops what other seeds have of this set.
					maps.DeleteFunc(t.pairs, func(e episode, _ fourfold) bool { return e.set == set })
					break
				}
				if p, q := x.values.of(device), y.values.of(device); p != "" && q != "" && p != q {
					kinds[fmt.Sprintf("%s planned on %s, %s on %s", c.A, p, c.B, q)] = true
				}
				t.pairs[e] = t.pairs[e].plus(pairOf(x.success, y.success))
			}
		}
	}
	t.episodesA, t.episodesB = len(inA), len(inB)
	t.keepComplete(len(seeds))
	if len(t.pairs) == 0 && len(c.Refused) == refused {
		why := ""
		if err := a.at(seeds[0][0], tier).first().mismatch(b.at(seeds[0][1], tier).first(), o.SameDevice); err != nil {
			why = ": " + err.Error()
		}
		c.refuse("tier %s: none of their %d and %d episodes is in both%s", tier, len(inA), len(inB), why)
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

// keepComplete drops the episodes that do not have all of the expected outcomes, one
// for each tier and seed. Otherwise an episode's average would be over other tiers than
// that of the next one.
func (t *table) keepComplete(want int) {
	maps.DeleteFunc(t.pairs, func(_ episode, f fourfold) bool { return f.total() != want })
}

// row estimates and tests the difference. The unit is the episode:
//
//   - With one tier and one seed its outcome is 0 or 1 in each arm. The test is the
//     exact McNemar test, and the interval is Newcombe's, which keeps its coverage for
//     rates near 0 or 1 and few discordant pairs.
//   - Otherwise its outcome is the average over tiers and seeds. The test flips signs
//     by episode, and the interval is from a bootstrap of episodes within sets, whose
//     coverage is closest to nominal (docs/sources.md#bootstrap). Where fewer than
//     fewPairs episodes differ, or all by the same amount, the bootstrap is too narrow or
//     a point; then the interval is Newcombe's of the averaged outcomes.
//
// SetP is the same null hypothesis with the set as the unit. All rows draw from equal
// random streams, so a row does not depend on which others are computed, or in what
// order.
func (t *table) row(name string, tiers []string, seeds int) Difference {
	r := Difference{Tier: name, Tiers: tiers, Seeds: seeds, N: len(t.pairs), EpisodesA: t.episodesA, EpisodesB: t.episodesB, StepDown: math.NaN(), BH: math.NaN()}
	perEpisode := len(tiers) * seeds // outcomes
	var sum fourfold
	var bySet [][]float64 // bySet[set][episode] is A - B, in [-1, 1]
	var setDiffs []int    // successes of A minus those of B in each set
	r.episodes = slices.SortedFunc(maps.Keys(t.pairs), compareEpisodes)
	for i, e := range r.episodes {
		if i == 0 || e.set != r.episodes[i-1].set {
			bySet, setDiffs = append(bySet, nil), append(setDiffs, 0)
		}
		last, f := len(bySet)-1, t.pairs[e]
		bySet[last] = append(bySet[last], float64(f.diff())/float64(perEpisode))
		setDiffs[last] += f.diff()
		r.diffs = append(r.diffs, f.diff())
		sum = sum.plus(f)
	}
	r.Both, r.OnlyA, r.OnlyB, r.Neither = sum.both, sum.onlyA, sum.onlyB, sum.neither
	percent := func(n int) float64 { return 100 * float64(n) / float64(sum.total()) }
	r.RateA, r.RateB, r.Diff = percent(sum.both+sum.onlyA), percent(sum.both+sum.onlyB), percent(sum.diff())
	r.Sets, r.SetP = len(bySet), stats.SignFlipExact(setDiffs)
	each := float64(perEpisode)
	counts := stats.Fourfold{Both: float64(sum.both) / each, OnlyA: float64(sum.onlyA) / each, OnlyB: float64(sum.onlyB) / each, Neither: float64(sum.neither) / each}
	interval := func(level float64) stats.Interval { return stats.Newcombe(counts, level) }
	r.Interval = Newcombe
	if perEpisode == 1 {
		p, mid := stats.McNemar(sum.onlyA, sum.onlyB)
		r.P, r.MidP, r.Test = p, &mid, McNemar
	} else {
		r.P, r.Test = stats.SignFlip(bySet, rng.Stream("report sign flip")), EpisodeFlip
		if differing(r.diffs) >= fewPairs {
			interval = pairDraws.Bootstrap(bySet).Interval
			r.Interval = Bootstrap
		}
	}
	iv := interval(0.95)
	r.Lo, r.Hi = 100*iv.Lo, 100*iv.Hi
	// Arms that never differ may be one arm twice: that is no evidence of equivalence.
	if r.Verdict = stats.Undecided; sum.onlyA+sum.onlyB > 0 {
		r.Verdict = interval(stats.EquivalenceLevel).Within(stats.Margin / 100.0)
	}
	return r
}

// pairDraws resamples the episodes of all rows.
var pairDraws = stats.NewResampler(func() *rand.Rand { return rng.Stream("report bootstrap") })

// fewPairs is the number of differing pairs below which a bootstrap is not used.
const fewPairs = 10

// differing returns the number of differences that are not zero, or 0 if all differences are
// equal.
func differing(diffs []int) (n int) {
	equal := true
	for _, d := range diffs {
		if d != 0 {
			n++
		}
		equal = equal && d == diffs[0]
	}
	if equal {
		return 0
	}
	return n
}
