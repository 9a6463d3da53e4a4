package pipeline

import (
	"cmp"
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
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/features"
)

// Options are the resources of a reproduction and how it works. No result depends on
// them, except on Backbone and on the kind of the devices.
type Options struct {
	Backbone     *dinov2.File   // encoder for methods that take it from a file; nil: none was given
	FeatureCache features.Limit // of cached features of frozen encoders, next to the data set

	// Devices of the trainings, evaluations and analyses. One may be nil if this run
	// computes nothing of that kind. For Trainer and Analyser, nil also means that existing
	// results of any device kind are accepted.
	Trainer device.Device
	Planner device.Device
	// OtherPlanner plans in the further grids that have another precision than the grid.
	OtherPlanner device.Device
	Analyser     device.Device

	// Ahead collects data sets in the background while earlier ones are used, so that a GPU
	// does not wait for them.
	Ahead     bool
	Workers   int                                 // goroutines that simulate and read
	Batch     int                                 // episodes planned in one batch; 0: as many as fill the device
	BreakLock bool                                // take locks from owners that the user knows to be gone
	Version   string                              // of the program; recorded with the measured times
	Spawn     func(ctx context.Context) *exec.Cmd // see collect.Job; nil: collect in this process
	Remote    *remote.Store                       // object store shared by machines without a common folder; nil: none
	Listener  Listener
}

// Workspace is where the steps of a grid run: a results folder, the devices, and what
// the steps of one task share while they run. Opening a data set, drawing its sets
// and loading a model are expensive, and consecutive steps mostly need the same ones.
// A Workspace is used by one goroutine at a time; the caller calls Close.
type Workspace struct {
	Grid Grid
	dir  string // the results folder
	Options
	// For measurements, these override the path of the data set, and those of checkpoints by
	// family.
	data    string
	weights map[string]string
	*session
}

// session is what a workspace has open. The workspaces of a grid and of its further grids
// share it.
type session struct {
	opened       *openTask                       // the open task; nil if none
	listing      *cell.Store                     // last listing of the cells; nil once it may be outdated
	analysisIDs  map[results.AnalysisSpec]string // ids of existing analyses by spec without the device
	analysesRead map[string]bool                 // ids of the cells that were read for analysisIDs
	known        known                           // cached state of the store Remote
	loaded       struct {                        // the checkpoint that was loaded last
		dir, proposal string
		dev           device.Device
		agent         eval.Agent
	}
	ahead map[string]*collection // data sets that are being collected in the background, by task
}

// NewWorkspace returns the workspace of a grid in a results folder. It opens nothing.
func NewWorkspace(g Grid, dir string, o Options) *Workspace {
	return &Workspace{Grid: g, dir: dir, Options: o, session: &session{ahead: map[string]*collection{}}}
}

// openTask is a task's open data set and what its steps share.
type openTask struct {
	envs.Task
	file       *hdf5.File
	drawn      map[results.Rules]drawn // by the rules, filled as steps need them
	frames     dataset.FrameReader     // at the model's frame size; nil until a training needs them
	freeFrames func() error
	checked    map[string]eval.Arm // arms of checkpoints, by folder
	assumed    bool                // the note on a default temperature was given
	origin     string              // of a data set that was given, for cells; "" if this program collected it
}

// drawn is a data set opened for evaluations under some rules, and its sets.
type drawn struct {
	data *eval.Data
	sets []eval.Set
}

// Close closes the data set, frees the model, and removes temporary files of killed
// runs from the results folder.
func (w *Workspace) Close() {
	Tidy(w.dir)
	w.closeTask()
}

// Tidy removes temporary files that killed runs left in a results folder.
func Tidy(folder string) {
	for _, dir := range append(entries(folder), folder) {
		safefile.Tidy(dir)
	}
}

// closeTask closes the data set and frees the model.
func (w *Workspace) closeTask() {
	w.unload()
	if w.opened == nil {
		return
	}
	if w.opened.freeFrames != nil {
		w.opened.freeFrames()
	}
	w.opened.file.Close()
	w.opened = nil
}

// dataPath returns the path of a task's data set, which may not exist yet unless it was
// given.
func (w *Workspace) dataPath(task string) string {
	if path := cmp.Or(w.data, w.Grid.Data[task]); path != "" {
		return path
	}
	return results.Folder(w.dir).Data(task)
}

// checkpoint returns the folder of an arm's training, which may not exist yet.
func (w *Workspace) checkpoint(a arm) string {
	if path := w.weights[a.method.Family]; path != "" {
		return path
	}
	return results.Folder(w.dir).Training(a.task.Spec.Name, a.searcher().label(), a.seed)
}

// proposal returns the folder of the policy that proposes an arm's plans, "" for none.
func (w *Workspace) proposal(a arm) string {
	if a.proposal == "" {
		return ""
	}
	return w.checkpoint(a.proposer())
}

func (w *Workspace) cells() cell.Store { return CellStore(w.dir) }

func (w *Workspace) tuning() cell.Store { return results.Folder(w.dir).Tuning() }

// listed returns the cell store as of the last listing. It lists again if now is set
// or if cells may have been added since. Listing once is much faster than looking up
// thousands of names, and on network file systems a failed look-up is cached (see
// cell.Store.Listed).
func (w *Workspace) listed(now bool) (cell.Store, error) {
	if w.listing == nil || now {
		s, err := w.cells().Listed()
		if err != nil {
			return s, err
		}
		w.listing = &s
	}
	return *w.listing, nil
}

