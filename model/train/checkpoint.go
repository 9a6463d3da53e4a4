package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// In addition to its last weights, a run keeps the weights of the lowest validation
// loss and those of the last keptSteps resume points, so that a training that
// diverges late is not lost, and of every Options.KeepEvery steps. Each file has a
// sidecar and can be passed to any verb by its path.
const (
	bestName  = "best.safetensors"
	keptSteps = 3
)

// sideFiles are the files of a finished run whose checksums the sidecar of the last
// weights lists. The best weights exist only if the run validated.
var sideFiles = []string{metrics.FileName, bestName, weights.SidecarOf(bestName)}

// stepName returns the file name of the weights after a step.
func stepName(step int) string { return fmt.Sprintf("step-%06d.safetensors", step) }

// spec holds everything that determines the bytes of a run's weights. Its hash is the
// id of the run, so that fields must not be renamed.
type spec struct {
	Task, Method, Protocol, Device, Data, Q string
	Seed                                    int64
	Schema, Steps                           int
	Model                                   model.Geometry
	Train                                   Config
}

// sidecar returns the sidecar of the last checkpoint of a run of the given number of
// steps on clips c. fp is the fingerprint of the data set.
func sidecar(o Options, c clips, steps int, fp string) (side weights.Sidecar, err error) {
	s := spec{Task: o.Task.Name, Method: o.Method.Name, Protocol: string(o.Protocol), Device: o.Dev.Kind().String(), Data: fp,
		Q: o.Task.Q.Name, Seed: o.Seed, Schema: model.Schema, Steps: steps, Model: o.Model, Train: o.Config}
	side = weights.Sidecar{Kind: o.Method.Family, Checkpoint: "last", Schema: s.Schema, Method: s.Method, Task: s.Task, Step: steps, Seed: s.Seed,
		Protocol: s.Protocol, Device: s.Device, ActionMean: c.Action.Mean, ActionStd: c.Action.Std, Data: fp, Split: c.split, Backbone: o.Model.Info().Backbone, Encoder: o.Model.Info().Encoder}
	if o.Method.UsesQ() {
		side.QName, side.QMean, side.QStd = o.Task.Q.Name, c.q.Mean, c.q.Std
	}
	if side.ID, err = cell.ID("train", s); err != nil {
		return side, err
	}
	if side.Config, err = json.Marshal(o.Model); err == nil {
		side.Train, err = json.Marshal(o.Config)
	}
	if err != nil {
		return side, fmt.Errorf("writing the sidecar: %w", err)
	}
	return side, nil
}

// checkpoint writes the current weights to the file name. which is "last", "best" or
// "step", for the sidecar.
func (l *loop) checkpoint(name, which string) error {
	side := l.side
	side.Checkpoint, side.Step = which, l.at.step
	if which == "best" {
		side.ValLoss = l.at.best
	}
	return weights.Save(filepath.Join(l.o.Out, name), model.Tensors(l.o.Dev, l.t.model), &side)
}

// saveBest writes the weights if loss is lower than all previous validation losses.
func (l *loop) saveBest(loss float64) error {
	if loss >= l.at.best {
		return nil
	}
	l.at.best = loss
	return l.checkpoint(bestName, "best")
}

// keeps reports whether the weights after a step are written to a file that stays.
// Those of the last step are the weights of the run.
func (l *loop) keeps(step int) bool {
	return l.o.KeepEvery > 0 && step%l.o.KeepEvery == 0 && step < l.total
}

// noteUnkept notes which of the files that stay are missing of the steps before a step:
// those that the run made without, or with another, KeepEvery.
func (l *loop) noteUnkept(before int) {
	for step := l.o.KeepEvery; l.keeps(step) && step < before; step += l.o.KeepEvery {
		path := filepath.Join(l.o.Out, stepName(step))
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			l.note("%s is missing, since the training passed that step without keeping its weights (hint: train in another folder for all of them)", path)
			return
		}
	}
}

// saveStep writes the weights of a resume point, and removes those of the point
// keptSteps before it unless they stay. The sidecar is removed first, so that no
// sidecar refers to a missing file.
func (l *loop) saveStep() error {
	if err := l.checkpoint(stepName(l.at.step), "step"); err != nil {
		return err
	}
	old := l.at.step - keptSteps*l.o.Config.SaveEvery
	if old <= 0 || l.keeps(old) {
		return nil
	}
	path := filepath.Join(l.o.Out, stepName(old))
	if err := safefile.Remove(weights.SidecarOf(path)); err != nil {
		return err
	}
	return safefile.Remove(path)
}

