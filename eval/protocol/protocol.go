// Package protocol defines evaluation protocols as data: TOML files that fix what an
// evaluation of any model has in common, such as how starts and goals are chosen, how
// many steps an episode has, when a plan is replaced, and what counts as success.
//
// Load reads a built-in protocol by name or a file by path. A protocol's settings are
// results.Rules, whose keys in a file are those of results.Settings. The remaining keys
// are defaults of what a command may choose (solver, tier, sets, episodes), the rules of
// success by task, and texts for readers. Without the key `of`, a protocol starts from
// paper, the published one.
//
// Cells store the values. The name is for readers: equal values pair under any name.
package protocol

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/dataset/safefile"
	"scalewm/eval/results"
	"scalewm/eval/success"
	"scalewm/eval/words"
)

// builtIn holds the built-in protocols as NAME.toml.
//
//go:embed *.toml
var builtIn embed.FS

// order lists the built-in protocols as `scalewm protocols` does: ours first.
var order = []string{results.Paper, results.Strict, "d50", "closed-loop", "lewm-code", "swm-main", "clear-official", "clear-moderate-0.8", "clear-strict-0.8",
	"gc-idm", "swm-feedforward", "dino-wm-pusht", "jepa-wms-pusht"}

// Names returns the names of the built-in protocols.
func Names() []string { return slices.Clone(order) }

// Definition is a protocol.
type Definition struct {
	results.Rules // without Judge, which depends on the task; Protocol is the name
	Title         string
	Floors        []string                // arms that a table needs as the least that a method must exceed
	Success       map[string]success.Rule // by task; upstream for the others

	Usual Usual
	// origins holds the comment behind each key, and the protocol that states it.
	origins map[string]origin
}

// Usual has the defaults of what a command may choose. Fields are empty if the protocol
// leaves them open.
type Usual struct {
	Solver   string
	Numbers  [3]int // of the solver: candidates, iterations, elites
	Sets     []string
	Episodes int // of a set
}

// origin is where a value comes from.
type origin struct{ protocol, source string }

// maxBases limits the protocols that a protocol starts from, one from another.
const maxBases = 8

// Load returns a built-in protocol by name, or reads the file of a path that ends in
// .toml.
func Load(name string) (*Definition, error) { return load(name, nil) }

// load is Load for the base of the protocols heirs, the first of them last.
func load(name string, heirs []string) (*Definition, error) {
	if len(heirs) > maxBases {
		return nil, fmt.Errorf("protocol %s starts from more than %d others, one from another (hint: the key `of` must not lead back to the protocol itself)", heirs[0], maxBases)
	}
	text, err := builtIn.ReadFile(name + ".toml")
	if strings.HasSuffix(name, ".toml") {
		if text, err = safefile.Read(name, safefile.MaxRecord); err != nil {
			return nil, fmt.Errorf("reading a protocol: %w (hint: %s need no file)", err, strings.Join(order, ", "))
		}
	} else if err != nil {
		return nil, fmt.Errorf("unknown protocol %q%s (hint: %s, or the path of a .toml file)", name, words.Nearest(name, order), strings.Join(order, ", "))
	}
	d, err := parse(string(text), strings.TrimSuffix(filepath.Base(name), ".toml"), func(of string) (*Definition, error) {
		if strings.HasSuffix(of, ".toml") && !filepath.IsAbs(of) {
			of = filepath.Join(filepath.Dir(name), of)
		}
		return load(of, append(heirs, name))
	})
	if err != nil {
		return nil, fmt.Errorf("reading protocol %s: %w", name, err)
	}
	return d, nil
}

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
	if err := safefile.CheckName(d.Protocol); err != nil || d.Protocol == "" || strings.HasSuffix(d.Protocol, results.Changed) {
		return nil, fmt.Errorf("the protocol's name is %q (hint: letters, digits, and after the first one also - _ .)", d.Protocol)
	}
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
			if d.Success[task] = rule; rule == (success.Rule{}) {
				delete(d.Success, task)
			}
		}
	}
	leaves := map[string]any{}
	flatten(leaves, "", tree)
	sources := comments(text)
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

// Tier returns the solver's numbers as `--tier` has them, "" if the protocol has none.
func (u Usual) Tier() string {
	if u.Numbers == [3]int{} {
		return ""
	}
	return fmt.Sprintf("%d/%d/%d", u.Numbers[0], u.Numbers[1], u.Numbers[2])
}

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

