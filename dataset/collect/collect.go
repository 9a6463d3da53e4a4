// Package collect records a policy acting in a task and writes the result as a data
// set.
//
// An episode is a pure function of task, policy, switches, seed and episode number. A
// [Job] splits the episodes into parts, which workers record independently: each part
// is a finished file next to the output, so an interrupted run loses at most the
// parts in progress, and machines can share the parts ([PrepareShare]). At the end
// the compressed frames of the parts are copied, in order, into one HDF5 file. Its
// bytes do not depend on the number of workers, nor on interrupts and restarts.
//
// Callers prepare a job with [Prepare], run it with [Job.Run] and close it with
// [Job.Close]. Tasks that OpenGL draws in software are recorded in several processes,
// which call [Serve].
//
// The package knows tasks only through package envs and files only through
// dataset/hdf5.
package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// SpecAttr is the attribute that holds the canonical Spec of a collected file.
const SpecAttr = "collect_spec"

// Parts are the files OUT.parts/ID.part next to the data set OUT.
const (
	partsSuffix = ".parts"
	partSuffix  = ".part"
)

// layoutVersion must be increased when the same spec gives different bytes. It is
// part of the spec, so that parts of two versions are never mixed.
const layoutVersion = 1

// rowsPerPart bounds the rows of a part, so that it takes a few seconds for tasks
// that we draw ourselves. With OpenGL in software a row takes up to half a second,
// and a part is one episode.
const rowsPerPart = 5000

// measuredRows is the number of rows of the first episode from which the disk space
// is estimated.
const measuredRows = 20

// MaxEpisodes bounds a spec. It is a thousand times the size of the published sets.
const MaxEpisodes = 10_000_000

// Spec identifies a data set: the file is a pure function of it. Its JSON is stored
// in the file and hashed into the names of parts.
type Spec struct {
	Task     string       `json:"task"`
	Policy   string       `json:"policy"`
	Episodes int          `json:"episodes"`
	Seed     int64        `json:"seed"`
	Switches envs.Options `json:"switches"`
	Version  int          `json:"version"`
}

// Job is the collection of one data set, or of a share of its parts.
type Job struct {
	Out  string
	Spec Spec
	// Done is set if the file exists already, with exactly this spec.
	Done bool
	// Need estimates the further bytes of disk space that the work takes, for parts
	// and file together.
	Need int64
	// Spawn returns the command for a process that calls Serve; the end of ctx kills
	// it. If it is set, tasks that OpenGL draws in software are collected in such
	// processes.
	Spawn func(ctx context.Context) *exec.Cmd

	// share selects the parts of this job.
	share cell.Shard
	// oneCore is the environment for processes that draw on one core; nil if no
	// processes are used.
	oneCore []string
	task    envs.Task
	columns []envs.Column
	parts   []*part
	// folder is that of the parts.
	folder string
	// lock is the open lock file of that folder, or nil.
	lock *os.File
}

// part is a run of episodes [From, To) in one file. Its exported fields are hashed
// into the file's name.
type part struct {
	Spec     Spec `json:"spec"`
	From, To int
	path     string
	done     bool
}

// Prepare checks the spec, finds existing parts and locks the output. An empty Policy
// is the task's default. The caller must close the job.
func Prepare(ctx context.Context, out string, s Spec) (*Job, error) {
	return prepare(ctx, out, s, cell.Shard{}, rowsPerPart)
}

// PrepareShare prepares one of several jobs, on one or more machines, that record the
// parts of a data set at the same time. None of them assembles the file: a job
// without a share does so afterwards, after recording the parts that are still
// missing.
func PrepareShare(ctx context.Context, out string, s Spec, share cell.Shard) (*Job, error) {
	return prepare(ctx, out, s, share, rowsPerPart)
}

