package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/remote"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/features"
	"scalewm/model/weights"
)

// Workspace is where the steps of a grid work: a results folder and the devices,
// and what the steps of one task share while they run.
type Workspace struct {
	Grid         Grid
	Dir          string                              // the results folder
	Data         string                              // the data set, "": the one that Dir has of the task
	Weights      string                              // the checkpoint's folder, "": the one that Dir has of the arm
	External     *eval.Arm                           // a loaded model that is no checkpoint, evaluated as the grid's only arm; nil: there is none
	Fresh        bool                                // evaluations replace existing cells and films
	Backbone     *dinov2.File                        // of methods whose encoder is a file's; nil: none was given
	FeatureCache features.Limit                      // of what frozen encoders make of frames, beside the data set
	Trainer      device.Device                       // of trainings; nil where none is made, and any device may have made those that are there
	Planner      device.Device                       // of evaluations; nil where none is made
	Precision    device.Precision                    // of the Planner that makes the evaluations, here or elsewhere
	Analyser     device.Device                       // of analyses; nil where none is made, and any device may have made those that are there
	Workers      int                                 // goroutines that simulate and read; no result depends on it
	BreakLock    bool                                // trainings take their folders from processes that are known to be gone
	Batch        int                                 // episodes planned side by side, 0: as many as keep the device busy
	Version      string                              // of the program, for the measured times
	Spawn        func(ctx context.Context) *exec.Cmd // see collect.Job; nil: no processes
	Remote       *remote.Store                       // what machines share that have no folder in common; nil: there is none
	Listener     Listener

	now    *openTask
	seen   *cell.Store                     // the cells, as they were listed last; nil once there may be others
	made   map[results.AnalysisSpec]string // ids of the analyses that are there, whatever their device
	asked  map[string]bool                 // cells that were read for it
	known  known                           // of the store Remote
	loaded struct {                        // the model that was used last
		dir string
		dev device.Device
		arm eval.Arm
	}
}

// openTask is what the steps of one task share.
type openTask struct {
	envs.Task
	file       *hdf5.File
	data       *eval.Data // with sets, once something is evaluated
	sets       []eval.Set
	frames     dataset.FrameReader // at the model's size, once something is trained
	freeFrames func() error
	checked    map[string]eval.Arm // checkpoints by folder, without their models
	assumed    bool                // it was said that MPPI's temperature is no published one
}

// Close gives back the open data set and the loaded model, and removes what earlier runs
// that were killed left aside in the results folder.
func (w *Workspace) Close() {
	for _, dir := range append(entries(w.Dir), w.Dir) {
		safefile.Tidy(dir)
	}
	w.leave()
}

// leave gives back the open data set and the loaded model.
func (w *Workspace) leave() {
	w.unload()
	if w.now == nil {
		return
	}
	if w.now.freeFrames != nil {
		w.now.freeFrames()
	}
	w.now.file.Close()
	w.now = nil
}

func (w *Workspace) dataPath(task string) string {
	if w.Data != "" {
		return w.Data
	}
	return filepath.Join(w.Dir, "data", task+".h5")
}

func (w *Workspace) checkpoint(a arm) string {
	if w.Weights != "" {
		return w.Weights
	}
	return filepath.Join(w.Dir, "train", fmt.Sprintf("%s-%s-s%d", a.task.Spec.Name, a.label(), a.seed))
}

// cells is the store of results, tuning that of the cells a temperature is
// chosen by, which are none.
func (w *Workspace) cells() cell.Store {
	if w.Dir == "" { // nothing is kept
		return cell.Store{}
	}
	return cell.Store{Dir: filepath.Join(w.Dir, results.CellsDir)}
}

// listed are the cells as they were listed last or, where that may be too long ago, are now.
func (w *Workspace) listed(now bool) (cell.Store, error) {
	if w.seen == nil || now {
		s, err := w.cells().Listed()
		if err != nil {
			return s, err
		}
		w.seen = &s
	}
	return *w.seen, nil
}

// analyses are the ids of the analyses that are there by their specs, without the device.
func (w *Workspace) analyses(ctx context.Context) (map[results.AnalysisSpec]string, error) {
	if w.made == nil {
		w.made, w.asked = map[results.AnalysisSpec]string{}, map[string]bool{}
	}
	return w.made, w.cells().EachNew(ctx, w.asked, func(e cell.Entry, err error) error {
		if err != nil && !errors.Is(err, cell.ErrTorn) {
			return err
		}
		var spec results.AnalysisSpec
		if err == nil && e.Kind == results.AnalysisKind && e.Into(&spec, nil) == nil {
			spec.Device = ""
			w.made[spec] = e.ID
		}
		return nil
	})
}

