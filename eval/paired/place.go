package paired

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/record"
	"scalewm/model"
)

// Tables of MPPI: at a chosen temperature, and at the stock one where there are
// both. The set that the temperature is chosen on is part of no table of the
// chosen one (docs/sources.md#mppi-temperature).
const (
	MPPI             = "mppi"
	StockMPPI        = "mppi-stock"
	tuningSet        = "s101"
	stockTemperature = 0.5
)

// Placed is a cell and the table that it belongs to.
type Placed struct {
	record.Cell
	Table string // a solver's name or StockMPPI; "" of random actions
}

// Place says to which tables the cells of a folder belong, in their order: to
// its solver's, but MPPI at stock temperature has a table of its own where the
// task has MPPI at another one. A method that plans at the stock temperature
// always stands in both. The notes say which cells belong to none.
func Place(cells []record.Cell) (placed []Placed, notes []string) {
	tuned := map[string]bool{}  // tasks whose MPPI has a chosen temperature
	others := map[string]bool{} // those of them with other sets than the tuning set
	isTuned := func(s record.Spec) bool {
		return s.Solver == MPPI && s.Temperature > 0 && s.Temperature != stockTemperature
	}
	for _, c := range cells {
		tuned[c.Spec.Task] = tuned[c.Spec.Task] || isTuned(c.Spec)
		others[c.Spec.Task] = others[c.Spec.Task] || isTuned(c.Spec) && c.Spec.Set != tuningSet
	}
	dropped := map[string]int{}
	for _, c := range cells {
		s := c.Spec
		if e, ok := c.Result.Double(); ok {
			notes = append(notes, fmt.Sprintf("cell %s left out: episode %d stands twice in it", c.ID, e))
			continue
		}
		tables := []string{s.Solver}
		if s.Solver == MPPI && tuned[s.Task] && s.Temperature == stockTemperature {
			tables = []string{StockMPPI}
			if model.MethodOf(s.Method).Group == "" {
				tables = []string{MPPI, StockMPPI}
			}
		}
		for _, t := range tables {
			if t == MPPI && s.Set == tuningSet && others[s.Task] {
				dropped[s.Task]++
				continue
			}
			placed = append(placed, Placed{c, t})
		}
	}
	for _, task := range slices.Sorted(maps.Keys(dropped)) {
		notes = append(notes, fmt.Sprintf("%s, MPPI: %d cells of set %s left out, since that set chose the temperature", task, dropped[task], tuningSet))
	}
	return placed, notes
}
