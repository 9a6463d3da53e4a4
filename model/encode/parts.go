package encode

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/model/weights"
)

const partSuffix = ".safetensors"

// parts are the finished pieces of a file that is not whole yet, one
// safetensors file each, named by its number.
type parts struct {
	dir         string
	id          string // of the file they belong to; others are made again
	rows, width int
	column      string
	each        int // rows of a part
}

func (p *parts) count() int { return (p.rows + p.each - 1) / p.each }

// span is the rows of part i.
func (p *parts) span(i int) (from, to int) { return i * p.each, min((i+1)*p.each, p.rows) }

func (p *parts) path(i int) string { return filepath.Join(p.dir, fmt.Sprintf("%06d%s", i, partSuffix)) }

// load reads part i, which must be whole and of this file.
func (p *parts) load(i int) ([]float64, error) {
	f, err := weights.Open(p.path(i))
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

// done says whether part i need not be made: what is not there, torn or of
// another encoding is.
func (p *parts) done(i int) bool { _, err := p.load(i); return err == nil }

func (p *parts) save(i int, z []float32) error {
	from, to := p.span(i)
	t := weights.Tensor{Name: p.column, Shape: []int{to - from, p.width}, F32: z}
	return safefile.Write(p.path(i), func(w io.Writer) error {
		return weights.Write(w, map[string]string{"id": p.id}, []weights.Tensor{t})
	})
}

// reader hands out rows of latents, holding one part at a time.
type reader struct {
	*parts
	part    int // whose rows latents are, if there are any
	latents []float64
}

// read is n rows from row at on.
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

// assemble writes the file: the data set's columns without its frames, and what
// the parts hold, episode by episode. It returns which share of that is not finite, in percent; if all is,
// there is no file but an error.
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
	defer w.Abort()
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
		for i, v := range ep.Columns[p.column] {
			block := i % p.width * j.Blocks / p.width
			if j.Blocks > 0 && i/p.width+(block+1)*j.World.Info().FrameSkip >= e.Len {
				continue // behind the episode's end nothing is predicted
			}
			if made++; math.IsNaN(v) || math.IsInf(v, 0) {
				bad++
			}
		}
		if err := w.Append(ep); err != nil {
			return 0, err
		}
	}
	if bad > 0 && bad == made {
		return 0, fmt.Errorf("all %d numbers that the model gave are NaN or infinite (hint: its training diverged, or its actions have another scale; %s keeps them)", made, p.dir)
	}
	return 100 * float64(bad) / float64(max(made, 1)), w.Close()
}
