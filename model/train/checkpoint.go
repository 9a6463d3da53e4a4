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
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// A training's folder holds, beside the last weights that it is known by, those
// of the lowest validation loss and of the last keptSteps resume points: a
// training that diverges late is not lost. Each has a sidecar that says which
// it is, and can be given to any verb by the path of its file.
const (
	bestName  = "best.safetensors"
	keptSteps = 3
)

// beside are the files that a finished training has besides its last weights and
// their sidecar, which lists them; the best ones only where it validated.
var beside = []string{metrics.FileName, bestName, weights.SidecarOf(bestName)}

func stepName(step int) string { return fmt.Sprintf("step-%06d.safetensors", step) }

// spec is what a training's bytes depend on; its hash is the training's id.
type spec struct {
	Task, Method, Protocol, Device, Data, Q string
	Seed                                    int64
	Schema, Steps                           int
	Model                                   model.Geometry
	Train                                   Config
}

// sidecar is that of the last checkpoint of a training of so many steps.
func sidecar(o Options, c clips, steps int, fp string) (side weights.Sidecar, err error) {
	s := spec{Task: o.Task.Name, Method: o.Method.Name, Protocol: string(o.Protocol), Device: o.Dev.Kind().String(), Data: fp,
		Q: o.Task.Q.Name, Seed: o.Seed, Schema: model.Schema, Steps: steps, Model: o.Model, Train: o.Config}
	side = weights.Sidecar{Kind: o.Method.Family, Checkpoint: "last", Schema: s.Schema, Method: s.Method, Task: s.Task, Step: steps, Seed: s.Seed,
		Protocol: s.Protocol, Device: s.Device, ActionMean: c.Action.Mean, ActionStd: c.Action.Std, Data: fp, Split: c.split, Backbone: o.Model.Info().Backbone}
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

// checkpoint writes the present weights under name; which is last, best or step.
func (l *loop) checkpoint(name, which string) error {
	side := l.side
	side.Checkpoint, side.Step = which, l.at.step
	if which == "best" {
		side.ValLoss = l.at.best
	}
	return weights.Save(filepath.Join(l.o.Out, name), model.Tensors(l.o.Dev, l.t.model), &side)
}

// keepBest writes the weights if none before had so low a validation loss.
func (l *loop) keepBest(loss float64) error {
	if loss >= l.at.best {
		return nil
	}
	l.at.best = loss
	return l.checkpoint(bestName, "best")
}

// keepStep writes the weights of a resume point and removes the oldest ones.
func (l *loop) keepStep() error {
	if err := l.checkpoint(stepName(l.at.step), "step"); err != nil {
		return err
	}
	old := l.at.step - keptSteps*l.o.Config.SaveEvery
	if old <= 0 {
		return nil
	}
	path := filepath.Join(l.o.Out, stepName(old))
	if err := safefile.Remove(weights.SidecarOf(path)); err != nil {
		return err
	}
	return safefile.Remove(path)
}

// finish writes the last weights, their sidecar at the end, and drops the resume point.
func (l *loop) finish() error {
	if l.o.Method.Trained() {
		for _, name := range beside {
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

// finished says whether this very training was done before. One whose files are
// damaged is not: training again gives them the same bytes.
func (l *loop) finished() (bool, error) {
	s, err := weights.ReadSidecar(filepath.Join(l.o.Out, weights.SidecarName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && s.ID != l.side.ID {
		return false, errOther(l.o.Out)
	}
	damaged, err := Damaged(l.o.Out)
	if err != nil {
		return false, err
	}
	if damaged != "" {
		l.note("%s is damaged or missing: its training is done again", filepath.Join(l.o.Out, damaged))
		return false, nil
	}
	return true, l.dropResume() // which a kill may have left
}

// Damaged names a file of the finished training in dir that is missing or not as
// it was written; "" is none. The weights of resume points may be deleted, and of
// trainings by older versions only the last weights are known.
func Damaged(dir string) (string, error) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if errors.Is(err, weights.ErrDamaged) {
		return weights.SidecarName, nil
	}
	if err != nil {
		return "", err
	}
	for _, name := range append(beside, weights.FileName) {
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

// Files are the names of what a training writes into its folder, but for the preset beside it and
// the weights of resume points.
func Files() []string {
	return append([]string{weights.FileName, weights.SidecarName, resumeName, clockName}, beside...)
}

// resumeName is the resume point of an unfinished training: one file, so that
// its parts cannot be of different steps. It goes when the training is done.
const resumeName = "resume.safetensors"

// Reached is the step of the resume point in a training's folder, 0 where there is
// none that can be read.
func Reached(dir string) int {
	f, err := weights.Open(filepath.Join(dir, resumeName))
	if err != nil {
		return 0
	}
	step, err := strconv.Atoi(f.Meta["step"])
	if err != nil {
		return 0
	}
	return step
}

func (l *loop) dropResume() error { return safefile.Remove(filepath.Join(l.o.Out, resumeName)) }

// point is where a training goes on.
type point struct {
	step    int     // next step
	due     bool    // what follows the step before, see settle, is still to be done
	metrics int64   // bytes of the metrics file that belong to the steps before
	best    float64 // lowest validation loss so far, +Inf before the first
}

// state is what a resume point holds besides: parameters, Adam's moments, buffers.
func (t *trainer) state() (rows []namedRow) {
	rows = []namedRow{{"value", t.model.Params().Value}, {"adam.m", t.m}, {"adam.v", t.v}}
	for _, b := range t.model.Params().Buffers {
		rows = append(rows, namedRow{"buffer." + b.Name, b.Value})
	}
	return rows
}

type namedRow struct {
	name string
	device.Mat
}

// save writes a resume point after the metrics that it counts on.
func (l *loop) save() (err error) {
	if l.at.metrics, err = l.metrics.Flush(); err != nil {
		return fmt.Errorf("writing metrics: %w (hint: is the disk full?)", err)
	}
	var ts []weights.Tensor
	for _, r := range l.t.state() {
		ts = append(ts, l.t.tensor(r))
	}
	meta := map[string]string{"id": l.side.ID, "step": strconv.Itoa(l.at.step), "metrics": strconv.FormatInt(l.at.metrics, 10),
		"best": strconv.FormatFloat(l.at.best, 'g', -1, 64)}
	if l.at.due {
		meta["due"] = "true"
	}
	return safefile.Write(filepath.Join(l.o.Out, resumeName), func(w io.Writer) error { return weights.Write(w, meta, ts) })
}

// tensor downloads a row in the device's own precision, so that nothing is lost.
func (t *trainer) tensor(r namedRow) weights.Tensor {
	ts := weights.Tensor{Name: r.name, Shape: []int{r.Len()}}
	if t.dev.Kind().Precision == device.FP64 {
		ts.F64 = make([]float64, r.Len())
		t.dev.Download64(ts.F64, r.Mat)
		return ts
	}
	ts.F32 = make([]float32, r.Len())
	t.dev.Download(ts.F32, r.Mat)
	return ts
}

// begun says whether there is something to go on with, or to be found finished.
func (l *loop) begun() bool {
	for _, name := range []string{resumeName, weights.SidecarName} {
		if _, err := os.Stat(filepath.Join(l.o.Out, name)); err == nil {
			return true
		}
	}
	return false
}

// resume reads the resume point of this training, if there is one. Where it, or
// what it counts on, is damaged, the training begins anew: its bytes are the same.
func (l *loop) resume() error {
	l.at = point{best: math.Inf(1)}
	path := filepath.Join(l.o.Out, resumeName)
	f, err := weights.Open(path)
	var unreadable *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &unreadable):
		return fmt.Errorf("resuming: %w", err)
	case err == nil && f.Meta["id"] != l.side.ID:
		return errOther(l.o.Out)
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
	for _, c := range l.t.model.Counts() {
		*c.N = int64(at.step)
	}
	return nil
}

// point is where the training stood when f was written. Metrics and best weights
// must still be there as they were then.
func (l *loop) point(f *weights.File) (at point, err error) {
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

// restore uploads the state that f holds, once all of it is known to fit.
func (t *trainer) restore(f *weights.File) error {
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

// errOther is the answer to a folder that holds another training.
func errOther(out string) error {
	return fmt.Errorf("%s holds a training with other data, options or device (hint: choose another --out, or delete that folder)", out)
}
