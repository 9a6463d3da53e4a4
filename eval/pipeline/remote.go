package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"scalewm/dataset/collect"
	"scalewm/dataset/parallel"
	"scalewm/dataset/remote"
	"scalewm/dataset/safefile"
	"scalewm/eval/results"
	"scalewm/model/weights"
)

// Machines that have no folder in common share a store (Workspace.Remote): before a step
// runs, what the store has of its result comes into the results folder, and what it
// makes goes to the store under the same names. Steps themselves know of it only where
// their results lie.

// place is where a step's result lies: names below the results folder, with slashes. One
// that ends in * stands for all that begin so.
type place struct {
	files []string // never change once they are there; with the last one the step is done
	// work begins the names of what changes until then, or is of no use afterwards. What of it is not in
	// the folder when the step is done is removed from the store.
	work  string
	alone bool // one machine at a time makes it
}

// placed is a step whose result machines share.
type placed interface {
	place() (place, error)
}

func (c *Collect) place() (p place, err error) {
	name := "data/" + c.task.Spec.Name + ".h5"
	if c.share.N <= 1 {
		return place{files: []string{name}, work: collect.PartsDir(name) + "/", alone: true}, nil
	}
	parts, err := collect.Paths(filepath.FromSlash(name), c.spec(), c.share)
	for _, path := range parts {
		p.files = append(p.files, filepath.ToSlash(path))
	}
	p.files = append(p.files, name)
	return p, err
}

func (s *Train) place() (place, error) {
	work := results.TrainDir + "/" + filepath.Base(s.w.checkpoint(s.arm)) + "/"
	return place{files: []string{work + weights.SidecarName}, work: work, alone: true}, nil
}

func (s *Tune) place() (place, error) { return place{files: []string{"tuning/*"}, alone: true}, nil }

func (s *Evaluate) place() (p place, err error) {
	j, err := s.Job()
	if err != nil {
		return p, err
	}
	ids, err := j.IDs()
	for _, id := range ids {
		p.files = append(p.files, cellFiles(id)...)
	}
	if s.film {
		p.files = append(p.files, filepath.ToSlash(results.Folder("").Film(s.task.Spec.Name, s.label(), s.filmOf())))
	}
	return p, err
}

func (s *Analyse) place() (p place, err error) {
	j, err := s.job()
	if err != nil {
		return p, err
	}
	p.files = []string{filepath.ToSlash(results.Folder("").Film(s.task.Spec.Name, s.label(), results.Imagined))}
	if s.w.Analyser == nil { // made on any device, so that no cell can be named
		p.files = append(p.files, results.CellsDir+"/*")
		return p, nil
	}
	ids, err := j.IDs(s.names)
	for _, id := range ids {
		p.files = append(p.files, cellFiles(id)...)
	}
	return p, err
}

func cellFiles(id string) []string {
	return []string{results.CellsDir + "/" + id + ".run.json", results.CellsDir + "/" + id + ".json"}
}

func (s *Report) place() (place, error) { return place{work: "report"}, nil }

const (
	pushEvery  = 2 * time.Minute  // while a step runs
	listEvery  = time.Minute      // what other machines finish within it is made twice at worst
	lastPush   = 90 * time.Second // of an interrupted step: a batch system's warning comes two minutes before the end
	filesAside = 16               // transfers at once
)

// known is what is known of the store.
type known struct {
	sync.Mutex
	lists map[string]list   // by folder
	same  map[string]string // SHA-256 of files that are in the store as they are here
}

// list is what was in a folder of the store at a time.
type list struct {
	at    time.Time
	sizes map[string]int64 // by name
}

// Run runs the steps of a graph, with what other machines have made where these share a store.
func (w *Workspace) Run(ctx context.Context, g Graph) (failed []string, err error) {
	if w.Remote == nil {
		return g.Run(ctx, w.Listener)
	}
	return g.run(ctx, w.Listener, w.runShared)
}

