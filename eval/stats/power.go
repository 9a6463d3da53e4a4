package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// Goal of a plan: the power that a test at 5 % shall have.
const Goal = 0.8

// StudentPower is the power of the two-sided t test at 5 % that n independent values have
// mean 0, where their mean is effect and their standard deviation sd; 0 for fewer than two.
func StudentPower(effect, sd float64, n int) float64 {
	if n < 2 {
		return 0
	}
	free := float64(n - 1)
	limit := distuv.StudentsT{Sigma: 1, Nu: free}.Quantile(0.975)
	shift := math.Abs(effect) / sd * math.Sqrt(float64(n))
	// Given the estimated deviation, s times the true one, the statistic is normal; s² is
	// chi-square over its degrees of freedom.
	law := distuv.ChiSquared{K: free}
	given := func(s float64) float64 {
		density := 2 * s * free * law.Prob(s*s*free)
		return density * (distuv.UnitNormal.CDF(shift-limit*s) + distuv.UnitNormal.CDF(-shift-limit*s))
	}
	const tail, nodes = 1e-10, 100
	return quad.Fixed(given, math.Sqrt(law.Quantile(tail)/free), math.Sqrt(law.Quantile(1-tail)/free), nodes, quad.Legendre{}, 0)
}

// StudentUnits is the least number of values with which that test reaches the Goal, or
// most where it takes more.
func StudentUnits(effect, sd float64, most int) int {
	lo, hi := 1, most // the power grows with n
	for lo+1 < hi {
		if mid := (lo + hi) / 2; StudentPower(effect, sd, mid) < Goal {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// Components are the variances that a difference of two methods has: of training seeds, of
// evaluation sets, of the episodes within a set, and what is left within an episode and seed.
// With one seed the last is part of Episode, and Seed is NaN.
type Components struct{ Seed, Set, Episode, Rest float64 }

// VarianceComponents takes them from differences by seed, set and episode, all seeds with
// the same episodes and all sets of one length, by the method of moments; one that comes
// out negative is 0. Sets cross seeds, episodes are nested in sets.
func VarianceComponents(d [][][]float64) Components {
	seeds, sets, episodes := float64(len(d)), float64(len(d[0])), float64(len(d[0][0]))
	all := 0.0
	bySeed, bySet, byEpisode := make([]float64, len(d)), make([]float64, len(d[0])), make([][]float64, len(d[0]))
	for s := range d {
		for k := range d[s] {
			if byEpisode[k] == nil {
				byEpisode[k] = make([]float64, len(d[s][k]))
			}
			for e, x := range d[s][k] {
				all += x / (seeds * sets * episodes)
				bySeed[s] += x / (sets * episodes)
				bySet[k] += x / (seeds * episodes)
				byEpisode[k][e] += x / seeds
			}
		}
	}
	var ofSeeds, ofSets, ofEpisodes, rest float64 // sums of squares
	for s := range d {
		ofSeeds += sets * episodes * square(bySeed[s]-all)
		for k := range d[s] {
			for e, x := range d[s][k] {
				rest += square(x - bySeed[s] - byEpisode[k][e] + all)
			}
		}
	}
	for k := range byEpisode {
		ofSets += seeds * episodes * square(bySet[k]-all)
		for _, x := range byEpisode[k] {
			ofEpisodes += seeds * square(x-bySet[k])
		}
	}
	ofEpisodes /= sets * (episodes - 1)
	c := Components{Seed: math.NaN(), Set: math.Max(0, (ofSets/(sets-1)-ofEpisodes)/(seeds*episodes)), Episode: ofEpisodes}
	if seeds > 1 {
		rest /= (seeds - 1) * (sets*episodes - 1)
		c.Rest = rest
		c.Seed = math.Max(0, (ofSeeds/(seeds-1)-rest)/(sets*episodes))
		c.Episode = math.Max(0, (ofEpisodes-rest)/seeds)
	}
	return c
}

func square(x float64) float64 { return x * x }

// Episodes is how many episodes, in sets of so many, show an effect of one pair of
// checkpoints with the Goal's power at 5 %, by the normal law.
func (c Components) Episodes(effect float64, ofSet int) int {
	z := normalQuantile(0.975) + normalQuantile(Goal)
	sets := math.Ceil(square(z/effect) * (c.Set + (c.Episode+c.Rest)/float64(ofSet)))
	return int(sets) * ofSet
}

// Seeds is how many training seeds show an effect of two methods with the Goal's power,
// each measured on the same number of episodes, or most where it takes more; 0 where
// the seeds' variance is unknown.
func (c Components) Seeds(effect float64, episodes, most int) int {
	if math.IsNaN(c.Seed) {
		return 0
	}
	return StudentUnits(effect, math.Sqrt(c.Seed+c.Rest/float64(episodes)), most)
}
