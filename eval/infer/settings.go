package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
)

// Settings are the conditions of evaluation that the cells of a block share. They cover the
// fields with role ofSettings. The block is identified by task, table and settings.
type Settings struct {
	Task, Table string
	// Name describes, for readers, what differs from other settings of the same task and
	// table, and the factors with unusual values. It is "" if there is nothing to say.
	Name string
	// Main are the settings that have the usual values of all factors and are otherwise
	// equal. For MPPI at the stock temperature they are those at the chosen one. Main is nil
	// if no other settings are varied. Varied names the factors in which they differ.
	Main   *Settings
	Varied []string
	value  values
	// protocol is the name of the protocol of the cells, as readers see it; changed reports
	// whether the cells' name says results.Changed. Cells with equal values may have several
	// names, of which the first of compareNames is kept.
	protocol string
	changed  bool
}

// compareNames orders names of protocols by how well they name their values: paper and
// strict, whose values are fixed, others, and last those whose values were changed.
func compareNames(a, b string) int {
	rank := func(name string) int {
		switch {
		case name == results.Paper, name == results.Strict:
			return 0
		case strings.Contains(name, results.Changed):
			return 2
		}
		return 1
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// implies reports whether the name of s's protocol tells a reader how s differs from o in a
// setting, so that its value need not be said. The name of a changed protocol does so only
// next to settings under the unchanged one.
func (s *Settings) implies(k setKey, o *Settings, all []*Settings) bool {
	return k.name != apart && fieldNamed(k.name).protocol && o.protocol != s.protocol &&
		(!s.changed || slices.ContainsFunc(all, func(x *Settings) bool { return x.protocol == s.protocol && !x.changed }))
}

// values maps settings to their values. A missing setting agrees with every value.
type values map[setKey]string

// setKey is the key of a setting: its name and, if it may differ within a block, the tier,
// set or method for which it is the value (see field.per).
type setKey struct{ name, of string }

// unknown is the value of a setting that a cell does not state (such as the recipe of a
// checkpoint without one), if other cells differ in it. Such a cell agrees with none of
// them, since it cannot be assigned to one.
const unknown = "unknown"

// apart is the name of an artificial setting. Cells get it if they contradict others only in
// a tier or set of equal name, such as two sets s101 with different starts. It separates
// them, and its value names the contradiction.
const apart = "apart"

// valuesOf returns the settings of a cell.
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

// plain returns the settings that do not belong to a tier, set or method.
func (v values) plain() values {
	v = maps.Clone(v)
	maps.DeleteFunc(v, func(k setKey, _ string) bool { return k.of != "" })
	return v
}

// has reports whether v has a setting of that name.
func (v values) has(name string) bool {
	for k := range v {
		if k.name == name {
			return true
		}
	}
	return false
}

// conflict returns the first setting, in the order of keys, in which v and o differ.
func (v values) conflict(o values) (k setKey, found bool) {
	for a, x := range v {
		if y, ok := o[a]; ok && x != y && (!found || a.compare(k) < 0) {
			k, found = a, true
		}
	}
	return k, found
}

// agrees reports whether v and o differ in no setting that both have.
func (v values) agrees(o values) bool { _, found := v.conflict(o); return !found }

func (k setKey) compare(o setKey) int {
	return cmp.Or(strings.Compare(k.name, o.name), strings.Compare(k.of, o.of))
}

// Published reports whether cells of s may be compared with published numbers: goals,
// budget, planning, physics and the rule of success are the paper's. The protocols paper
// and strict differ in starts, scaling and noise only, and both are.
func (s *Settings) Published() bool {
	for _, x := range results.Settings {
		v := s.value[setKey{name: x.Name}]
		if x.Renames && x.Implied(results.Paper) == "" && v != "" && v != x.Value(results.Published()) {
			return false
		}
	}
	return true
}

// Joins reports whether cells of s may be compared with those of o. It holds for random
// actions, which have no planner settings, and any planner on the same data and starts.
func (s *Settings) Joins(o *Settings) bool { return s.Task == o.Task && s.value.agrees(o.value) }

// split finds the distinct settings among the cells of one task and solver. It also
// returns, by id, the settings that each cell belongs to: one, or all that agree with a
// cell without an open setting or without a model.
//
// The algorithm is greedy: it takes the cells one by one, adds each to the settings it
// agrees with, and starts new settings if there are none.
func split(cells []results.Cell) (all []*Settings, of map[string][]*Settings) {
	type said struct {
		values
		id, text, protocol string
		untrained          bool // without a model, whose settings then are open
	}
	var order []said
	for _, c := range cells {
		v := valuesOf(c)
		order = append(order, said{v, c.ID, v.text(), c.Spec.Protocol, c.Spec.Weights == ""})
	}
	// Cells with the most settings come first. The order is total, so the result does not
	// depend on the order of the cells, and cells with few settings find all candidates.
	slices.SortFunc(order, func(a, b said) int {
		return cmp.Or(len(b.values)-len(a.values), strings.Compare(a.text, b.text), compareNames(a.protocol, b.protocol), strings.Compare(a.id, b.id))
	})
	of = map[string][]*Settings{}
	for i, c := range order {
		// Cells with equal settings are neighbours, and share the result. A folder has
		// thousands of cells and few settings.
		if i > 0 && c.text == order[i-1].text && c.untrained == order[i-1].untrained {
			of[c.id] = of[order[i-1].id]
			continue
		}
		// A setting that this cell lacks is unknown if the candidates differ in it, unless
		// the setting is open.
		v, open := c.values, false
		for _, f := range fields {
			k := setKey{name: f.name}
			if v.has(f.name) || f.role != ofSettings {
				continue
			}
			if among := fitting(all, v.plain()); slices.ContainsFunc(among, func(s *Settings) bool { return s.value[k] != among[0].value[k] }) {
				if f.open || c.untrained && f.plan {
					open = true
				} else {
					v[k] = unknown
				}
			}
		}
		fits := fitting(all, v)
		switch {
		case len(fits) == 0:
			// If only settings of a tier, set or method conflict, say which.
			if near := fitting(all, v.plain()); len(near) > 0 {
				k, _ := v.conflict(near[0].value)
				v[setKey{name: apart}] = k.of + " " + fieldNamed(k.name).words(v[k])
			}
			fits = []*Settings{{value: v, protocol: results.ProtocolTitle(c.protocol), changed: strings.Contains(c.protocol, results.Changed)}}
			all = append(all, fits[0])
		case !open:
			fits = fits[:1]
		}
		// The settings take over what they did not have, such as the values of this tier.
		for _, s := range fits {
			maps.Copy(s.value, v)
		}
		of[c.id] = fits
	}
	return all, of
}

// fitting returns the settings that agree with v.
func fitting(all []*Settings, v values) (out []*Settings) {
	for _, s := range all {
		if s.value.agrees(v) {
			out = append(out, s)
		}
	}
	return out
}

// text returns a canonical text: equal values have equal texts.
func (v values) text() string {
	var s strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(v), setKey.compare) {
		s.WriteString(k.name + " " + k.of + "=" + v[k] + "\n")
	}
	return s.String()
}

// name sets the names of the settings of one task and table, and finds which of them
// vary others.
func name(all []*Settings) {
	for _, s := range all {
		s.Name = s.words(all, func(k setKey) bool {
			if k.name == apart {
				return true
			}
			f := fieldNamed(k.name)
			if usual := usualOf(f, all); usual != "" {
				return s.value[k] != usual
			}
			return slices.ContainsFunc(all, func(o *Settings) bool {
				return o.value[k] != "" && o.value[k] != s.value[k] && !s.implies(k, o, all)
			})
		})
		for _, o := range all {
			if factors, ok := s.varies(o, all); ok && s.Main == nil {
				s.Main, s.Varied = o, factors
			}
		}
	}
}

// Precisions of planning. Where there are both, fp32 is compared with bf16.
const (
	fp32 = "fp32"
	bf16 = "bf16"
)

// usualOf returns the usual value of a factor among the settings of a task and table, or ""
// if a field is no factor. Precision is one where settings with usual values of all other
// factors exist in both precisions.
func usualOf(f field, all []*Settings) string {
	if f.name != "precision" {
		return f.usual
	}
	in := map[string]bool{}
	for _, s := range all {
		plain := true
		for _, other := range fields {
			x := s.value[setKey{name: other.name}]
			plain = plain && (other.usual == "" || x == "" || x == other.usual)
		}
		in[s.value[setKey{name: f.name}]] = plain || in[s.value[setKey{name: f.name}]]
	}
	if in[fp32] && in[bf16] {
		return bf16
	}
	return f.usual
}

// varies returns the factors in which s differs from o. It returns false if o has an
// unusual value of a factor, if they differ in no factor, or if they differ in anything
// else. all are the settings of the task and table.
func (s *Settings) varies(o *Settings, all []*Settings) (factors []string, ok bool) {
	for _, f := range fields {
		if x, usual := o.value[setKey{name: f.name}], usualOf(f, all); usual != "" && x != "" && x != usual {
			return nil, false
		}
	}
	rest := maps.Clone(s.value)
	for _, f := range fields {
		k := setKey{name: f.name}
		if x, y := s.value[k], o.value[k]; usualOf(f, all) != "" && x != "" && y != "" && x != y {
			factors = append(factors, f.name)
			delete(rest, k)
		}
	}
	return factors, len(factors) > 0 && rest.agrees(o.value)
}

// words describes, for readers, those settings for which say is true, after the name of
// the protocol if some of the others have another one.
func (s *Settings) words(others []*Settings, say func(setKey) bool) string {
	name := s.value.words(say)
	if slices.ContainsFunc(others, func(o *Settings) bool { return o.protocol != s.protocol }) {
		name = strings.TrimSuffix(fmt.Sprintf("protocol %s, %s", s.protocol, name), ", ")
	}
	return name
}

// words describes, for readers, those values for which say is true. Values that belong
// to a tier, set or method are left out.
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

// SettingsGroup is a set of settings of several tasks and tables over which numbers may be
// averaged.
type SettingsGroup struct {
	Name    string // what differs from other groups, for readers; "" for the only one
	Members []int  // indices in the argument of Groups
}

// Groups partitions settings, one for each task and table, so that the members of a
// group agree in every setting that varies within some task. Settings that do not state
// such a setting, and those of tasks with only one value of it, belong to every group
// that they agree with. Groups may therefore overlap.
//
// Values that differ only between tasks, such as the data set or the temperature, do
// not separate groups.
func Groups(all []*Settings) (groups []SettingsGroup) {
	differs := func(s *Settings, k setKey) bool {
		return slices.ContainsFunc(all, func(o *Settings) bool {
			return o.Task == s.Task && (o.Table == s.Table || o.value[k] != "" && s.value[k] != "") && o.value[k] != s.value[k]
		})
	}
	// vary[i] holds the values of all[i] in those settings that vary within its task.
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
	// Each distinct combination of such values is a group, except those that another
	// combination includes.
	var kinds []values
	for i, v := range vary {
		fuller := func(o values) bool { return len(o) > len(v) && covers(o, v) }
		if !slices.ContainsFunc(vary, fuller) && !slices.ContainsFunc(vary[:i], func(o values) bool { return maps.Equal(o, v) }) {
			kinds = append(kinds, v)
		}
	}
	for _, v := range kinds {
		g := SettingsGroup{}
		for i := range all {
			if v.agrees(vary[i]) {
				g.Members = append(g.Members, i)
			}
		}
		// The group has the protocol of its members, as they agree in its values.
		as := &Settings{value: v, protocol: all[g.Members[0]].protocol, changed: all[g.Members[0]].changed}
		g.Name = as.words(all, func(k setKey) bool {
			return slices.ContainsFunc(all, func(o *Settings) bool {
				x := cmp.Or(o.value[k], "none")
				return v[k] != "" && x != v[k] && slices.ContainsFunc(kinds, func(kind values) bool { return kind[k] == x }) && !as.implies(k, o, all)
			})
		})
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
