package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/weights"
)

// ArmOf returns the arm of the checkpoint in a folder; key is that of model.Open. It
// returns an error if the checkpoint was trained on another task. Published checkpoints do not record their
// task and are accepted; Job.Check compares at least the width of the actions.
func ArmOf(dir, key string, task envs.Task) (eval.Arm, error) {
	side, err := model.Describe(dir, key)
	switch {
	case err != nil:
		return eval.Arm{}, err
	case task.New != nil && side.Task == dataset.NoTask:
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on a data set without a simulator (task %s) (hint: `scalewm analyse` measures it: rank, spectrum, probe, dynamics)", dir, side.Task)
	case side.Task != task.Spec.Name && side.Task != "" && (task.New != nil || side.Task != dataset.NoTask):
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on the task %s, not %s (hint: give the checkpoint's own --task and data set)", dir, side.Task, task.Spec.Name)
	}
	a := eval.ArmOf(side)
	a.Trained = trainedOf(side)
	return a, nil
}

// trainedOf describes the training that a sidecar records.
func trainedOf(side *weights.Sidecar) results.Trained {
	t := results.Trained{Steps: side.Step, Data: side.Data}
	if family, err := model.FamilyOf(side.Kind); err == nil {
		if g, err := family.Decode(side.Config); err == nil {
			t.FrameSize, t.Backbone = g.Info().FrameSize, g.Info().BackboneName
			if declared, err := g.Declare(); err == nil {
				t.Parameters = declared.Params().Len()
			}
		}
	}
	ours, err := recipeOf(side)
	if err != nil || ours.Train.Batch == 0 {
		return t // published weights have no recipe
	}
	t.Batch = ours.Train.Batch
	// The arms of a preset vary its recipe, and a run records only the recipe.
	for _, name := range PresetNames() {
		p, err := LoadPreset(name)
		if err != nil {
			continue // the preset is embedded: cannot fail
		}
		theirs, err := p.recipe(model.MethodOf(side.Method), ours.Model.Info().ActionDim(), nil)
		if err != nil {
			continue
		}
		if key, _, _ := ours.shared().differs(theirs.shared()); key == "" {
			t.Preset = name
			break
		}
	}
	return t
}

// Proposing returns the arm whose searches begin from the plans of the policy in a folder.
// "" means no policy.
func Proposing(a eval.Arm, dir string, task envs.Task) (eval.Arm, error) {
	if dir == "" {
		return a, nil
	}
	policy, err := ArmOf(dir, "", task)
	if err == nil {
		a, err = a.Propose(policy)
	}
	if err != nil {
		return a, fmt.Errorf("the proposal %s: %w", dir, err)
	}
	return a, nil
}

// Load loads a checkpoint onto a device, and the policy in the folder proposal, if that is not
// "". key is that of model.Open. The caller frees the agent.
func Load(dev device.Device, dir, key, proposal string) (eval.Agent, *weights.Sidecar, error) {
	w, side, err := model.Load(dev, dir, key)
	if err != nil {
		return eval.Agent{}, nil, err
	}
	a := eval.Agent{World: w}
	if m, ok := w.(model.Actor); ok {
		a = eval.Agent{Policy: eval.NewAmortised(m, false)}
	}
	if proposal == "" {
		return a, side, nil
	}
	if w, _, err = model.Load(dev, proposal, ""); err == nil {
		m, ok := w.(model.Actor)
		if ok {
			a.Proposal = eval.NewAmortised(m, true)
			return a, side, nil
		}
		w.Free()
		err = fmt.Errorf("the proposal %s is not a policy (hint: train one with --method gcidm --encoder RUN)", proposal)
	}
	a.Free()
	return eval.Agent{}, nil, err
}

// LoadFor is Load for a job, and checks that the checkpoint fits it.
func LoadFor(j eval.Job, dev device.Device, dir, key, proposal string, note func(text string)) (eval.Agent, error) {
	a, _, err := Load(dev, dir, key, proposal)
	if err != nil {
		return a, err
	}
	if err := check(j, a, dir, note); err != nil {
		a.Free()
		return eval.Agent{}, err
	}
	return a, nil
}

// check returns an error if an arm cannot be evaluated on a job's task and data set,
// and passes to note what the user should know about it.
func check(j eval.Job, a eval.Agent, name string, note func(text string)) error {
	if err := j.Check(a); err != nil {
		return fmt.Errorf("evaluating %s: %w", name, err)
	}
	notes := []string{j.Note()}
	if a.Model() != nil {
		notes = append(notes, a.Model().Info().Note())
	}
	for _, text := range notes {
		if text != "" {
			note(fmt.Sprintf("%s: %s", name, text))
		}
	}
	return nil
}

// CellStore returns the cell store of a results folder. For "" it is the empty store,
// in which nothing exists.
func CellStore(dir string) cell.Store {
	if dir == "" {
		return cell.Store{}
	}
	return results.Folder(dir).Cells()
}

// drawSets opens a data set for the evaluation of a task under the given rules and
// draws n episodes of each named set. Two sets with the same starts are an error: the
// same episodes would count twice in a mean over sets, and their intervals would be
// too narrow. That happens with small data sets, whose few starts all sets share.
func drawSets(src dataset.Source, task envs.Task, r results.Rules, outside *eval.World, names []string, n int) (*eval.Data, []eval.Set, error) {
	data, err := eval.NewWorldData(src, task, r, outside)
	if err != nil {
		return nil, nil, err
	}
	longest := 0
	for _, e := range src.Episodes() {
		longest = max(longest, e.Len)
	}
	if longest <= r.GoalOffset && len(names) > 0 {
		return nil, nil, Requestf("goals %d rows after the start, but the longest episode of this data set of %s has %d rows (hint: a smaller --goal-offset)", r.GoalOffset, task.Spec.Name, longest)
	}
	var sets []eval.Set
	for _, name := range names {
		set, err := data.Set(name, n)
		if err != nil && strings.HasSuffix(name, ".json") && !errors.Is(err, fs.ErrNotExist) {
			err = Requestf("%w", err)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, other := range sets {
			switch {
			case other.Name == set.Name:
				return nil, nil, Requestf("--sets: two sets are named %s (hint: name each once, drawn or as a file)", set.Name)
			case other.Hash == set.Hash:
				return nil, nil, Requestf("--sets: %s and %s are the same episodes of %s, which would count twice (hint: leave one out, or use fewer episodes per set or a larger data set)", other.Name, set.Name, task.Spec.Name)
			}
		}
		sets = append(sets, set)
	}
	if r.OtherData && !slices.ContainsFunc(sets, func(s eval.Set) bool { return s.Manifest != "" }) {
		return nil, nil, Requestf("--other-data: none of the sets is a manifest (hint: give one with --sets FILE, or leave the flag out)")
	}
	return data, sets, nil
}

// Label returns the name of a checkpoint's arm in films: its method and variant.
func Label(task envs.Task, a eval.Arm) results.Arm {
	return results.Spec{Task: task.Spec.Name, Method: a.Method, Wrapper: a.Replaced.String(), Q: a.Recipe.Q, LossWeight: a.Recipe.Weight, Python: a.Python}.Arm()
}

// MissingFilm returns the path of a film to make, watch/TASK-LABEL-OF.gif in the
// results folder. It returns "" if the film exists and fresh is false, or if there is
// no folder. A damaged film is set aside.
func MissingFilm(dir string, task envs.Task, label results.Arm, of string, fresh bool, note func(text string)) (string, error) {
	if dir == "" {
		return "", nil
	}
	// A film cannot be computed from the cells: whether it exists decides.
	path := results.Folder(dir).Film(task.Spec.Name, label, of)
	exists := false
	err := setAside(path, note, func() (bool, error) {
		whole, err := eval.IsCompleteFilm(path)
		exists = whole && err == nil
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return !whole, err
	})
	if err != nil || exists && !fresh {
		return "", err
	}
	return path, nil
}

// MissingFilms returns the paths of the films and pictures to make by analyses of these
// names, as MissingFilm does for each.
func MissingFilms(dir string, task envs.Task, label results.Arm, names []string, note func(text string)) (map[string]string, error) {
	out := map[string]string{}
	for name, of := range analysis.FilmTiers {
		if !slices.Contains(names, name) {
			continue
		}
		var err error
		if out[name], err = MissingFilm(dir, task, label, of, false, note); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setAside renames a damaged file instead of deleting it, because it may be a user's
// own file under that name, and passes a note about it to note.
func setAside(path string, note func(text string), damaged func() (bool, error)) error {
	aside, err := safefile.SetAside(path, damaged)
	if aside != "" {
		note(fmt.Sprintf("%s is damaged and will be rebuilt; the damaged file is renamed to %s", path, filepath.Base(aside)))
	}
	return err
}
