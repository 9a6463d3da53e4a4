package results

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/model/train/metrics"
)

// Curve has the metrics of one training.
type Curve struct {
	Task string
	Arm  Arm
	Seed int
	Rows []metrics.Row
}

// Clip is an animation of one episode.
type Clip struct {
	Task string // "" if the name of the file does not state it
	Arm  Arm
	Tier string // "" for arms that do not plan
	GIF  []byte
}

// AddMedia reads the training metrics and films at or below dir, the folder that Load
// read. Files that cannot be used are added to Problems. It is separate from Load
// because only the report shows them, and films are large.
func (c *Contents) AddMedia(ctx context.Context, dir string) error {
	_, err := safefile.Walk(ctx, dir, func(path string, folder bool) error {
		var err error
		switch parent := filepath.Base(filepath.Dir(path)); {
		case folder:
		case filepath.Base(path) == metrics.FileName:
			err = c.addCurve(filepath.Dir(path))
		case parent == FilmsDir && filepath.Ext(path) == ".gif":
			err = c.addClip(path)
		}
		if err != nil {
			c.Problems = append(c.Problems, err.Error())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the results folder %s: %w", dir, err)
	}
	slices.SortStableFunc(c.Clips, func(a, b Clip) int {
		return cmp.Or(CompareTasks(a.Task, b.Task), CompareArms(a.Arm, b.Arm), strings.Compare(a.Tier, b.Tier))
	})
	return nil
}

// Unread returns the files that could not be used, and why.
func (c *Contents) Unread() []string { return slices.Concat(c.Torn, c.Problems) }

// Only restricts the contents to the cells with these ids, and to the curves, films and
// gates of their arms and tasks.
func (c *Contents) Only(ids map[string]bool) {
	type arm struct {
		task string
		arm  Arm
		seed int
	}
	seeds, arms, tasks := map[arm]bool{}, map[arm]bool{}, map[string]bool{}
	c.Cells = slices.DeleteFunc(c.Cells, func(x Cell) bool { return !ids[x.ID] })
	for _, x := range c.Cells {
		// The folder of a training has the method alone in its name if a preset trained it
		// with other defaults, so accept the arm with and without its variants.
		for _, name := range []Arm{{Method: x.Spec.Method}, x.Spec.Arm()} {
			seeds[arm{x.Spec.Task, name, x.Spec.TrainSeed}], arms[arm{task: x.Spec.Task, arm: name}] = true, true
		}
		tasks[x.Spec.Task] = true
	}
	c.Analyses = slices.DeleteFunc(c.Analyses, func(a Analysis) bool { return !ids[a.ID] })
	c.Curves = slices.DeleteFunc(c.Curves, func(t Curve) bool { return !seeds[arm{t.Task, t.Arm, t.Seed}] })
	c.Clips = slices.DeleteFunc(c.Clips, func(f Clip) bool { return f.Task != "" && !arms[arm{task: f.Task, arm: f.Arm}] })
	c.Gates = slices.DeleteFunc(c.Gates, func(g Gate) bool { return !tasks[g.Task] })
	c.Tuning = slices.DeleteFunc(c.Tuning, func(x Cell) bool { return !tasks[x.Spec.Task] })
}

// addCurve reads the metrics of a training's folder. Folders whose names
// Folder.Training does not compose are ignored.
func (c *Contents) addCurve(dir string) (err error) {
	task, arm, seed, ok := ParseTraining(filepath.Base(dir))
	if !ok {
		return nil
	}
	t := Curve{Task: task, Arm: arm, Seed: seed}
	if t.Rows, err = metrics.Read(dir); err == nil && len(t.Rows) > 0 {
		c.Curves = append(c.Curves, t)
	}
	return err
}

// addClip reads a film with a name that Folder.Film composes, or the same without the
// task.
func (c *Contents) addClip(path string) (err error) {
	var f Clip
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".gif"), "-")
	last := len(parts) - 1
	if last > 1 {
		f.Task, parts = parts[0], parts[1:]
		last--
	}
	if last > 0 {
		f.Tier, parts = parts[last], parts[:last]
	}
	if err = safefile.CheckNames(f); err == nil {
		f.Arm, err = ParseArm(strings.Join(parts, "-"))
	}
	if err != nil {
		return fmt.Errorf("reading the clip %q: %w", path, err)
	}
	if !f.Arm.Plans() {
		f.Tier = ""
	}
	if f.GIF, err = safefile.Read(path, safefile.MaxFilm); err != nil {
		return fmt.Errorf("reading the clip: %w (hint: the page lacks it)", err)
	}
	if !bytes.HasPrefix(f.GIF, []byte("GIF8")) {
		return fmt.Errorf("reading the clip %s: it is not a GIF (hint: create it again)", path)
	}
	c.Clips = append(c.Clips, f)
	return nil
}

// PaperTasks are the tasks of the paper, in its order.
var PaperTasks = []string{"pusht", "reacher", "cube", "tworoom", "pointmaze"}

// CompareTasks orders tasks as the paper does. Other tasks are last, in alphabetical
// order.
func CompareTasks(a, b string) int {
	place := func(task string) int { return slices.Index(append(slices.Clip(PaperTasks), task), task) }
	return cmp.Or(place(a)-place(b), strings.Compare(a, b))
}