// analyses returns the ids of all existing analyses by their specs without the
// device. It reads each cell once.
func (w *Workspace) analyses(ctx context.Context) (map[results.AnalysisSpec]string, error) {
	if w.analysisIDs == nil {
		w.analysisIDs, w.analysesRead = map[results.AnalysisSpec]string{}, map[string]bool{}
	}
	return w.analysisIDs, w.cells().EachNew(ctx, w.analysesRead, func(e cell.Entry, err error) error {
		if err != nil && !errors.Is(err, cell.ErrTorn) {
			return err
		}
		var spec results.AnalysisSpec
		if err == nil && e.Kind == results.AnalysisKind && e.Into(&spec, nil) == nil {
			spec.Device = ""
			w.analysisIDs[spec] = e.ID
		}
		return nil
	})
}

// missing returns a listing of the cells. ask counts a step's missing cells in one.
// If the last listing lacks some, the folder is listed again: another shard may have
// made them in the meantime.
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

// open opens a task's data set, or returns it if it is open already. It closes that
// of another task.
func (w *Workspace) open(task envs.Task) (*openTask, error) {
	if w.opened != nil && w.opened.Spec == task.Spec {
		return w.opened, nil
	}
	w.closeTask()
	file, err := hdf5.Open(w.dataPath(task.Spec.Name))
	if err != nil {
		return nil, err
	}
	w.opened = &openTask{Task: task, file: file, checked: map[string]eval.Arm{}, drawn: map[results.Rules]drawn{}}
	if w.Grid.Data[task.Spec.Name] != "" {
		if w.opened.origin = originOf(file, task.Spec.Name); w.opened.origin == results.OriginCollected {
			w.opened.origin = "" // as in the cells on a data set that the grid collected
		}
	}
	return w.opened, nil
}

// openSets opens a task's data set and draws the grid's evaluation sets.
func (w *Workspace) openSets(task envs.Task) (t *openTask, d drawn, err error) {
	if t, err = w.open(task); err == nil {
		g, name := w.Grid, task.Spec.Name
		d, err = t.draw(g.For(name), g.sets(name), g.episodes(name))
	}
	return t, d, err
}

// draw opens the data set under the given rules and draws its sets, once.
func (t *openTask) draw(r results.Rules, sets []string, episodes int) (d drawn, err error) {
	d, ok := t.drawn[r]
	if !ok {
		if d.data, d.sets, err = drawSets(t.file, t.Task, r, nil, sets, episodes); err == nil {
			t.drawn[r] = d
		}
	}
	return d, err
}

// job returns an arm's evaluation on a task's sets, without a solver.
func (w *Workspace) job(t *openTask, data *eval.Data, a eval.Arm, sets []eval.Set) eval.Job {
	rules := w.Grid.For(t.Spec.Name)
	rules.Origin = t.origin
	return eval.Job{Task: t.Task, Data: data, Arm: a, Rules: rules, Sets: sets, Workers: w.Workers, Batch: w.Batch, Version: w.Version, Progress: w.Listener.Progress}
}

// describe returns the arm of a checkpoint without loading its weights. The error wraps
// fs.ErrNotExist if there is no checkpoint.
func (w *Workspace) describe(t *openTask, dir string) (a eval.Arm, err error) {
	a, ok := t.checked[dir]
	if !ok {
		if a, err = ArmOf(dir, "", t.Task); err == nil {
			t.checked[dir] = a
		}
	}
	return a, err
}

// load loads a checkpoint onto a device for a job, with the policy in the folder proposal
// if that is not "". It keeps the last one, since the evaluations and analyses of a
// checkpoint follow one another.
func (w *Workspace) load(dev device.Device, j eval.Job, dir, proposal string) (a eval.Agent, err error) {
	if w.loaded.dir == dir && w.loaded.proposal == proposal && w.loaded.dev == dev {
		return w.loaded.agent, nil
	}
	w.unload()
	if a, err = LoadFor(j, dev, dir, "", proposal, w.Listener.Note); err == nil {
		w.loaded.dir, w.loaded.proposal, w.loaded.dev, w.loaded.agent = dir, proposal, dev, a
	}
	return a, err
}

// evaluation returns the evaluation of a job that loads the arm's checkpoint on
// demand.
func (w *Workspace) evaluation(j eval.Job, a arm) eval.Evaluation {
	return eval.Evaluation{Job: j, Note: w.Listener.Note, Load: func() (agent eval.Agent, err error) {
		w.listing = nil // new cells follow, which the last listing does not show
		switch {
		case a.method.HasModel():
			return w.load(w.Planner, j, w.checkpoint(a), w.proposal(a))
		case j.Arm.Plans():
			agent = eval.NewOracle(w.Planner, j.Task, j.Rules)
			err = check(j, agent, j.Arm.Method, w.Listener.Note)
		}
		return agent, err
	}}
}

// unload frees the loaded model, if any.
func (w *Workspace) unload() {
	w.loaded.agent.Free()
	w.loaded.dir, w.loaded.proposal, w.loaded.dev, w.loaded.agent = "", "", nil, eval.Agent{}
}

// since formats the time that a step took.
func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