// finish writes the last weights and then removes the resume point. The sidecar of
// the weights marks the run as finished. It is therefore written last, when all files
// that it lists are complete. A kill before it leaves the resume point, a kill after
// it a finished run.
func (l *loop) finish() error {
	if l.o.Method.Trained() {
		for _, name := range sideFiles {
			sum, err := safefile.SHA256(filepath.Join(l.o.Out, name))
			if errors.Is(err, fs.ErrNotExist) { // nothing was validated
				continue
			}
			if err != nil {
				return fmt.Errorf("finishing a training: %w", err)
			}
			if l.side.Files == nil {
				l.side.Files = map[string]string{}
			}
			l.side.Files[name] = sum
		}
	}
	if err := l.checkpoint(weights.FileName, "last"); err != nil {
		return err
	}
	return l.dropResume()
}

// finished reports whether the folder holds this run in finished form. If one of its
// files is damaged it is not, and the training runs again, which reproduces the same
// bytes. A finished run with another id is an error.
func (l *loop) finished() (bool, error) {
	s, err := weights.ReadSidecar(filepath.Join(l.o.Out, weights.SidecarName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && s.ID != l.side.ID {
		return false, errOtherTraining(l.o.Out)
	}
	damaged, err := Damaged(l.o.Out)
	if err != nil {
		return false, err
	}
	if damaged != "" {
		l.note("%s is damaged or missing: training again", filepath.Join(l.o.Out, damaged))
		return false, nil
	}
	// A kill between the sidecar and the end of finish leaves a resume point.
	return true, l.dropResume()
}

// Damaged returns the name of a file of the finished run in dir that is missing or
// does not have its recorded checksum, or "" if there is none. The weights of resume
// points are not checked, since they may be deleted. Sidecars without a list of files
// vouch for the last weights only.
func Damaged(dir string) (string, error) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if errors.Is(err, tensorfile.ErrDamaged) {
		return weights.SidecarName, nil
	}
	if err != nil {
		return "", err
	}
	for _, name := range append(sideFiles, weights.FileName) {
		want := side.Files[name]
		if name == weights.FileName {
			want = side.SHA256
		}
		sum, err := safefile.SHA256(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if want != "" && sum != want {
			return name, nil
		}
	}
	return "", nil
}

// Files returns the names of the files that a run may have in its folder, except for
// its preset and the weights of resume points.
func Files() []string {
	return append([]string{weights.FileName, weights.SidecarName, resumeName, clockName}, sideFiles...)
}

// resumeName is the resume point of an unfinished run. It is a single file, so that a
// kill cannot leave parts from different steps. finish removes it.
const resumeName = weights.ResumeName

// ResumeStep returns the step of the resume point in a run's folder, or 0 if there is
// none that can be read.
func ResumeStep(dir string) int {
	f, err := tensorfile.Open(filepath.Join(dir, resumeName))
	if err != nil {
		return 0
	}
	step, err := strconv.Atoi(f.Meta["step"])
	if err != nil {
		return 0
	}
	return step
}

// dropResume removes the resume point, if there is one.
func (l *loop) dropResume() error { return safefile.Remove(filepath.Join(l.o.Out, resumeName)) }

// point is the position of a run in its sequence of steps, as a resume point records
// it.
type point struct {
	step int // the next step, 0-based
	// due means that afterStep of the previous step has not completed: the run was
	// interrupted between a step and the end of its validation.
	due     bool
	metrics int64   // length in bytes of the metrics file up to the previous step
	best    float64 // lowest validation loss so far, +Inf before the first validation
}

// state returns the matrices of a resume point: the parameters, Adam's two moments,
// each 1 x n, and the buffers. Together with the step they determine all further
// steps, because random draws are derived from seed and step.
func (t *trainer) state() (rows []namedRow) {
	rows = []namedRow{{"value", t.model.Params().Value}, {"adam.m", t.m}, {"adam.v", t.v}}
	for _, b := range t.model.Params().Buffers {
		rows = append(rows, namedRow{"buffer." + b.Name, b.Value})
	}
	return rows
}

// namedRow is a matrix of one row and its name in a resume point.
type namedRow struct {
	name string
	device.Mat
}

// save writes a resume point. It first syncs the metrics file to disk, because the
// resume point records its length: after a power failure the file must not be shorter
// than that.
func (l *loop) save() (err error) {
	if l.at.metrics, err = l.metrics.Flush(); err != nil {
		return fmt.Errorf("writing metrics: %w (hint: is the disk full?)", err)
	}
	var ts []tensorfile.Tensor
	for _, r := range l.t.state() {
		ts = append(ts, l.t.tensor(r))
	}
	meta := map[string]string{"id": l.side.ID, "step": strconv.Itoa(l.at.step), "metrics": strconv.FormatInt(l.at.metrics, 10),
		"best": strconv.FormatFloat(l.at.best, 'g', -1, 64)}
	if l.at.due {
		meta["due"] = "true"
	}
	return safefile.Write(filepath.Join(l.o.Out, resumeName), func(w io.Writer) error { return tensorfile.Write(w, meta, ts) })
}

// tensor downloads a row as float64 or float32, whichever the device computes in, so
// that a resumed training continues with exactly the same numbers.
func (t *trainer) tensor(r namedRow) tensorfile.Tensor {
	ts := tensorfile.Tensor{Name: r.name, Shape: []int{r.Len()}}
	if t.dev.Kind().Precision == device.FP64 {
		ts.F64 = make([]float64, r.Len())
		t.dev.Download64(ts.F64, r.Mat)
		return ts
	}
	ts.F32 = make([]float32, r.Len())
	t.dev.Download(ts.F32, r.Mat)
	return ts
}

// hasState reports whether the folder has a resume point, or the sidecar of a
// finished run.
func (l *loop) hasState() bool {
	for _, name := range []string{resumeName, weights.SidecarName} {
		if _, err := os.Stat(filepath.Join(l.o.Out, name)); err == nil {
			return true
		}
	}
	return false
}

// resume reads the resume point of this run, if there is one. If the resume point or
// a file that it refers to is damaged, the training restarts from the beginning,
// which reproduces the same bytes. An I/O error and the resume point of another run
// are errors, and nothing is overwritten.
func (l *loop) resume() error {
	l.at = point{best: math.Inf(1)}
	path := filepath.Join(l.o.Out, resumeName)
	f, err := tensorfile.Open(path)
	var unreadable *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &unreadable):
		return fmt.Errorf("resuming: %w", err)
	case err == nil && f.Meta["id"] != l.side.ID:
		return errOtherTraining(l.o.Out)
	}
	var at point
	if err == nil {
		at, err = l.point(f)
	}
	if err == nil {
		err = l.t.restore(f)
	}
	if err != nil {
		l.note("%s is damaged, training from the start: %v", path, err)
		return nil
	}
	l.at = at
	// BatchNorm counts training passes, one per step, unless it belongs to a frozen encoder.
	// The counters are not in the file.
	if _, learns := l.t.model.(model.Learner); learns {
		for _, c := range l.t.model.Counts() {
			*c.N = int64(at.step)
		}
	}
	return nil
}

