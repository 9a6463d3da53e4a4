package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/dataset/collect"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/analysis"
	"scalewm/eval/presets"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
	_ "scalewm/model/amortised" // a family of models registers itself
	"scalewm/model/device"
	_ "scalewm/model/dinowm"
	_ "scalewm/model/lewm"
	"scalewm/model/train"
)

// Preset holds the numbers of a run, from the data set to the evaluations. Its TOML
// tables are [grid], [collect], [train], [eval] and one for each family of models.
type Preset struct {
	Name    string
	Grid    GridPreset
	Collect CollectPreset
	Train   train.Config
	Eval    EvalPreset
	Models  map[string]model.Section // the families' tables that the preset has, by name
}

// section returns a pointer to the value that a table of the preset is decoded into,
// nil if no table has that name. For a family's table it allocates the value.
func (p *Preset) section(name string) any {
	for _, f := range model.Families() {
		if f.Section == name && p.Models[name] == nil {
			p.Models[name] = f.New()
		}
	}
	if s := p.Models[name]; s != nil {
		return s
	}
	return map[string]any{"grid": &p.Grid, "collect": &p.Collect, "train": &p.Train, "eval": &p.Eval}[name]
}

// GridPreset is what a run covers. Empty fields are left to the program's flags.
type GridPreset struct {
	Tasks    []string `toml:"tasks,omitempty"`
	Methods  []string `toml:"methods,omitempty"`
	Seeds    []string `toml:"seeds,omitempty"` // of the trainings
	Protocol string   `toml:"protocol,omitempty"`
	// Also are further grids, see Further.
	Also []Further `toml:"also,omitempty"`
}

// recipe is everything that determines the weights trained on a data set, apart from
// method and seed.
type recipe struct {
	Model model.Geometry `toml:"model"`
	Train train.Config   `toml:"train"`
}

// recipe returns the recipe of a method's trainings. actionDim is the width of one
// action; backbone is a frozen encoder, for methods that need one: a *dinov2.File, or for
// policies a *model.FrozenEncoder, without which the recipe is that of all encoders.
func (p *Preset) recipe(m model.Method, actionDim int, backbone any) (recipe, error) {
	f, err := model.FamilyOf(m.Family)
	if err != nil {
		return recipe{}, err
	}
	s := p.Models[f.Section]
	if s == nil {
		return recipe{}, Requestf("the preset %s has no section [%s], which %s needs (hint: eval/presets/nano.toml has one)", p.Name, f.Section, m.Name)
	}
	g, err := s.Geometry(m, actionDim, backbone)
	if err != nil {
		return recipe{}, Requestf("%v", err)
	}
	r := recipe{g, p.Train}
	if own := s.Training(); own != (model.Schedule{}) {
		// The paper's text describes the training of [train], not that of other families.
		r.Train.Schedule, r.Train.Adam, r.Train.PredictionSum = own, false, false
		r.Train.WeightDecay, r.Train.Decay = cmp.Or(own.Decay, r.Train.WeightDecay), 0
	}
	return r, nil
}

// SetSteps sets the number of optimiser steps of all trainings.
func (p *Preset) SetSteps(n int) {
	p.Train.Steps, p.Train.Epochs = n, 0
	p.Models = maps.Clone(p.Models) // copies of a preset share the map
	for name, s := range p.Models {
		if t := s.Training(); t != (model.Schedule{}) {
			t.Steps, t.Epochs = n, 0
			p.Models[name] = s.With(t)
		}
	}
}

// CollectPreset is how much data a run collects.
type CollectPreset struct {
	Episodes       int            `toml:"episodes"`
	EpisodesByTask map[string]int `toml:"episodes_by_task,omitempty"` // instead of Episodes
	AtMost         map[string]int `toml:"at_most"`                    // caps for tasks that are slow to draw
	Policy         string         `toml:"policy"`                     // "": the task's first policy
	Seed           int64          `toml:"seed"`
}

// EpisodesOf returns the number of episodes to collect for a task.
func (c CollectPreset) EpisodesOf(task string) int {
	n, ok := c.EpisodesByTask[task]
	if !ok {
		n = c.Episodes
	}
	return atMost(n, c.AtMost[task])
}

