package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// continued returns the function that composes commands which add to a results folder:
// `reproduce` with the given flags and those of the folder's run. Another preset or protocol
// would not be accepted in the folder, and cells of other devices, precisions or numbers of
// episodes could not be compared with its own. A flag whose value is not the same for all
// cells is left out.
func continued(dir string, c *results.Contents) func(flags string) string {
	name, preset := presetOf(dir, c.Trained)
	seeds := map[int]bool{}
	values := map[string]map[string]bool{} // of all cells, by flag
	for _, x := range c.Cells {
		if x.Spec.Solver == "" {
			continue
		}
		backend, _, _ := strings.Cut(strings.ReplaceAll(x.Result.Device, "/", " "), " ")
		for flag, value := range map[string]string{"--device": backend, "--precision": x.Spec.Precision, "--protocol": protocolFlags(x.Spec), "--episodes": strconv.Itoa(x.Spec.Episodes)} {
			if values[flag] == nil {
				values[flag] = map[string]bool{}
			}
			if value != "" { // a search in the simulator has no precision
				values[flag][value] = true
			}
		}
		if x.Spec.Python == "" && model.MethodOf(x.Spec.Method).Trained() {
			seeds[x.Spec.TrainSeed] = true
		}
	}
	// What the preset says already is left out.
	if preset != nil {
		for flag, value := range map[string]string{"--episodes": strconv.Itoa(preset.Eval.Episodes), "--precision": cmp.Or(string(preset.Eval.Precision), string(device.FP32))} {
			if values[flag][value] {
				delete(values, flag)
			}
		}
	}
	// Without its data sets, the folder would collect others, which it then rejects.
	var given []string
	for _, g := range c.Gates {
		if g.Given() {
			given = append(given, g.Task+"=FILE")
		}
	}
	return func(flags string) string {
		command, out := []string{"scalewm reproduce --preset", Quote(name)}, dir
		if len(given) > 0 {
			command = append(command, "--data", strings.Join(given, ","))
		}
		has := func(flag string) bool { return strings.Contains(" "+flags, " "+flag+" ") }
		for _, flag := range []string{"--device", "--precision", "--protocol", "--episodes"} {
			if all := slices.Collect(maps.Keys(values[flag])); len(all) == 1 && !has(flag) {
				command = append(command, flag, all[0])
			}
		}
		if len(seeds) > 0 && !has("--seeds") {
			command = append(command, "--seeds", strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Sorted(maps.Keys(seeds))), " ", ","), "[]"))
		}
		// A folder has one protocol of training, which another protocol may not have.
		if _, protocol, other := strings.Cut(" "+flags, " --protocol "); other {
			protocol, _, _ = strings.Cut(protocol, " ")
			out = filepath.Join(dir, protocol)
		}
		return strings.Join(append(command, flags, "--out", Quote(out)), " ")
	}
}

// protocolFlags returns the value of --protocol and the flags after it that give the rules
// of a cell. A protocol that is not built in is the file of its name. Numbers that a cell
// does not state are left out.
func protocolFlags(s results.Spec) string {
	name := results.ProtocolOf(s.Protocol)
	d, err := protocol.Load(name)
	if err != nil {
		return name + ".toml"
	}
	of := d.For(s.Task)
	for _, x := range results.Settings {
		switch v := x.Value(s.Rules); {
		case x.Flag == "" || !x.Renames || v == x.Value(of) || v == "0":
		case x.Bool():
			name += " --" + x.Flag
		default:
			name += fmt.Sprintf(" --%s %s", x.Flag, v)
		}
	}
	return name
}

// presetOf returns the preset of a results folder: by name if it is a built-in one, else by
// the path of the folder's file. Without such a file it is that of all trainings. If these
// differ it is unknown, nil.
func presetOf(dir string, trained map[string]results.Trained) (name string, p *Preset) {
	path := filepath.Join(dir, results.ConfigName)
	if p, err := LoadPreset(path); err == nil {
		for _, name := range PresetNames() {
			if builtIn, err := LoadPreset(name); err == nil && sameText(builtIn, p) {
				return name, p
			}
		}
		return path, p
	}
	names := map[string]bool{}
	for _, t := range trained {
		name = t.Preset
		names[name] = true
	}
	if p, err := LoadPreset(name); err == nil && len(names) == 1 {
		return name, p
	}
	return "PRESET", nil
}

// sameText reports whether two presets have the same values.
func sameText(a, b *Preset) bool {
	x, errX := a.encode()
	y, errY := b.encode()
	return errX == nil && errY == nil && x == y
}

// PlainWord has the characters that need no quotes in a shell, and about which linters do
// not complain.
const PlainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:./@%"

// Quote returns a word in a form that bash parses back to the same bytes, in ASCII and
// on one line. Names of folders may contain any byte. A dollar is escaped even where
// bash would not expand it, because a kubelet replaces $(NAME) and $$ in the arguments
// of a container.
func Quote(word string) string {
	if word != "" && strings.Trim(word, PlainWord) == "" {
		return word
	}
	var s strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c < ' ' || c > '~' || c == '\'' || c == '$' || c == '`' || c == '\\':
			fmt.Fprintf(&s, `\%03o`, c)
		default:
			s.WriteByte(c)
		}
	}
	if s.Len() == len(word) {
		return "'" + word + "'"
	}
	return "$'" + s.String() + "'"
}
