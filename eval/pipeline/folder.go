package pipeline

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// A results folder has one protocol, and for each task one data set and one
// training preset, of which arms may vary the task state and a weight; what else a
// run varies may be added to it. What a folder is
// stands in the small files that it holds anyway: the data sets' attributes, the
// sets, and the sidecars and presets of the trainings.

// claim is what is about to be put into a results folder.
type claim struct {
	protocol string
	task     envs.Task
	path     string // of the task's data set
	data     string // its fingerprint; "" while it does not exist
	preset   *Preset
	backbone *dinov2.File
	but      string // name of the training's folder that is not compared with preset; nil compares none
}

// belongs returns an error if the folder has other results of a task, whose data set has the fingerprint data.
func (w *Workspace) belongs(task envs.Task, data string) error {
	return claim{protocol: w.Grid.Protocol, task: task, path: w.dataPath(task.Spec.Name), data: data, preset: &w.Grid.Preset, backbone: w.Backbone}.on(w.dir)
}

// Admits returns an error if a folder has other results than those on a task's data set in the file path, of whatever training.
func Admits(folder, path, protocol string, task envs.Task, fingerprint string) error {
	return claim{protocol: protocol, task: task, path: path, data: fingerprint}.on(folder)
}

// notOurs refuses to replace files of a folder that says in no way that it is of this program: by the preset
// that is written first, a sidecar or a resume point.
func notOurs(dir string, names ...string) error {
	_, preset := LoadPreset(filepath.Join(dir, results.ConfigName))
	_, sidecar := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if preset == nil || errors.Is(preset, errOlder) || sidecar == nil || train.Reached(dir) > 0 {
		return nil
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return Requestf("%s is there and would be replaced, and nothing in the folder says that it is of scalewm (hint: choose another --out, or move it away)", filepath.Join(dir, name))
		}
	}
	return nil
}

func isThere(path string) bool { _, err := os.Stat(path); return err == nil }

// on returns an error if a folder has other results than the claim's.
func (c claim) on(folder string) error {
	name := c.task.Spec.Name
	refuse := func(path, protocol, of, from string) error {
		switch {
		case protocol != c.protocol:
			return Requestf("%s was made under --protocol %s, and %s is asked for: a results folder has one protocol (hint: choose another --out)", path, protocol, c.protocol)
		case of == name && c.data != "" && from != c.data:
			return Requestf("%s was made from a data set with the fingerprint %.12s, and that of %s is %.12s: a results folder has one data set a task (hint: choose another --out)", path, from, c.path, c.data)
		}
		return nil
	}
	for _, path := range entries(results.Folder(folder).Sets()) {
		if o, err := eval.OriginOf(path); err == nil { // a damaged one is drawn again
			if err := refuse(path, o.Protocol, o.Task, o.Data); err != nil {
				return err
			}
		}
	}
	for _, dir := range entries(results.Folder(folder).Trainings()) {
		if filepath.Base(dir) == c.but {
			continue
		}
		of, arm, _, _ := results.ParseTraining(filepath.Base(dir))
		m := model.MethodOf(arm.Method)
		side, there := trained(dir, m, c.backbone)
		if side != nil {
			if err := refuse(dir, side.Protocol, side.Task, side.Data); err != nil {
				return err
			}
		}
		if there == nil || c.preset == nil || of != name {
			continue
		}
		ours, err := c.preset.recipe(m, c.task.Spec.ActionDim, c.backbone)
		if err != nil {
			continue // it is not asked for, and says for itself what it is
		}
		if key, is, asked := there.shared().differs(ours.shared()); key != "" {
			return Requestf("%s was trained with %s = %s, and the preset says %s: a results folder has one training preset a task (hint: choose another --out)", dir, key, is, asked)
		}
	}
	return nil
}

// fingerprint is that of the task's data set.
func (w *Workspace) fingerprint(task envs.Task) (string, error) {
	t, err := w.open(task)
	if err != nil {
		return "", err
	}
	return t.file.Fingerprint()
}

// resultsOn is the fingerprint of the data set that the folder has results on, "" where it has none yet.
func (w *Workspace) resultsOn(task envs.Task) string {
	for _, path := range entries(results.Folder(w.dir).Sets()) {
		if o, err := eval.OriginOf(path); err == nil && o.Task == task.Spec.Name {
			return o.Data
		}
	}
	return ""
}

// entries are the paths of what stands in a folder, none where there is no folder.
func entries(dir string) (paths []string) {
	all, _ := os.ReadDir(dir) // what cannot be read, the steps that need it will tell of
	for _, e := range all {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

// shared is the recipe without what arms of a folder may vary (see variant).
func (r recipe) shared() recipe {
	r.Train.Q, r.Train.Weights = "", maps.Clone(r.Train.Weights)
	delete(r.Train.Weights, model.Correlation)
	return r
}

// trained reads what the folder of a method's training says of itself: a finished
// training has a sidecar, one under way only its preset. What is missing or damaged, or
// says too little, is nil.
func trained(dir string, m model.Method, backbone *dinov2.File) (*weights.Sidecar, *recipe) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if err != nil {
		if p, err := LoadPreset(filepath.Join(dir, results.ConfigName)); err == nil {
			if r, err := p.recipe(m, 0, backbone); err == nil {
				return nil, &r
			}
		}
		return nil, nil
	}
	r, err := recipeOf(side)
	if err != nil {
		return side, nil
	}
	return side, &r
}

// recipeOf is what a sidecar says of its training.
func recipeOf(side *weights.Sidecar) (r recipe, err error) {
	if err := json.Unmarshal(side.Train, &r.Train); err != nil {
		return r, err
	}
	f, err := model.FamilyOf(side.Kind)
	if err == nil {
		r.Model, err = f.Decode(side.Config)
	}
	return r, err
}

// differs names the first key that two recipes have different values of, "" where
// they are the same.
func (r recipe) differs(from recipe) (key, ours, theirs string) {
	if reflect.DeepEqual(r, from) { // which most are, and the texts take much longer
		return "", "", ""
	}
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