// check returns an error for values that contradict each other.
func (d *Definition) check() error {
	manifest := d.origins["starts.manifest"].protocol == d.Protocol
	for _, key := range []string{"starts.sampling", "starts.pool", "starts.seeds", "starts.solved", "starts.filters", "starts.episodes"} {
		if manifest && d.origins[key].protocol == d.Protocol {
			return fmt.Errorf("it has a manifest and the key %s (hint: a manifest lists the starts, so that none are drawn)", key)
		}
	}
	if slices.Contains(d.Usual.Numbers[:], 0) && d.Usual.Tier() != "" {
		return fmt.Errorf("candidates, iterations and elites are %s (hint: give all three, or none)", d.Usual.Tier())
	}
	return d.Rules.Check()
}

// Change sets settings that were given as text by their keywords, as flags and Python
// have them. If a value of the protocol changes, results.Changed follows its name.
func (d *Definition) Change(given map[string]string) error {
	before := d.Rules
	for _, keyword := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(results.Settings, func(s results.Setting) bool { return s.Flag != "" && s.Keyword() == keyword })
		if i < 0 {
			return fmt.Errorf("there is no setting %s (hint: `scalewm eval --help` lists them as flags)", keyword)
		}
		s := results.Settings[i]
		if s.Name == "protocol" || given[keyword] == "" {
			continue
		}
		if err := s.Set(&d.Rules, given[keyword]); err != nil {
			return err
		}
		if s.Renames && s.Value(d.Rules) != s.Value(before) && !strings.HasSuffix(d.Protocol, results.Changed) {
			d.Rules = d.Rules.Named(d.Protocol + results.Changed)
		}
	}
	return d.Rules.Check()
}

// For returns the rules for a task, with its rule of success and without what only other
// tasks have.
func (d *Definition) For(task string) results.Rules {
	r := d.Rules.For(task)
	r.Judge = d.Success[task]
	return r
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

// TOML returns the protocol as a file with every key, each with the source of its value.
func (d *Definition) TOML() string {
	var b strings.Builder
	line := func(key, value string) {
		name := key[strings.LastIndex(key, ".")+1:]
		text := fmt.Sprintf("%s = %s", name, value)
		if o := d.origins[key]; o.source != "" {
			if o.protocol != d.Protocol {
				o.source = "as " + o.protocol + ": " + o.source
			}
			text = fmt.Sprintf("%-28s # %s", text, o.source)
		}
		b.WriteString(text + "\n")
	}
	quoted := func(list []string) string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	line("name", fmt.Sprintf("%q", d.Protocol))
	line("title", fmt.Sprintf("%q", d.Title))
	if d.Floors != nil {
		line("floors", quoted(d.Floors))
	}
	last := ""
	for _, table := range tables() {
		head := func() {
			if table != "" && table != last {
				fmt.Fprintf(&b, "\n[%s]\n", table)
			}
			last = table
		}
		if table == "starts" {
			head()
			if len(d.Usual.Sets) == 1 && strings.HasSuffix(d.Usual.Sets[0], ".json") {
				line("starts.manifest", fmt.Sprintf("%q", d.Usual.Sets[0]))
			} else if d.Usual.Sets != nil {
				line("starts.seeds", "["+strings.ReplaceAll(strings.Join(d.Usual.Sets, ", "), "s", "")+"]")
			}
			if d.Usual.Episodes > 0 {
				line("starts.episodes", fmt.Sprint(d.Usual.Episodes))
			}
		}
		if table == "solver" {
			head()
			if d.Usual.Solver != "" {
				line("solver.name", fmt.Sprintf("%q", d.Usual.Solver))
			}
			for i, key := range solverNumbers {
				if d.Usual.Numbers[i] > 0 {
					line(key, fmt.Sprint(d.Usual.Numbers[i]))
				}
			}
		}
		for _, s := range results.Settings {
			if t, _, _ := strings.Cut(s.Key, "."); s.Key == "" || t != table && !(table == "" && !strings.Contains(s.Key, ".")) {
				continue
			}
			head()
			line(s.Key, s.TOML(d.Rules))
		}
	}
	for _, task := range slices.Sorted(maps.Keys(d.Success)) {
		fmt.Fprintf(&b, "\n[success.%s] # %s\n", task, d.Success[task])
		rule := reflect.ValueOf(d.Success[task])
		for i, key := range ruleKeys() {
			v := rule.Field(i)
			if v.IsZero() {
				continue
			}
			text := fmt.Sprint(v)
			if v.Kind() == reflect.String {
				text = strconv.Quote(text)
			}
			fmt.Fprintf(&b, "%s = %s\n", key, text)
		}
	}
	return b.String()
}

// tables returns the tables of a protocol's file in the order of results.Settings. The
// keys outside tables must precede them.
func tables() []string {
	out := []string{""}
	for _, s := range results.Settings {
		if t, _, ok := strings.Cut(s.Key, "."); ok && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
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