// prepare is PrepareShare with parts of partRows rows, which tests make small.
func prepare(ctx context.Context, out string, s Spec, share cell.Shard, partRows int) (*Job, error) {
	j, err := newJob(out, s)
	if err != nil {
		return nil, err
	}
	j.share = share
	if j.Done, err = j.exists(); err != nil || j.Done {
		return j, err
	}
	if err := j.claim(); err != nil {
		return nil, err
	}
	if err := j.plan(ctx, partRows); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// Check returns an error for an invalid spec. It does not look at any file.
func (s Spec) Check() error {
	_, err := newJob("", s)
	return err
}

// newJob checks the spec and fills in its defaults.
func newJob(out string, s Spec) (*Job, error) {
	task, err := envs.Lookup(s.Task)
	if err != nil {
		return nil, fmt.Errorf("collecting: %w", err)
	}
	if s.Policy == "" {
		s.Policy = task.Spec.Policies[0]
	}
	if _, err := task.Policy(s.Policy); err != nil {
		return nil, fmt.Errorf("collecting: %w", err)
	}
	if s.Episodes < 1 || s.Episodes > MaxEpisodes {
		return nil, fmt.Errorf("collecting %s: %d episodes (hint: 1 to %d)", s.Task, s.Episodes, MaxEpisodes)
	}
	if s.Switches, err = task.Spec.Resolve(s.Switches); err != nil {
		return nil, fmt.Errorf("collecting: %w", err)
	}
	s.Version = layoutVersion
	return &Job{Out: out, Spec: s, task: task, columns: columnsOf(task.Spec, s.Switches), folder: out + partsSuffix}, nil
}

// ErrOther is wrapped by errors about an output that is another data set.
var ErrOther = errors.New("it holds another data set")

// Find reports whether the data set of a spec exists. It locks nothing. If the file
// is another data set, the error wraps ErrOther.
func Find(out string, s Spec) (bool, error) {
	j, err := newJob(out, s)
	if err != nil {
		return false, err
	}
	return j.exists()
}

// Parts returns the number of existing parts of a data set that is not assembled yet.
func Parts(out string) (n int) {
	// A missing folder has no parts.
	there, _ := os.ReadDir(out + partsSuffix)
	for _, e := range there {
		if strings.HasSuffix(e.Name(), partSuffix) {
			n++
		}
	}
	return n
}

// exists reports whether the output exists with the same spec. Any other file is an
// error, since it must not be overwritten.
func (j *Job) exists() (bool, error) {
	if _, err := os.Stat(j.Out); errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(j.Out); err == nil {
			return false, fmt.Errorf("collecting into %s: it is a link to %s, which does not exist (hint: remove the link, or pass its target as --out)", j.Out, to)
		}
		return false, nil
	}
	f, err := hdf5.Open(j.Out)
	if err != nil {
		return false, fmt.Errorf("collecting into %s: another file exists there: %w", j.Out, err)
	}
	defer f.Close()
	have, _ := f.Attr(SpecAttr)
	if have != j.specText() {
		return false, fmt.Errorf("collecting %s into %s: %w, collected as %s (hint: remove it or choose another --out)", j.specText(), j.Out, ErrOther, orUnknown(have))
	}
	return true, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "something unknown"
	}
	return s
}

// specText returns the canonical JSON of the spec. encoding/json sorts the keys of
// maps.
func (j *Job) specText() string {
	b, err := json.Marshal(j.Spec)
	if err != nil {
		panic("collect: a spec of strings and numbers: " + err.Error())
	}
	return string(b)
}

// plan splits the episodes into parts, finds the finished ones and estimates the
// rest.
func (j *Job) plan(ctx context.Context, partRows int) error {
	w, err := newWorker(j)
	if err != nil {
		return err
	}
	defer w.close()
	if err := j.splitParts(w, partRows); err != nil {
		return err
	}
	missing := 0
	for _, s := range j.parts {
		if p, err := readPart(s.path); err == nil {
			s.done = p.fits(j.columns, s.To-s.From)
		}
		if !s.done {
			missing += s.To - s.From
		}
	}
	return j.estimate(ctx, w, missing)
}

// splitParts fills the job's list of parts. The split depends only on the spec, so that
// all shares and all restarts use the same files.
func (j *Job) splitParts(w *worker, partRows int) error {
	each := max(1, partRows/(j.task.Spec.MaxSteps+1))
	// OpenGL may draw in software, where one episode takes as long as a part should.
	if _, ok := w.env.(envs.Drawer); ok {
		each = 1
	}
	for from, i := 0, 0; from < j.Spec.Episodes; from, i = from+each, i+1 {
		if !j.share.Has(i) {
			continue
		}
		s, err := j.part(from, min(from+each, j.Spec.Episodes))
		if err != nil {
			return err
		}
		j.parts = append(j.parts, s)
	}
	return nil
}

// Paths returns the paths of a share's parts, whether they exist or not.
func Paths(out string, s Spec, share cell.Shard) (paths []string, err error) {
	j, err := newJob(out, s)
	if err != nil {
		return nil, err
	}
	j.share = share
	w, err := newWorker(j)
	if err != nil {
		return nil, err
	}
	defer w.close()
	err = j.splitParts(w, rowsPerPart)
	for _, s := range j.parts {
		paths = append(paths, s.path)
	}
	return paths, err
}

// PartsDir returns the folder of the parts of a data set.
func PartsDir(out string) string { return out + partsSuffix }

// part returns the part with the episodes [from, to). Its file is named by a hash of
// spec and range, so a part of another spec is never taken for it.
func (j *Job) part(from, to int) (*part, error) {
	s := &part{Spec: j.Spec, From: from, To: to}
	id, err := cell.ID("collect", s)
	if err != nil {
		return nil, err
	}
	s.path = filepath.Join(j.folder, id+partSuffix)
	return s, nil
}

