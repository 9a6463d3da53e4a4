package infer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// Score is the success of an arm at a tier, in percent.
type Score struct {
	N     int       `json:"n"`    // episodes and
	Hits  int       `json:"hits"` // successes, over all sets
	Mean  float64   `json:"-"`    // over sets
	SD    float64   `json:"-"`    // over sets, with divisor S-1; NaN with one set
	Lo    float64   `json:"-"`    // 95 % Wilson interval of the pooled rate; NaN where there is none
	Hi    float64   `json:"-"`
	BySet []SetRate `json:"by_set"`
	// NaN is the share of the costs that were NaN or infinite, in percent; a mean has the largest.
	NaN       float64   `json:"-"`
	Solved    []float64 `json:"-"` // Solved[k]: percent solved within k env steps, k = 0..budget; not of a mean over tiers
	PreSolved float64   `json:"-"` // share of starts that already meet the goal, percent
	Fresh     float64   `json:"-"` // success without those starts, percent; NaN where none is left
}

// SetRate is the success on one set, in percent of N episodes.
type SetRate struct {
	Set  string  `json:"set"`
	N    int     `json:"n,omitempty"`
	Rate float64 `json:"rate"`
}

// ScoreOf sums up the cells of an arm at a tier, one a set, in any order.
func ScoreOf(cells []results.Cell) Score {
	var s Score
	bad, costs, budget, pre, preHits := 0, 0, 0, 0, 0
	for _, c := range cells {
		budget = max(budget, c.Spec.Budget)
	}
	solvedAt := make([]int, budget+1) // episodes first solved after k env steps
	for _, c := range cells {
		n := len(c.Result.Rows)
		s.N += n
		s.Hits += c.Result.Hits()
		s.BySet = append(s.BySet, SetRate{c.Spec.Set, n, c.Result.Rate()})
		for _, r := range c.Result.Rows {
			bad, costs = bad+r.NaNCosts, costs+r.Replans*c.Spec.Candidates*c.Spec.Iterations
			if r.PreSolved {
				pre++
			}
			if r.Success {
				solvedAt[min(max(r.Steps, 0), budget)]++
				if r.PreSolved {
					preHits++
				}
			}
		}
	}
	percent := func(k, n int) float64 { return 100 * float64(k) / float64(n) }
	solved := 0
	for _, n := range solvedAt {
		solved += n
		s.Solved = append(s.Solved, percent(solved, s.N))
	}
	s.PreSolved, s.Fresh = percent(pre, s.N), percent(s.Hits-preHits, s.N-pre)
	s.NaN = percent(bad, max(costs, 1))
	slices.SortFunc(s.BySet, func(a, b SetRate) int { return strings.Compare(a.Set, b.Set) })
	s.Lo, s.Hi = math.NaN(), math.NaN()
	if s.N > 0 {
		iv := stats.Wilson(s.Hits, s.N, 0.95)
		s.Lo, s.Hi = 100*iv.Lo, 100*iv.Hi
	}
	return s.overSets()
}

// MeanScore averages scores over tiers: set by set first, so that the spread
// over sets keeps its meaning. Sets missing at a tier are left out.
func MeanScore(tiers []Score) Score {
	m := Score{Lo: math.NaN(), Hi: math.NaN()}
	sums, counts := map[string]float64{}, map[string]int{}
	for _, s := range tiers {
		m.N, m.NaN = max(m.N, s.N), max(m.NaN, s.NaN)
		for _, r := range s.BySet {
			sums[r.Set] += r.Rate
			counts[r.Set]++
		}
	}
	for _, set := range slices.Sorted(maps.Keys(counts)) {
		if counts[set] == len(tiers) {
			m.BySet = append(m.BySet, SetRate{Set: set, Rate: sums[set] / float64(len(tiers))})
		}
	}
	return m.overSets()
}

// Note says how many of the costs that chose the plans were not finite, "" where all were.
func (s Score) Note() string {
	if s.NaN == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g %% of the costs were NaN or infinite, and counted as the worst", s.NaN)
}

func (s Score) overSets() Score {
	x := make([]float64, len(s.BySet))
	for i, r := range s.BySet {
		x[i] = r.Rate
	}
	s.Mean, s.SD = stats.MeanSD(x)
	return s
}

// SetTest is the paper's significance test of two methods (docs/sources.md#significance): of
// each set the mean over all cells (solver and tier) of one task, the
// difference set by set, and the exact two-sided Wilcoxon signed-rank test over
// sets, which with six sets is never below .031.
type SetTest struct {
	Cells  int         `json:"cells"`
	Sets   []string    `json:"sets"`   // that all cells have
	Points []float64   `json:"points"` // A - B by set; none where no two sets are in all cells
	Mean   float64     `json:"mean"`
	P      float64     `json:"p"`
	Pooled *Difference `json:"pooled"` // over the same cells, the episode as unit; nil where no episode, or not every training seed, is in all
}

// TestSets tests cells of differences A - B by set. It is false where fewer
// than two sets are in all cells.
func TestSets(cells []map[string]float64) (SetTest, bool) {
	t := SetTest{Cells: len(cells)}
	sum, there := map[string]float64{}, map[string]int{}
	for _, c := range cells {
		for set, d := range c {
			sum[set] += d
			there[set]++
		}
	}
	for _, set := range slices.Sorted(maps.Keys(there)) {
		if there[set] == len(cells) {
			// rounded, so that equal differences of decimals share a rank
			t.Sets, t.Points = append(t.Sets, set), append(t.Points, math.Round(sum[set]/float64(len(cells))*1e9)/1e9)
		}
	}
	if len(t.Sets) < 2 {
		return t, false
	}
	t.Mean, _ = stats.MeanSD(t.Points)
	t.P = stats.SignedRankExact(t.Points)
	return t, true
}

// Estimate is a number with its 95 % interval from a bootstrap of the sets of
// each cell.
type Estimate struct{ Value, Lo, Hi float64 }

// Aggregate sums up the success rates of a method over cells, each by set:
// mean, interquartile mean, and how far success falls short of 100 %
// (docs/sources.md#aggregates).
func Aggregate(method string, cells [][]float64) (mean, iqm, gap Estimate) {
	all := slices.Concat(cells...)
	estimate := func(statistic func([]float64) float64) Estimate {
		iv := stats.Aggregated(cells, statistic, rng.Stream("report aggregate", method)).Interval(0.95)
		return Estimate{statistic(all), iv.Lo, iv.Hi}
	}
	return estimate(func(x []float64) float64 { m, _ := stats.MeanSD(x); return m }), estimate(stats.IQM),
		estimate(func(x []float64) float64 { return stats.OptimalityGap(x, 100) })
}