// missing asks which cells of a step are not there, and asks a new listing before it
// says that there are some.
func (w *Workspace) missing(ask func(cell.Store) (missing int, err error)) (cell.Store, error) {
	s, err := w.listed(false)
	if err != nil {
		return s, err
	}
	if n, err := ask(s); err != nil || n == 0 {
		return s, err
	}
	if s, err = w.listed(true); err == nil {
		_, err = ask(s)
	}
	return s, err
}

func (w *Workspace) tuning() cell.Store { return cell.Store{Dir: filepath.Join(w.Dir, "tuning")} }

// open opens a task's data set, unless it is the one that is open.
func (w *Workspace) open(task envs.Task) (*openTask, error) {
	if w.now != nil && w.now.Spec == task.Spec {
		return w.now, nil
	}
	w.leave()
	file, err := hdf5.Open(w.dataPath(task.Spec.Name))
	if err != nil {
		return nil, err
	}
	w.now = &openTask{Task: task, file: file, checked: map[string]eval.Arm{}}
	return w.now, nil
}

// openSets opens a task's data set for evaluation and draws the grid's sets.
func (w *Workspace) openSets(task envs.Task) (*openTask, error) {
	t, err := w.open(task)
	if err != nil || t.data != nil {
		return t, err
	}
	g, name := w.Grid, task.Spec.Name
	data, err := eval.NewData(t.file, task, g.Protocol)
	if err != nil {
		return nil, err
	}
	data.Pool = g.Pool
	var sets []eval.Set
	for _, s := range g.sets(name) {
		set, err := data.Set(s, g.episodes(name))
		if err != nil {
			return nil, err
		}
		for _, other := range sets {
			switch {
			case other.Name == set.Name:
				return nil, Requestf("--sets: two sets are named %s (hint: name each once, drawn or as a file)", set.Name)
			case other.Hash == set.Hash:
				return nil, Requestf("--sets: %s and %s are the same episodes of %s, which would count twice (hint: leave one out, or take fewer episodes a set of more data)", other.Name, set.Name, name)
			}
		}
		sets = append(sets, set)
	}
	t.data, t.sets = data, sets
	return t, nil
}

// job evaluates an arm on sets, so far without a planner: all that random actions need.
func (w *Workspace) job(t *openTask, a eval.Arm, sets []eval.Set) eval.Job {
	return eval.Job{Task: t.Task, Data: t.data, Protocol: w.Grid.Protocol, Arm: a, Sets: sets, Clip: w.Grid.Clip, PlannerNoise: w.Grid.PlannerNoise, ActionClip: w.Grid.ActionClip,
		Fresh: w.Fresh, Workers: w.Workers, Batch: w.Batch, Version: w.Version, Progress: w.Listener.Progress}
}

// Invite makes a loaded model that is no checkpoint the grid's only arm. Its name must
// be its own.
func (w *Workspace) Invite(a eval.Arm) error {
	if err := safefile.CheckName(a.Method); err != nil || a.Method == "" || strings.ContainsAny(a.Method, "@=") {
		return Requestf("the model's name %q is none (hint: letters and digits, and behind the first one also _ - .)", a.Method)
	}
	for _, m := range model.Methods() {
		if strings.EqualFold(a.Method, m.Name) || strings.EqualFold(a.Method, m.Title) {
			return Requestf("the model's name %q is that of a method here (hint: choose another)", a.Method)
		}
	}
	if err := safefile.CheckName(a.Weights); err != nil || a.Weights == "" {
		return Requestf("the model's weights are named %q, which is no name (hint: the SHA-256 of what it was loaded from)", a.Weights)
	}
	if err := safefile.CheckName(a.Code); err != nil {
		return Requestf("the hash of the model's code is %q (hint: hexadecimal digits)", a.Code)
	}
	m := model.MethodOf(a.Method)
	if a.Policy != nil {
		m.Family = "" // it does not search
	} else if slices.Contains(w.Grid.Solvers, results.Descent) {
		return Requestf("solver %s needs a gradient, which a model in another program does not give (hint: %s)", results.Descent, strings.Join([]string{results.CEM, results.ICEM, results.MPPI}, ", "))
	}
	w.External, w.Grid.Methods, w.Grid.Seeds = &a, []model.Method{m}, []int64{int64(a.TrainSeed)}
	return nil
}

