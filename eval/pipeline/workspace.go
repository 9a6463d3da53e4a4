package pipeline

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/remote"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/features"
)

// Options say how a reproduction works and what it has.
type Options struct {
	Backbone     *dinov2.File                        // of methods whose encoder is a file's; nil: none was given
	FeatureCache features.Limit                      // of what frozen encoders make of frames, next to the data set
	Trainer      device.Device                       // of trainings; nil where none is made, and any device may have made the existing ones
	Planner      device.Device                       // of evaluations; nil where none is made
	Analyser     device.Device                       // of analyses; nil where none is made, and any device may have made the existing ones
	Workers      int                                 // goroutines that simulate and read; no result depends on it
	Batch        int                                 // episodes planned side by side, 0: as many as keep the device busy
	BreakLock    bool                                // trainings take their folders from processes that are known to be gone
	Version      string                              // of the program, for the measured times
	Spawn        func(ctx context.Context) *exec.Cmd // see collect.Job; nil: no processes
	Remote       *remote.Store                       // what machines share that have no folder in common; nil: there is none
	Listener     Listener
}

// Workspace is where the steps of a grid work: a results folder and the devices,
// and what the steps of one task share while they run.
type Workspace struct {
	Grid Grid
	dir  string // the results folder
	Options
	data, weights string // of a measurement, in place of the folder's: the data set and the checkpoint

	now    *openTask
	seen   *cell.Store                     // the cells, as they were listed last; nil once there may be others
	made   map[results.AnalysisSpec]string // ids of the analyses that are there, whatever their device
	asked  map[string]bool                 // cells that were read for it
	known  known                           // of the store Remote
	loaded struct {                        // the model that was used last
		dir   string
		dev   device.Device
		world model.World
	}
}

// NewWorkspace is the workspace of a grid in a results folder.
func NewWorkspace(g Grid, dir string, o Options) *Workspace {
	return &Workspace{Grid: g, dir: dir, Options: o}
}

// openTask is what the steps of one task share.
type openTask struct {
	envs.Task
	file       *hdf5.File
	data       *eval.Data // with sets, once something is evaluated
	sets       []eval.Set
	frames     dataset.FrameReader // at the model's size, once something is trained
	freeFrames func() error
	checked    map[string]eval.Arm // of checkpoints, by folder
	assumed    bool                // it was said that MPPI's temperature is no published one
}

// Close gives back the open data set and the loaded model, and removes what earlier runs
// that were killed left aside in the results folder.
func (w *Workspace) Close() {
	Tidy(w.dir)
	w.leave()
}

// Tidy removes what runs that were killed left aside in a results folder.
func Tidy(folder string) {
	for _, dir := range append(entries(folder), folder) {
		safefile.Tidy(dir)
	}
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
	if w.data != "" {
		return w.data
	}
	return results.Folder(w.dir).Data(task)
}

func (w *Workspace) checkpoint(a arm) string {
	if w.weights != "" {
		return w.weights
	}
	return results.Folder(w.dir).Training(a.task.Spec.Name, a.label(), a.seed)
}

func (w *Workspace) cells() cell.Store { return CellStore(w.dir) }

func (w *Workspace) tuning() cell.Store { return tuningStore(w.dir) }

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
	t.data, t.sets, err = drawSets(t.file, task, g.Rules, g.sets(name), g.episodes(name))
	return t, err
}

// job is an arm on a task's sets, without a planner.
func (w *Workspace) job(t *openTask, a eval.Arm, sets []eval.Set) eval.Job {
	return eval.Job{Task: t.Task, Data: t.data, Arm: a, Rules: w.Grid.Rules, Sets: sets, Workers: w.Workers, Batch: w.Batch, Version: w.Version, Progress: w.Listener.Progress}
}

// look is the arm of a checkpoint, fs.ErrNotExist where there is none.
func (w *Workspace) look(t *openTask, dir string) (a eval.Arm, err error) {
	a, ok := t.checked[dir]
	if !ok {
		if a, err = ArmOf(dir, t.Task); err == nil {
			t.checked[dir] = a
		}
	}
	return a, err
}

// load reads a checkpoint onto a device for a job, unless it was used last.
func (w *Workspace) load(dev device.Device, j eval.Job, dir string) (world model.World, err error) {
	if w.loaded.dir == dir && w.loaded.dev == dev {
		return w.loaded.world, nil
	}
	w.unload()
	if world, err = LoadFor(j, dev, dir, w.Listener.Note); err == nil {
		w.loaded.dir, w.loaded.dev, w.loaded.world = dir, dev, world
	}
	return world, err
}

// evaluation is that of a job, which loads the arm's checkpoint.
func (w *Workspace) evaluation(j eval.Job, a arm) eval.Evaluation {
	return eval.Evaluation{Job: j, Note: w.Listener.Note, Load: func() (agent eval.Agent, err error) {
		w.seen = nil // cells are going to be made
		if j.Arm.Plans() {
			agent.World, err = w.load(w.Planner, j, w.checkpoint(a))
		}
		return agent, err
	}}
}

func (w *Workspace) unload() {
	if w.loaded.world != nil {
		w.loaded.world.Free()
	}
	w.loaded.dir, w.loaded.dev, w.loaded.world = "", nil, nil
}

// since is the time that a step took, in words.
func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
