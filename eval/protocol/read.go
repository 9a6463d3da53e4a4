package protocol

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/dataset/safefile"
	"scalewm/eval/results"
	"scalewm/eval/success"
	"scalewm/eval/words"
)

// parse decodes the text of a protocol. base reads the one that it starts from.
func parse(text, name string, base func(of string) (*Definition, error)) (*Definition, error) {
	if err := CheckLines(text); err != nil {
		return nil, err
	}
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return nil, tomlError(err)
	}
	of, stated := tree["of"].(string)
	delete(tree, "of")
	d := &Definition{Rules: results.Published().Full(), origins: map[string]origin{}, Success: map[string]success.Rule{}}
	if name != results.Paper || stated {
		if of == "" {
			of = results.Paper
		}
		start, err := base(of)
		if err != nil {
			return nil, err
		}
		*d = *start
		d.origins, d.Title = maps.Clone(start.origins), ""
		d.Success = maps.Clone(start.Success)
	}
	d.Protocol = name
	if own, ok := tree["name"].(string); ok {
		d.Protocol = own
	}
	delete(tree, "name")
	if err := safefile.CheckName(d.Protocol); err != nil || d.Protocol == "" || strings.Contains(d.Protocol, "+") {
		return nil, fmt.Errorf("the protocol's name is %q (hint: letters, digits, and after the first one also - _ .)", d.Protocol)
	}
	sources := comments(text)
	// Tables below success are rules of tasks.
	if of, ok := tree["success"].(map[string]any); ok {
		for _, task := range slices.Sorted(maps.Keys(of)) {
			table, ok := of[task].(map[string]any)
			if !ok {
				continue
			}
			delete(of, task)
			rule, err := readRule(d.Success[task], task, table)
			if err != nil {
				return nil, err
			}
			d.origins["success."+task] = origin{d.Protocol, cmp.Or(sources["success."+task+".rule"], sources["success."+task+".of"])}
			if d.Success[task] = rule; rule == (success.Rule{}) {
				delete(d.Success, task)
			}
		}
	}
	leaves := map[string]any{}
	flatten(leaves, "", tree)
	for _, key := range slices.Sorted(maps.Keys(leaves)) {
		if err := d.set(key, leaves[key]); err != nil {
			return nil, err
		}
		d.origins[key] = origin{d.Protocol, sources[key]}
	}
	if err := d.check(); err != nil || name == d.Protocol && isBuiltIn(text, name) || !slices.Contains(order, d.Protocol) {
		return d, err
	}
	// The name of a built-in protocol stands for its values.
	if of, err := base(d.Protocol); err != nil || of.Rules != d.Rules || !maps.Equal(of.Success, d.Success) {
		return nil, cmp.Or(err, fmt.Errorf("%s is the name of a built-in protocol with other values (hint: give the file another name, or a key `name`)", d.Protocol))
	}
	return d, nil
}

// isBuiltIn reports whether a text is that of the built-in protocol of a name.
func isBuiltIn(text, name string) bool {
	b, err := builtIn.ReadFile(name + ".toml")
	return err == nil && text == string(b)
}

// flatten writes the values of a tree of tables under their dotted keys.
func flatten(dst map[string]any, prefix string, tree map[string]any) {
	for key, v := range tree {
		if table, ok := v.(map[string]any); ok {
			flatten(dst, prefix+key+".", table)
			continue
		}
		dst[prefix+key] = v
	}
}

// comments returns the comment behind each key of a text, by dotted key. Values that
// span several lines have none.
func comments(text string) map[string]string {
	out, table := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		line, comment, _ := strings.Cut(strings.TrimSpace(line), " # ")
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "["); ok && !strings.Contains(line, "=") {
			table = strings.TrimSuffix(name, "]") + "."
		} else if key, _, ok := strings.Cut(line, "="); ok {
			out[table+strings.TrimSpace(key)] = strings.TrimSpace(comment)
		}
	}
	return out
}