// Pull brings what the store has of the steps' results.
func (w *Workspace) Pull(ctx context.Context, g Graph) error {
	if w.Remote == nil {
		return nil
	}
	for _, s := range g {
		p, err := placeOf(s)
		if err == nil {
			err = w.pull(ctx, p, false)
		}
		if err = notYet(err); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// placeOf is where a step's result lies, nowhere for one that nobody shares.
func placeOf(s Step) (place, error) {
	if g, ok := s.(given); ok {
		s = g.Step
	}
	if p, ok := s.(placed); ok {
		return p.place()
	}
	return place{}, nil
}

// runShared is Step.Run of machines that share a store.
func (w *Workspace) runShared(s Step, ctx context.Context) (outcome string, err error) {
	p, err := placeOf(s)
	if err = notYet(err); err == nil {
		err = w.pull(ctx, p, false)
	}
	if err != nil {
		return "", err
	}
	if _, ok := s.(given); ok {
		return s.Run(ctx)
	}
	if p.alone && !w.isDone(ctx, s) {
		release, err := w.Remote.Lock(ctx, strings.ReplaceAll(s.ID(), " ", "-"), safefile.LockOptions{Break: w.BreakLock, Note: w.Listener.Note})
		if err != nil {
			return "", err
		}
		defer release()
		if err := w.pull(ctx, p, true); err != nil {
			return "", err
		}
	}
	stop := w.pushing(ctx, p)
	outcome, err = s.Run(ctx)
	stop()
	late := ctx
	if ctx.Err() != nil { // what was made by then is not to be lost
		var stop func()
		late, stop = context.WithTimeout(context.WithoutCancel(ctx), lastPush)
		defer stop()
	}
	if err2 := w.push(late, p, w.Listener.Progress); err2 != nil {
		return outcome, errors.Join(err, err2)
	}
	if err == nil {
		err = w.clean(ctx, p)
	}
	return outcome, err
}

func (w *Workspace) isDone(ctx context.Context, s Step) bool {
	state, err := s.State(ctx)
	return err == nil && state.done()
}

// pushing pushes now and then, until stop is called, what a step makes. What fails is
// pushed again.
func (w *Workspace) pushing(ctx context.Context, p place) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var end sync.WaitGroup
	end.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pushEvery):
				w.push(ctx, p, func(int64, int64, string) {})
			}
		}
	})
	return func() { cancel(); end.Wait() }
}

// fileNames are those of a place that has files: the store, or the results folder.
type fileNames interface {
	has(name string) (bool, error)
	begin(prefix string) ([]string, error) // of one folder, and not hidden
}

// of lists what is there of a place's files and of its work.
func (p place) of(there fileNames) (files, work []string, err error) {
	for _, f := range p.files {
		if prefix, many := strings.CutSuffix(f, "*"); many {
			some, err := there.begin(prefix)
			if err != nil {
				return nil, nil, err
			}
			files = append(files, some...)
		} else if ok, err := there.has(f); err != nil {
			return nil, nil, err
		} else if ok {
			files = append(files, f)
		}
	}
	if p.work != "" {
		work, err = there.begin(p.work)
	}
	return files, slices.DeleteFunc(work, func(name string) bool { return slices.Contains(p.files, name) }), err
}

// last is the name of the file with which the step is done.
func (p place) last() string {
	if len(p.files) == 0 {
		return ""
	}
	return p.files[len(p.files)-1]
}

// here are the files of the results folder.
type here struct{ *Workspace }

