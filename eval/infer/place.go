package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/results"
)

// Placed is a cell with the table, settings and arm it belongs to. Two different cells never
// agree in table, settings, arm, training seed, tier and set.
type Placed struct {
	results.Cell
	Table    string // a solver's name or results.StockMPPI; "" for random actions
	Settings *Settings
	Arm      results.Arm // the arm, followed by the start of a hash if weights or code differ under one name
}

// PlaceCells assigns each cell of a folder to the table of its solver and to the settings it
// agrees with, in the order of the cells. A cell that agrees with several settings, such as
// one of random actions, is returned once for each.
//
// MPPI at stock temperature gets its own table if the task also has MPPI at another
// temperature with otherwise equal settings. A method that always plans at the stock
// temperature is in both tables. Cells of the set on which a temperature was tuned are
// dropped if there are other sets. The notes say which cells were dropped.
func PlaceCells(cells []results.Cell) (placed []Placed, notes []string) {
	cells, notes = usable(cells)
	type solver struct{ task, name string }
	bySolver := map[solver][]results.Cell{}
	for _, c := range cells {
		s := solver{c.Spec.Task, c.Spec.Solver}
		bySolver[s] = append(bySolver[s], c)
	}
	places := map[string][]*Settings{} // by cell id
	tables := map[solver][]*Settings{}
	for s, of := range bySolver {
		all, belong := split(of)
		maps.Copy(places, belong)
		for _, x := range all {
			x.Task, x.Table = s.task, s.name
		}
		for _, x := range stock(all) {
			x.Table = results.StockMPPI
		}
		for _, x := range all {
			t := solver{x.Task, x.Table}
			tables[t] = append(tables[t], x)
		}
	}
	for _, all := range tables {
		name(all)
	}
	for t, all := range tables {
		for _, s := range all {
			for _, o := range tables[solver{t.task, results.MPPI}] {
				if t.name == results.StockMPPI && s.Main == nil && o.chosen() && o.Joins(s) {
					s.Main, s.Varied = o, []string{temperatureKey.name}
				}
			}
		}
	}
	for _, of := range places {
		slices.SortFunc(of, func(a, b *Settings) int { return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name)) })
	}
	others := map[*Settings]bool{} // settings of MPPI at a tuned temperature that have other sets than the tuning set
	for _, c := range cells {
		for _, s := range places[c.ID] {
			others[s] = others[s] || s.chosen() && c.Spec.Set != results.TuningSet
		}
	}
	dropped := map[string]int{}
	for _, c := range cells {
		for _, s := range places[c.ID] {
			if others[s] && c.Spec.Set == results.TuningSet {
				dropped[s.Task]++
				continue
			}
			placed = append(placed, Placed{Cell: c, Table: s.Table, Settings: s})
		}
	}
	for _, task := range slices.Sorted(maps.Keys(dropped)) {
		notes = append(notes, fmt.Sprintf("%s, MPPI: %d cells of set %s left out, because the temperature was tuned on it", task, dropped[task], results.TuningSet))
	}
	nameArms(placed)
	return saidBest(placed), notes
}

// saidBest drops a cell from settings for which its arm has another cell that states more of
// them. Example: a Python model planned by MPPI at the stock temperature fits any table of
// MPPI, but is dropped from the table of a temperature at which the model was planned too.
func saidBest(placed []Placed) []Placed {
	type place struct {
		*Settings
		slot
	}
	most := map[place]int{}
	at := func(p Placed) place { return place{p.Settings, slot{p.Arm, p.Spec.TrainSeed, p.Spec.Tier, p.Spec.Set}} }
	for _, p := range placed {
		most[at(p)] = max(most[at(p)], len(valuesOf(p.Cell)))
	}
	return slices.DeleteFunc(placed, func(p Placed) bool { return len(valuesOf(p.Cell)) < most[at(p)] })
}

// usable drops damaged cells, and cells of a set that duplicates, under another name, a set
// this arm already has. The notes say which.
func usable(cells []results.Cell) (out []results.Cell, notes []string) {
	names := map[results.Spec]string{} // name of the set by the rest of the spec
	same := func(s results.Spec) results.Spec {
		s.Set, s.Pool = "", ""
		return s
	}
	for _, c := range cells {
		k := same(c.Spec)
		if old, ok := names[k]; !ok || cmp.Or(len(c.Spec.Set)-len(old), cmp.Compare(c.Spec.Set, old)) < 0 {
			names[k] = c.Spec.Set
		}
	}
	for _, c := range cells {
		first := names[same(c.Spec)]
		note := ""
		if e, ok := c.Result.Double(); ok {
			note = fmt.Sprintf("cell %s left out: episode %d appears twice in it", c.ID, e)
		} else if first != c.Spec.Set && c.Spec.SetHash != "" {
			note = fmt.Sprintf("%s: the sets %s and %s are the same episodes, which count once", c.Spec.Task, first, c.Spec.Set)
		} else {
			out = append(out, c)
		}
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return out, notes
}

var temperatureKey = setKey{name: "temperature"}

// chosen reports whether the settings are those of MPPI at a temperature other than stock.
func (s *Settings) chosen() bool {
	t := s.value[temperatureKey]
	return s.Table == results.MPPI && t != "" && t != number(results.StockTemperature)
}

// stock returns the settings of MPPI at stock temperature that otherwise agree with settings at
// a chosen temperature. It removes the temperature from their values, because the name of
// their table states it.
func stock(all []*Settings) (out []*Settings) {
	for _, s := range all {
		if s.Table != results.MPPI || s.value[temperatureKey] != number(results.StockTemperature) {
			continue
		}
		rest := maps.Clone(s.value)
		delete(rest, temperatureKey)
		if slices.ContainsFunc(all, func(o *Settings) bool { return o.chosen() && o.value.agrees(rest) }) {
			s.value = rest
			out = append(out, s)
		}
	}
	return out
}

// nameArms sets the arms of all cells. Two trainings with the same name and seed but different
// weights, and two Python models with the same weights but different code, are different
// arms. The start of that hash distinguishes them.
func nameArms(placed []Placed) {
	type training struct {
		*Settings
		arm  results.Arm
		seed int
	}
	for i := range placed {
		placed[i].Arm = placed[i].Spec.Arm()
	}
	for _, hash := range []func(results.Spec) string{func(s results.Spec) string { return s.Weights }, func(s results.Spec) string { return cmp.Or(s.Code, "no-code") }} {
		hashes := map[training]map[string]bool{}
		of := func(p Placed) training { return training{p.Settings, p.Arm, p.Spec.TrainSeed} }
		for _, p := range placed {
			if hashes[of(p)] == nil {
				hashes[of(p)] = map[string]bool{}
			}
			hashes[of(p)][hash(p.Spec)] = true
		}
		for i := range placed {
			if p := &placed[i]; len(hashes[of(*p)]) > 1 {
				p.Arm = p.Arm.With(fmt.Sprintf("%.8s", hash(p.Spec)))
			}
		}
	}
}
