package hdf5

/*
#include <stdlib.h>
#include "lib.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// columnChunk is the rows of a chunk of a numeric column.
const columnChunk = 1000

// WriterOptions says what a file holds. Episode and step indices (ep_idx,
// step_idx, ep_len, ep_offset) are written always and are not listed.
type WriterOptions struct {
	Columns   []envs.Column
	FrameSize int    // edge of the frames in pixels; 0: there are none
	Filter    Filter // "" is Deflate
	Attrs     map[string]string
}

// EpisodeData is one episode of Len rows: every column of the options, and the
// frames either as drawn or as Filter.Encode made them.
type EpisodeData struct {
	Columns map[string][]float64 // row-major, Len*Width
	Raw     map[string][]byte    // instead of Columns: little-endian bytes in the column's type
	Frames  [][]byte             // Len frames of (FrameSize, FrameSize, 3) bytes
	Encoded [][]byte             // instead of Frames: stored bytes of Len chunks
}

// Writer writes a data set to a hidden file (safefile.Aside) and renames it in Close, so
// that no half-written file ever has the final name. Equal episodes give equal bytes.
type Writer struct {
	path, tmp string
	lock      *os.File // the file aside, locked for as long as we write
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

// Create begins a data set at path. Missing folders are made.
func Create(path string, opt WriterOptions) (*Writer, error) {
	opt.Columns = slices.Clone(opt.Columns)
	for i := range opt.Columns {
		c := &opt.Columns[i]
		if c.DType == "float16" {
			c.DType = "float32"
		}
		if fault := NameFault(c.Name); fault != "" {
			return nil, fmt.Errorf("writing %s: the column %q: %s (hint: give it another name)", path, c.Name, fault)
		} else if writable[c.DType] == 0 || c.Width < 1 {
			return nil, fmt.Errorf("writing %s: column %s of type %q and width %d", path, c.Name, c.DType, c.Width)
		}
	}
	w := &Writer{path: path, tmp: safefile.Aside(path), opt: opt, file: -1}
	if err := w.claim(); err != nil {
		return nil, fmt.Errorf("writing the data set: %w", err)
	}
	if err := withLib(w.create); err != nil {
		w.Abort()
		return nil, w.explain(err)
	}
	return w, nil
}

// claim makes and locks the file aside. What a killed writer left there is
// unlocked and used again; another writer at work is an error.
func (w *Writer) claim() error {
	f, err := safefile.Claim(w.tmp, syscall.LOCK_EX)
	if err == nil && f == nil {
		err = fmt.Errorf("%s is being written by another process (hint: let it finish)", w.path)
	}
	w.lock = f
	return err
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
		cw, err := w.newColumn(envs.Column{Name: c.name, DType: c.dtype, Width: 1})
		if err != nil {
			return err
		}
		*c.dst = cw
	}
	if w.opt.FrameSize > 0 {
		id, level := w.opt.Filter.pipeline()
		var err error
		if w.pixels, err = w.newSet(pixelsName, "uint8", []int{1, w.opt.FrameSize, w.opt.FrameSize, 3}, id, level); err != nil {
			return err
		}
	}
	return w.writeAttrs()
}

func (w *Writer) writeAttrs() error {
	for _, n := range slices.Sorted(maps.Keys(w.opt.Attrs)) {
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

// Append adds an episode. Frames as drawn are encoded on all cores.
func (w *Writer) Append(ep EpisodeData) error {
	if w.err != nil {
		return w.err
	}
	n, err := w.length(ep)
	if err != nil {
		return fmt.Errorf("writing episode %d of %s: %w", w.episodes, w.path, err)
	}
	if w.opt.FrameSize > 0 && ep.Encoded == nil {
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
		size, row := len(v), c.Width
		if !ok {
			raw, ok := ep.Raw[c.Name]
			if !ok {
				return 0, fmt.Errorf("column %s is missing", c.Name)
			}
			size, row = len(raw), c.Width*writable[c.DType]
		}
		if err := agree(c.Name, size/row, size%row == 0); err != nil {
			return 0, err
		}
	}
	if w.opt.FrameSize == 0 {
		return n, nil
	}
	for _, f := range ep.Frames {
		if len(f) != frameBytes(w.opt.FrameSize) {
			return 0, fmt.Errorf("a frame of %d bytes", len(f))
		}
	}
	return n, agree(pixelsName, max(len(ep.Frames), len(ep.Encoded)), true)
}

func (w *Writer) encode(frames [][]byte) [][]byte {
	out := make([][]byte, len(frames))
	parallel.For(context.Background(), 0, len(frames), func(_, i int) error {
		out[i] = w.opt.Filter.Encode(nil, frames[i])
		return nil
	})
	return out
}

func (w *Writer) append(ep EpisodeData, n int) error {
	for _, c := range w.columns {
		if err := errors.Join(c.add(ep.Columns[c.Name]), c.addRaw(ep.Raw[c.Name])); err != nil {
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
	if w.opt.FrameSize == 0 {
		return nil
	}
	if err := extend(w.pixels, []int{w.rows + n, w.opt.FrameSize, w.opt.FrameSize, 3}); err != nil {
		return err
	}
	for i, b := range ep.Encoded {
		if err := writeChunk(w.pixels, []int{w.rows + i, 0, 0, 0}, b); err != nil {
			return err
		}
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
	if err := safefile.Publish(w.lock, w.path); err != nil {
		w.err = fmt.Errorf("writing the data set %s: %w", w.path, err)
	}
	w.release()
	return w.err
}

func (w *Writer) release() {
	w.lock.Close()
	w.lock = nil
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
	if w.lock == nil {
		return
	}
	withLib(func() error {
		if w.file >= 0 {
			C.sw_close(w.file)
			w.file = -1
		}
		return nil
	})
	os.Remove(w.tmp)
	w.release()
}

// columnWriter gathers a column's bytes until a chunk is full.
type columnWriter struct {
	envs.Column
	id   C.hid_t
	buf  []byte
	rows int
}

func (w *Writer) newColumn(c envs.Column) (*columnWriter, error) {
	shape := []int{columnChunk}
	if c.Width > 1 || c.Matrix {
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

// addRaw is add for bytes in the column's type.
func (c *columnWriter) addRaw(b []byte) error {
	full := columnChunk * c.Width * writable[c.DType]
	for len(b) > 0 {
		n := min(len(b), full-len(c.buf))
		c.buf, b = append(c.buf, b[:n]...), b[n:]
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
	if c.Width > 1 || c.Matrix {
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

// writeChunk writes the filtered bytes of a chunk with their checksum behind them.
func writeChunk(id C.hid_t, at []int, filtered []byte) error {
	o := culls(at)
	b := binary.LittleEndian.AppendUint32(slices.Clip(filtered), fletcher32(filtered))
	if C.sw_write_chunk(id, C.int(len(o)), &o[0], unsafe.Pointer(&b[0]), C.ulonglong(len(b))) < 0 {
		return libError()
	}
	return nil
}

// NeedSpace refuses work that will not fit beside path.
func NeedSpace(path string, bytes int64) error {
	free, err := safefile.Free(filepath.Dir(path))
	if err != nil {
		return err
	}
	if bytes > free {
		return fmt.Errorf("%s needs %s and its disk has %s free (hint: free some space or choose another --out)",
			path, MB(bytes), MB(free))
	}
	return nil
}

// MB shows a size for people.
func MB(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// explain names the file and adds the likely cause: the library's own words for
// a full disk are several layers deep.
func (w *Writer) explain(err error) error {
	if free, e := safefile.Free(filepath.Dir(w.path)); e == nil && free < 16<<20 {
		return fmt.Errorf("writing the data set %s: %w (hint: its disk is full, %s free)", w.path, err, MB(free))
	}
	return fmt.Errorf("writing the data set %s: %w", w.path, err)
}
