package train

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"scalewm/dataset/cell"
	"scalewm/model/device"
	"scalewm/model/weights"
)

// resumeName is the resume point of an unfinished training: one file, so that
// its parts cannot be of different steps. It goes when the training is done.
const resumeName = "resume.safetensors"

// point is where a training goes on.
type point struct {
	step    int     // next step
	metrics int64   // bytes of the metrics file that belong to the steps before
	best    float64 // lowest validation loss so far, +Inf before the first
}

// rows are the flat rows of a resume point.
func (t *trainer) rows() map[string]device.Mat {
	rows := map[string]device.Mat{"value": t.model.Params().Value, "adam.m": t.m, "adam.v": t.v}
	for _, b := range t.model.Params().Buffers {
		rows["buffer."+b.Name] = b.Value
	}
	return rows
}

// order is the order of rows in the file.
func (t *trainer) order() []string {
	names := []string{"value", "adam.m", "adam.v"}
	for _, b := range t.model.Params().Buffers {
		names = append(names, "buffer."+b.Name)
	}
	return names
}

// save writes a resume point.
func (t *trainer) save(out, id string, at point) error {
	rows := t.rows()
	var ts []weights.Tensor
	for _, name := range t.order() {
		ts = append(ts, t.tensor(name, rows[name]))
	}
	meta := map[string]string{"id": id, "step": strconv.Itoa(at.step), "metrics": strconv.FormatInt(at.metrics, 10),
		"best": strconv.FormatFloat(at.best, 'g', -1, 64)}
	return cell.WriteFile(filepath.Join(out, resumeName), func(w io.Writer) error { return weights.Write(w, meta, ts) })
}

// tensor downloads a row in the device's own precision, so that nothing is lost.
func (t *trainer) tensor(name string, m device.Mat) weights.Tensor {
	ts := weights.Tensor{Name: name, Shape: []int{m.Len()}}
	if t.dev.Kind().Precision == device.FP64 {
		ts.F64 = make([]float64, m.Len())
		t.dev.Download64(ts.F64, m)
		return ts
	}
	ts.F32 = make([]float32, m.Len())
	t.dev.Download(ts.F32, m)
	return ts
}

// restore reads the resume point of the training id, if there is one.
func (t *trainer) restore(out, id string) (at point, found bool, err error) {
	path := filepath.Join(out, resumeName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return start(), false, nil
	}
	f, err := weights.Open(path)
	if err != nil {
		return at, false, fmt.Errorf("resuming: %w (hint: delete %s to train from the start)", err, path)
	}
	if f.Meta["id"] != id {
		return at, false, errOther(out)
	}
	at.step, err = strconv.Atoi(f.Meta["step"])
	if err == nil {
		at.metrics, err = strconv.ParseInt(f.Meta["metrics"], 10, 64)
	}
	if err == nil {
		at.best, err = strconv.ParseFloat(f.Meta["best"], 64)
	}
	if err == nil {
		err = t.take(f)
	}
	if err != nil || at.step < 0 || at.step > t.total || at.metrics < 0 {
		return at, false, fmt.Errorf("resuming from %s, step %d of %d: %v (hint: delete the file to train from the start)", path, at.step, t.total, err)
	}
	// Every training step passes once through each BatchNorm.
	t.model.SetBatches(int64(at.step))
	return at, true, nil
}

// take uploads every row from f.
func (t *trainer) take(f *weights.File) error {
	for name, m := range t.rows() {
		v, err := f.Float64(name)
		if err != nil {
			return err
		}
		if len(v) != m.Len() {
			return fmt.Errorf("%s has %d numbers, the model needs %d", name, len(v), m.Len())
		}
		t.dev.Upload64(m, v)
	}
	return nil
}

// errOther is the answer to a folder that holds another training.
func errOther(out string) error {
	return fmt.Errorf("%s holds a training with other data, options or device (hint: choose another --out, or delete that folder)", out)
}
