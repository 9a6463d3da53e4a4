package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// TuningSuccess is the What of success at a temperature of MPPI on the set that the
// temperature was chosen on, in percent and averaged over tiers. Its How is a *Tuning.
const TuningSuccess = "tuning_success"

// Tuning describes the temperature of a number.
type Tuning struct {
	Temperature float64
	Chosen      bool // the task's table of MPPI has this temperature
}

// tuning adds the success of each tuned arm at each temperature, ascending. Of several
// tunings of a checkpoint's name on a task, that with the most cells counts, and of a
// tuning those temperatures that have all of its tiers.
//
// An episode is the unit of the Wilson interval: its outcomes at the tiers are averaged,
// and vary at most as much as a single one (see stats.Newcombe).
func (t *Table) tuning() {
	type tuned struct {
		task string
		arm  results.Arm
		seed int
	}
	// A tuning consists of the cells that differ in temperature and tier only.
	best := map[tuned][]results.Cell{}
	groups := map[results.Spec][]results.Cell{}
	for _, c := range t.Tuning {
		s := c.Spec
		if s.Solver != results.MPPI || !(s.Temperature > 1e-6 && s.Temperature < 1e6) {
			continue // no cell of Tune, or one that no figure can show
		}
		s.Temperature, s.Tier, s.Candidates, s.Iterations, s.Elites = 0, "", 0, 0, 0
		groups[s] = append(groups[s], c)
	}
	for s, cells := range groups {
		k := tuned{s.Task, s.Arm(), s.TrainSeed}
		if by := len(cells) - len(best[k]); by > 0 || by == 0 && cells[0].ID < best[k][0].ID {
			best[k] = cells
		}
	}
	order := slices.SortedFunc(maps.Keys(best), func(a, b tuned) int {
		return cmp.Or(results.CompareTasks(a.task, b.task), results.CompareArms(a.arm, b.arm), a.seed-b.seed)
	})
	for _, k := range order {
		at, tiers := map[float64][]results.Cell{}, 0
		for _, c := range best[k] {
			x := c.Spec.Temperature
			at[x] = append(at[x], c)
			tiers = max(tiers, len(at[x]))
		}
		for _, x := range slices.Sorted(maps.Keys(at)) {
			if len(at[x]) == tiers {
				t.add(t.atTemperature(x, at[x], k.arm, k.seed))
			}
		}
	}
}

// atTemperature returns the success of cells at a temperature x, one for each tier.
func (t *Table) atTemperature(x float64, cells []results.Cell, arm results.Arm, seed int) Number {
	s, n, percent := cells[0].Spec, max(len(cells[0].Result.Rows), 1), 0.0
	for _, c := range cells {
		percent += c.Result.Rate()
	}
	percent /= float64(len(cells))
	iv := stats.Wilson(min(percent/100, 1)*float64(n), float64(n), 0.95)
	chosen := slices.ContainsFunc(t.Blocks, func(b *Block) bool {
		return b.Main == nil && b.Task == s.Task && b.Solver == results.MPPI && b.settings.value[temperatureKey] == number(x)
	})
	out := Number{What: TuningSuccess, Place: Place{Task: s.Task, Solver: results.MPPI, Tier: Mean, Set: s.Set, Settings: fmt.Sprintf("temperature %g", x)},
		Of: arm, Seed: &seed, N: n, Unit: "episode", From: ids(cells), How: &Tuning{x, chosen}}
	slices.SortFunc(out.From, strings.Compare)
	return out.put(Estimate{percent, 100 * iv.Lo, 100 * iv.Hi})
}
