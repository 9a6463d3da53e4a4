// Package collect lets a policy act in a task and writes what happened as a
// data set. Episodes are pure functions of (task, policy, switches, seed,
// episode number); they are made in parts, finished files beside the data set
// that survive a kill, and the parts' compressed frames are then copied into
// one file. The file's bytes do not depend on workers, kills or restarts.
//
// It knows tasks only through envs and files only through dataset/hdf5.
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

// Parts are files FOLDER/*.part beside the data set.
const (
	partsSuffix = ".parts"
	partSuffix  = ".part"
)

// layoutVersion changes when the same spec gives other bytes.
const layoutVersion = 1

// rowsPerPart keeps a part's work at a few seconds for the tasks that we draw
// ourselves. Where OpenGL draws, a row costs up to half a second in software, and a
// part is one episode.
const rowsPerPart = 5000

// measuredRows of the first episode say how much disk the work takes.
const measuredRows = 20

// MaxEpisodes is a thousand times the published sets.
const MaxEpisodes = 10_000_000

// Spec says which data set is meant; the file is a pure function of it.
type Spec struct {
	Task     string       `json:"task"`
	Policy   string       `json:"policy"`
	Episodes int          `json:"episodes"`
	Seed     int64        `json:"seed"`
	Switches envs.Options `json:"switches"`
	Version  int          `json:"version"`
}

// Job is a data set to be made at a path.
type Job struct {
	Out  string
	Spec Spec
	// Done says that the file is there already, with this very spec.
	Done bool
	// Need is about how many more bytes of disk the work takes, parts and file together.
	Need int64
	// Spawn makes the command of a process that calls Serve; ctx kills it. Where it is
	// set, tasks that OpenGL draws in software are collected in such processes.
	Spawn func(ctx context.Context) *exec.Cmd

	share   cell.Shard // of the parts: whose this job is
	oneCore []string   // environment of these processes; nil where no processes are used
	task    envs.Task
	columns []envs.Column
	parts   []*part
	folder  string // of the parts
	lock    *os.File
}

// part is a run of episodes [From, To) in one file.
type part struct {
	Spec     Spec `json:"spec"`
	From, To int
	path     string
	have     bool
}

// Prepare checks the spec ("" is the task's default policy), looks at what is
// there already and claims the output. Close the job when it is no longer needed.
func Prepare(ctx context.Context, out string, s Spec) (*Job, error) {
	return prepare(ctx, out, s, cell.Shard{}, rowsPerPart)
}

// PrepareShare is Prepare of one of several jobs, on one machine or on many, that make a data
// set's parts side by side. None of them puts the file together: a job without a share
// does so afterwards, and makes the parts that are still missing.
func PrepareShare(ctx context.Context, out string, s Spec, share cell.Shard) (*Job, error) {
	return prepare(ctx, out, s, share, rowsPerPart)
}

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

// Check says what is wrong with a spec, before anything is looked at or made.
func (s Spec) Check() error {
	_, err := newJob("", s)
	return err
}

// newJob checks the spec and completes it.
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

// ErrOther is wrapped by the errors of asking for a data set where another one is.
var ErrOther = errors.New("it holds another data set")

// Find says whether the data set of a spec is there already, and claims nothing.
// Where another one is, the error is ErrOther.
func Find(out string, s Spec) (bool, error) {
	j, err := newJob(out, s)
	if err != nil {
		return false, err
	}
	return j.exists()
}

// Parts counts the parts that are there of a data set that is not put together yet.
func Parts(out string) (n int) {
	there, _ := os.ReadDir(out + partsSuffix) // none where there is no such folder
	for _, e := range there {
		if strings.HasSuffix(e.Name(), partSuffix) {
			n++
		}
	}
	return n
}

