package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts p-values so that the chance of any false rejection in the family
// is bounded (Holm 1979). The result is in the order of p.
func Holm(p []float64) []float64 {
	order := ascending(p)
	out := make([]float64, len(p))
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(1, float64(len(p)-k)*p[i]))
		out[i] = worst
	}
	return out
}

// BenjaminiHochberg adjusts p-values so that the expected share of false
// rejections is bounded. The result is in the order of p.
func BenjaminiHochberg(p []float64) []float64 {
	order := ascending(p)
	out := make([]float64, len(p))
	best := 1.0
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		best = min(best, p[i]*float64(len(p))/float64(k+1))
		out[i] = best
	}
	return out
}

// ascending is the stable order of x.
func ascending(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return order
}
