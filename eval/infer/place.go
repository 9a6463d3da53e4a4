package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/results"
)

// Placed is a cell and where it belongs. Two different cells never have the same
// table, settings, arm, training seed, tier and set.
type Placed struct {
	results.Cell
	Table    string // a solver's name or results.StockMPPI; "" of random actions
	Settings *Settings
	Arm      results.Arm // who acts, with the head of a hash where names are equal and weights or code are not
}

// PlaceCells says where the cells of a folder belong, in their order: to the table of
// their solver and the settings that they agree with. MPPI at stock temperature
// has a table of its own where the task has MPPI at another one and is else set
// alike; a method that always plans at the stock temperature stands in both. The
// notes say which cells belong to none.
func PlaceCells(cells []results.Cell) (placed []Placed, notes []string) {
	cells, notes = usable(cells)
	type solver struct{ task, name string }
	bySolver := map[solver][]results.Cell{}
	for _, c := range cells {
		s := solver{c.Spec.Task, c.Spec.Solver}
		bySolver[s] = append(bySolver[s], c)
	}
	places := map[string][]*Settings{} // by cell
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
	others := map[*Settings]bool{} // MPPI at a chosen temperature with other sets than the tuning set
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
		notes = append(notes, fmt.Sprintf("%s, MPPI: %d cells of set %s left out, since that set chose the temperature", task, dropped[task], results.TuningSet))
	}
	nameArms(placed)
	return saidBest(placed), notes
}

// saidBest drops a cell from settings in which its arm has another cell that says more of them: a Python model planned by MPPI at the
// stock temperature, which belongs to any table of MPPI, from that of the temperature at which the model was planned too.
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

// usable leaves out damaged cells, and those of a set whose episodes an arm has
// under another name too: they would count twice.
func usable(cells []results.Cell) (out []results.Cell, notes []string) {
	names := map[results.Spec]string{} // the set of what is else the same
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
			note = fmt.Sprintf("cell %s left out: episode %d stands twice in it", c.ID, e)
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

// chosen says that the settings are MPPI's at a temperature that was chosen.
func (s *Settings) chosen() bool {
	t := s.value[temperatureKey]
	return s.Table == results.MPPI && t != "" && t != number(results.StockTemperature)
}

// stock are the settings of MPPI at stock temperature that stand beside a chosen
// one. Their table's name says their temperature.
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

// nameArms names the arms. Trainings of one name and seed that left different
// weights, and models in Python of the same weights and different code, are different arms, and
// bear the head of that hash.
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
