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
	"scalewm/eval/analysis"
	"scalewm/eval/results"
	"scalewm/model/weights"
)

// Machines without a common folder share results through an object store
// (Workspace.Remote). Each has its own results folder. Before a step runs, the files of its
// result that the store has are pulled into the folder; while it runs and afterwards, new
// files are pushed under the same names. A step only declares where its result is (location);
// it is the same step with and without a store.
//
// Correctness rests on three rules. Final files never change and are put only if absent, so
// that two machines that compute the same cell do no harm. The file that marks a step as
// done is transferred last, in both directions. Steps that change files while they work
// (collecting, training, tuning) hold a lock in the store.

// location is where a step's result is: names below the results folder, with slashes. A name
// that ends in * stands for all names with that prefix.
type location struct {
	files []string // final files, which never change; with the last one the step is done
	// work is a prefix of the names of files that change until then or are useless
	// afterwards, such as resume points. When the step is done, those that the folder no
	// longer has are removed from the store.
	work      string
	exclusive bool // only one machine at a time may work on it, under a lock
}

// located is implemented by steps whose results machines share.
type located interface {
	location() (location, error)
}

// location implements located. A share has the files of its parts, and is also done once
// the data set exists. The step without a share has the data set; the parts are its
// work files and are removed from the store when it is done. A given data set is not
// shared.
func (c *Collect) location() (p location, err error) {
	if c.given() {
		return p, nil // every machine has the file
	}
	name := "data/" + c.task.Spec.Name + ".h5"
	if c.share.N <= 1 {
		return location{files: []string{name}, work: collect.PartsDir(name) + "/", exclusive: true}, nil
	}
	parts, err := collect.Paths(filepath.FromSlash(name), c.spec(), c.share)
	for _, path := range parts {
		p.files = append(p.files, filepath.ToSlash(path))
	}
	p.files = append(p.files, name)
	return p, err
}

// location implements located. The sidecar marks a training as done. The other files
// of its folder, such as weights and the resume point, change until then.
func (s *Train) location() (location, error) { return s.w.locationOfTraining(s.arm), nil }

// location implements located, in the same way.
func (s *Install) location() (location, error) { return s.w.locationOfTraining(s.arm), nil }

func (w *Workspace) locationOfTraining(a arm) location {
	work := results.TrainDir + "/" + filepath.Base(w.checkpoint(a)) + "/"
	return location{files: []string{work + weights.SidecarName}, work: work, exclusive: true}
}

// location implements located. Tuning has separate cells, whose ids need the
// checkpoint: it shares all files with the prefix.
func (s *Tune) location() (location, error) {
	return location{files: []string{"tuning/*"}, exclusive: true}, nil
}

