package infer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// BySeed pairs two arms one training seed at a time. points[i][set][episode] is the difference
// A - B in points for seeds[i], averaged over the tiers of Compare's mean, or over the given
// tiers. It keeps the episodes that every seed has, and only the longest sets, so that the
// design is balanced. It is empty if the arms share no seed, or no episode at all tiers.
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
	tiers = slices.DeleteFunc(slices.Clone(tiers), func(t string) bool { return len(c.seedsAt(a, b, t, pairs)) < len(pairs) })
	var tables []*table
	seen := map[episode]int{}
	for _, s := range pairs {
		all := &table{pairs: map[episode]fourfold{}}
		for _, tier := range tiers {
			all.join(c.pair(a, b, tier, [][2]int{s}, Options{}, map[string]bool{}))
		}
		all.keepComplete(len(tiers))
		for e := range all.pairs {
			seen[e]++
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

// Seeds is the difference of two methods on a task by training seed, averaged over the solvers and
// tiers that all seeds have.
type Seeds struct {
	Solvers  []string         `json:"solvers"`
	Seeds    []int            `json:"seeds"`
	Points   []float64        `json:"points"`   // difference of each seed, in points
	Episodes int              `json:"episodes"` // episodes per seed
	OfSet    int              `json:"of_set"`   // episodes per set
	Spread   stats.Components `json:"-"`
}

// bySolver is BySeed over the solvers that both arms have, which it returns too.
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

func means(points [][][]float64) (x []float64) {
	for _, p := range points {
		x = append(x, mean(slices.Concat(p...)))
	}
	return x
}

// Effects are the sizes, in points, for which the table has the needed numbers of episodes and
// seeds.
var Effects = []int{8, 4, 2}

// MostSeeds is the largest number of seeds that is reported; it stands for "at least".
const MostSeeds = 200

// EpisodesFor names the number of episodes that detect an effect between two checkpoints.
func EpisodesFor(effect int) string { return fmt.Sprintf("episodes_for_%d_points", effect) }

// SeedsFor names the number of training seeds that detect an effect between two methods.
func SeedsFor(effect int) string { return fmt.Sprintf("seeds_for_%d_points", effect) }

// seeds adds, for every task and pair of learned arms, the difference with the training seed as the
// unit, its variance components, and the seeds and episodes that effects need.
func (t *Table) seeds(g Group) {
	for _, v := range Versus(g.Main()) {
		if v[0].Floor() {
			continue
		}
		for _, task := range Tasks(g.Main()) {
			of := tested(g.Main(), task)
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

// seedDiff adds the difference of each training seed, and their mean.
func (t *Table) seedDiff(n Number, s *Seeds) {
	n.What, n.Unit = SeedDiff, "training seed"
	from := map[int][]string{}
	for _, id := range n.From {
		from[t.seedOf[id]] = append(from[t.seedOf[id]], id)
	}
	for i, seed := range s.Seeds {
		one := n
		one.Seed, one.Value, one.N = &seed, some(s.Points[i]), 1
		one.From = from[seed]
		t.add(one)
	}
	_, sd := stats.MeanSD(s.Points)
	n = n.put(MeanOf(s.Points))
	n.SD, n.N, n.How = some(sd), len(s.Seeds), s
	t.add(n)
}

// spread adds the standard deviations of a difference by source. With one seed, rest is false: it is
// part of the episodes' deviation.
func (t *Table) spread(n Number, c stats.Components, rest bool) {
	n.Unit = "points"
	for what, variance := range map[string]float64{"sd_of_seeds": c.Seed, "sd_of_sets": c.Set, "sd_of_episodes": c.Episode, "sd_of_the_rest": c.Rest} {
		if what != "sd_of_the_rest" || rest {
			n.What, n.Value = what, some(math.Sqrt(variance))
			t.add(n)
		}
	}
}

// need adds the number of episodes or seeds that an effect needs. A count of 0 is unknown.
func (t *Table) need(n Number, what string, count int, unit string) {
	if n.What, n.Unit = what, unit; count > 0 {
		n.Value = some(float64(count))
	}
	t.add(n)
}

// Shares names the percentages of the variance of a difference in one episode, by source.
var Shares = []string{"share_of_training_seed", "share_of_set", "share_of_episode", "share_of_seed_by_episode", "share_of_planner"}

// sources adds the sources of the variance of a difference in one episode, for each pair of learned
// arms, block and tier that was planned with two draws of the planner's noise.
func (t *Table) sources(g Group) {
	for _, v := range Versus(g.Main()) {
		if v[0].Floor() {
			continue
		}
		for _, b := range g.Main() {
			twin := t.twin(b)
			if twin == nil {
				continue
			}
			for _, tier := range b.TierNames() {
				if s, ok := splitVariance(b, twin, v[0], v[1], tier); ok {
					t.share(b, tier, v, s)
				}
			}
		}
	}
}

// twin returns the block that differs from b only in the draw of the planner's noise, or nil.
func (t *Table) twin(b *Block) *Block {
	for _, o := range t.Blocks {
		if o.Main == b && slices.Equal(o.Varied, []string{"planner_noise"}) {
			return o
		}
	}
	return nil
}

// parts are the variances of a difference in one episode, in the order of Shares.
type parts struct {
	seeds, episodes int // episodes of each seed
	variances       []float64
}

// splitVariance estimates the variances from the seeds and episodes that two blocks share, which
// differ only in the planner's noise. Half of the mean squared difference between the blocks is
// the variance due to that noise. It returns false if there are too few seeds or episodes.
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
	c := stats.VarianceComponents(common[0])
	p.episodes = n / p.seeds
	p.variances = []float64{c.Seed, c.Set, c.Episode, math.Max(0, c.Rest-noise), noise}
	return p, true
}

// share adds the share of each variance in their sum.
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
