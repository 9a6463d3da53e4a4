package infer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
)

// Settings are the settings that the cells of a block share.
type Settings struct {
	Task, Table string
	// Name says in words how they differ from other settings of the same task and table, and
	// which factors do not have their usual value. It is "" if there is nothing to say.
	Name string
	// Main are the settings with the usual values of all factors and otherwise equal values; for
	// MPPI at stock temperature those at the chosen temperature. It is nil for main settings
	// themselves. Varied names the factors in which the two differ.
	Main   *Settings
	Varied []string
	value  values
}

// values are the values of settings, by name and, for settings that may differ between tiers,
// sets or methods, by tier, set or method. A missing value agrees with any.
type values map[setKey]string

type setKey struct{ name, of string }

// unknown is the value of a setting that a cell does not record (such as the recipe of an old
// checkpoint), if other cells differ in it. Nothing says to which of them it belongs.
const unknown = "unknown"

// apart names an artificial setting. Cells have it whose tier or set has other values than one of
// equal name, all other settings being equal: it keeps them in a separate block.
const apart = "apart"

// valuesOf returns the values of a cell.
func valuesOf(c results.Cell) values {
	v := values{}
	for _, f := range fields {
		if s := f.value(c); f.role == ofSettings && s != "" {
			k := setKey{name: f.name}
			if f.per != nil {
				k.of = f.per(c.Spec)
			}
			v[k] = s
		}
	}
	return v
}

// plain returns the values that belong to no tier, set or method.
func (v values) plain() values {
	v = maps.Clone(v)
	maps.DeleteFunc(v, func(k setKey, _ string) bool { return k.of != "" })
	return v
}

// says reports whether v has a value of a setting.
func (v values) says(name string) bool {
	for k := range v {
		if k.name == name {
			return true
		}
	}
	return false
}

// conflict returns the first setting in which v and o have different values.
func (v values) conflict(o values) (k setKey, found bool) {
	for a, x := range v {
		if y, ok := o[a]; ok && x != y && (!found || a.compare(k) < 0) {
			k, found = a, true
		}
	}
	return k, found
}

func (v values) agrees(o values) bool { _, found := v.conflict(o); return !found }

func (k setKey) compare(o setKey) int {
	return cmp.Or(strings.Compare(k.name, o.name), strings.Compare(k.of, o.of))
}

// Joins reports whether cells of s may be in the same block as those of o. Cells of random actions
// have no settings of planners, and may join those of any planner.
func (s *Settings) Joins(o *Settings) bool { return s.Task == o.Task && s.value.agrees(o.value) }

// split finds the different settings among the cells of one task and solver, and those that each
// cell belongs to, by id: one, or all that agree if the cell lacks an open setting.
func split(cells []results.Cell) (all []*Settings, of map[string][]*Settings) {
	type said struct {
		values
		id, text string
	}
	var order []said
	for _, c := range cells {
		v := valuesOf(c)
		order = append(order, said{v, c.ID, v.text()})
	}
	// Cells with the most values come first, so that the result does not depend on the order of
	// the cells.
	slices.SortFunc(order, func(a, b said) int {
		return cmp.Or(len(b.values)-len(a.values), strings.Compare(a.text, b.text), strings.Compare(a.id, b.id))
	})
	of = map[string][]*Settings{}
	for i, c := range order {
		if i > 0 && c.text == order[i-1].text {
			of[c.id] = of[order[i-1].id]
			continue
		}
		v, open := c.values, false
		for _, f := range fields {
			k := setKey{name: f.name}
			if v.says(f.name) || f.role != ofSettings {
				continue
			}
			if among := fitting(all, v.plain()); slices.ContainsFunc(among, func(s *Settings) bool { return s.value[k] != among[0].value[k] }) {
				if open = open || f.open; !f.open {
					v[k] = unknown
				}
			}
		}
		fits := fitting(all, v)
		switch {
		case len(fits) == 0:
			if near := fitting(all, v.plain()); len(near) > 0 {
				k, _ := v.conflict(near[0].value)
				v[setKey{name: apart}] = k.of + " " + fieldNamed(k.name).words(v[k])
			}
			fits = []*Settings{{value: v}}
			all = append(all, fits[0])
		case !open:
			fits = fits[:1]
		}
		for _, s := range fits {
			maps.Copy(s.value, v)
		}
		of[c.id] = fits
	}
	return all, of
}

