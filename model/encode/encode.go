// Package encode computes the latents of all frames of a data set, or the latents
// that a model predicts from the data set's actions.
//
// The result is an HDF5 file in the layout of a data set, with a column emb or pred
// in place of the frames. Probes use it, as do programs that need embeddings without
// the model.
//
// Run computes the rows in parts, each a file in a folder next to the result, so that
// an interruption loses at most one part. When all parts exist it assembles the
// result and removes them. The package does not depend on tasks.
package encode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/model"
)

// Names of the columns in a result. Column has the latent of each row's frame, P*D
// float32 numbers. Predicted has the latents after 1, 2, ..., Blocks of the action
// blocks that begin with the row, Blocks*P*D numbers, which are NaN if the episode
// ends before the predicted frame.
const (
	Column    = "emb"
	Predicted = "pred"
)

// schema is the version of the layout of parts and results. It is part of their id.
const schema = 1

// Job describes one data set to encode with one model, or whose actions to roll out.
type Job struct {
	Data     *hdf5.File
	World    model.World
	Weights  string          // SHA-256 of the model's weights in hexadecimal
	Blocks   int             // blocks to predict after each row, or 0 to encode frames
	Actions  dataset.Moments // scaler of the actions, for predictions
	Out      string          // path of the result; parts are in the folder Out.parts
	Workers  int             // goroutines that read frames, at least 1
	Progress func(done, total int64, note string)

	partRows int // rows per part, for tests; 0 means partRows(width)
}

// partRows returns the number of rows per part, for rows of width numbers. It bounds
// the work that a kill loses to seconds, and the memory to about 100 MB, since a part
// is held as float32 and as float64.
func partRows(width int) int {
	const rows, numbers = 2048, 1 << 23
	return max(min(rows, numbers/width), 1)
}

// Result describes the file that Run wrote.
type Result struct {
	Rows, Episodes int
	Width          int  // numbers per row: P*D, times Blocks for predictions
	New            int  // rows computed by this call; the others were in existing parts
	Skipped        bool // the file existed already, with these latents
	// NaN is the percentage of computed numbers that are NaN or infinite. It is not
	// set if Skipped is true.
	NaN float64
}

// spec holds everything that determines the file's bytes. Its hash is the file's id.
type spec struct {
	Schema                int
	Data, Weights, Device string
	Blocks                int              `json:",omitempty"`
	Actions               *dataset.Moments `json:",omitempty"`
}

// Run computes the result. A call after an interruption reuses the parts that exist,
// and a call after completion returns at once. The file depends only on the data, the
// weights and the device kind, not on the number of workers or of parts.
func Run(ctx context.Context, j Job) (Result, error) {
	r, err := j.run(ctx)
	if err != nil {
		return r, fmt.Errorf("encoding %s: %w", j.Data.Path(), err)
	}
	return r, nil
}

// run implements Run.
func (j Job) run(ctx context.Context) (Result, error) {
	w := j.World.Info()
	r := Result{Rows: j.Data.Rows(), Episodes: len(j.Data.Episodes()), Width: w.Patches * w.Dim}
	if j.Data.FrameSize() == 0 {
		return r, errors.New("it has no pixels (hint: give the data set with its frames, not latents)")
	}
	if _, err := dataset.FindColumn(j.Data, j.column()); err == nil {
		return r, fmt.Errorf("it has a column %s already (hint: give the data set that was collected)", j.column())
	}
	if j.Blocks > 0 {
		c, err := dataset.FindColumn(j.Data, "action")
		if err != nil {
			return r, err
		}
		if c.Width != w.ActionDim() {
			return r, fmt.Errorf("its actions are of %d numbers, the model's of %d (hint: give the task's data set)", c.Width, w.ActionDim())
		}
		r.Width *= j.Blocks
	}
	// The id in the attributes identifies the result: an existing file with this id
	// is complete, and parts with this id can be reused.
	attrs, err := j.attrs()
	if err != nil {
		return r, err
	}
	if r.Skipped, err = j.finished(attrs["encode_id"]); r.Skipped || err != nil {
		return r, err
	}
	p := &parts{dir: j.Out + ".parts", id: attrs["encode_id"], rows: r.Rows, width: r.Width, column: j.column(), each: cmp.Or(j.partRows, partRows(r.Width))}
	if r.New, err = j.encode(ctx, p); err != nil {
		return r, err
	}
	if r.NaN, err = j.assemble(ctx, p, attrs); err != nil {
		return r, err
	}
	return r, safefile.RemoveParts(p.dir, partSuffix)
}

