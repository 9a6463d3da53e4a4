package pipeline

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/envs"
	"scalewm/eval"
	"scalewm/model/lewm"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// A results folder has one protocol, and for each task one data set and one
// training preset, of which arms may vary the task state and a weight; what else a
// run varies may be added to it. What a folder is
// stands in the small files that it holds anyway: the data sets' attributes, the
// sets, and the sidecars and presets of the trainings.

// belongs refuses a task in a folder that is another one. data is the fingerprint
// of the task's data set, "" where that is not there yet.
func (w *Workspace) belongs(task envs.Task, data string) error {
	name := task.Spec.Name
	refuse := func(path, protocol, of, from string) error {
		switch {
		case protocol != string(w.Grid.Protocol):
			return Requestf("%s was made under --protocol %s, and %s is asked for: a results folder has one protocol (hint: choose another --out)", path, protocol, w.Grid.Protocol)
		case of == name && data != "" && from != data:
			return Requestf("%s was made from a data set with the fingerprint %.12s, and that of %s is %.12s: a results folder has one data set a task (hint: choose another --out)", path, from, w.dataPath(name), data)
		}
		return nil
	}
	for _, path := range entries(w.setsDir()) {
		if o, err := eval.OriginOf(path); err == nil { // a damaged one is drawn again
			if err := refuse(path, string(o.Protocol), o.Task, o.Data); err != nil {
				return err
			}
		}
	}
	for _, dir := range entries(filepath.Join(w.Dir, "train")) {
		side, there := trained(dir)
		if side != nil {
			if err := refuse(dir, side.Protocol, side.Task, side.Data); err != nil {
				return err
			}
		}
		if there == nil || w.Data != "" || !strings.HasPrefix(filepath.Base(dir), name+"-") {
			continue
		}
		if key, is, asked := there.shared().differs(w.Grid.Preset.recipe().shared()); key != "" {
			return Requestf("%s was trained with %s = %s, and the preset says %s: a results folder has one training preset a task (hint: choose another --out)", dir, key, is, asked)
		}
	}
	return nil
}

// entries are the paths of what stands in a folder, none where there is no folder.
func entries(dir string) (paths []string) {
	all, _ := os.ReadDir(dir) // what cannot be read, the steps that need it will tell of
	for _, e := range all {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

func (w *Workspace) setsDir() string { return filepath.Join(w.Dir, "sets") }

// recipe is what of a preset decides the weights that a data set gives.
type recipe struct {
	Model lewm.Config  `toml:"model"`
	Train train.Config `toml:"train"`
}

func (p *Preset) recipe() recipe { return recipe{p.Model, p.Train} }

// shared is the recipe without what arms of a folder may vary (see variant).
func (r recipe) shared() recipe {
	r.Train.Q, r.Train.ScaleWeight = "", nil
	return r
}

// trained reads what a training's folder says of itself: a finished training has a
// sidecar, one under way only its preset. What is missing or damaged is nil.
func trained(dir string) (*weights.Sidecar, *recipe) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if err != nil {
		if p, err := LoadPreset(filepath.Join(dir, configName)); err == nil {
			r := p.recipe()
			return nil, &r
		}
		return nil, nil
	}
	var r recipe
	if json.Unmarshal(side.Config, &r.Model) != nil || json.Unmarshal(side.Train, &r.Train) != nil {
		return side, nil
	}
	return side, &r
}

// differs names the first key that two recipes have different values of, "" where
// they are the same.
func (r recipe) differs(from recipe) (key, ours, theirs string) {
	a, b := values(r), values(from)
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, k := range slices.Sorted(maps.Keys(both)) {
		if a[k] != b[k] {
			return k, orNothing(a[k]), orNothing(b[k])
		}
	}
	return "", "", ""
}

func orNothing(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// values are a recipe's values by their keys: "train.steps" is "12".
func values(r recipe) map[string]string {
	var text strings.Builder
	enc := toml.NewEncoder(&text)
	enc.Indent = ""
	if err := enc.Encode(r); err != nil {
		panic("pipeline: a recipe of numbers and strings: " + err.Error())
	}
	out, section := map[string]string{}, ""
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]") + "."
		} else if key, value, ok := strings.Cut(line, " = "); ok {
			out[section+key] = value
		}
	}
	return out
}
