package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// ParseData parses the data sets of a grid's tasks: a comma-separated list of TASK=FILE,
// or a folder in which each task has one file, TASK.h5 or another name that begins with
// TASK. The error is a RequestError.
func ParseData(text string, tasks []envs.Task) (map[string]string, error) {
	data := map[string]string{}
	if isFolder(text) {
		for _, t := range tasks {
			name := t.Spec.Name + ".h5"
			if !exists(filepath.Join(text, name)) {
				found, _ := fs.Glob(os.DirFS(text), t.Spec.Name+"*.h5") // no error: names of tasks are valid patterns
				if len(found) != 1 {
					return nil, Requestf("--data: the folder %s has %d files %s*.h5, not one (hint: --data %[3]s=FILE, or --tasks without %[3]s)", text, len(found), t.Spec.Name)
				}
				name = found[0]
			}
			data[t.Spec.Name] = filepath.Join(text, name)
		}
		return data, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		task, path, ok := strings.Cut(entry, "=")
		switch {
		case !ok:
			return nil, Requestf("--data %s: it is neither a folder nor TASK=FILE", entry)
		case !slices.ContainsFunc(tasks, func(t envs.Task) bool { return t.Spec.Name == task }):
			return nil, Requestf("--data %s: the grid has no task %q (hint: --tasks names them)", entry, task)
		case !exists(path):
			return nil, Requestf("--data %s: there is no file %s", entry, path)
		}
		data[task] = path
	}
	return data, nil
}

// isFolder reports whether a path is that of a folder.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Given are trained checkpoints that a grid evaluates instead of training its arms.
type Given struct {
	folder string // of folders TASK-ARM-sSEED; "" if arms lists the checkpoints
	arms   []givenArm
	key    string // of the model in each checkpoint (model.Open)
}

// givenArm is one checkpoint. It stands for all tasks if task is "", and for all training
// seeds if seed is nil.
type givenArm struct {
	text string // as the user wrote it
	task string
	arm  results.Arm
	seed *int64
	path string
}

// seedOf matches the training seed at the end of an arm's name.
var seedOf = regexp.MustCompile(`@s(\d+)$`)

// ParseGiven parses trained checkpoints: a folder with folders TASK-ARM-sSEED, as the
// folder train of a results folder has them, or a comma-separated list of
// [TASK/]ARM[@sSEED]=FOLDER. key selects the model in each checkpoint (model.Open). The
// error is a RequestError.
func ParseGiven(text, key string) (*Given, error) {
	if isFolder(text) {
		return &Given{folder: text, key: key}, nil
	}
	g := &Given{key: key}
	for entry := range strings.SplitSeq(text, ",") {
		name, path, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, Requestf("--weights %s: it is neither a folder nor [TASK/]ARM[@sSEED]=FOLDER", entry)
		}
		a := givenArm{text: entry, path: path}
		if task, arm, ok := strings.Cut(name, "/"); ok {
			a.task, name = task, arm
		}
		if m := seedOf.FindStringSubmatch(name); m != nil {
			seed, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return nil, Requestf("--weights %s: the seed %s: %v", entry, m[1], err)
			}
			a.seed, name = &seed, strings.TrimSuffix(name, m[0])
		}
		var err error
		if a.arm, err = results.ParseArm(name); err != nil {
			return nil, Requestf("--weights %s: %v", entry, err)
		}
		if !exists(path) {
			return nil, Requestf("--weights %s: there is no %s", entry, path)
		}
		g.arms = append(g.arms, a)
	}
	return g, nil
}

// find returns the checkpoint of an arm, "" if there is none. Of several entries that
// fit, the one that names most of task and seed is used.
func (g *Given) find(a arm) string {
	if g.folder != "" {
		path := filepath.Join(g.folder, filepath.Base(results.Folder("").Training(a.task.Spec.Name, a.label(), a.seed)))
		if !exists(path) {
			return ""
		}
		return path
	}
	best, path := -1, ""
	for _, x := range g.arms {
		if !x.fits(a) {
			continue
		}
		named := 0
		if x.task != "" {
			named++
		}
		if x.seed != nil {
			named++
		}
		if named > best {
			best, path = named, x.path
		}
	}
	return path
}

// fits reports whether the entry is a checkpoint of an arm.
func (x givenArm) fits(a arm) bool {
	return x.arm == a.searcher().label() && (x.task == "" || x.task == a.task.Spec.Name) && (x.seed == nil || *x.seed == a.seed)
}

// checkGiven returns a RequestError for a checkpoint that belongs to no arm of the grid.
func (g *Grid) checkGiven() error {
	if g.Given == nil {
		return nil
	}
	var arms []arm
	for _, o := range append([]Grid{*g}, g.Also...) {
		for _, t := range o.Tasks {
			arms = append(arms, o.arms(t)...)
		}
	}
	for _, x := range g.Given.arms {
		if !slices.ContainsFunc(arms, x.fits) {
			return Requestf("--weights %s: the grid has no such arm (hint: --tasks, --methods and --seeds name them)", x.text)
		}
	}
	return nil
}

// Install is the step that copies a given checkpoint to train/TASK-METHOD-sSEED/. A
// results folder therefore has everything behind its numbers, however its arms were
// trained.
type Install struct {
	w *Workspace
	arm
	from string
	side *weights.Sidecar // cached: of the given checkpoint; nil until State read it
}

func (s *Install) ID() string      { return trainID(s.arm) }
func (s *Install) Stage() Stage    { return StageTrain }
func (s *Install) Needs() []string { return nil }

