package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/eval/stats"
)

// SetLine is a method beside LeWM as the paper's significance test sees them:
// one number a set, the mean over all tasks, solvers and tiers, and the exact
// Wilcoxon signed-rank test over the sets (docs/sources.md#significance).
type SetLine struct {
	A, B   string
	Cells  int       // tasks x solvers x tiers that both have on all Sets
	Sets   []string  // that all those cells have
	Points []float64 // A − B by set
	Mean   float64
	P      float64 // two-sided; with six sets never below .031
}

// setLines has a line for every method that was evaluated like LeWM. Training
// seeds are averaged.
func setLines(blocks []Block) []SetLine {
	var out []SetLine
	for _, m := range methodOrder {
		if m == lewm || m == random {
			continue
		}
		if l, ok := setLine(blocks, m, lewm); ok {
			out = append(out, l)
		}
	}
	return out
}

func setLine(blocks []Block, a, b string) (SetLine, bool) {
	l := SetLine{A: a, B: b}
	var cells []map[string]float64 // A − B by set
	for i := range blocks {
		x := &blocks[i]
		if x.Solver == mppi && hasStock(blocks, x.Task) {
			continue // the paper's test has MPPI at stock temperature, which needs no set for tuning
		}
		for _, t := range x.Tiers {
			if d := setDifferences(x, t.Name, a, b); len(d) > 0 {
				cells = append(cells, d)
			}
		}
	}
	if len(cells) == 0 {
		return l, false
	}
	l.Cells = len(cells)
	for _, set := range slices.Sorted(maps.Keys(cells[0])) {
		sum, there := 0.0, 0
		for _, c := range cells {
			if d, ok := c[set]; ok {
				sum += d
				there++
			}
		}
		if there == len(cells) {
			// rounded, so that equal differences of decimals share a rank
			l.Sets, l.Points = append(l.Sets, set), append(l.Points, math.Round(sum/float64(len(cells))*1e9)/1e9)
		}
	}
	if len(l.Sets) < 2 {
		return l, false
	}
	l.Mean, _ = stats.MeanSD(l.Points)
	l.P = stats.SignedRankExact(l.Points, stats.DropZeros)
	return l, true
}

func hasStock(blocks []Block, task string) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { return b.Task == task && b.Solver == stockMPPI })
}

// setDifferences are the rates of A minus those of B on the sets that both have.
func setDifferences(b *Block, tier, methodA, methodB string) map[string]float64 {
	ra, rb := b.setRates(tier, methodA), b.setRates(tier, methodB)
	out := map[string]float64{}
	for set, x := range ra {
		if y, ok := rb[set]; ok {
			out[set] = x - y
		}
	}
	return out
}

// setRates is a method's success by set, the mean over its training seeds.
func (b *Block) setRates(tier, method string) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, a := range b.Arms {
		if a.Method != method {
			continue
		}
		for _, s := range a.Scores[tier].BySet {
			sum[s.Set] += s.Rate
			n[s.Set]++
		}
	}
	for set := range sum {
		sum[set] /= n[set]
	}
	return sum
}

// lineTable shows the significance lines.
func (r *Report) lineTable() (t table, ok bool) {
	t = table{head: []string{"Comparison", "Cells", "Sets", "Mean", "By set", "p"},
		caption: "Means over all tasks, solvers and tiers, one number a set, in points, and the exact Wilcoxon signed-rank test over sets (two-sided), as the paper tests."}
	for _, l := range r.Lines {
		var by []string
		for _, d := range l.Points {
			by = append(by, signed(d))
		}
		t.rows = append(t.rows, []entry{words(methodName(l.A) + " − " + methodName(l.B)), number(itoa(l.Cells), float64(l.Cells)), number(itoa(len(l.Sets)), float64(len(l.Sets))),
			number(signed(l.Mean), l.Mean), words(strings.Join(by, ", ")), number(pvalue(l.P), l.P)})
	}
	return t, len(t.rows) > 0
}