// set sets one key.
func (d *Definition) set(key string, v any) error {
	fail := func(want string) error {
		return fmt.Errorf("the key %s is %v (hint: %s)", key, v, want)
	}
	text := fmt.Sprint(v)
	switch _, isList := v.([]any); {
	case key == "title":
		d.Title = text
	case key == "floors", key == "starts.seeds":
		list, err := texts(v)
		if err != nil {
			return fail("a list, as in [42]")
		}
		if key == "floors" {
			d.Floors = list
			break
		}
		d.Usual.Sets = nil
		for _, seed := range list {
			d.Usual.Sets = append(d.Usual.Sets, "s"+seed)
		}
	case isList:
		return fail("one value")
	case key == "starts.manifest":
		d.Usual.Sets = []string{text}
	case key == "starts.episodes":
		n, ok := v.(int64)
		if !ok || n < 1 || n > 1<<20 {
			return fail("a positive number of episodes per set")
		}
		d.Usual.Episodes = int(n)
	case key == "solver.name":
		d.Usual.Solver = text
	case slices.Contains(solverNumbers, key):
		n, ok := v.(int64)
		if !ok || n < 1 || n > 1<<20 {
			return fail("a positive number")
		}
		d.Usual.Numbers[slices.Index(solverNumbers, key)] = int(n)
	default:
		i := slices.IndexFunc(results.Settings, func(s results.Setting) bool { return s.Key == key })
		if i < 0 {
			return fmt.Errorf("unknown key %q%s (hint: `scalewm protocols %s` prints all keys)", key, words.Nearest(key, keys()), results.Paper)
		}
		if err := results.Settings[i].Set(&d.Rules, text); err != nil {
			return fmt.Errorf("the key %s: %w", key, err)
		}
	}
	return nil
}

// solverNumbers are the keys of Usual.Numbers.
var solverNumbers = []string{"solver.candidates", "solver.iterations", "solver.elites"}

// keys returns all keys of a protocol's file, in the order in which TOML prints them.
func keys() []string {
	out := []string{"name", "of", "title", "floors", "starts.episodes", "starts.seeds", "starts.manifest", "solver.name"}
	out = append(out, solverNumbers...)
	for _, s := range results.Settings {
		if s.Key != "" {
			out = append(out, s.Key)
		}
	}
	return out
}

// texts returns the elements of a TOML array as texts.
func texts(v any) (out []string, err error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%v is not a list", v)
	}
	for _, x := range list {
		out = append(out, fmt.Sprint(x))
	}
	return out, nil
}

// readRule reads the rule of success of a task from its table. The key rule names a rule;
// the other keys replace its values, or those of the rule that the protocol has already.
func readRule(r success.Rule, task string, table map[string]any) (success.Rule, error) {
	fail := func(err error) error { return fmt.Errorf("success.%s: %w", task, err) }
	if name, ok := table["rule"].(string); ok {
		var err error
		if r, err = success.Named(name, task); err != nil {
			return r, fail(err)
		}
		delete(table, "rule")
	}
	if len(table) == 0 {
		return r, nil
	}
	r = success.Explicit(r, task)
	b, err := json.Marshal(table)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err = dec.Decode(&r)
	}
	if err != nil {
		for key := range table {
			if known := append(ruleKeys(), "rule"); !slices.Contains(known, key) {
				return r, fmt.Errorf("unknown key %q%s (hint: keys of a rule are %s)", "success."+task+"."+key, words.Nearest(key, known), strings.Join(known, ", "))
			}
		}
		return r, fail(fmt.Errorf("%w (hint: `scalewm protocols clear-strict-0.8` has such tables)", err))
	}
	if err := r.Check(task); err != nil {
		return r, err
	}
	return r.Normal(task), nil
}

// ruleKeys returns the keys of a rule of success.
func ruleKeys() (keys []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[success.Rule]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	return keys
}

// tomlError adds a hint, and the line where the parser knows it.
func tomlError(err error) error {
	hint := fmt.Sprintf("(hint: compare with `scalewm protocols %s`)", results.Paper)
	var pe toml.ParseError
	if errors.As(err, &pe) {
		return fmt.Errorf("line %d: %s %s", pe.Position.Line, pe.Message, hint)
	}
	return fmt.Errorf("%w %s", err, hint)
}

// maxLine limits a line of a TOML file. The parser takes time quadratic in the depth of
// a key or of nested tables, so that a long malicious line would block the program.
const maxLine = 1000

// CheckLines returns an error if a TOML text has a line that is too long to parse safely.
func CheckLines(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		if n++; len(line) > maxLine {
			return fmt.Errorf("line %d: %d characters (hint: a line has at most %d)", n, len(line), maxLine)
		}
	}
	return nil
}
