package stats

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Alignment says how distances of latents follow distances of task states.
type Alignment struct {
	Pearson, Spearman float64
	Pairs             int
}

// DistanceAlignment correlates the squared Euclidean distances of all pairs of
// samples in z with those in q. The caller standardises q
// (docs/sources.md#latent-analyses).
func DistanceAlignment(z, q [][]float64) Alignment {
	dz, dq := squaredDistances(z), squaredDistances(q)
	return Alignment{Pearson: correlation(dz, dq), Spearman: correlation(Ranks(dz), Ranks(dq)), Pairs: len(dz)}
}

// squaredDistances of the pairs i < j, i-major.
func squaredDistances(x [][]float64) []float64 {
	out := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i, a := range x {
		for _, b := range x[i+1:] {
			var d float64
			for k := range a {
				d += (a[k] - b[k]) * (a[k] - b[k])
			}
			out = append(out, d)
		}
	}
	return out
}

// LatentHealth warns of collapse: the effective rank of the latents and the
// mean and spread (divisor n-1) of their norms.
type LatentHealth struct{ EffectiveRank, NormMean, NormSD float64 }

// Health measures the rows of z.
func Health(z [][]float64) (LatentHealth, error) {
	p, err := Components(z)
	if err != nil {
		return LatentHealth{}, err
	}
	norms := make([]float64, len(z))
	for i, row := range z {
		norms[i] = floats.Norm(row, 2)
	}
	h := LatentHealth{EffectiveRank: p.EffectiveRank()}
	h.NormMean, h.NormSD = MeanSD(norms)
	return h, nil
}

// Ranking says how well one cost orders candidates that another one judges.
type Ranking struct {
	Tau         float64 // Kendall's tau-b
	Regret      float64 // true rank of the chosen candidate: 0 best, 1 worst
	Overlap     float64 // share of the elites that are true elites
	EliteRegret float64 // mean true rank of the elites
	ValueRegret float64 // true cost of the choice beyond the best, in units of mean minus best
}

// RankMetrics compares the order of predicted costs with that of true costs.
// Regrets are in ranks, since a few very bad candidates would make any regret
// in costs look small. Equal costs keep the order of their candidates.
func RankMetrics(predicted, actual []float64, elites int) Ranking {
	chosen, best := ascending(predicted), ascending(actual)
	n := len(actual)
	rank := make([]float64, n) // true rank of a candidate, in [0, 1]
	for r, i := range best {
		rank[i] = float64(r) / float64(n-1)
	}
	m := Ranking{Tau: KendallB(predicted, actual).Value, Regret: rank[chosen[0]]}
	isElite := map[int]bool{}
	for _, i := range best[:elites] {
		isElite[i] = true
	}
	for _, i := range chosen[:elites] {
		m.EliteRegret += rank[i] / float64(elites)
		if isElite[i] {
			m.Overlap += 1 / float64(elites)
		}
	}
	mean, _ := MeanSD(actual)
	least := actual[best[0]]
	m.ValueRegret = (actual[chosen[0]] - least) / math.Max(mean-least, 1e-12)
	return m
}
