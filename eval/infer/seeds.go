package infer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// BySeed pairs two arms separately for each training seed. It returns the differences A
// - B in points as points[seed][set][episode]. The outcome of an episode is its average
// over the tiers of Compare's mean, or over the tiers in only. The result is empty if
// the arms share no seed, or no episode at all tiers.
//
// All seeds have the same episodes and all sets the same number of them, as
// stats.VarianceComponents requires: episodes that some seed lacks are dropped, and so
// are sets that are shorter than the longest.
func BySeed(a, b *Side, only ...string) (seeds []int, points [][][]float64) {
	c := &Comparison{A: a.Name, B: b.Name}
	pairs, err := seedPairs(a, b)
	if err != nil {
		return nil, nil
	}
	tiers := only
	if len(tiers) == 0 {
		tiers = Averaged(c.commonTiers(a, b))
	}
	// A tier that some seed lacks is left out for all of them.
	tiers = slices.DeleteFunc(slices.Clone(tiers), func(t string) bool { return len(c.seedsAt(a, b, t, pairs)) < len(pairs) })
	var tables []*table
	seen := map[episode]int{} // number of seeds that have the episode
	for _, s := range pairs {
		all := &table{pairs: map[episode]fourfold{}}
		for _, tier := range tiers {
			all.join(c.pair(a, b, tier, [][2]int{s}, Options{}, map[string]bool{}))
		}
		all.keepComplete(len(tiers))
		for e := range all.pairs {
			seen[e]++
		}
		if a.untrained {
			s[0] = s[1]
		}
		seeds, tables = append(seeds, s[0]), append(tables, all)
	}
	bySet, longest := map[string][]episode{}, 0
	for _, e := range slices.SortedFunc(maps.Keys(seen), compareEpisodes) {
		if seen[e] == len(seeds) {
			bySet[e.set] = append(bySet[e.set], e)
			longest = max(longest, len(bySet[e.set]))
		}
	}
	if longest == 0 {
		return nil, nil
	}
	for _, t := range tables {
		var sets [][]float64
		for _, set := range slices.Sorted(maps.Keys(bySet)) {
			if len(bySet[set]) < longest {
				continue
			}
			var row []float64
			for _, e := range bySet[set] {
				row = append(row, 100*float64(t.pairs[e].diff())/float64(len(tiers)))
			}
			sets = append(sets, row)
		}
		points = append(points, sets)
	}
	return seeds, points
}

// Seeds is the difference of two methods on a task by training seed, averaged over the
// solvers and tiers that both have.
type Seeds struct {
	Solvers  []string         `json:"solvers"`
	Seeds    []int            `json:"seeds"`
	Points   []float64        `json:"points"`   // Points[i] is the difference of Seeds[i]
	Episodes int              `json:"episodes"` // number of episodes of each seed
	OfSet    int              `json:"of_set"`   // number of episodes in each set
	Spread   stats.Components `json:"-"`        // variance components of the difference
}

// bySolver is BySeed over several solvers: two arms are paired on the solvers that both
// have, which among lists.
func bySolver(of map[string]*Block, solvers []string, a, b results.Arm, tiers ...string) (among []string, seeds []int, points [][][]float64) {
	as, bs := map[string]*Side{}, map[string]*Side{}
	for _, solver := range solvers {
		if x := of[solver]; x != nil && x.sides[a] != nil && x.sides[b] != nil {
			among, as[solver], bs[solver] = append(among, solver), x.sides[a], x.sides[b]
		}
	}
	seeds, points = BySeed(Join(a.String(), as), Join(b.String(), bs), tiers...)
	return among, seeds, points
}

// seedPoints returns the difference of each training seed, averaged over its episodes.
func seedPoints(of map[string]*Block, solvers []string, a, b results.Arm, tiers ...string) (seeds []int, x []float64) {
	_, seeds, points := bySolver(of, solvers, a, b, tiers...)
	return seeds, means(points)
}

