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

// A results folder has one protocol and, for each task, one data set and one training
// preset, so that all of its cells may be compared. Arms may vary the task state and the
// weight of the correlation term. All other settings are part of the cells' specs, and
// results with different ones may share a folder.
//
// No file declares these properties. They are read from the small files that the folder
// contains anyway: the evaluation sets, and the sidecars and presets of the trainings. So
// folders can be copied and merged with ordinary tools.

// claim describes what is about to be written to a results folder.
type claim struct {
	protocol string // of the trainings
	task     envs.Task
	path     string                 // the task's data set
	data     string                 // fingerprint of the data set; "" if it does not exist yet
	preset   *Preset                // training preset; nil: do not compare
	backbone *dinov2.File           // of methods with a frozen encoder
	except   func(name string) bool // training folders that are not compared; nil: none
}

// checkFolder returns a RequestError if the folder has trainings of a task with another
// protocol or preset, or results on another data set than the one with the fingerprint
// data.
func (w *Workspace) checkFolder(task envs.Task, data string) error {
	return claim{protocol: w.Grid.Training(), task: task, path: w.dataPath(task.Spec.Name), data: data, preset: &w.Grid.Preset, backbone: w.Backbone, except: w.isGiven}.check(w.dir)
}

// isGiven reports whether a training's folder holds a given checkpoint, which may have been
// trained with any preset and on any data.
func (w *Workspace) isGiven(training string) bool {
	_, arm, _, ok := results.ParseTraining(training)
	return ok && w.Grid.Given != nil && model.MethodOf(arm.Method).Trained()
}

// CheckFolder returns a RequestError if a results folder has results on another data set
// of the task than the one at path with this fingerprint. Trainings may differ:
// evaluations outside a grid may compare any checkpoints.
func CheckFolder(folder, path string, task envs.Task, fingerprint string) error {
	return claim{task: task, path: path, data: fingerprint}.check(folder)
}

// checkOurs returns a RequestError if one of the named files exists in a folder that
// nothing identifies as written by this program: not the preset, which a training
// writes first, nor a sidecar or resume point. Then the files may be a user's own and
// must not be replaced.
func checkOurs(dir string, names ...string) error {
	_, preset := LoadPreset(filepath.Join(dir, results.ConfigName))
	_, sidecar := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if preset == nil || errors.Is(preset, errOlder) || sidecar == nil || train.ResumeStep(dir) > 0 {
		return nil
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return Requestf("%s exists and would be replaced, but nothing in the folder shows that scalewm wrote it (hint: choose another --out, or move it away)", filepath.Join(dir, name))
		}
	}
	return nil
}

// exists reports whether a file or folder exists.
func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// check returns a RequestError if existing results in the folder contradict the claim.
func (c claim) check(folder string) error {
	name := c.task.Spec.Name
	// refuse compares a file or training of the folder, which has the protocol, task and
	// fingerprint given, with the claim.
	refuse := func(path, protocol, of, from string) error {
		switch {
		case protocol != c.protocol:
			return Requestf("%s was trained with --protocol %s, but this run trains with %s: a results folder has one protocol of training (hint: choose another --out)", path, protocol, c.protocol)
		case of == name && c.data != "" && from != "" && from != c.data: // published weights record no data
			return Requestf("%s was made from a data set with the fingerprint %.12s, but that of %s is %.12s: a results folder has one data set per task (hint: choose another --out)", path, from, c.path, c.data)
		}
		return nil
	}
	for _, path := range entries(results.Folder(folder).Sets()) {
		if o, err := eval.OriginOf(path); err == nil { // renderGate rewrites damaged ones
			if err := refuse(path, c.protocol, o.Task, o.Data); err != nil {
				return err
			}
		}
	}
	for _, dir := range entries(results.Folder(folder).Trainings()) {
		if c.except != nil && c.except(filepath.Base(dir)) {
			continue
		}
		of, arm, _, _ := results.ParseTraining(filepath.Base(dir))
		m := model.MethodOf(arm.Method)
		side, there := readTraining(dir, m, c.backbone)
		// An evaluation outside a grid may compare checkpoints that were trained on other data.
		if side != nil && c.preset != nil {
			if err := refuse(dir, side.Protocol, side.Task, side.Data); err != nil {
				return err
			}
		}
		if there == nil || c.preset == nil || of != name {
			continue
		}
		ours, err := c.preset.recipe(m, c.task.Spec.ActionDim, c.backbone)
		if err != nil {
			continue // the preset cannot train this method, so that the run does not include it
		}
		if key, is, asked := there.shared().differs(ours.shared()); key != "" {
			return Requestf("%s was trained with %s = %s, but the preset says %s: a results folder has one training preset per task (hint: choose another --out)", dir, key, is, asked)
		}
	}
	return nil
}

// fingerprint returns the fingerprint of the task's data set.
func (w *Workspace) fingerprint(task envs.Task) (string, error) {
	t, err := w.open(task)
	if err != nil {
		return "", err
	}
	return t.file.Fingerprint()
}

// resultsOn returns the fingerprint of the data set that the folder has results on
// for a task, "" if there are none yet.
func (w *Workspace) resultsOn(task envs.Task) string {
	for _, path := range entries(results.Folder(w.dir).Sets()) {
		if o, err := eval.OriginOf(path); err == nil && o.Task == task.Spec.Name {
			return o.Data
		}
	}
	return ""
}

// entries returns the paths of the entries of a folder; none if it does not exist.
func entries(dir string) (paths []string) {
	all, _ := os.ReadDir(dir) // the steps that need an unreadable entry report the error
	for _, e := range all {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

// shared returns the recipe without the values that arms of one folder may vary (see
// variant).
func (r recipe) shared() recipe {
	r.Train.Q, r.Train.QByTask, r.Train.Weights = "", nil, maps.Clone(r.Train.Weights)
	delete(r.Train.Weights, model.Correlation)
	return r
}

// readTraining returns what a training's folder records about itself. A finished training
// has a sidecar; an unfinished one has only its preset, so that side is nil. Whatever
// is missing, damaged or incomplete is nil.
func readTraining(dir string, m model.Method, backbone *dinov2.File) (*weights.Sidecar, *recipe) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if err != nil {
		if p, err := LoadPreset(filepath.Join(dir, results.ConfigName)); err == nil {
			if r, err := p.recipe(m, 1, backbone); err == nil { // 1: differs does not compare the width of actions
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

// recipeOf returns the recipe in a sidecar.
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

// differs returns the first key, in alphabetical order, in which two recipes differ,
// with both values; "" if they are equal.
func (r recipe) differs(from recipe) (key, ours, theirs string) {
	if reflect.DeepEqual(r, from) { // the common case; encoding as text takes much longer
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

// values returns a recipe as TOML keys and values: "train.steps" is "12".
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