// State implements Step. If the given checkpoint is gone, an installed one is accepted.
func (s *Install) State(context.Context) (State, error) {
	out := s.w.checkpoint(s.arm)
	if err := checkOurs(out, append(train.Files(), results.ConfigName)...); err != nil {
		return State{}, err
	}
	there, err := weights.ReadSidecar(filepath.Join(out, weights.SidecarName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{Text: "to do: copy " + s.from}, nil
	case err != nil || !exists(s.from):
		return done, err
	}
	if s.side == nil {
		if _, s.side, err = s.read(); err != nil {
			return done, err
		}
	}
	if side := s.side; side.ID != there.ID || side.Step != there.Step {
		err = Requestf("%s holds another checkpoint than %s (hint: choose another --out, or delete that folder)", out, s.from)
	}
	return done, err
}

// read reads the given checkpoint. If its files do not record task, method and seed, they
// are those of the arm, and the sidecar's ID is a hash of them and of the file.
func (s *Install) read() (*model.Checkpoint, *weights.Sidecar, error) {
	c, side, err := model.Open(s.from, s.w.Grid.Given.key)
	if err != nil {
		return nil, nil, err
	}
	if side.Task == "" {
		side.Method, side.Task, side.Seed = s.method.Name, s.task.Spec.Name, s.seed
		side.ID, err = cell.ID("given", []any{side.Method, side.Task, side.Seed, side.SHA256})
		return c, side, err
	}
	recipe := train.RecipeOf(side)
	for _, x := range []struct{ what, is, want string }{
		{"task", side.Task, s.task.Spec.Name},
		{"method", side.Method, s.method.Name},
		{"encoder", side.Encoder, s.method.Encoder},
		{"seed", fmt.Sprint(side.Seed), fmt.Sprint(s.seed)},
		{"state", recipe.Q, cmp.Or(s.q, recipe.Q)},
		{"weight", fmt.Sprint(recipe.Weight), fmt.Sprint(cmp.Or(s.weight, recipe.Weight))},
	} {
		if x.is != x.want {
			return nil, nil, fmt.Errorf("%s holds a checkpoint of the %s %s, not %s (hint: --weights [TASK/]ARM[@sSEED]=FOLDER, with --seeds of the checkpoints)", s.from, x.what, x.is, x.want)
		}
	}
	return c, side, nil
}

// Run implements Step.
func (s *Install) Run(ctx context.Context) (string, error) {
	state, err := s.State(ctx)
	if err != nil || state.done() {
		return state.Text, err
	}
	c, side, err := s.read()
	if err != nil {
		return "", err
	}
	if n := c.Geometry.Info().ActionDim(); n != s.task.Spec.ActionDim {
		return "", fmt.Errorf("%s plans actions of %d numbers, the task %s has %d (hint: give the checkpoint of this task)", s.from, n, s.task.Spec.Name, s.task.Spec.ActionDim)
	}
	for _, text := range side.Notes {
		s.w.Listener.Note(fmt.Sprintf("%s: %s", s.from, text))
	}
	out := s.w.checkpoint(s.arm)
	// The files that the sidecar lists, such as metrics, come first: the sidecar, written
	// last, marks the checkpoint as complete. A copied checkpoint may lack them.
	for _, name := range slices.Sorted(maps.Keys(side.Files)) {
		err := safefile.CheckName(name)
		if err == nil {
			err = copyFile(filepath.Join(out, name), filepath.Join(s.from, name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			s.w.Listener.Note(fmt.Sprintf("%s has no %s", s.from, name))
			delete(side.Files, name)
		} else if err != nil {
			return "", fmt.Errorf("copying the checkpoint %s: %w", s.from, err)
		}
	}
	if err := weights.Save(filepath.Join(out, weights.FileName), c.Tensors, side); err != nil {
		return "", err
	}
	return "copied from " + s.from, nil
}

// copyFile copies a file, which appears under its name only when it is complete.
func copyFile(to, from string) error {
	f, err := safefile.Open(from, safefile.MaxWeights)
	if err != nil {
		return err
	}
	defer f.Close()
	return safefile.Write(to, func(w io.Writer) error { _, err := io.Copy(w, f); return err })
}

// Gap is a training that cannot run because something was not given. The steps that need
// it are skipped, and the run ends with its error.
type Gap struct {
	arm
	Why error
}

// trainingOf returns the step that makes an arm's checkpoint: a training, the copy of a given
// checkpoint, or a gap if neither is possible.
func (w *Workspace) trainingOf(a arm) Step {
	g := w.Grid.Given
	switch {
	case g != nil && a.method.Trained():
		if path := g.find(a); path != "" {
			return &Install{w: w, arm: a, from: path}
		}
		return &Gap{a, fmt.Errorf("--weights has no checkpoint of %s (hint: add it, or leave its method, task or seed out of the grid)", a.name())}
	case a.method.Pretrained && w.Backbone == nil:
		return &Gap{a, fmt.Errorf("%s encodes with the weights of DINOv2, and no file of them was given (hint: the same command with --backbone FILE adds this arm; `scalewm sources` says where they are)", a.method.Name)}
	}
	return &Train{w: w, arm: a}
}

func (s *Gap) ID() string                           { return trainID(s.arm) }
func (s *Gap) Stage() Stage                         { return StageTrain }
func (s *Gap) Needs() []string                      { return nil }
func (s *Gap) State(context.Context) (State, error) { return State{Text: s.Why.Error()}, nil }
func (s *Gap) Run(context.Context) (string, error)  { return "", s.Why }
