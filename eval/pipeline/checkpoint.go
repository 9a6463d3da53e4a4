package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// ArmOf is the arm of a checkpoint that was trained on a task. A published one does not say its task.
func ArmOf(dir string, task envs.Task) (eval.Arm, error) {
	side, err := model.Describe(dir)
	switch {
	case err != nil:
		return eval.Arm{}, err
	case task.New != nil && side.Task == dataset.NoTask:
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on own data (task %s), which nothing simulates (hint: `scalewm analyse` measures it: rank, spectrum, probe, dynamics)", dir, side.Task)
	case side.Task != task.Spec.Name && side.Task != "":
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on the task %s, not %s (hint: give the checkpoint's own --task and data set)", dir, side.Task, task.Spec.Name)
	}
	return eval.ArmOf(side), nil
}

// LoadFor reads a checkpoint onto a device for a job of its arm.
func LoadFor(j eval.Job, dev device.Device, dir string, note func(text string)) (model.World, error) {
	w, _, err := model.Load(dev, dir)
	if err != nil {
		return nil, err
	}
	if err := check(j, eval.Agent{World: w}, dir, note); err != nil {
		w.Free()
		return nil, err
	}
	return w, nil
}

// check returns an error if an arm cannot be evaluated on a job's task, and notes what one should know of it.
func check(j eval.Job, a eval.Agent, name string, note func(text string)) error {
	if err := j.Check(a); err != nil {
		return fmt.Errorf("evaluating %s: %w", name, err)
	}
	if text := j.Note(); text != "" {
		note(fmt.Sprintf("%s: %s", name, text))
	}
	return nil
}

// CellStore is the store of a results folder. Without a folder nothing is stored.
func CellStore(dir string) cell.Store {
	if dir == "" {
		return cell.Store{}
	}
	return results.Folder(dir).Cells()
}

// tuningStore is the store of the cells by which a temperature is chosen.
func tuningStore(dir string) cell.Store { return cell.Store{Dir: filepath.Join(dir, "tuning")} }

// drawSets opens a data set for evaluations of a task and draws n episodes of each set.
func drawSets(src dataset.Source, task envs.Task, r results.Rules, names []string, n int) (*eval.Data, []eval.Set, error) {
	data, err := eval.NewData(src, task, r)
	if err != nil {
		return nil, nil, err
	}
	var sets []eval.Set
	for _, name := range names {
		set, err := data.Set(name, n)
		if err != nil {
			return nil, nil, err
		}
		for _, other := range sets {
			switch {
			case other.Name == set.Name:
				return nil, nil, Requestf("--sets: two sets are named %s (hint: name each once, drawn or as a file)", set.Name)
			case other.Hash == set.Hash:
				return nil, nil, Requestf("--sets: %s and %s are the same episodes of %s, which would count twice (hint: leave one out, or take fewer episodes a set of more data)", other.Name, set.Name, task.Spec.Name)
			}
		}
		sets = append(sets, set)
	}
	return data, sets, nil
}

// Label names a checkpoint's arm in films: its method and what varies it.
func Label(task envs.Task, a eval.Arm) results.Arm {
	return results.Spec{Task: task.Spec.Name, Method: a.Method, Q: a.Recipe.Q, LossWeight: a.Recipe.Weight, Python: a.Python}.Arm()
}

// MissingFilm is the path of a film in a results folder that is to be made, watch/TASK-LABEL-OF.gif;
// "" if it exists and fresh does not replace it, or if there is no folder.
func MissingFilm(dir string, task envs.Task, label results.Arm, of string, fresh bool, note func(text string)) (string, error) {
	if dir == "" {
		return "", nil
	}
	path := results.Folder(dir).Film(task.Spec.Name, label, of)
	exists := false
	err := setAside(path, note, func() (bool, error) {
		whole, err := eval.WholeFilm(path)
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

// setAside renames a file that is damaged, which may be somebody's own, and notes it.
func setAside(path string, note func(text string), damaged func() (bool, error)) error {
	aside, err := safefile.SetAside(path, damaged)
	if aside != "" {
		note(fmt.Sprintf("%s is damaged and is made again; what is there becomes %s", path, filepath.Base(aside)))
	}
	return err
}
