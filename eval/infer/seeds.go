package infer

import (
	"maps"
	"slices"
)

// BySeed pairs two arms one training seed at a time: the differences A - B in points by seed,
// set and episode, an episode's outcomes averaged over the tiers of Compare's mean, or those named. It keeps the episodes
// that every seed has, and of sets that differ in length the longest. It is empty where the
// arms share no seed, or no episode at all tiers.
func BySeed(a, b *Arm, only ...string) (seeds []int, points [][][]float64) {
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