// column returns the name of the result's new column.
func (j Job) column() string {
	if j.Blocks > 0 {
		return Predicted
	}
	return Column
}

// attrs returns the attributes of the file: those of the data set, and the origin of
// the latents.
func (j Job) attrs() (map[string]string, error) {
	data, err := j.Data.Fingerprint()
	if err != nil {
		return nil, err
	}
	kind, info := j.World.Device().Kind().String(), j.World.Info()
	s := spec{Schema: schema, Data: data, Weights: j.Weights, Device: kind, Blocks: j.Blocks}
	if j.Blocks > 0 {
		s.Actions = &j.Actions
	}
	id, err := cell.ID("encode", s)
	if err != nil {
		return nil, err
	}
	attrs := map[string]string{"encode_id": id, "data": data, "weights": j.Weights, "device": kind, "kind": info.Kind,
		"patches": strconv.Itoa(info.Patches), "dim": strconv.Itoa(info.Dim)}
	if j.Blocks > 0 {
		attrs["blocks"] = strconv.Itoa(j.Blocks)
	}
	// Attributes of the data set that collide with the names above are dropped.
	for name, v := range j.Data.Attrs() {
		if _, taken := attrs[name]; !taken {
			attrs[name] = v
		}
	}
	return attrs, nil
}

// finished reports whether Out holds the result with this id. If it holds anything
// else, finished returns an error, so that it is not overwritten.
func (j Job) finished(id string) (bool, error) {
	if _, err := os.Stat(j.Out); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	f, err := hdf5.Open(j.Out)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if have, _ := f.Attr("encode_id"); have != id {
		return false, fmt.Errorf("%s exists and holds something else (hint: choose another --out)", j.Out)
	}
	return true, nil
}

// encode computes the missing parts and returns the number of their rows.
func (j Job) encode(ctx context.Context, p *parts) (fresh int, err error) {
	e := newEncoder(j)
	defer e.Free()
	for i := range p.count() {
		from, to := p.span(i)
		if !p.done(i) {
			z, err := e.rows(ctx, from, to)
			if err == nil && j.Blocks > 0 {
				z, err = e.predict(ctx, z, from)
			}
			if err != nil {
				return fresh, err
			}
			if err := p.save(i, z); err != nil {
				return fresh, err
			}
			fresh += to - from
		}
		if j.Progress != nil {
			j.Progress(int64(to), int64(p.rows), "frames")
		}
	}
	return fresh, nil
}

// encoder computes the rows of a job.
type encoder struct {
	Job
	*model.Encoder
	frames dataset.FrameReader // at the model's size
	small  []byte              // frames of one batch
}

// newEncoder returns an encoder, which the caller must Free.
func newEncoder(j Job) *encoder {
	info := j.World.Info()
	return &encoder{j, model.NewEncoder(j.World), dataset.AtSize(j.Data, info.FrameSize), make([]byte, model.EncodeBatch*info.FrameBytes())}
}

// rows returns the latents of rows [from, to), P*D numbers each. It reads and encodes
// one batch of frames at a time.
func (e *encoder) rows(ctx context.Context, from, to int) ([]float32, error) {
	info := e.World.Info()
	width, size := info.Patches*info.Dim, info.FrameBytes()
	z := make([]float32, (to-from)*width)
	for at := from; at < to; at += model.EncodeBatch {
		end := min(at+model.EncodeBatch, to)
		px := e.small[:(end-at)*size]
		if err := dataset.ReadFrames(ctx, e.frames, at, end, px, e.Workers); err != nil {
			return nil, err
		}
		if err := e.Latents(ctx, z[(at-from)*width:(end-from)*width], px); err != nil {
			return nil, err
		}
	}
	return z, nil
}
