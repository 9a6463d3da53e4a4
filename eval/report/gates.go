package report

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/record"
)

// The set that MPPI's temperature is chosen on, and the temperature that was
// not chosen (docs/sources.md#mppi-temperature).
const (
	mppi             = "mppi"
	stockMPPI        = "mppi-stock"
	tuningSet        = "s101"
	stockTemperature = 0.5
)

// checkRender says whether frames drawn here are those that were recorded
// (docs/sources.md#render-gate).
func checkRender(gates []record.Gate) Check {
	const title = "Frames drawn as recorded"
	if len(gates) == 0 {
		return Check{title, Skipped, "the folder does not say"}
	}
	var bad []string
	worst := gates[0]
	for _, g := range gates {
		if !g.Passed() {
			bad = append(bad, fmt.Sprintf("%s differs by %.2f levels, more than %g", taskName(g.Task), g.Error, g.Limit))
		}
		if g.Error > worst.Error {
			worst = g
		}
	}
	return verdict(title, fmt.Sprintf("rendered and stored frames differ by %.2f levels at most (%s), the limit is %g", worst.Error, taskName(worst.Task), worst.Limit), bad)
}

// heatedTasks are those with cells of MPPI at another temperature than stock.
func heatedTasks(cells []record.Cell) map[string]bool {
	out := map[string]bool{}
	for _, c := range cells {
		if t := c.Spec.Temperature; c.Spec.Solver == mppi && t > 0 && t != stockTemperature {
			out[c.Spec.Task] = true
		}
	}
	return out
}

// solversOf names the tables a cell belongs to: its solver's, but that MPPI at
// stock temperature has tables of its own where there is MPPI at another one.
// DINO-WM, whose temperature is the stock one everywhere, stands in both.
func solversOf(c record.Cell, heated map[string]bool) []string {
	if c.Spec.Solver != mppi || !heated[c.Spec.Task] || c.Spec.Temperature != stockTemperature {
		return []string{c.Spec.Solver}
	}
	if c.Spec.Method == "dinowm" {
		return []string{mppi, stockMPPI}
	}
	return []string{stockMPPI}
}

// leaveOutTuning drops, of tasks whose MPPI has a chosen temperature, MPPI's
// cells on the set that chose it, unless there are no others.
func (g *grid) leaveOutTuning() (notes []string) {
	chosen, others := map[string]bool{}, map[string]bool{}
	for p, c := range g.cells {
		if p.solver == mppi {
			chosen[p.task] = chosen[p.task] || c.Spec.Temperature > 0 && c.Spec.Temperature != stockTemperature
			others[p.task] = others[p.task] || p.set != tuningSet
		}
	}
	dropped := map[string]int{}
	for p := range g.cells {
		if p.solver == mppi && p.set == tuningSet && chosen[p.task] && others[p.task] {
			delete(g.cells, p)
			dropped[p.task]++
		}
	}
	kept := g.places[:0]
	for _, p := range g.places {
		if _, ok := g.cells[p]; ok {
			kept = append(kept, p)
		}
	}
	g.places = kept
	for _, task := range slices.Sorted(maps.Keys(dropped)) {
		notes = append(notes, fmt.Sprintf("%s, MPPI: %s of set %s left out of the tables, since that set chose the temperature", taskName(task), count(dropped[task], "cell"), tuningSet))
	}
	return notes
}
