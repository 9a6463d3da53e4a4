package encode

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
	"scalewm/envs"
)

// partSuffix is the extension of a part's file.
const partSuffix = ".safetensors"

// parts is the folder of the parts of an unfinished result. Each part is a
// safetensors file named by its index.
type parts struct {
	dir         string
	id          string // of the result; parts with another id are computed again
	rows, width int    // of the entire result
	column      string // name of the tensor in a part
	each        int    // rows per part, except for the last
}

// count returns the number of parts.
func (p *parts) count() int { return (p.rows + p.each - 1) / p.each }

// span returns the rows [from, to) of part i.
func (p *parts) span(i int) (from, to int) { return i * p.each, min((i+1)*p.each, p.rows) }

// path returns the path of part i.
func (p *parts) path(i int) string { return filepath.Join(p.dir, fmt.Sprintf("%06d%s", i, partSuffix)) }

// load reads part i. It returns an error if the part is incomplete or belongs to
// another result.
func (p *parts) load(i int) ([]float64, error) {
	f, err := tensorfile.Open(p.path(i))
	if err != nil {
		return nil, err
	}
	from, to := p.span(i)
	z, err := f.Float64(p.column)
	if err != nil {
		return nil, err
	}
	if f.Meta["id"] != p.id || len(z) != (to-from)*p.width {
		return nil, fmt.Errorf("%s is of other data, weights or device (hint: remove %s)", p.path(i), p.dir)
	}
	return z, nil
}

// done reports whether part i exists and is valid. A part that is missing, damaged or
// belongs to another result is computed again.
func (p *parts) done(i int) bool { _, err := p.load(i); return err == nil }

// save writes part i atomically.
func (p *parts) save(i int, z []float32) error {
	from, to := p.span(i)
	t := tensorfile.Tensor{Name: p.column, Shape: []int{to - from, p.width}, F32: z}
	return safefile.Write(p.path(i), func(w io.Writer) error {
		return tensorfile.Write(w, map[string]string{"id": p.id}, []tensorfile.Tensor{t})
	})
}

// reader reads rows of latents in order, holding one part in memory at a time.
// Episodes and parts do not have the same boundaries.
type reader struct {
	*parts
	part    int       // index of the part in latents
	latents []float64 // rows of that part, or nil before the first read
}

// read returns the n rows that begin with row at.
func (r *reader) read(at, n int) ([]float64, error) {
	out := make([]float64, 0, n*r.width)
	for end := at + n; at < end; {
		if i := at / r.each; r.latents == nil || r.part != i {
			z, err := r.load(i)
			if err != nil {
				return nil, err
			}
			r.part, r.latents = i, z
		}
		from, to := r.span(r.part)
		to = min(to, end)
		out = append(out, r.latents[(at-from)*r.width:(to-from)*r.width]...)
		at = to
	}
	return out, nil
}

// assemble writes the result, episode by episode: the data set's columns without its
// frames, and the rows of the parts. It returns the percentage of numbers that are
// not finite. If all numbers are, it returns an error and writes no file.
func (j Job) assemble(ctx context.Context, p *parts, attrs map[string]string) (notFinite float64, err error) {
	opt := hdf5.WriterOptions{Attrs: attrs, Columns: []envs.Column{{Name: p.column, DType: "float32", Width: p.width}}}
	for _, c := range j.Data.Columns() {
		if !hdf5.IsIndex(c.Name) {
			opt.Columns = append(opt.Columns, c)
		}
	}
	w, err := hdf5.Create(j.Out, opt)
	if err != nil {
		return 0, err
	}
	defer w.Abort() // does nothing after Close
	bad, made := 0, 0
	latents := &reader{parts: p}
	for _, e := range j.Data.Episodes() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ep, err := j.Data.Copy(opt.Columns[1:], e)
		if err != nil {
			return 0, err
		}
		if ep.Columns[p.column], err = latents.read(e.Offset, e.Len); err != nil {
			return 0, err
		}
		// Count non-finite numbers. i/p.width is the row within the episode, and
		// block the index of the predicted block.
		for i, v := range ep.Columns[p.column] {
			block := i % p.width * j.Blocks / p.width
			if j.Blocks > 0 && i/p.width+(block+1)*j.World.Info().FrameSkip >= e.Len {
				continue // the predicted frame is beyond the episode's end: NaN by definition
			}
			if made++; math.IsNaN(v) || math.IsInf(v, 0) {
				bad++
			}
		}
		if err := w.Append(ep); err != nil {
			return 0, err
		}
	}
	// Such a file would be useless. The parts remain for inspection.
	if bad > 0 && bad == made {
		return 0, fmt.Errorf("all %d numbers that the model gave are NaN or infinite (hint: its training diverged, or its actions have another scale; they are in %s)", made, p.dir)
	}
	return 100 * float64(bad) / float64(max(made, 1)), w.Close()
}