// location implements located. No lock is needed: two machines that evaluate the same set
// write the same bytes.
func (s *Evaluate) location() (p location, err error) {
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

// location implements located.
func (s *Analyse) location() (p location, err error) {
	j, err := s.job()
	if err != nil {
		return p, err
	}
	for _, of := range analysis.FilmTiers {
		p.files = append(p.files, filepath.ToSlash(results.Folder("").Film(s.task.Spec.Name, s.label(), of)))
	}
	// Without a device the ids of the cells, which depend on its kind, are unknown.
	if s.w.Analyser == nil {
		p.files = append(p.files, results.CellsDir+"/*")
		return p, nil
	}
	ids, err := j.IDs(s.names)
	for _, id := range ids {
		p.files = append(p.files, cellFiles(id)...)
	}
	return p, err
}

// cellFiles returns the names of a cell's files. The cell comes last: it marks the
// set as done.
func cellFiles(id string) []string {
	return []string{results.CellsDir + "/" + id + ".run.json", results.CellsDir + "/" + id + ".json"}
}

// location implements located. The report has no final files: it changes with every cell.
func (s *Report) location() (location, error) { return location{work: "report"}, nil }

const (
	pushEvery    = 2 * time.Minute  // interval of pushes while a step runs
	listEvery    = time.Minute      // age of a cached listing: at worst a cell is computed twice
	lastPush     = 90 * time.Second // limit after an interrupt: batch systems warn two minutes before the end
	maxTransfers = 16               // concurrent transfers
)

// known caches the state of the store. A listing takes a request per thousand names,
// and comparing a file takes reading it, which would be slow for each of thousands of
// steps.
type known struct {
	sync.Mutex
	lists map[string]list   // last listings, by folder
	same  map[string]string // SHA-256 of files that the store was seen to have, by name
}

// list is a listing of a folder of the store.
type list struct {
	at    time.Time
	sizes map[string]int64 // by name
}

// Run runs the steps of a graph and synchronises their results with the object store,
// if there is one. See Graph.Run.
func (w *Workspace) Run(ctx context.Context, g Graph) (failed []string, err error) {
	if w.Remote == nil {
		if w.Ahead {
			defer w.collectAhead(ctx, g)()
		}
		return g.Run(ctx, w.Listener)
	}
	return g.run(ctx, w.Listener, w.runShared)
}

// Pull downloads the existing results of the graph's steps from the store, so that a
// dry run or a report sees them. It downloads in the order of the graph: the names of
// cells depend on checkpoints.
func (w *Workspace) Pull(ctx context.Context, g Graph) error {
	if w.Remote == nil {
		return nil
	}
	for _, s := range g {
		p, err := locationOf(s)
		if err == nil {
			err = w.pull(ctx, p, false)
		}
		if err = ignoreMissing(err); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// locationOf returns where a step's result is; the zero value for a step that is not
// shared.
func locationOf(s Step) (location, error) {
	if g, ok := s.(required); ok {
		s = g.Step
	}
	if p, ok := s.(located); ok {
		return p.location()
	}
	return location{}, nil
}

// runShared is Step.Run for machines that share a store: pull, run, push, clean up. A
// step that one machine at a time may work on takes the lock in the store unless the
// pull shows that it is done, and pulls again under the lock, including the
// unfinished work of a machine that had it before.
func (w *Workspace) runShared(s Step, ctx context.Context) (outcome string, err error) {
	p, err := locationOf(s)
	if err = ignoreMissing(err); err == nil {
		err = w.pull(ctx, p, false)
	}
	if err != nil {
		return "", err
	}
	if _, ok := s.(required); ok {
		return s.Run(ctx)
	}
	if p.exclusive && !w.isDone(ctx, s) {
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
	stop() // waits, so that the last push below is the only one
	// After an interrupt ctx is cancelled, but the work so far must reach the store: the
	// next run may be on another machine.
	late := ctx
	if ctx.Err() != nil {
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

// isDone reports whether the step's result exists in the folder.
func (w *Workspace) isDone(ctx context.Context, s Step) bool {
	state, err := s.State(ctx)
	return err == nil && state.done()
}

// pushing pushes a step's files at intervals until stop is called, so that a machine
// that dies loses little. It ignores errors: the next push includes the same files,
// and the last one reports them.
func (w *Workspace) pushing(ctx context.Context, p location) (stop func()) {
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

// fileNames looks up names of files, in the store or in the results folder.
type fileNames interface {
	has(name string) (bool, error)
	begin(prefix string) ([]string, error) // names in one folder with a prefix; no hidden files
}

// of returns the names of those final files and work files that exist.
func (p location) of(there fileNames) (files, work []string, err error) {
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

// last returns the name of the file that marks the step as done, "" if there is none.
func (p location) last() string {
	if len(p.files) == 0 {
		return ""
	}
	return p.files[len(p.files)-1]
}

// localFiles looks up files of the results folder.
type localFiles struct{ *Workspace }

func (h localFiles) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h localFiles) has(name string) (bool, error) {
	_, err := os.Lstat(h.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// begin implements fileNames. It skips hidden files, which are temporary files and
// locks.
func (h localFiles) begin(prefix string) (all []string, err error) {
	dir, base := path.Split(prefix)
	for _, found := range entries(h.path(dir)) {
		if name := filepath.Base(found); strings.HasPrefix(name, base) && !strings.HasPrefix(name, ".") {
			all = append(all, dir+name)
		}
	}
	return all, nil
}

// remoteFiles looks up files of the store, from listings at most listEvery old.
type remoteFiles struct {
	*Workspace
	ctx context.Context
}

// remoteFiles returns the store's files. With now it discards the cached listings.
func (w *Workspace) remoteFiles(ctx context.Context, now bool) remoteFiles {
	w.known.Lock()
	defer w.known.Unlock()
	if now {
		w.known.lists = nil
	}
	return remoteFiles{w, ctx}
}

// has implements fileNames.
func (a remoteFiles) has(name string) (bool, error) {
	objs, err := a.list(path.Dir(name) + "/")
	_, ok := objs[name]
	return ok, err
}

// begin implements fileNames.
func (a remoteFiles) begin(prefix string) (all []string, err error) {
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

// list returns the sizes of the files in a folder of the store, by name.
func (a remoteFiles) list(dir string) (map[string]int64, error) {
	a.known.Lock()
	defer a.known.Unlock()
	// Still fresh: steps of a graph look at the same few folders.
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

// pull downloads the files of a location that the store has and the folder lacks. It
// includes unfinished work only if resuming is set, that is for the machine that holds
// the lock and will resume it. The file that marks the step as done is downloaded
// after all others, so that an interrupted pull leaves no step that seems to be done.
func (w *Workspace) pull(ctx context.Context, p location, resuming bool) error {
	there := w.remoteFiles(ctx, resuming)
	files, work, err := p.of(there)
	if err != nil {
		return err
	}
	if resuming || slices.Contains(files, p.last()) {
		files = append(work, files...)
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		ok, err2 := localFiles{w}.has(name)
		err = cmp.Or(err, err2)
		return ok
	})
	// Two rounds: everything but the last file, then the last file.
	for n := len(files); n > 0 && err == nil; n = len(files) {
		if files[n-1] == p.last() && n > 1 {
			n--
		}
		err = w.download(there, files[:n])
		files = files[n:]
	}
	return err
}

// download downloads files concurrently.
func (w *Workspace) download(there remoteFiles, files []string) error {
	t := tally{what: "pulling", progress: w.Listener.Progress}
	for _, name := range files {
		objs, err := there.list(path.Dir(name) + "/")
		if err != nil {
			return err
		}
		t.total += objs[name]
	}
	w.listing = nil
	return parallel.For(there.ctx, maxTransfers, len(files), func(_, i int) error {
		return w.Remote.Get(there.ctx, files[i], localFiles{w}.path(files[i]), t.counter(files[i]))
	})
}

// push uploads the files of a location. Final files follow the work files, and only
// those that existed before the work files were listed, so that a finished training
// in the store is complete. If the store already has the step's last file, its work
// files are skipped: another machine has finished and cleaned up.
func (w *Workspace) push(ctx context.Context, p location, progress func(done, total int64, note string)) error {
	// List the final files before sending the work files. If the step finishes in between,
	// its last file is pushed next time, after the files that it vouches for.
	files, work, err := p.of(localFiles{w})
	if err == nil && len(work) > 0 && slices.Contains(files, p.last()) {
		var finished bool
		if finished, err = w.remoteFiles(ctx, true).has(p.last()); finished {
			work = nil
		}
	}
	if err != nil {
		return err
	}
	if err := w.upload(ctx, work, progress, w.Remote.Put); err != nil {
		return err
	}
	return w.upload(ctx, files, progress, func(ctx context.Context, s *remote.Snapshot, moved remote.Moved) error {
		err := w.Remote.PutOnce(ctx, s, moved)
		// Run files hold times and hosts, which differ if another machine made the same
		// cell. The first one stays. A cell that differs is an error.
		if errors.Is(err, remote.ErrOther) && strings.HasSuffix(s.Name, ".run.json") {
			return nil
		}
		return err
	})
}

// upload uploads those of the named files that the store does not have with the same
// bytes. It first opens a snapshot of all of them, the last name first. A training
// writes its resume point after the metrics and best weights that it refers to;
// opened in this order, the resume point is never newer than they are.
func (w *Workspace) upload(ctx context.Context, names []string, progress func(done, total int64, note string), put func(context.Context, *remote.Snapshot, remote.Moved) error) error {
	var open []*remote.Snapshot
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	t := tally{what: "pushing", progress: progress}
	for _, name := range slices.Backward(names) {
		s, err := w.Remote.Snapshot(name, localFiles{w}.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the step removed it since it was listed
		}
		if err != nil {
			return fmt.Errorf("pushing %s: %w", localFiles{w}.path(name), err)
		}
		open = append(open, s)
		t.total += s.Size()
	}
	return parallel.For(ctx, maxTransfers, len(open), func(_, i int) error {
		s := open[len(open)-1-i]
		sum, err := s.Sum()
		if err != nil || w.known.has(s.Name, sum) {
			return err
		}
		if err = put(ctx, s, t.counter(s.Name)); err == nil {
			w.known.record(s.Name, sum)
		}
		return err
	})
}

// has reports whether the store is known to have the file with this checksum.
func (k *known) has(name, sum string) bool {
	k.Lock()
	defer k.Unlock()
	return k.same[name] == sum
}

// record records that the store has the file with this checksum.
func (k *known) record(name, sum string) {
	k.Lock()
	defer k.Unlock()
	if k.same == nil {
		k.same = map[string]string{}
	}
	k.same[name] = sum
}

// clean removes work files of a finished step from the store, namely those that the
// step has removed from the folder.
func (w *Workspace) clean(ctx context.Context, p location) error {
	if p.work == "" || len(p.files) == 0 {
		return nil
	}
	_, work, err := p.of(w.remoteFiles(ctx, true))
	for _, name := range work {
		ok, err2 := localFiles{w}.has(name)
		if err = cmp.Or(err, err2); err == nil && !ok {
			err = w.Remote.Remove(ctx, name)
		}
	}
	return err
}

// tally sums the progress of concurrent transfers.
type tally struct {
	what     string
	progress func(done, total int64, note string)
	total    int64
	done     atomic.Int64
}

// counter returns the function that counts the bytes of one file. It is safe for
// concurrent use.
func (t *tally) counter(name string) remote.Moved {
	return func(n int) { t.progress(t.done.Add(int64(n)), t.total, t.what+" "+name) }
}
