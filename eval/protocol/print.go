package protocol

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/results"
)

// TOML returns the protocol as a file with every key, each with the source of its value.
func (d *Definition) TOML() string {
	var b strings.Builder
	last := ""
	// line writes a key, after the head of its table if that is another one.
	line := func(key, value string) {
		table, name, ok := strings.Cut(key, ".")
		if !ok {
			table, name = "", key
		}
		if table != last {
			fmt.Fprintf(&b, "\n[%s]\n", table)
			last = table
		}
		text := name + " = " + value
		if source := d.source(key); source != "" {
			text = fmt.Sprintf("%-28s # %s", text, source)
		}
		b.WriteString(text + "\n")
	}
	line("name", strconv.Quote(d.Protocol))
	line("title", strconv.Quote(d.Title))
	if d.Floors != nil {
		line("floors", list(d.Floors))
	}
	for _, table := range tables() {
		switch table {
		case "starts":
			if len(d.Usual.Sets) == 1 && strings.HasSuffix(d.Usual.Sets[0], ".json") {
				line("starts.manifest", strconv.Quote(d.Usual.Sets[0]))
			} else if d.Usual.Sets != nil {
				line("starts.seeds", "["+strings.ReplaceAll(strings.Join(d.Usual.Sets, ", "), "s", "")+"]")
			}
			if d.Usual.Episodes > 0 {
				line("starts.episodes", fmt.Sprint(d.Usual.Episodes))
			}
		case "solver":
			if d.Usual.Solver != "" {
				line("solver.name", strconv.Quote(d.Usual.Solver))
			}
			for i, key := range solverNumbers {
				if d.Usual.Numbers[i] > 0 {
					line(key, fmt.Sprint(d.Usual.Numbers[i]))
				}
			}
		}
		for _, s := range results.Settings {
			if of, _, ok := strings.Cut(s.Key, "."); s.Key != "" && (ok && of == table || !ok && table == "") {
				line(s.Key, s.TOML(d.Rules))
			}
		}
	}
	for _, task := range slices.Sorted(maps.Keys(d.Success)) {
		fmt.Fprintf(&b, "\n[success.%s] # %s\n", task, d.Success[task])
		rule, source := reflect.ValueOf(d.Success[task]), d.source("success."+task)
		for i, key := range ruleKeys() {
			v := rule.Field(i)
			text := fmt.Sprintf("%s = %v", key, v)
			if v.Kind() == reflect.String {
				text = fmt.Sprintf("%s = %q", key, v)
			}
			if key == "of" && source != "" {
				text = fmt.Sprintf("%-28s # %s", text, source)
			}
			if !v.IsZero() {
				b.WriteString(text + "\n")
			}
		}
	}
	return b.String()
}

// source returns the source of a key's value, "" if the protocol does not state it.
func (d *Definition) source(key string) string {
	o := d.origins[key]
	if o.source != "" && o.protocol != d.Protocol {
		return "as " + o.protocol + ": " + o.source
	}
	return o.source
}

// list formats names as a TOML array.
func list(names []string) string {
	out := make([]string, len(names))
	for i, s := range names {
		out[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// tables returns the tables of a protocol's file in the order of results.Settings. The
// keys outside tables, "", come first.
func tables() []string {
	out := []string{""}
	for _, s := range results.Settings {
		if t, _, ok := strings.Cut(s.Key, "."); ok && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