// means averages points[seed][set][episode] over sets and episodes.
func means(points [][][]float64) (x []float64) {
	for _, p := range points {
		x = append(x, mean(slices.Concat(p...)))
	}
	return x
}

// Effects are the differences, in points, for which the table has the numbers of episodes
// and training seeds that detect them.
var Effects = []int{8, 4, 2}

// MostSeeds is the largest number of seeds that is considered. A number equal to it means
// that at least as many are needed.
const MostSeeds = 200

// EpisodesFor returns the What of the number of episodes that detect an effect.
func EpisodesFor(effect int) string { return fmt.Sprintf("episodes_for_%d_points", effect) }

// SeedsFor returns the What of the number of training seeds that detect an effect.
func SeedsFor(effect int) string { return fmt.Sprintf("seeds_for_%d_points", effect) }

// seeds adds, for every task and pair of learned arms, the difference with the training
// seed as the unit, its variance components, and the numbers of episodes and seeds that
// detect an effect. The interval over seeds answers whether one method is better than
// another. The interval over episodes only answers this for two checkpoints.
func (t *Table) seeds(g Group) {
	for _, v := range ArmPairs(g.Main()) {
		if v[0].Floor() {
			continue
		}
		for _, task := range Tasks(g.Main()) {
			of := testBlocks(g.Main(), task)
			among, seeds, points := bySolver(of, PaperSolvers, v[0], v[1])
			if len(seeds) == 0 || len(points[0]) < 2 || len(points[0][0]) < 2 {
				continue
			}
			s := &Seeds{among, seeds, means(points), len(points[0]) * len(points[0][0]), len(points[0][0]), stats.VarianceComponents(points)}
			n := Number{Place: Place{Task: task, Settings: g.Name}, Of: v[0], Minus: v[1]}
			for _, solver := range among {
				n.From = union(n.From, of[solver].ids(v[0], of[solver].TierNames()), of[solver].ids(v[1], of[solver].TierNames()))
			}
			t.seedDiff(n, s)
			t.spread(n, s.Spread, len(seeds) > 1)
			for _, effect := range Effects {
				t.need(n, EpisodesFor(effect), s.Spread.Episodes(float64(effect), s.OfSet), "episode")
				t.need(n, SeedsFor(effect), s.Spread.Seeds(float64(effect), s.Episodes, MostSeeds), "training seed")
			}
		}
	}
}

// seedDiff adds a difference by training seed, and its mean with Student's interval:
// there are too few seeds for a bootstrap. It returns the mean.
func (t *Table) seedDiff(n Number, s *Seeds) (mean *Number) {
	n.What, n.Unit = SeedDiff, "training seed"
	from := map[int][]string{} // cells of each seed
	for _, id := range n.From {
		from[t.seedOf[id]] = append(from[t.seedOf[id]], id)
	}
	for i, seed := range s.Seeds {
		one := n
		one.Seed, one.Value, one.N = &seed, some(s.Points[i]), 1
		one.From = from[seed]
		t.add(one)
	}
	n = n.overSeeds(s.Points)
	n.How = s
	return t.add(n)
}

// spread adds the standard deviation of a difference for each source of variance. With
// one seed, which rest = false states, the residual is part of the component of
// episodes, and has no number.
func (t *Table) spread(n Number, c stats.Components, rest bool) {
	n.Unit = "points"
	for what, variance := range map[string]float64{"sd_of_seeds": c.Seed, "sd_of_sets": c.Set, "sd_of_episodes": c.Episode, "sd_of_the_rest": c.Rest} {
		if what != "sd_of_the_rest" || rest {
			n.What, n.Value = what, some(math.Sqrt(variance))
			t.add(n)
		}
	}
}

// need adds the number of units that detect an effect. A count of 0 means that it
// cannot be determined; the number then has no value.
func (t *Table) need(n Number, what string, count int, unit string) {
	if n.What, n.Unit = what, unit; count > 0 {
		n.Value = some(float64(count))
	}
	t.add(n)
}

