package results

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Folder is the path of a results folder. Its methods return the paths of everything
// inside it, so no other code composes such names. They are relative if the folder is
// "".
type Folder string

// Names of folders and files inside a results folder.
const (
	CellsDir   = "cells"       // results of evaluations and analyses
	TrainDir   = "train"       // trainings
	GatesDir   = "gates"       // comparisons of drawn with recorded frames
	FilmsDir   = "watch"       // films of episodes, pictures of pairs of frames
	TuningDir  = "tuning"      // evaluations that chose MPPI's temperature
	JobsDir    = "jobs"        // scripts and logs of a batch system
	ConfigName = "config.toml" // the preset
	// Imagined replaces the tier in the names of films of predictions.
	Imagined = "imagined"
	// PairsTier replaces the tier in the names of pictures of pairs of frames.
	PairsTier = "pairs"
)

// join returns a path inside the folder.
func (f Folder) join(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// Data returns the path of a task's data set.
func (f Folder) Data(task string) string { return f.join("data", task+".h5") }

// Training returns the folder of an arm's training with a seed.
func (f Folder) Training(task string, arm Arm, seed int64) string {
	return f.join(TrainDir, fmt.Sprintf("%s-%s-s%d", task, arm, seed))
}

// Trainings returns the folder of all trainings.
func (f Folder) Trainings() string { return f.join(TrainDir) }

// Cells returns the store of cells.
func (f Folder) Cells() cell.Store { return cell.Store{Dir: f.join(CellsDir)} }

// Tuning returns the store of the cells of temperature tuning, separate from the results so
// that no table of results lists them.
func (f Folder) Tuning() cell.Store { return cell.Store{Dir: f.join(TuningDir)} }

// Sets returns the folder of the evaluation sets.
func (f Folder) Sets() string { return f.join("sets") }

// Set returns the file of an evaluation set. The hash of its episodes is part of the name, so
// sets of different data do not overwrite one another.
func (f Folder) Set(task, name, hash string) string {
	return f.join("sets", task+"-"+name+"-"+hash+".json")
}

// Manifest returns the copy of a manifest with the SHA-256, in hex, on which cells were
// evaluated.
func (f Folder) Manifest(sha256 string) string { return f.join("manifests", sha256+".json") }

// Gate returns the file with the verdict on a task's frames.
func (f Folder) Gate(task string) string { return f.join(GatesDir, task+".json") }

// Film returns the film of an arm's episode at a tier or, for Imagined, of its
// predictions, or for PairsTier the picture of pairs of frames.
func (f Folder) Film(task string, arm Arm, tier string) string {
	return f.join(FilmsDir, fmt.Sprintf("%s-%s-%s.gif", task, arm, tier))
}

// Jobs returns the folder of a batch system's scripts and logs.
func (f Folder) Jobs() string { return f.join(JobsDir) }

// trainingName matches names that Training composes. Tasks have no dash; arms may.
var trainingName = regexp.MustCompile(`^([^-]+)-(.+)-s(\d+)$`)

// ParseTraining parses the name of a training's folder, <task>-<arm>-s<seed>.
func ParseTraining(name string) (task string, arm Arm, seed int, ok bool) {
	m := trainingName.FindStringSubmatch(name)
	if m == nil || safefile.CheckName(m[1]) != nil {
		return "", Arm{}, 0, false
	}
	arm, err := ParseArm(m[2])
	seed, err2 := strconv.Atoi(m[3])
	return m[1], arm, seed, err == nil && err2 == nil
}
