package pipeline

import (
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// TaskOf is the task of a name. That of dataset.NoTask is what the data set in the file path
// says of itself, with the task state of some of its columns (dataset.OwnTask).
func TaskOf(name, path, columns string) (t envs.Task, err error) {
	if name != dataset.NoTask {
		if t, err = envs.Lookup(name); err != nil {
			err = Requestf("--task: %v", err)
		}
		return t, err
	}
	f, err := hdf5.Open(path)
	if err != nil {
		return envs.Task{}, err
	}
	defer f.Close()
	t, err = dataset.OwnTask(f, columns)
	if err != nil {
		err = fmt.Errorf("the data set %s: %w", path, err)
	}
	return t, err
}
