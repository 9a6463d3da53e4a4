package pipeline

import (
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// TaskOf returns the task of a name. The name dataset.NoTask stands for a data set of
// a system that is not simulated here: its task is what the data set at path says
// about itself, with the given columns as its task state (see dataset.OwnTask).
func TaskOf(name, path, columns string) (t envs.Task, err error) {
	if name != dataset.NoTask {
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
	return t, nil
}