func (h here) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h here) has(name string) (bool, error) {
	_, err := os.Lstat(h.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (h here) begin(prefix string) (all []string, err error) {
	dir, base := path.Split(prefix)
	for _, found := range entries(h.path(dir)) {
		if name := filepath.Base(found); strings.HasPrefix(name, base) && !strings.HasPrefix(name, ".") {
			all = append(all, dir+name)
		}
	}
	return all, nil
}

// away are the files of the store, as they are now or were known last.
type away struct {
	*Workspace
	ctx context.Context
}

// away forgets what was known of the store if it is to be asked now.
func (w *Workspace) away(ctx context.Context, now bool) away {
	w.known.Lock()
	defer w.known.Unlock()
	if now {
		w.known.lists = nil
	}
	return away{w, ctx}
}

func (a away) has(name string) (bool, error) {
	objs, err := a.list(path.Dir(name) + "/")
	_, ok := objs[name]
	return ok, err
}

func (a away) begin(prefix string) (all []string, err error) {
	dir, _ := path.Split(prefix)
	objs, err := a.list(dir)
	for name := range objs {
		if strings.HasPrefix(name, prefix) && path.Dir(name)+"/" == dir {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, err
}

// list lists a folder of the store.
func (a away) list(dir string) (map[string]int64, error) {
	a.known.Lock()
	defer a.known.Unlock()
	if l := a.known.lists[dir]; l.sizes != nil && time.Since(l.at) < listEvery {
		return l.sizes, nil
	}
	l := list{time.Now(), map[string]int64{}}
	all, err := a.Remote.List(a.ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		l.sizes[o.Name] = o.Size
	}
	if a.known.lists == nil {
		a.known.lists = map[string]list{}
	}
	a.known.lists[dir] = l
	return l.sizes, nil
}

// pull brings what the store has of a place and the folder has not. What belongs to the work of
// an unfinished step comes only to who goes on with it. The last file comes last, so
// that a pull that is cut leaves no step that seems to be done.
func (w *Workspace) pull(ctx context.Context, p place, goOn bool) error {
	there := w.away(ctx, goOn)
	files, work, err := p.of(there)
	if err != nil {
		return err
	}
	if goOn || slices.Contains(files, p.last()) {
		files = append(work, files...)
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		ok, err2 := here{w}.has(name)
		err = cmp.Or(err, err2)
		return ok
	})
	for n := len(files); n > 0 && err == nil; n = len(files) {
		if files[n-1] == p.last() && n > 1 {
			n--
		}
		err = w.bring(there, files[:n])
		files = files[n:]
	}
	return err
}

// bring pulls files.
func (w *Workspace) bring(there away, files []string) error {
	t := tally{what: "pulling", progress: w.Listener.Progress}
	for _, name := range files {
		objs, err := there.list(path.Dir(name) + "/")
		if err != nil {
			return err
		}
		t.total += objs[name]
	}
	w.seen = nil
	return parallel.For(there.ctx, filesAside, len(files), func(_, i int) error {
		return w.Remote.Get(there.ctx, files[i], here{w}.path(files[i]), t.of(files[i]))
	})
}

// push brings what the folder has of a place to the store. The files go last, and
// only those that were there before the rest was looked at, so that a finished training
// in the store is whole; of one that the store has finished only the last file is compared.
func (w *Workspace) push(ctx context.Context, p place, progress func(done, total int64, note string)) error {
	files, work, err := p.of(here{w})
	if err == nil && len(work) > 0 && slices.Contains(files, p.last()) {
		var finished bool
		if finished, err = w.away(ctx, true).has(p.last()); finished {
			work = nil
		}
	}
	if err != nil {
		return err
	}
	if err := w.send(ctx, work, progress, w.Remote.Put); err != nil {
		return err
	}
	return w.send(ctx, files, progress, func(ctx context.Context, s *remote.Snapshot, moved remote.Moved) error {
		err := w.Remote.PutOnce(ctx, s, moved)
		if errors.Is(err, remote.ErrOther) && strings.HasSuffix(s.Name, ".run.json") {
			return nil // times of another machine, which made the same cell
		}
		return err
	})
}

// send puts those files that the store does not have as they are. All are opened
// first, from the last one on: the resume point of a training that goes on meanwhile is then older than the
// metrics and the best weights that it counts on.
func (w *Workspace) send(ctx context.Context, names []string, progress func(done, total int64, note string), put func(context.Context, *remote.Snapshot, remote.Moved) error) error {
	var open []*remote.Snapshot
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	t := tally{what: "pushing", progress: progress}
	for _, name := range slices.Backward(names) {
		s, err := w.Remote.Snapshot(name, here{w}.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the step removed it
		}
		if err != nil {
			return fmt.Errorf("pushing %s: %w", here{w}.path(name), err)
		}
		open = append(open, s)
		t.total += s.Size()
	}
	return parallel.For(ctx, filesAside, len(open), func(_, i int) error {
		s := open[len(open)-1-i]
		sum, err := s.Sum()
		if err != nil || w.known.is(s.Name, sum) {
			return err
		}
		if err = put(ctx, s, t.of(s.Name)); err == nil {
			w.known.now(s.Name, sum)
		}
		return err
	})
}

func (k *known) is(name, sum string) bool {
	k.Lock()
	defer k.Unlock()
	return k.same[name] == sum
}

func (k *known) now(name, sum string) {
	k.Lock()
	defer k.Unlock()
	if k.same == nil {
		k.same = map[string]string{}
	}
	k.same[name] = sum
}

// clean removes from the store what is of no use when a step is done.
func (w *Workspace) clean(ctx context.Context, p place) error {
	if p.work == "" || len(p.files) == 0 {
		return nil
	}
	_, work, err := p.of(w.away(ctx, true))
	for _, name := range work {
		ok, err2 := here{w}.has(name)
		if err = cmp.Or(err, err2); err == nil && !ok {
			err = w.Remote.Remove(ctx, name)
		}
	}
	return err
}

// tally tells of transfers that run side by side.
type tally struct {
	what     string
	progress func(done, total int64, note string)
	total    int64
	done     atomic.Int64
}

func (t *tally) of(name string) remote.Moved {
	return func(n int) { t.progress(t.done.Add(int64(n)), t.total, t.what+" "+name) }
}