// point parses the position in a resume point. It returns an error if the metrics
// file is shorter than recorded, or the best weights do not load.
func (l *loop) point(f *tensorfile.File) (at point, err error) {
	at.due = f.Meta["due"] == "true"
	at.step, err = strconv.Atoi(f.Meta["step"])
	if err == nil {
		at.metrics, err = strconv.ParseInt(f.Meta["metrics"], 10, 64)
	}
	if err == nil {
		at.best, err = strconv.ParseFloat(f.Meta["best"], 64)
	}
	if err != nil {
		return at, err
	}
	if at.step < 0 || at.step > l.total || at.metrics < 0 {
		return at, fmt.Errorf("it says step %d of %d after %d bytes of metrics", at.step, l.total, at.metrics)
	}
	if st, err := os.Stat(filepath.Join(l.o.Out, metrics.FileName)); at.metrics > 0 && (err != nil || st.Size() < at.metrics) {
		return at, fmt.Errorf("%s is shorter than its %d bytes", metrics.FileName, at.metrics)
	}
	if !math.IsInf(at.best, 1) {
		_, _, err = weights.Load(filepath.Join(l.o.Out, bestName))
	}
	return at, err
}

// restore uploads the state in f. It checks all rows before it uploads the first one,
// so that an error leaves the initial state intact for a restart.
func (t *trainer) restore(f *tensorfile.File) error {
	var values [][]float64
	for _, r := range t.state() {
		v, err := f.Float64(r.name)
		if err != nil {
			return err
		}
		if len(v) != r.Len() {
			return fmt.Errorf("%s has %d numbers, the model needs %d", r.name, len(v), r.Len())
		}
		values = append(values, v)
	}
	for i, r := range t.state() {
		t.dev.Upload64(r.Mat, values[i])
	}
	return nil
}

// errOtherTraining returns the error for a folder that holds a different run.
func errOtherTraining(out string) error {
	return fmt.Errorf("%s holds a training with other data, options or device (hint: choose another --out, or delete that folder)", out)
}
