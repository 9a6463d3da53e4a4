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
	N    int     `json:"n"`    // number of episodes, over all sets
	Hits int     `json:"hits"` // number of successes, over all sets
	Mean float64 `json:"-"`    // mean over sets
	SD   float64 `json:"-"`    // standard deviation over sets, with divisor S-1; NaN for one set
	// Lo and Hi bound the 95 % Wilson interval of the pooled rate Hits/N. They are NaN for a
	// mean over tiers.
	Lo    float64   `json:"-"`
	Hi    float64   `json:"-"`
	BySet []SetRate `json:"by_set"` // sorted by set
	// NaN is the share of costs that were NaN or infinite, in percent. For a mean over tiers
	// it is the largest of the tiers.
	NaN float64 `json:"-"`
	// Ended is the number of episodes that the simulation ended, and Why the reason of one.
	Ended int    `json:"-"`
	Why   string `json:"-"`
	// Solved[k] is the percentage of episodes solved within k env steps, k = 0 ... budget.
	// It is empty for a mean over tiers, and if a successful episode does not state its steps.
	Solved    []float64 `json:"-"`
	PreSolved float64   `json:"-"` // percentage of starts that already meet the goal
	Fresh     float64   `json:"-"` // success without those starts, in percent; NaN if none is left
}

// SetRate is the success on one set of N episodes, in percent.
type SetRate struct {
	Set  string  `json:"set"`
	N    int     `json:"n,omitempty"`
	Rate float64 `json:"rate"`
}

// ScoreOf summarizes the cells of an arm at a tier, one for each set, in any order.
func ScoreOf(cells []results.Cell) Score {
	var s Score
	bad, costs, budget, pre, preHits := 0, 0, 0, 0, 0
	for _, c := range cells {
		budget = max(budget, c.Spec.Budget)
	}
	solvedAt, unknown := make([]int, budget+1), false // episodes first solved after k env steps
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
			if r.Diverged != "" {
				s.Ended, s.Why = s.Ended+1, r.Diverged
			}
			if r.Success {
				unknown = unknown || r.Steps == 0
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
	if unknown {
		s.Solved = nil
	}
	s.PreSolved, s.Fresh = percent(pre, s.N), percent(s.Hits-preHits, s.N-pre)
	s.NaN = percent(bad, max(costs, 1))
	slices.SortFunc(s.BySet, func(a, b SetRate) int { return strings.Compare(a.Set, b.Set) })
	// Sets scatter by chance only (docs/sources.md#set-spread), so the pooled rate has the
	// binomial distribution that Wilson's interval assumes.
	s.Lo, s.Hi = math.NaN(), math.NaN()
	if s.N > 0 {
		iv := stats.Wilson(float64(s.Hits), float64(s.N), 0.95)
		s.Lo, s.Hi = 100*iv.Lo, 100*iv.Hi
	}
	return s.overSets()
}

// MeanScore averages scores over tiers. It averages set by set first, so that the
// standard deviation over sets remains meaningful. Sets that are missing at some tier
// are left out.
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

// Note returns a note on the share of costs that were not finite and on episodes that the
// simulation ended, or "" if there are none.
func (s Score) Note() string {
	var notes []string
	if s.NaN != 0 {
		notes = append(notes, fmt.Sprintf("%.3g %% of the costs were NaN or infinite, and counted as the worst", s.NaN))
	}
	if s.Ended > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d episodes ended early and count as failures, such as one because %s", s.Ended, s.N, s.Why))
	}
	return strings.Join(notes, "; ")
}

// overSets sets the mean and the standard deviation over sets.
func (s Score) overSets() Score {
	x := make([]float64, len(s.BySet))
	for i, r := range s.BySet {
		x[i] = r.Rate
	}
	s.Mean, s.SD = stats.MeanSD(x)
	return s
}

// SetTest is the paper's significance test of two methods
// (docs/sources.md#significance): the success of each method on a set is its mean over
// all cells (solver and tier) of one task, and the differences by set are tested by the
// exact two-sided Wilcoxon signed-rank test. With six sets its p-value is at least
// 2/2^6 = .031.
type SetTest struct {
	Cells  int       `json:"cells"`  // number of cells
	Sets   []string  `json:"sets"`   // sets that all cells have
	Points []float64 `json:"points"` // Points[i] is A - B on Sets[i]
	Mean   float64   `json:"mean"`
	P      float64   `json:"p"`
	// Pooled is the difference over the same cells with the episode as the unit. It is nil
	// if some cell lacks a training seed, or no episode is in all cells.
	Pooled *Difference `json:"pooled"`
}

// TestSets tests differences A - B, given for each cell by set. It returns false if
// fewer than two sets are in all cells.
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
			// Differences that are equal in decimals may differ in the last bits. Round them,
			// so that they are ties and share a rank.
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

// Estimate is a value with its 95 % interval, whose ends are NaN if it has none.
type Estimate struct{ Value, Lo, Hi float64 }

// Aggregate summarizes a method's success rates cells[cell][run], in percent, over all
// cells: mean, interquartile mean, and how far success falls short of 100 %
// (docs/sources.md#aggregates). The intervals are from a bootstrap that resamples the
// runs of each cell; there is none if the runs do not differ. The name of the method seeds
// it.
func Aggregate(method string, cells [][]float64) (mean, iqm, gap Estimate) {
	all := slices.Concat(cells...)
	of := func(statistic func([]float64) float64) Estimate {
		return estimate(statistic(all), stats.Aggregated(cells, statistic, rng.Stream("report aggregate", method)).Interval(0.95))
	}
	return of(func(x []float64) float64 { m, _ := stats.MeanSD(x); return m }), of(stats.IQM),
		of(func(x []float64) float64 { return stats.OptimalityGap(x, 100) })
}
