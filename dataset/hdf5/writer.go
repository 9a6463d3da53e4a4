package hdf5

/*
#include <stdlib.h>
#include "lib.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"scalewm/dataset"
)

// columnChunk is the rows of a chunk of a numeric column.
const columnChunk = 1000

// WriterOptions says what a file holds. Episode and step indices (ep_idx,
// step_idx, ep_len, ep_offset) are written always and are not listed.
type WriterOptions struct {
	Columns []dataset.Column
	Frames  bool
	Filter  Filter // "" is Deflate
	Attrs   map[string]string
}

// EpisodeData is one episode of Len rows: every column of the options, and the
// frames either as drawn or as Filter.Encode made them.
type EpisodeData struct {
	Columns map[string][]float64 // row-major, Len*Width
	Frames  [][]byte             // Len frames of FrameBytes
	Encoded [][]byte             // instead of Frames: stored bytes of Len chunks
}

// Writer writes a data set beside its place and renames it in Close, so that no
// half-written file ever has the final name. Equal episodes give equal bytes.
type Writer struct {
	path, tmp string
	opt       WriterOptions
	file      C.hid_t
	columns   []*columnWriter
	pixels    C.hid_t
	rows      int
	episodes  int
	lens      *columnWriter
	offsets   *columnWriter
	index     *columnWriter
	step      *columnWriter
	err       error // of the first failure; the file is given up
}

// columnWriter gathers a column's bytes until a chunk is full.
type columnWriter struct {
	dataset.Column
	id   C.hid_t
	buf  []byte
	rows int
}

// Create begins a data set at path.
func Create(path string, opt WriterOptions) (*Writer, error) {
	opt.Columns = slices.Clone(opt.Columns)
	for i := range opt.Columns {
		if c := &opt.Columns[i]; c.DType == "float16" {
			c.DType = "float32"
		} else if writable[c.DType] == 0 || c.Width < 1 {
			return nil, fmt.Errorf("writing %s: column %s of type %q and width %d", path, c.Name, c.DType, c.Width)
		}
	}
	w := &Writer{path: path, tmp: fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), opt: opt, file: -1}
	// Made by Go first: its errors (no folder, no permission) are clearer.
	f, err := os.Create(w.tmp)
	if err != nil {
		return nil, fmt.Errorf("writing the data set: %w", err)
	}
	f.Close()
	if err := withLib(w.create); err != nil {
		w.Abort()
		return nil, w.explain(err)
	}
	return w, nil
}

func (w *Writer) create() error {
	p := C.CString(w.tmp)
	defer C.free(unsafe.Pointer(p))
	if w.file = C.sw_create(p); w.file < 0 {
		return libError()
	}
	for _, c := range w.opt.Columns {
		cw, err := w.newColumn(c)
		if err != nil {
			return err
		}
		w.columns = append(w.columns, cw)
	}
	for _, c := range []struct {
		dst   **columnWriter
		name  string
		dtype string
	}{{&w.index, indexName, "int32"}, {&w.step, stepName, "int32"}, {&w.lens, lenName, "int32"}, {&w.offsets, offsetName, "int64"}} {
		cw, err := w.newColumn(dataset.Column{Name: c.name, DType: c.dtype, Width: 1})
		if err != nil {
			return err
		}
		*c.dst = cw
	}
	if w.opt.Frames {
		id, level := w.opt.Filter.pipeline()
		var err error
		if w.pixels, err = w.newSet(pixelsName, "uint8", []int{1, dataset.FrameSize, dataset.FrameSize, 3}, id, level); err != nil {
			return err
		}
	}
	return w.writeAttrs()
}

func (w *Writer) writeAttrs() error {
	var names []string
	for n := range w.opt.Attrs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		name, value := C.CString(n), C.CString(w.opt.Attrs[n])
		rc := C.sw_write_attr(w.file, name, value)
		C.free(unsafe.Pointer(name))
		C.free(unsafe.Pointer(value))
		if rc < 0 {
			return libError()
		}
	}
	return nil
}

func (w *Writer) newColumn(c dataset.Column) (*columnWriter, error) {
	shape := []int{columnChunk}
	if c.Width > 1 {
		shape = append(shape, c.Width)
	}
	id, err := w.newSet(c.Name, c.DType, shape, 0, 0)
	return &columnWriter{Column: c, id: id}, err
}

// newSet makes a data set with no rows yet; shape is that of a chunk.
func (w *Writer) newSet(name, dtype string, shape []int, filter, level int) (C.hid_t, error) {
	n, t := C.CString(name), C.CString(dtype)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(t))
	dims := culls(shape)
	id := C.sw_create_dataset(w.file, n, C.sw_type(t), C.int(len(shape)), &dims[0], C.int(filter), C.int(level))
	if id < 0 {
		return id, libError()
	}
	return id, nil
}

func culls(v []int) []C.ulonglong {
	out := make([]C.ulonglong, len(v))
	for i, x := range v {
		out[i] = C.ulonglong(x)
	}
	return out
}

// Append adds an episode. Frames as drawn are encoded on all cores.
func (w *Writer) Append(ep EpisodeData) error {
	if w.err != nil {
		return w.err
	}
	n, err := w.length(ep)
	if err != nil {
		return fmt.Errorf("writing episode %d of %s: %w", w.episodes, w.path, err)
	}
	if w.opt.Frames && ep.Encoded == nil {
		ep.Encoded = w.encode(ep.Frames)
	}
	if err := withLib(func() error { return w.append(ep, n) }); err != nil {
		w.err = w.explain(err)
		return w.err
	}
	w.rows += n
	w.episodes++
	return nil
}

// length checks an episode against the options and returns its rows.
func (w *Writer) length(ep EpisodeData) (int, error) {
	n := -1
	agree := func(name string, rows int, exact bool) error {
		if n < 0 {
			n = rows
		}
		if rows != n || !exact || rows == 0 {
			return fmt.Errorf("%s has %d rows (the others %d)", name, rows, n)
		}
		return nil
	}
	for _, c := range w.opt.Columns {
		v, ok := ep.Columns[c.Name]
		if !ok {
			return 0, fmt.Errorf("column %s is missing", c.Name)
		}
		if err := agree(c.Name, len(v)/c.Width, len(v)%c.Width == 0); err != nil {
			return 0, err
		}
	}
	if !w.opt.Frames {
		return n, nil
	}
	for _, f := range ep.Frames {
		if len(f) != dataset.FrameBytes {
			return 0, fmt.Errorf("a frame of %d bytes", len(f))
		}
	}
	return n, agree(pixelsName, max(len(ep.Frames), len(ep.Encoded)), true)
}

func (w *Writer) encode(frames [][]byte) [][]byte {
	out := make([][]byte, len(frames))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for k := range workers {
		wg.Go(func() {
			for i := k; i < len(frames); i += workers {
				out[i] = w.opt.Filter.Encode(nil, frames[i])
			}
		})
	}
	wg.Wait()
	return out
}

func (w *Writer) append(ep EpisodeData, n int) error {
	for _, c := range w.columns {
		if err := c.add(ep.Columns[c.Name]); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	for i := range n {
		if err := errors.Join(w.index.add([]float64{float64(w.episodes)}), w.step.add([]float64{float64(i)})); err != nil {
			return err
		}
	}
	if err := errors.Join(w.lens.add([]float64{float64(n)}), w.offsets.add([]float64{float64(w.rows)})); err != nil {
		return err
	}
	if !w.opt.Frames {
		return nil
	}
	if err := extend(w.pixels, []int{w.rows + n, dataset.FrameSize, dataset.FrameSize, 3}); err != nil {
		return err
	}
	for i, b := range ep.Encoded {
		if err := writeChunk(w.pixels, []int{w.rows + i, 0, 0, 0}, b); err != nil {
			return err
		}
	}
	return nil
}

// add appends values and writes every chunk that they fill.
func (c *columnWriter) add(v []float64) error {
	full := columnChunk * c.Width * writable[c.DType]
	for _, x := range v {
		var err error
		if c.buf, err = narrow(c.buf, c.DType, x); err != nil {
			return err
		}
		if len(c.buf) == full {
			if err := c.flush(columnChunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the buffer, padded with zeros, as the next chunk of rows rows.
func (c *columnWriter) flush(rows int) error {
	at, dims := []int{c.rows}, []int{c.rows + rows}
	if c.Width > 1 {
		at, dims = append(at, 0), append(dims, c.Width)
	}
	if err := extend(c.id, dims); err != nil {
		return err
	}
	full := columnChunk * c.Width * writable[c.DType]
	b := append(c.buf, make([]byte, full-len(c.buf))...)
	c.buf, c.rows = c.buf[:0], c.rows+rows
	return writeChunk(c.id, at, b)
}

func extend(id C.hid_t, dims []int) error {
	d := culls(dims)
	if C.sw_extend(id, C.int(len(d)), &d[0]) < 0 {
		return libError()
	}
	return nil
}

func writeChunk(id C.hid_t, at []int, b []byte) error {
	o := culls(at)
	if C.sw_write_chunk(id, C.int(len(o)), &o[0], unsafe.Pointer(&b[0]), C.ulonglong(len(b))) < 0 {
		return libError()
	}
	return nil
}

// Close finishes the file, makes it durable and gives it its name. After a
// failure it removes what was written and returns the first error.
func (w *Writer) Close() error {
	if w.err == nil && w.episodes == 0 {
		w.err = fmt.Errorf("writing the data set %s: it has no episodes", w.path)
	}
	if w.err == nil {
		if err := withLib(w.finish); err != nil {
			w.err = w.explain(err)
		}
	}
	if w.err != nil {
		w.Abort()
		return w.err
	}
	if err := publish(w.tmp, w.path); err != nil {
		w.Abort()
		return err
	}
	return nil
}

func (w *Writer) finish() error {
	for _, c := range append(slices.Clone(w.columns), w.index, w.step, w.lens, w.offsets) {
		if rows := len(c.buf) / (c.Width * writable[c.DType]); rows > 0 {
			if err := c.flush(rows); err != nil {
				return err
			}
		}
	}
	f := w.file
	w.file = -1
	if C.sw_close(f) < 0 {
		return libError()
	}
	return nil
}

// Abort gives the file up and removes it; after Close it does nothing.
func (w *Writer) Abort() {
	withLib(func() error {
		if w.file >= 0 {
			C.sw_close(w.file)
			w.file = -1
		}
		return nil
	})
	os.Remove(w.tmp)
}

// publish makes tmp durable and renames it.
func publish(tmp, path string) error {
	f, err := os.Open(tmp)
	if err == nil {
		err = f.Sync()
		f.Close()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("writing the data set %s: %w", path, err)
	}
	return nil
}
