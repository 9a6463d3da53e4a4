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
	"embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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
	// A manifest is next to the file that names it.
	if d.origins["starts.manifest"].protocol == d.Protocol && !filepath.IsAbs(d.Usual.Sets[0]) {
		d.Usual.Sets = []string{filepath.Join(filepath.Dir(name), d.Usual.Sets[0])}
	}
	return d, nil
}

// Tier returns the solver's numbers as `--tier` has them, "" if the protocol has none.
func (u Usual) Tier() string {
	if u.Numbers == [3]int{} {
		return ""
	}
	return fmt.Sprintf("%d/%d/%d", u.Numbers[0], u.Numbers[1], u.Numbers[2])
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
