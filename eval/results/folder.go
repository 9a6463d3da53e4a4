package results

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Folder is the path of a results folder. Its methods own the names of everything inside it, relative to it if it is "".
type Folder string

// Names of folders and files inside a results folder.
const (
	CellsDir   = "cells"
	TrainDir   = "train"
	GatesDir   = "gates"
	FilmsDir   = "watch"
	JobsDir    = "jobs"
	ConfigName = "config.toml"
	// Imagined replaces the tier in the names of films of predictions.
	Imagined = "imagined"
)

func (f Folder) join(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// Data is the data set of a task.
func (f Folder) Data(task string) string { return f.join("data", task+".h5") }

// Training is the folder of an arm's training.
func (f Folder) Training(task string, arm Arm, seed int64) string {
	return f.join(TrainDir, fmt.Sprintf("%s-%s-s%d", task, arm, seed))
}

// Trainings is the folder of all trainings.
func (f Folder) Trainings() string { return f.join(TrainDir) }

// Cells is the store of cells.
func (f Folder) Cells() cell.Store { return cell.Store{Dir: f.join(CellsDir)} }

// Sets is the folder of the evaluation sets, and Set one of its files.
func (f Folder) Sets() string { return f.join("sets") }
func (f Folder) Set(task, name, hash string) string {
	return f.join("sets", task+"-"+name+"-"+hash+".json")
}

// Gate is the verdict on a task's frames.
func (f Folder) Gate(task string) string { return f.join(GatesDir, task+".json") }

// Film is an episode of an arm to watch, at a tier or Imagined.
func (f Folder) Film(task string, arm Arm, tier string) string {
	return f.join(FilmsDir, fmt.Sprintf("%s-%s-%s.gif", task, arm, tier))
}

// Jobs is the folder of what a batch system runs.
func (f Folder) Jobs() string { return f.join(JobsDir) }

var trainingName = regexp.MustCompile(`^([^-]+)-(.+)-s(\d+)$`)

// ParseTraining reads the name of a training's folder, <task>-<arm>-s<seed>.
func ParseTraining(name string) (task string, arm Arm, seed int, ok bool) {
	m := trainingName.FindStringSubmatch(name)
	if m == nil || safefile.CheckName(m[1]) != nil {
		return "", Arm{}, 0, false
	}
	arm, err := ParseArm(m[2])
	seed, err2 := strconv.Atoi(m[3])
	return m[1], arm, seed, err == nil && err2 == nil
}