// EvalPreset is the evaluation grid of a run.
type EvalPreset struct {
	Solvers []string `toml:"solvers"`
	Tiers   []string `toml:"tiers"`
	// TiersOf restricts a solver to some of Tiers.
	TiersOf  map[string][]string `toml:"tiers_of,omitempty"`
	Rules    map[string]string   `toml:"rules,omitempty"` // settings by keyword, see ReadProtocol
	Sets     []string            `toml:"sets"`
	Episodes int                 `toml:"episodes"` // per set
	Analyses []string            `toml:"analyses"` // of each checkpoint; none if the key is missing
	// Precision is the precision of planning: fp32 (the default) or bf16, which needs a
	// machine that supports it.
	Precision device.Precision `toml:"precision,omitempty"`
	// AtMost caps the episodes per set, and SetsAtMost the number of sets, of slow tasks.
	AtMost     map[string]int `toml:"at_most"`
	SetsAtMost map[string]int `toml:"sets_at_most"`
}

// PresetNames returns the names of the built-in presets in alphabetical order.
func PresetNames() []string {
	entries, _ := presets.Files.ReadDir(".") // embedded: cannot fail
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".toml"))
	}
	sort.Strings(names)
	return names
}

// LoadPreset returns a built-in preset by name, or reads the file of a path that ends
// in .toml. Each change is a TOML key and value, "train.lr=1e-3", that replaces the
// preset's; strings need no quotes. The result is validated after all changes, since
// keys that belong together can be changed one at a time only. Mistakes are
// RequestErrors.
func LoadPreset(name string, changes ...string) (*Preset, error) {
	p, err := readPreset(name, nil)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		if err := p.change(change); err != nil {
			return nil, Requestf("--set %.100s: %v", change, err)
		}
	}
	if err := p.validate(); err != nil { // keys that belong together may have been changed one by one
		return nil, Requestf("--set %s: %v", strings.Join(changes, " --set "), err)
	}
	p.Name = strings.TrimSuffix(path.Base(name), ".toml")
	return p, nil
}

// maxBases limits the presets that a preset starts from, one from another.
const maxBases = 8

// readPreset reads a preset and, before it, the one that its key `of` names. heirs are
// the presets that start from this one, the first of them last.
func readPreset(name string, heirs []string) (*Preset, error) {
	if len(heirs) > maxBases {
		return nil, Requestf("preset %s starts from more than %d others, one from another (hint: the key `of` must not lead back to the preset itself)", heirs[0], maxBases)
	}
	known := strings.Join(PresetNames(), ", ")
	text, err := presets.Files.ReadFile(name + ".toml")
	if strings.HasSuffix(name, ".toml") {
		if text, err = safefile.Read(name, safefile.MaxRecord); err != nil {
			return nil, fmt.Errorf("reading a preset: %w (hint: %s need no file)", err, known)
		}
	} else if err != nil {
		return nil, Requestf("unknown preset %q%s; there are %s, or give the path of a .toml file", name, words.Nearest(name, PresetNames()), known)
	}
	p, err := parsePreset(string(text), func(of string) (*Preset, error) {
		if strings.HasSuffix(of, ".toml") && !filepath.IsAbs(of) {
			of = filepath.Join(filepath.Dir(name), of)
		}
		return readPreset(of, append(heirs, name))
	})
	if err != nil {
		return nil, Requestf("reading preset %s: %w", name, err)
	}
	return p, nil
}

// parsePreset decodes and validates the text of a preset; base reads the one that it
// starts from, if any. An unknown key is an error: a mistyped one would silently leave
// the number that it was meant for at zero.
func parsePreset(text string, base func(name string) (*Preset, error)) (*Preset, error) {
	if err := protocol.CheckLines(text); err != nil {
		return nil, err
	}
	p := &Preset{Models: map[string]model.Section{}}
	if err := p.decode(text, base); err != nil {
		return nil, err
	}
	return p, p.validate()
}

// change sets one key. In a table of values by task, the other entries stay.
func (p *Preset) change(text string) error {
	if err := protocol.CheckLines(text); err != nil {
		return err
	}
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("a key and its value are expected, as in train.lr=1e-3")
	}
	// A value that is not TOML by itself is a string without quotes.
	var probe map[string]any
	if _, err := toml.Decode("value = "+value, &probe); err != nil || len(probe) > 1 {
		value = strconv.Quote(strings.TrimSpace(value))
	}
	return p.decode(key+" = "+value, func(string) (*Preset, error) {
		return nil, errors.New("only a file can start from another preset (hint: --preset chooses one)")
	})
}

