package results

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Folder is the path of a results folder. Its methods return the path of everything inside
// it; no other code composes these names. If Folder is "", paths are relative to it.
type Folder string

// Names of folders and files inside a results folder.
const (
	CellsDir   = "cells"
	TrainDir   = "train"
	GatesDir   = "gates"
	FilmsDir   = "watch"
	JobsDir    = "jobs"
	ConfigName = "config.toml"
	// Imagined is used instead of a tier in the names of films that show predictions.
	Imagined = "imagined"
)

func (f Folder) join(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// Data returns the path of the data set of a task.
func (f Folder) Data(task string) string { return f.join("data", task+".h5") }

// Training returns the folder of an arm's training.
func (f Folder) Training(task string, arm Arm, seed int64) string {
	return f.join(TrainDir, fmt.Sprintf("%s-%s-s%d", task, arm, seed))
}

// Trainings returns the folder that contains all trainings.
func (f Folder) Trainings() string { return f.join(TrainDir) }

// Cells returns the store of cells.
func (f Folder) Cells() cell.Store { return cell.Store{Dir: f.join(CellsDir)} }

// Sets returns the folder of the evaluation sets.
func (f Folder) Sets() string { return f.join("sets") }

// Set returns the file of an evaluation set with a hash.
func (f Folder) Set(task, name, hash string) string {
	return f.join("sets", task+"-"+name+"-"+hash+".json")
}

// Gate returns the file of a task's render gate.
func (f Folder) Gate(task string) string { return f.join(GatesDir, task+".json") }

// Film returns the film of an arm at a tier, or of its predictions at Imagined.
func (f Folder) Film(task string, arm Arm, tier string) string {
	return f.join(FilmsDir, fmt.Sprintf("%s-%s-%s.gif", task, arm, tier))
}

// Jobs returns the folder of batch scripts and logs.
func (f Folder) Jobs() string { return f.join(JobsDir) }

var trainingName = regexp.MustCompile(`^([^-]+)-(.+)-s(\d+)$`)

// ParseTraining parses the name of a training's folder, <task>-<arm>-s<seed>. ok is false for
// any other name.
func ParseTraining(name string) (task string, arm Arm, seed int, ok bool) {
	m := trainingName.FindStringSubmatch(name)
	if m == nil || safefile.CheckName(m[1]) != nil {
		return "", Arm{}, 0, false
	}
	arm, err := ParseArm(m[2])
	seed, err2 := strconv.Atoi(m[3])
	return m[1], arm, seed, err == nil && err2 == nil
}