func fitting(all []*Settings, v values) (out []*Settings) {
	for _, s := range all {
		if s.value.agrees(v) {
			out = append(out, s)
		}
	}
	return out
}

// text returns a text that is equal for equal values.
func (v values) text() string {
	var s strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(v), setKey.compare) {
		s.WriteString(k.name + " " + k.of + "=" + v[k] + "\n")
	}
	return s.String()
}

// name sets Name, Main and Varied of all settings of one task and table.
func name(all []*Settings) {
	for _, s := range all {
		s.Name = s.value.words(func(k setKey) bool {
			if k.name == apart {
				return true
			}
			if usual := fieldNamed(k.name).usual; usual != "" {
				return s.value[k] != usual
			}
			return slices.ContainsFunc(all, func(o *Settings) bool { return o.value[k] != "" && o.value[k] != s.value[k] })
		})
		for _, o := range all {
			if factors, ok := s.varies(o); ok && s.Main == nil {
				s.Main, s.Varied = o, factors
			}
		}
	}
}

// varies returns the factors in which s differs from o. It returns false if o has an unusual value
// of a factor, or if they differ in no factor or in anything else.
func (s *Settings) varies(o *Settings) (factors []string, ok bool) {
	for _, f := range fields {
		if x := o.value[setKey{name: f.name}]; f.usual != "" && x != "" && x != f.usual {
			return nil, false
		}
	}
	rest := maps.Clone(s.value)
	for _, f := range fields {
		k := setKey{name: f.name}
		if x, y := s.value[k], o.value[k]; f.usual != "" && x != "" && y != "" && x != y {
			factors = append(factors, f.name)
			delete(rest, k)
		}
	}
	return factors, len(factors) > 0 && rest.agrees(o.value)
}

// words formats the plain values for which say returns true.
func (v values) words(say func(setKey) bool) string {
	var out []string
	for _, f := range fields {
		k := setKey{name: f.name}
		if value, ok := v[k]; ok && f.role == ofSettings && say(k) {
			out = append(out, f.words(value))
		}
	}
	if k := (setKey{name: apart}); v[k] != "" && say(k) {
		out = append(out, v[k])
	}
	return strings.Join(out, ", ")
}

// SettingsGroup is a set of settings of different tasks and tables over which numbers may be
// aggregated. Members are indices in the argument of Groups.
type SettingsGroup struct {
	Name    string // what differs from other groups, in words; "" for the only one
	Members []int
}

// Groups divides settings, one per task and table, so that the members of a group agree in every
// setting that varies within a task. Settings without a value, and those of tasks with only one,
// are in every group that they agree with.
func Groups(all []*Settings) (groups []SettingsGroup) {
	differs := func(s *Settings, k setKey) bool {
		return slices.ContainsFunc(all, func(o *Settings) bool {
			return o.Task == s.Task && (o.Table == s.Table || o.value[k] != "" && s.value[k] != "") && o.value[k] != s.value[k]
		})
	}
	vary := make([]values, len(all))
	for i, s := range all {
		vary[i] = values{}
		for _, o := range all {
			for k := range o.value.plain() {
				if differs(s, k) {
					vary[i][k] = cmp.Or(s.value[k], "none")
				}
			}
		}
	}
	var kinds []values
	for i, v := range vary {
		fuller := func(o values) bool { return len(o) > len(v) && covers(o, v) }
		if !slices.ContainsFunc(vary, fuller) && !slices.ContainsFunc(vary[:i], func(o values) bool { return maps.Equal(o, v) }) {
			kinds = append(kinds, v)
		}
	}
	for _, v := range kinds {
		g := SettingsGroup{Name: v.words(func(k setKey) bool {
			return slices.ContainsFunc(kinds, func(o values) bool { return o[k] != v[k] })
		})}
		for i := range all {
			if v.agrees(vary[i]) {
				g.Members = append(g.Members, i)
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// covers reports whether v has all values of o.
func covers(v, o values) bool {
	for k, x := range o {
		if v[k] != x {
			return false
		}
	}
	return true
}
