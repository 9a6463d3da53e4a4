package pipeline

import (
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/results"
)

// IsOwn reports whether a task is not simulated here: it is dataset.NoTask, or an outside world
// in which the results folder out has evaluations.
func IsOwn(task, out string) bool {
	if task == dataset.NoTask {
		return true
	}
	_, err := envs.Lookup(task)
	return err != nil && out != "" && safefile.CheckName(task) == nil && exists(results.Folder(out).Gate(task))
}

// TaskOf returns the task of a name. A task of a system that is not simulated here (see IsOwn)
// is what the data set at path says about itself, with the given columns as its task state
// (see dataset.OwnTask).
func TaskOf(name, out, path, columns string) (t envs.Task, err error) {
	if !IsOwn(name, out) {
		if t, err = envs.Lookup(name); err != nil {
			err = Requestf("--task: %v", err)
		}
		return t, err
	}
	if columns != "" {
		if err := dataset.CheckColumns(columns); err != nil {
			return t, Requestf("--q-columns: %v", err)
		}
	}
	f, err := hdf5.Open(path)
	if err != nil {
		return envs.Task{}, err
	}
	defer f.Close()
	if t, err = dataset.OwnTask(f, ""); err != nil {
		return t, fmt.Errorf("the data set %s: %w", path, err)
	}
	if columns != "" {
		if t, err = dataset.OwnTask(f, columns); err != nil {
			return t, Requestf("--q-columns: the data set %s: %v", path, err)
		}
	}
	if name != dataset.NoTask {
		t.Spec.Name, t.Spec.ID, t.Spec.Title = name, name, name
	}
	return t, nil
}