// estimate records the beginning of the first episode, as a measure of bytes per row,
// and assumes that all episodes have full length.
func (j *Job) estimate(ctx context.Context, w *worker, missing int) error {
	e, err := w.begin(ctx, 0, measuredRows)
	if err != nil {
		return fmt.Errorf("collecting %s into %s: %w", j.Spec.Task, j.Out, err)
	}
	if d, ok := w.env.(envs.Drawer); ok {
		j.oneCore = d.OneCore()
	}
	bytes, rows := int64(0), int64(e.rows)
	for _, f := range e.frames {
		bytes += int64(len(f))
	}
	for _, c := range j.columns {
		bytes += 8 * int64(c.Width) * rows
	}
	full := int64(j.task.Spec.MaxSteps+1) * (bytes/rows + 64)
	j.Need = full * int64(missing)
	if j.assembles() {
		j.Need += full * int64(j.Spec.Episodes)
	}
	return hdf5.NeedSpace(j.Out, j.Need)
}

// assembles reports whether the job writes the data set. A job with a share only
// records parts.
func (j *Job) assembles() bool { return j.share.N <= 1 }

// Result describes a finished job. A job with a share sets only NewRows.
type Result struct {
	// Rows and Bytes are those of the data set.
	Rows  int
	Bytes int64
	// NewRows is the number of rows that this run simulated; the others existed.
	NewRows  int
	MeanLen  float64
	Episodes int
}

// Run records the missing parts with workers workers (0: one per core) and, unless
// the job has a share, assembles the file. It may be interrupted at any moment; the
// next run continues from the finished parts. progress counts episodes and may be
// nil.
func (j *Job) Run(ctx context.Context, workers int, progress func(done, total int64, note string)) (Result, error) {
	if j.Done {
		// A run that was killed at its very end may have left the parts.
		return j.finish(0)
	}
	rows, err := j.makeParts(ctx, workers, progress)
	if err != nil {
		return Result{}, fmt.Errorf("collecting %s into %s: %w", j.Spec.Task, j.Out, err)
	}
	if !j.assembles() {
		return Result{NewRows: rows}, j.Close()
	}
	if err := j.assemble(ctx); err != nil {
		return Result{}, err
	}
	j.Close()
	return j.finish(rows)
}

// finish removes the parts and describes the file, of which rows are new. The parts
// are removed only here, when the file has its final name.
func (j *Job) finish(rows int) (Result, error) {
	if err := safefile.RemoveParts(j.folder, partSuffix); err != nil {
		return Result{}, fmt.Errorf("removing the parts of %s: %w", j.Out, err)
	}
	f, err := hdf5.Open(j.Out)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	st, err := os.Stat(j.Out)
	if err != nil {
		return Result{}, err
	}
	n := len(f.Episodes())
	return Result{Rows: f.Rows(), Bytes: st.Size(), NewRows: rows, Episodes: n, MeanLen: float64(f.Rows()) / float64(n)}, nil
}

// assemble copies the episodes of the parts, in order, into the data set. Frames are
// copied in compressed form.
func (j *Job) assemble(ctx context.Context) error {
	w, err := hdf5.Create(j.Out, hdf5.WriterOptions{Columns: j.columns, FrameSize: envs.FrameSize, Attrs: j.attrs()})
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, s := range j.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := readPart(s.path)
		if err != nil {
			return fmt.Errorf("assembling %s: %w", j.Out, err)
		}
		for _, e := range p.episodes {
			if err := w.Append(hdf5.EpisodeData{Columns: e.columns, Encoded: e.frames}); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// attrs returns the attributes of the file: what it is, and each switch by name.
func (j *Job) attrs() map[string]string {
	a := map[string]string{"env": j.Spec.Task, "env_id": j.task.Spec.ID, "policy": j.Spec.Policy, SpecAttr: j.specText()}
	for name, v := range j.Spec.Switches {
		a[name] = v
	}
	return a
}

// claim creates the folder of the parts and locks it, so that two runs never work on
// the same output. Jobs with shares hold the lock together, and one that assembles
// holds it alone. The kernel releases the lock of a killed run.
func (j *Job) claim() error {
	how := syscall.LOCK_SH
	if j.assembles() {
		how = syscall.LOCK_EX
	}
	// A worker process that a killed run was just starting inherits the lock for a
	// few milliseconds, until it executes its program. So try several times.
	for range 10 {
		var err error
		if j.lock, err = safefile.Claim(filepath.Join(j.folder, ".lock"), how); err != nil {
			return fmt.Errorf("collecting into %s: %w", j.Out, err)
		}
		if j.lock != nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("collecting into %s: another run is at work on it (hint: let it finish)", j.Out)
}

// Close unlocks the output. Finished parts stay for the next run.
func (j *Job) Close() error {
	if j.lock == nil {
		return nil
	}
	f := j.lock
	j.lock = nil
	return f.Close()
}