// exists says whether the output is there with the same spec; another file is
// never overwritten.
func (j *Job) exists() (bool, error) {
	if _, err := os.Stat(j.Out); errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(j.Out); err == nil {
			return false, fmt.Errorf("collecting into %s: it is a link to %s, which is not there (hint: remove the link, or give --out what it leads to)", j.Out, to)
		}
		return false, nil
	}
	f, err := hdf5.Open(j.Out)
	if err != nil {
		return false, fmt.Errorf("collecting into %s: something else is there: %w", j.Out, err)
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

// specText is the canonical spec; map keys are sorted by the encoder.
func (j *Job) specText() string {
	b, err := json.Marshal(j.Spec)
	if err != nil {
		panic("collect: a spec of strings and numbers: " + err.Error())
	}
	return string(b)
}

// plan cuts the episodes into parts and finds those that are finished.
func (j *Job) plan(ctx context.Context, partRows int) error {
	w, err := newWorker(j)
	if err != nil {
		return err
	}
	defer w.close()
	if err := j.cut(w, partRows); err != nil {
		return err
	}
	missing := 0
	for _, s := range j.parts {
		if p, err := readPart(s.path); err == nil {
			s.have = p.fits(j.columns, s.To-s.From)
		}
		if !s.have {
			missing += s.To - s.From
		}
	}
	return j.estimate(ctx, w, missing)
}

// cut names the job's parts.
func (j *Job) cut(w *worker, partRows int) error {
	each := max(1, partRows/(j.task.Spec.MaxSteps+1))
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

// Paths are the files of a share's parts, whether they are there or not.
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
	err = j.cut(w, rowsPerPart)
	for _, s := range j.parts {
		paths = append(paths, s.path)
	}
	return paths, err
}

// PartsDir is the folder of the parts of a data set.
func PartsDir(out string) string { return out + partsSuffix }

// part is the run of episodes [from, to), in a file named by what it holds.
func (j *Job) part(from, to int) (*part, error) {
	s := &part{Spec: j.Spec, From: from, To: to}
	id, err := cell.ID("collect", s)
	if err != nil {
		return nil, err
	}
	s.path = filepath.Join(j.folder, id+partSuffix)
	return s, nil
}

// estimate measures the beginning of the first episode and assumes episodes of full length.
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

// assembles says that the job puts the file together.
func (j *Job) assembles() bool { return j.share.N <= 1 }

// Result is what a finished job did; one with a share knows NewRows only.
type Result struct {
	Rows     int   // of the whole file
	Bytes    int64 // of the whole file
	NewRows  int   // simulated by this run; the others were there
	MeanLen  float64
	Episodes int
}

// Run makes what is missing with the given number of workers (0: one a core)
// and, unless the job has a share only, assembles the file. It may be interrupted at any moment; the next run goes on.
func (j *Job) Run(ctx context.Context, workers int, progress func(done, total int64, note string)) (Result, error) {
	if j.Done {
		return j.finish(0) // a run killed at its very end left the parts
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

// finish removes the parts and describes the file, of which rows are new.
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

// assemble copies the parts' episodes, in order, into the data set.
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

// attrs describe the file: what it is, and each switch by name.
func (j *Job) attrs() map[string]string {
	a := map[string]string{"env": j.Spec.Task, "env_id": j.task.Spec.ID, "policy": j.Spec.Policy, SpecAttr: j.specText()}
	for name, v := range j.Spec.Switches {
		a[name] = v
	}
	return a
}

// claim makes the parts' folder and locks it, so that two runs never work on
// the same output; jobs with shares of it share the lock. A killed run's is gone with it.
func (j *Job) claim() error {
	how := syscall.LOCK_SH
	if j.assembles() {
		how = syscall.LOCK_EX
	}
	// A worker that a killed run was about to start has the lock for some milliseconds more, until it is the program
	// that it is to be.
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

// Close gives the output free; finished parts stay for the next run.
func (j *Job) Close() error {
	if j.lock == nil {
		return nil
	}
	f := j.lock
	j.lock = nil
	return f.Close()
}
