package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Correlation is a coefficient with its two-sided p-value.
type Correlation struct{ Value, P float64 }

// Ranks numbers x from 1 in ascending order; equal values share their average.
func Ranks(x []float64) []float64 {
	order := ascending(x)
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// Pearson is the linear correlation; P is exact for normal data.
func Pearson(x, y []float64) Correlation {
	r := correlation(x, y)
	if len(x) == 2 && !math.IsNaN(r) {
		return Correlation{r, 1}
	}
	return Correlation{r, correlationP(r, len(x))}
}

// Spearman is the rank correlation with average ranks; P by Student's t.
func Spearman(x, y []float64) Correlation {
	r := correlation(Ranks(x), Ranks(y))
	return Correlation{r, correlationP(r, len(x))}
}

func correlation(x, y []float64) float64 {
	if len(x) != len(y) {
		panic("stats: correlation of slices of different lengths")
	}
	if constant(x) || constant(y) { // rounding of the means must not hide it
		return math.NaN()
	}
	mx, _ := MeanSD(x)
	my, _ := MeanSD(y)
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx += dx * dx
		xy += dx * dy
		yy += dy * dy
	}
	return max(-1, min(1, xy/(math.Sqrt(xx)*math.Sqrt(yy))))
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

// correlationP is the two-sided p of r under independence: (1+r)/2 has a beta
// law, which is the same as Student's t of n-2 degrees of freedom.
func correlationP(r float64, n int) float64 {
	if math.IsNaN(r) || n < 3 {
		return math.NaN()
	}
	ab := float64(n)/2 - 1
	return min(1, 2*mathext.RegIncBeta(ab, ab, (1-math.Abs(r))/2))
}
