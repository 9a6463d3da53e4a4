package infer

import "scalewm/eval/stats"

// This file has the numbers of methods where a folder has several training seeds: a number
// without a seed next to those of the seeds.

// BlockSeedDiff is the What of a difference of success rates in a block, in points, whose
// unit is the training seed.
const BlockSeedDiff = "difference_over_seeds"

// seedDifferences adds the differences of a block's arms over training seeds, at each tier
// and averaged over tiers, for the pairs with at least two seeds.
func (t *Table) seedDifferences(b *Block) {
	for _, c := range b.Pairs {
		if pairs, _ := seedPairs(b.sides[c.Of], b.sides[c.Minus]); len(pairs) < 2 {
			continue
		}
		for _, tier := range append(b.TierNames(), Mean) {
			tiers, only := []string{tier}, []string{b.Solver + " " + tier}
			if tier == Mean {
				tiers, only = b.Averaged(), nil
			}
			seeds, x := seedPoints(map[string]*Block{b.Solver: b}, []string{b.Solver}, c.Of, c.Minus, only...)
			if len(seeds) > 1 {
				n := Number{What: BlockSeedDiff, Place: b.Place.At(tier), Of: c.Of, Minus: c.Minus, From: union(b.ids(c.Of, tiers), b.ids(c.Minus, tiers))}
				t.add(n.overSeeds(x))
			}
		}
	}
}

// meansOverSeeds adds, for the numbers of checkpoints, their mean over the training seeds
// of each arm with several, including numbers that only one seed has. Changes that are in
// percent for some seeds only have none.
func (t *Table) meansOverSeeds(of []*Number) {
	bySeed := map[key][]*Number{}
	var order []key // of the first number of each mean
	several := map[key]bool{}
	first := map[key]int{} // first seed of an arm at a place, whatever the number
	for _, n := range of {
		k := n.key()
		k.seed = -1
		if bySeed[k] == nil {
			order = append(order, k)
		}
		bySeed[k] = append(bySeed[k], n)
		arm := armOf(k)
		if seed, seen := first[arm]; seen && seed != *n.Seed {
			several[arm] = true
		} else {
			first[arm] = *n.Seed
		}
	}
	for _, k := range order {
		mean := Number{What: k.what, Place: k.Place, Of: k.of, Minus: k.minus}
		var x []float64
		percent := 0
		for _, n := range bySeed[k] {
			x, mean.From = append(x, Or(n.Value)), union(mean.From, n.From)
			if n.Unit == "%" {
				percent++
			}
		}
		if !several[armOf(k)] || percent > 0 && percent < len(x) {
			continue
		}
		mean = mean.overSeeds(x)
		if percent > 0 {
			mean.Unit = "%"
		}
		t.add(mean)
	}
}

// armOf returns the arm and place of a number's key.
func armOf(k key) key { return key{Place: k.Place.At(""), of: k.of} }

// overSeeds returns n with the mean of x, the values of its training seeds, their standard
// deviation and Student's interval.
func (n Number) overSeeds(x []float64) Number {
	_, sd := stats.MeanSD(x)
	n = n.put(MeanOf(x))
	n.SD, n.N, n.Unit = some(sd), len(x), "training seed"
	return n
}
