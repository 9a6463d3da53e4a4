package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// Goal is the power for which numbers of seeds and episodes are computed: the
// probability that a test at 5 % detects the effect.
const Goal = 0.8

// StudentPower returns the power of the two-sided one-sample t test at 5 % with n
// independent normal values of mean effect and standard deviation sd. It is 0 for fewer
// than two values.
func StudentPower(effect, sd float64, n int) float64 {
	if n < 2 {
		return 0
	}
	free := float64(n - 1)
	limit := distuv.StudentsT{Sigma: 1, Nu: free}.Quantile(0.975)
	shift := math.Abs(effect) / sd * math.Sqrt(float64(n))
	// The power is P(|T| > limit) of the noncentral t distribution, which gonum lacks. Given
	// the estimated deviation, s times the true one, the statistic is normal, and s² is a
	// chi-square over its degrees of freedom. Integrate over s.
	law := distuv.ChiSquared{K: free}
	given := func(s float64) float64 {
		density := 2 * s * free * law.Prob(s*s*free)
		return density * (distuv.UnitNormal.CDF(shift-limit*s) + distuv.UnitNormal.CDF(-shift-limit*s))
	}
	const tail, nodes = 1e-10, 100
	return quad.Fixed(given, math.Sqrt(law.Quantile(tail)/free), math.Sqrt(law.Quantile(1-tail)/free), nodes, quad.Legendre{}, 0)
}

// StudentUnits returns the smallest number of values with which that test reaches [Goal],
// or most if it needs more.
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

// Components are the variance components of the difference of two methods: between
// training seeds, between evaluation sets, between the episodes of a set, and the rest
// within one episode and seed. With one training seed Seed is NaN, and Rest is part of
// Episode.
type Components struct{ Seed, Set, Episode, Rest float64 }

// VarianceComponents estimates the components from differences d[seed][set][episode] by
// the method of moments (expected mean squares of a balanced analysis of variance).
// All seeds have the same episodes and all sets the same number. Sets are crossed with
// seeds, and episodes are nested in sets. A negative estimate becomes 0.
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
	// Sums of squares around the means of seeds, sets and episodes.
	var ofSeeds, ofSets, ofEpisodes, rest float64
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
	// From here on mean squares. Subtracting the mean square of the nested level leaves the
	// component of a level.
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

// Episodes returns how many episodes, in sets of ofSet, detect an effect between two
// checkpoints with power [Goal] at 5 %, by the normal approximation. The checkpoints are
// fixed, so the result says nothing about other training seeds. The unit of effect is
// that of the differences.
func (c Components) Episodes(effect float64, ofSet int) int {
	z := normalQuantile(0.975) + normalQuantile(Goal)
	sets := math.Ceil(square(z/effect) * (c.Set + (c.Episode+c.Rest)/float64(ofSet)))
	return int(sets) * ofSet
}

// Seeds returns how many training seeds detect an effect between two methods with power
// [Goal] at 5 % by Student's test, if each seed is evaluated on the given number of
// episodes. It returns most if more are needed, and 0 if the variance between seeds is
// unknown.
func (c Components) Seeds(effect float64, episodes, most int) int {
	if math.IsNaN(c.Seed) {
		return 0
	}
	return StudentUnits(effect, math.Sqrt(c.Seed+c.Rest/float64(episodes)), most)
}
