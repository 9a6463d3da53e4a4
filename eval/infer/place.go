package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/results"
)

// Placed is a cell and its position in the tables of a folder. Two different cells never
// have the same table, settings, arm, training seed, tier and set.
type Placed struct {
	results.Cell
	Table    string // a solver's name or results.StockMPPI; "" for arms that do not search
	Settings *Settings
	// Arm is who acts. If several checkpoints or programs have the same name and seed, a
	// variant distinguishes them: the first characters of a hash.
	Arm     results.Arm
	Foreign string // path of the file of another program with the outcomes; "" for cells of this one
}

// PlaceCells assigns the cells of a folder to the table of their solver and to the
// settings that they agree with. The result is in the order of the cells and does not
// depend on it otherwise. A cell that agrees with several settings is returned once for
// each. The notes say which cells are left out.
//
// MPPI at the stock temperature gets its own table, results.StockMPPI, if the task also
// has MPPI at another temperature and otherwise equal settings. A method that always
// plans at the stock temperature is in both tables.
func PlaceCells(cells []results.Cell) (placed []Placed, notes []string) {
	cells, notes = usable(cells)
	type solver struct {
		task, name string
		policy     bool // random actions have no settings that policies differ in
	}
	bySolver := map[solver][]results.Cell{}
	for _, c := range cells {
		s := solver{c.Spec.Task, c.Spec.Solver, isPolicy(c.Spec)}
		bySolver[s] = append(bySolver[s], c)
	}
	// Find the settings of each task and solver, and assign them to tables.
	places := map[string][]*Settings{} // settings of each cell, by its id
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
			t := solver{x.Task, x.Table, s.policy}
			tables[t] = append(tables[t], x)
		}
	}
	for _, all := range tables {
		name(all)
	}
	// MPPI at the stock temperature varies MPPI at the chosen one.
	for t, all := range tables {
		for _, s := range all {
			for _, o := range tables[solver{task: t.task, name: results.MPPI}] {
				if t.name == results.StockMPPI && s.Main == nil && o.chosen() && o.Joins(s) {
					s.Main, s.Varied = o, []string{temperatureKey.name}
				}
			}
		}
	}
	// split ranges over maps; sort what depends on their order.
	for _, of := range places {
		slices.SortFunc(of, func(a, b *Settings) int { return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name)) })
	}
	// The tuning set chose MPPI's temperature, so success on it is biased upwards. Leave it
	// out wherever the same settings have other sets.
	others := map[*Settings]bool{}
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
	return dropLessSpecific(placed), notes
}

// dropLessSpecific drops a cell from settings in which its arm has another cell with more
// values in the same slot. For example, a Python model planned by MPPI at the stock
// temperature agrees with every table of MPPI. It is dropped from the table of a
// temperature at which the model was planned too.
func dropLessSpecific(placed []Placed) []Placed {
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

// usable drops damaged cells. If an arm has a set of the same episodes under two names,
// it keeps the shorter name (then the first in alphabetical order), since these
// episodes would count twice. Of equal evaluations under two names of a protocol it keeps
// the first name of compareNames.
func usable(cells []results.Cell) (out []results.Cell, notes []string) {
	names := map[results.Spec]string{}     // name of the set that is kept, by the rest of the spec
	protocols := map[results.Spec]string{} // name of the protocol that is kept, by the rest of the spec
	var specs, rests []results.Spec        // of each cell, without the protocol's name; also without set and pool
	for _, c := range cells {
		spec := unnamed(c.Spec)
		if old, ok := protocols[spec]; !ok || compareNames(c.Spec.Protocol, old) < 0 {
			protocols[spec] = c.Spec.Protocol
		}
		rest := spec
		rest.Set, rest.Pool = "", ""
		if old, ok := names[rest]; !ok || cmp.Or(len(c.Spec.Set)-len(old), cmp.Compare(c.Spec.Set, old)) < 0 {
			names[rest] = c.Spec.Set
		}
		specs, rests = append(specs, spec), append(rests, rest)
	}
	for i, c := range cells {
		first := names[rests[i]]
		note := ""
		if e, ok := c.Result.Double(); ok {
			note = fmt.Sprintf("cell %s left out: it has episode %d twice", c.ID, e)
		} else if first != c.Spec.Set && c.Spec.SetHash != "" {
			note = fmt.Sprintf("%s: the sets %s and %s are the same episodes, which count once", c.Spec.Task, first, c.Spec.Set)
		} else if name := protocols[specs[i]]; name != c.Spec.Protocol {
			note = fmt.Sprintf("%s: cells under the protocols %s and %s have equal settings, and each evaluation counts once", c.Spec.Task, name, c.Spec.Protocol)
		} else {
			out = append(out, c)
		}
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return out, notes
}

// unnamed returns a spec without the name of its protocol: equal evaluations have equal
// ones.
func unnamed(s results.Spec) results.Spec {
	s.Rules = s.Rules.Named("").Of(s.Solver, !s.Random())
	s.Trained = "" // the weights identify the training
	return s
}

// temperatureKey is the key of MPPI's temperature in values.
var temperatureKey = setKey{name: "temperature"}

// chosen reports whether these are settings of MPPI at a temperature other than the
// stock one.
func (s *Settings) chosen() bool {
	t := s.value[temperatureKey]
	return s.Table == results.MPPI && t != "" && t != number(results.StockTemperature)
}

// stock returns the settings of MPPI at the stock temperature that agree with some at a
// chosen one in everything else. It removes the temperature from their values, because
// the name of their table states it.
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

// nameArms sets the arms of the cells. Within settings, trainings of the same name and
// seed with different weights are different arms, and so are Python models with equal
// weights and different code. They get the first characters of that hash as a variant.
// Without it their cells would claim the same slots.
func nameArms(placed []Placed) {
	type training struct {
		*Settings
		arm  results.Arm
		seed int
	}
	for i := range placed {
		placed[i].Arm = placed[i].Spec.Arm()
	}
	for _, hash := range []func(results.Spec) string{func(s results.Spec) string { return s.Weights }, func(s results.Spec) string { return cmp.Or(s.Code, "no-code") },
		func(s results.Spec) string { return cmp.Or(s.Act, "plan") }} {
		hashes := map[training]map[string]bool{}
		// A search has the weights of the one of which it replaces a component.
		of := func(p Placed) training {
			p.Arm.Wrappers = ""
			return training{p.Settings, p.Arm, p.Spec.TrainSeed}
		}
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