// decode decodes TOML text on top of p, or of the preset that the key `of` names, which
// base reads. The key `reading` takes effect after all others. It decodes table by
// table, because the set of tables depends on the registered families.
func (p *Preset) decode(text string, base func(name string) (*Preset, error)) error {
	var tables map[string]toml.Primitive
	meta, err := toml.Decode(text, &tables)
	top := map[string]string{} // the keys outside tables
	for _, key := range []string{"of", "reading"} {
		if value, ok := tables[key]; ok && err == nil {
			var text string
			err = meta.PrimitiveDecode(value, &text)
			top[key] = text
		}
		delete(tables, key)
	}
	if of, ok := top["of"]; ok && err == nil {
		start, err := base(of)
		if err != nil {
			return err
		}
		*p = *start
	}
	// The decoder would mix further grids with those at the same place of the base.
	if meta.IsDefined("grid", "also") {
		p.Grid.Also = nil
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		into := p.section(name)
		if into == nil {
			return unknownKey(name)
		}
		if err == nil {
			err = meta.PrimitiveDecode(tables[name], into)
		}
	}
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return fmt.Errorf("line %d: %s (hint: compare with eval/presets/nano.toml)", pe.Position.Line, pe.Message)
		}
		return fmt.Errorf("%w (hint: compare with eval/presets/nano.toml)", err)
	}
	// What no field took is a mistyped key.
	if extra := meta.Undecoded(); len(extra) > 0 {
		key := extra[0].String()
		// Keys of earlier versions get a hint at their new names.
		for old, term := range map[string]string{"train.sigreg": model.SIGReg, "train.scale_weight": model.Correlation, "train.aux_weight": model.Regression} {
			if strings.HasPrefix(key, old) {
				return fmt.Errorf("the key %s is train.weights.%s %w", old, term, errOlder)
			}
		}
		return unknownKey(key)
	}
	if reading, ok := top["reading"]; ok {
		return p.read(reading, meta)
	}
	return nil
}

// errOlder is wrapped by the error of reading a preset that an earlier version wrote.
// checkOurs recognises such files as ours by it.
var errOlder = errors.New("(hint: weights of loss terms are under [train.weights], see eval/presets/nano.toml)")

// unknownKey returns the error for a key that no preset has, with a hint at a similar
// one.
func unknownKey(key string) error {
	return fmt.Errorf("unknown key %q%s (hint: keys are those of eval/presets/nano.toml)", key, words.Nearest(key, presetKeys()))
}

// presetKeys returns the keys of the built-in presets and the switches of readings.
func presetKeys() (keys []string) {
	keys = slices.Collect(maps.Keys(switches))
	for _, name := range PresetNames() {
		text, _ := presets.Files.ReadFile(name + ".toml") // embedded: cannot fail
		var tree map[string]any
		meta, err := toml.Decode(string(text), &tree)
		if err != nil {
			panic(fmt.Sprintf("pipeline: the embedded preset %s does not parse: %v", name, err))
		}
		for _, k := range meta.Keys() {
			keys = append(keys, k.String())
		}
	}
	return keys
}

// counts returns the preset's tables of integers by task, under their keys.
func (p *Preset) counts() map[string]map[string]int {
	return map[string]map[string]int{"collect.episodes_by_task": p.Collect.EpisodesByTask, "collect.at_most": p.Collect.AtMost,
		"eval.at_most": p.Eval.AtMost, "eval.sets_at_most": p.Eval.SetsAtMost}
}

// TasksNamed returns the names of the tasks that the preset has specific values for,
// in alphabetical order. The caller checks that such tasks exist; presets do not
// import them.
func (p *Preset) TasksNamed() (tasks []string) {
	for _, byTask := range p.counts() {
		tasks = slices.AppendSeq(tasks, maps.Keys(byTask))
	}
	for _, byTask := range p.Train.Weights {
		tasks = slices.AppendSeq(tasks, maps.Keys(byTask))
	}
	tasks = slices.AppendSeq(tasks, maps.Keys(p.Train.QByTask))
	for _, f := range p.Grid.Also {
		tasks = append(tasks, f.Tasks...)
	}
	slices.Sort(tasks)
	return slices.DeleteFunc(slices.Compact(tasks), func(task string) bool { return task == model.Others })
}

