package report

import (
	"scalewm/dataset/rng"
	"scalewm/eval/stats"
)

// Aggregate sums up a method over all cells (task, solver, tier) that every
// trained method of the report has (docs/sources.md#aggregates): success in percent.
type Aggregate struct {
	Method         string
	Cells          int
	Mean, IQM, Gap Estimate // Gap: how far success falls short of 100 %
}

// Estimate is a number with its 95 % interval from a stratified bootstrap of sets.
type Estimate struct{ Value, Lo, Hi float64 }

// aggregates are the methods' numbers over the cells that all of them have.
func aggregates(blocks []Block) []Aggregate {
	var methods []string
	for _, m := range methodOrder {
		for i := range blocks {
			if _, ok := blocks[i].first(m); ok && m != random {
				methods = append(methods, m)
				break
			}
		}
	}
	cells := map[string][][]float64{}
	for i := range blocks {
		b := &blocks[i]
		for _, t := range b.Tiers {
			rates := map[string][]float64{}
			for _, m := range methods {
				bySet := b.setRates(t.Name, m)
				for _, set := range b.Sets {
					if r, ok := bySet[set]; ok {
						rates[m] = append(rates[m], r)
					}
				}
			}
			if len(rates) < len(methods) {
				continue
			}
			for m, r := range rates {
				cells[m] = append(cells[m], r)
			}
		}
	}
	var out []Aggregate
	for _, m := range methods {
		if c := cells[m]; len(c) > 0 {
			out = append(out, Aggregate{m, len(c), estimate(c, m, mean), estimate(c, m, stats.IQM),
				estimate(c, m, func(x []float64) float64 { return stats.OptimalityGap(x, 100) })})
		}
	}
	return out
}

func mean(x []float64) float64 { m, _ := stats.MeanSD(x); return m }

func estimate(cells [][]float64, method string, statistic func([]float64) float64) Estimate {
	var all []float64
	for _, c := range cells {
		all = append(all, c...)
	}
	iv := stats.Aggregated(cells, statistic, rng.Stream("report aggregate", method)).Interval(0.95)
	return Estimate{statistic(all), iv.Lo, iv.Hi}
}

// aggregateTable shows them.
func (r *Report) aggregateTable() (t table, ok bool) {
	t = table{head: []string{"Method", "Cells", "Mean", "95 %", "Interquartile mean", "95 %", "Gap to 100 %", "95 %"},
		caption: "Success (%) over all cells (task, solver, tier) that every method has, with 95 % intervals from a bootstrap of sets within cells. The intervals of two methods do not say whether they differ: the paired tables do."}
	for _, a := range r.Aggregates {
		row := []entry{words(methodName(a.Method)), number(itoa(a.Cells), float64(a.Cells))}
		for _, e := range []Estimate{a.Mean, a.IQM, a.Gap} {
			row = append(row, number(points(e.Value), e.Value), words(points(e.Lo)+" to "+points(e.Hi)))
		}
		t.rows = append(t.rows, row)
	}
	return t, len(t.rows) > 0
}
