// Package encode turns the frames of a data set into latents: a file in the
// layout of a data set with a column emb in the place of the frames, for probes
// and for programs that need the embeddings without the model; or, from its actions,
// into the latents that the model predicts, a column pred. It knows no task.
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

// The names of the columns. Column has the latents, P*D numbers of float32 a row; Predicted
// those after each of the blocks of actions that begin with the row, NaN where the episode
// has no such frame.
const (
	Column    = "emb"
	Predicted = "pred"
)

// schema is the version of the layout of parts and results.
const schema = 1

// Job is one data set to be encoded by one model, or its actions to be rolled out.
type Job struct {
	Data     *hdf5.File
	World    model.World
	Weights  string          // hex SHA-256 of the model's weights
	Blocks   int             // predicted after each row; 0 encodes
	Actions  dataset.Moments // by which actions are scaled that are rolled out
	Out      string          // path; finished parts wait in Out.parts
	Workers  int             // goroutines that read frames, at least 1
	Progress func(done, total int64, note string)

	partRows int // of a finished part; 0: as partRows says
}

// partRows is how many rows of so many numbers a part has: seconds of work that a kill can
// lose, and no more than some 100 MB of memory, which is held as float32 and as float64.
func partRows(width int) int {
	const rows, numbers = 2048, 1 << 23
	return max(min(rows, numbers/width), 1)
}

// Result says what is in the file.
type Result struct {
	Rows, Episodes, Width int     // Width is of a latent, or of all that is predicted for a row
	New                   int     // rows encoded by this call
	Skipped               bool    // the file was there, with these latents
	NaN                   float64 // percent of the numbers made that are NaN or infinite; unknown where skipped
}

// spec is what the file's bytes depend on.
type spec struct {
	Schema                int
	Data, Weights, Device string
	Blocks                int              `json:",omitempty"`
	Actions               *dataset.Moments `json:",omitempty"`
}

// Run encodes the data set. A call after an interruption goes on where that
// stopped; one after the end finds that there is nothing to do. The file
// depends on data, weights and kind of device only.
func Run(ctx context.Context, j Job) (Result, error) {
	r, err := j.run(ctx)
	if err != nil {
		return r, fmt.Errorf("encoding %s: %w", j.Data.Path(), err)
	}
	return r, nil
}

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

func (j Job) column() string {
	if j.Blocks > 0 {
		return Predicted
	}
	return Column
}

// attrs are the attributes of the file: those of the data set, and where the
// latents come from.
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
	for name, v := range j.Data.Attrs() {
		if _, ours := attrs[name]; !ours {
			attrs[name] = v
		}
	}
	return attrs, nil
}

// finished says whether Out holds these latents; holding anything else it is
// not written over.
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
		return false, fmt.Errorf("%s is there and holds something else (hint: choose another --out)", j.Out)
	}
	return true, nil
}

// encode makes the missing parts and counts their rows.
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

// encoder is a job that runs.
type encoder struct {
	Job
	*model.Encoder
	frames dataset.FrameReader // at the model's size
	small  []byte              // a batch of them
}

func newEncoder(j Job) *encoder {
	info := j.World.Info()
	return &encoder{j, model.NewEncoder(j.World), dataset.AtSize(j.Data, info.FrameSize), make([]byte, model.FramesAtOnce*info.FrameBytes())}
}

// rows are the latents of rows [from, to).
func (e *encoder) rows(ctx context.Context, from, to int) ([]float32, error) {
	info := e.World.Info()
	width, size := info.Patches*info.Dim, info.FrameBytes()
	z := make([]float32, (to-from)*width)
	for at := from; at < to; at += model.FramesAtOnce {
		end := min(at+model.FramesAtOnce, to)
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