// validate checks everything that does not depend on a task. In particular it limits
// sizes, so that a mistyped preset is an error and not a machine without memory.
func (p *Preset) validate() error {
	if n := p.Collect.Episodes; n < 1 || n > collect.MaxEpisodes {
		return fmt.Errorf("collect: episodes is %d (hint: it must be at least 1 and at most %d)", n, collect.MaxEpisodes)
	}
	if p.Collect.Seed < 0 {
		return fmt.Errorf("collect: seed is %d (hint: it must not be negative)", p.Collect.Seed)
	}
	for key, byTask := range p.counts() {
		for task, n := range byTask {
			if n < 1 || n > collect.MaxEpisodes {
				return fmt.Errorf("%s: %s is %d (hint: it must be at least 1 and at most %d; remove the task to use the general value)", key, task, n, collect.MaxEpisodes)
			}
		}
	}
	if p.Eval.Episodes < 1 || len(p.Eval.Sets) == 0 || len(p.Eval.Tiers) == 0 || len(p.Eval.Solvers) == 0 {
		return fmt.Errorf("eval: solvers, tiers, sets and episodes must not be empty (hint: see presets/nano.toml)")
	}
	for solver, tiers := range p.Eval.TiersOf {
		if !slices.Contains(p.Eval.Solvers, solver) {
			return fmt.Errorf("eval.tiers_of: %q is not one of the preset's solvers", solver)
		}
		for _, tier := range tiers {
			if !slices.Contains(p.Eval.Tiers, tier) {
				return fmt.Errorf("eval.tiers_of: %q of %s is not one of the preset's tiers", tier, solver)
			}
		}
	}
	for i, f := range p.Grid.Also {
		if err := f.validate(); err != nil {
			return fmt.Errorf("grid.also, table %d: %w", i+1, err)
		}
	}
	if p := p.Eval.Precision; p != "" && p != device.FP32 && p != device.BF16 {
		return fmt.Errorf("eval: precision is %q (hint: %s or %s)", p, device.FP32, device.BF16)
	}
	if _, err := analysis.Parse(cmp.Or(strings.Join(p.Eval.Analyses, ","), "none")); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	for _, f := range model.Families() {
		if p.Models[f.Section] == nil {
			continue
		}
		r, err := p.recipe(model.Method{Family: f.Name}, 1, nil) // 1: no task is known here
		if err != nil {
			return err
		}
		if err := r.Model.Validate(); err != nil {
			return err
		}
		info := r.Model.Info()
		size, patch := info.FrameSize, info.Patch
		tokens := float64(size/patch) * float64(size/patch)
		// Each parameter of a matrix costs two operations per token, so that the operations
		// give the approximate number of parameters of any family.
		switch numbers := r.Model.EncodeFLOP(1)/2/tokens + r.Model.PlanFLOP(1, 1)/2/float64(info.Patches); {
		case size > maxFrame:
			return fmt.Errorf("%s: image_size (frame_size of a backbone) is %d (hint: at most %d; data sets are stored at %d pixels)", f.Name, size, maxFrame, envs.FrameSize)
		case size%patch != 0: // PyTorch's convolution would ignore the remaining pixels
			return fmt.Errorf("patch %d does not divide the frame's %d pixels, so that some pixels would belong to no patch (hint: choose a divisor)", patch, size)
		case tokens > maxPatches:
			return fmt.Errorf("%s: patch %d cuts a frame of %d pixels into %g patches (hint: at most %d; choose a larger divisor)", f.Name, patch, size, tokens, maxPatches)
		case numbers > maxNumbers:
			return fmt.Errorf("%s: a model of about %.2g parameters (hint: at most %.2g; smaller widths and dim, or fewer layers)", f.Name, numbers, float64(maxNumbers))
		}
		if err := r.Train.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Limits of what a preset may train.
const (
	maxFrame   = 1 << 10 // edge of a frame in pixels
	maxPatches = 1 << 12 // patches of a frame
	maxNumbers = 1 << 31 // parameters of a model, 8 GB of float32
)

// WriteTo writes the preset, with all changes applied, to DIR/config.toml. It returns
// an error if that file exists and may not be ours, see checkOurs.
func (p *Preset) WriteTo(dir string) error {
	text, err := p.encode()
	if err == nil {
		err = checkOurs(dir, results.ConfigName)
	}
	if err != nil {
		return err
	}
	return safefile.WriteBytes(filepath.Join(dir, results.ConfigName), []byte(text))
}

// encode returns the preset as TOML. LoadPreset reads it back to an equal preset.
func (p *Preset) encode() (string, error) {
	var b strings.Builder
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	for _, name := range append([]string{"grid", "collect", "train", "eval"}, slices.Sorted(maps.Keys(p.Models))...) {
		if err := enc.Encode(map[string]any{name: p.section(name)}); err != nil {
			return "", fmt.Errorf("writing the preset: %w", err)
		}
	}
	return b.String(), nil
}