// Load reads the checkpoint Weights, or looks at the external model, for an evaluation on a task.
func (w *Workspace) Load(task envs.Task) (eval.Arm, error) {
	t, err := w.openSets(task)
	if err != nil {
		return eval.Arm{}, err
	}
	if w.External != nil {
		return *w.External, w.check(t, *w.External, w.External.Method)
	}
	return w.load(t, w.Weights)
}

// load is loadOn the planning device, or the external model.
func (w *Workspace) load(t *openTask, dir string) (eval.Arm, error) {
	if w.External != nil {
		return *w.External, nil
	}
	return w.loadOn(w.Planner, t, dir)
}

// loadOn reads a checkpoint onto a device, unless it was used last, and refuses one
// of another task, geometry or protocol.
func (w *Workspace) loadOn(dev device.Device, t *openTask, dir string) (eval.Arm, error) {
	if w.loaded.dir == dir && w.loaded.dev == dev {
		return w.loaded.arm, nil
	}
	w.unload()
	m, side, err := model.Load(dev, dir)
	if err != nil {
		return eval.Arm{}, err
	}
	a, err := w.describe(t, dir, side)
	if err == nil {
		a.World = m
		err = w.check(t, a, dir)
	}
	if err != nil {
		m.Free()
		return eval.Arm{}, err
	}
	w.loaded.dir, w.loaded.dev, w.loaded.arm = dir, dev, a
	return a, nil
}

// check refuses an arm that cannot be evaluated on a task, and notes what one should know of it.
func (w *Workspace) check(t *openTask, a eval.Arm, name string) error {
	j := w.job(t, a, t.sets)
	if err := j.Check(); err != nil {
		return fmt.Errorf("evaluating %s: %w", name, err)
	}
	if note := j.Note(); note != "" {
		w.Listener.Note(fmt.Sprintf("%s: %s", name, note))
	}
	return nil
}

func (w *Workspace) unload() {
	if a := w.loaded.arm; a.World != nil {
		a.World.Free()
	}
	w.loaded.dir, w.loaded.dev, w.loaded.arm = "", nil, eval.Arm{}
}

// look is the arm of a checkpoint without its model, fs.ErrNotExist where there is none.
func (w *Workspace) look(t *openTask, dir string) (eval.Arm, error) {
	if a, ok := t.checked[dir]; ok {
		return a, nil
	}
	side, err := model.Describe(dir)
	if err != nil {
		return eval.Arm{}, err
	}
	return w.describe(t, dir, side)
}

// describe is the arm that a checkpoint's sidecar tells of. A published one does
// not say its task.
func (w *Workspace) describe(t *openTask, dir string, side *weights.Sidecar) (eval.Arm, error) {
	if t.New != nil && side.Task == dataset.NoTask {
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on own data (task %s), which nothing simulates (hint: `scalewm analyse` measures it: rank, spectrum, probe, dynamics)", dir, side.Task)
	}
	if task := t.Spec.Name; side.Task != task && side.Task != "" {
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on the task %s, not %s (hint: give the checkpoint's own --task and data set)", dir, side.Task, task)
	}
	a := eval.ArmOf(side, w.Precision)
	t.checked[dir] = a
	return a, nil
}

// missingFilm is the path of a film of an arm that is to be made,
// watch/TASK-METHOD-OF.gif, "" where it is there or there is no results folder.
func (w *Workspace) missingFilm(a arm, found eval.Arm, of string) (string, error) {
	label := a.label()
	if w.Weights != "" || w.External != nil { // which say what they are a variant of
		label = infer.ArmName(results.Spec{Task: a.task.Spec.Name, Method: found.Method, Q: found.Recipe.Q, LossWeight: found.Recipe.Weight, Python: found.Python})
	}
	if w.Dir == "" {
		return "", nil
	}
	path := filepath.Join(w.Dir, filmName(a.task, label, of))
	there := false
	err := w.setAside(path, func() (bool, error) {
		whole, err := eval.WholeFilm(path)
		there = whole && err == nil
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return !whole, err
	})
	if err != nil || there && !w.Fresh {
		return "", err
	}
	return path, nil
}

// setAside keeps a file that is damaged aside, which may be somebody's own, and says so.
func (w *Workspace) setAside(path string, damaged func() (bool, error)) error {
	aside, err := safefile.SetAside(path, damaged)
	if aside != "" {
		w.Listener.Note(fmt.Sprintf("%s is damaged and is made again; what is there becomes %s", path, filepath.Base(aside)))
	}
	return err
}

func filmName(task envs.Task, label, of string) string {
	return filepath.Join("watch", strings.Join([]string{task.Spec.Name, label, of}, "-")+".gif")
}

// since is the time that a step took, in words.
func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