// Shares are the kinds of numbers that divide the variance of a difference in one
// episode among its sources, in percent. The order is that of parts.variances.
var Shares = []string{"share_of_training_seed", "share_of_set", "share_of_episode", "share_of_seed_by_episode", "share_of_planner"}

// sources adds the sources of variance of a difference in one episode at one tier, for
// each pair of learned arms, block and tier that was planned with two draws of the
// planner's noise.
func (t *Table) sources(g Group) {
	for _, v := range ArmPairs(g.Main()) {
		if v[0].Floor() {
			continue
		}
		for _, b := range g.Main() {
			other := t.withOtherNoise(b)
			if other == nil {
				continue
			}
			for _, tier := range b.TierNames() {
				if s, ok := splitVariance(b, other, v[0], v[1], tier); ok {
					t.share(b, tier, v, s)
				}
			}
		}
	}
}

// withOtherNoise returns the block that differs from b in the planner's noise alone, or nil.
func (t *Table) withOtherNoise(b *Block) *Block {
	for _, o := range t.Blocks {
		if o.Main == b && slices.Equal(o.Varied, []string{"planner_noise"}) {
			return o
		}
	}
	return nil
}

// parts are the variances of a difference in one episode, by source.
type parts struct {
	seeds     int       // number of training seeds
	episodes  int       // number of episodes of each seed
	variances []float64 // in the order of Shares, in points squared
}

// splitVariance estimates the variances from the seeds and episodes that both blocks
// have. It returns false if there are fewer than two seeds, sets or episodes in a set.
func splitVariance(first, second *Block, a, b results.Arm, tier string) (p parts, ok bool) {
	var points, common [2][][][]float64
	var seeds [2][]int
	for i, x := range []*Block{first, second} {
		if x.sides[a] == nil || x.sides[b] == nil {
			return p, false
		}
		seeds[i], points[i] = BySeed(x.sides[a], x.sides[b], tier)
	}
	for i, seed := range seeds[0] {
		if k := slices.Index(seeds[1], seed); k >= 0 {
			common[0], common[1] = append(common[0], points[0][i]), append(common[1], points[1][k])
		}
	}
	p.seeds = len(common[0])
	if p.seeds < 2 || len(common[0][0]) < 2 || len(common[0][0]) != len(common[1][0]) || len(common[0][0][0]) != len(common[1][0][0]) || len(common[0][0][0]) < 2 {
		return p, false
	}
	// Two runs of an episode that differ only in the planner's noise have the difference d,
	// whose variance is twice that of the noise.
	n, noise := 0, 0.0
	for i, sets := range common[0] {
		for k, episodes := range sets {
			for e, x := range episodes {
				d := x - common[1][i][k][e]
				noise, n = noise+d*d/2, n+1
			}
		}
	}
	noise /= float64(n)
	// The residual of one block is the interaction of seed and episode plus the noise.
	c := stats.VarianceComponents(common[0])
	p.episodes = n / p.seeds
	p.variances = []float64{c.Seed, c.Set, c.Episode, math.Max(0, c.Rest-noise), noise}
	return p, true
}

// share adds the standard deviation in one episode, and the shares of its variance.
func (t *Table) share(b *Block, tier string, v [2]results.Arm, p parts) {
	all := 0.0
	for _, x := range p.variances {
		all += x
	}
	n := Number{Place: b.Place.At(tier), Of: v[0], Minus: v[1], From: union(b.ids(v[0], []string{tier}), b.ids(v[1], []string{tier}))}
	n.What, n.Value, n.N, n.Unit = "sd_in_an_episode", some(math.Sqrt(all)), p.episodes, "episode"
	t.add(n)
	for i, what := range Shares {
		n.What, n.Value, n.N, n.Unit = what, some(100*p.variances[i]/all), p.seeds, "training seed"
		t.add(n)
	}
}
