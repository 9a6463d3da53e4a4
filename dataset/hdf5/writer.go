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

// columnChunk is the number of rows of a chunk of a numeric column.
const columnChunk = 1000

// WriterOptions describes a file. Indices of episodes and steps (ep_idx, step_idx,
// ep_len, ep_offset) are always written and are not listed.
type WriterOptions struct {
	Columns []envs.Column
	// FrameSize is the edge of the frames in pixels, or 0 for a file without frames.
	FrameSize int
	// Filter compresses the frames; "" is Deflate.
	Filter Filter
	// Attrs are string attributes of the root group.
	Attrs map[string]string
}

// EpisodeData is one episode of Len rows: all columns of the options, each in Columns
// or in Raw, and the frames, in Frames or in Encoded.
type EpisodeData struct {
	// Columns has values, row-major, Len*Width numbers per column.
	Columns map[string][]float64
	// Raw has the bytes of values in the column's type, little-endian.
	Raw map[string][]byte
	// Frames has Len frames of (FrameSize, FrameSize, 3) bytes.
	Frames [][]byte
	// Encoded has Len frames as Filter.Encode returns them, so that the caller can
	// compress them in parallel.
	Encoded [][]byte
}

// Writer writes a data set to a temporary file (safefile.Aside) that Close renames,
// so that no incomplete file has the final name. Equal episodes give equal bytes. A
// Writer must not be used by several goroutines at once.
//
// Frames have one row per chunk: training reads frames at random, and a chunk must be
// decoded completely. Numeric columns are not compressed, since they are small in
// comparison. Every chunk ends with a Fletcher-32 checksum.
type Writer struct {
	path, tmp string
	// lock is the open temporary file, which is locked until the Writer is done.
	lock     *os.File
	opt      WriterOptions
	file     C.hid_t
	columns  []*columnWriter
	pixels   C.hid_t
	rows     int
	episodes int
	lens     *columnWriter
	offsets  *columnWriter
	index    *columnWriter
	step     *columnWriter
	// err is the first failure. Afterwards nothing is written.
	err error
}

// Create starts a data set at path and creates missing folders. The caller must call
// Close, or Abort to give up.
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

// claim creates and locks the temporary file. It reuses one that a killed writer
// left, which nobody has locked, and returns an error if another writer is at work.
func (w *Writer) claim() error {
	f, err := safefile.Claim(w.tmp, syscall.LOCK_EX)
	if err == nil && f == nil {
		err = fmt.Errorf("%s is being written by another process (hint: let it finish)", w.path)
	}
	w.lock = f
	return err
}

// create makes the HDF5 data sets in a fixed order, without rows. The caller holds
// the lock of libhdf5.
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

// writeAttrs writes the attributes sorted by name, since the order of a map would
// change the bytes of the file.
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

// Append adds an episode. Frames that are not encoded yet are encoded on all cores.
// After an error in the file itself, every further call returns that error.
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

// length checks an episode against the options and returns its number of rows.
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

// encode compresses frames on all cores, outside the lock of libhdf5.
func (w *Writer) encode(frames [][]byte) [][]byte {
	out := make([][]byte, len(frames))
	parallel.For(context.Background(), 0, len(frames), func(_, i int) error {
		out[i] = w.opt.Filter.Encode(nil, frames[i])
		return nil
	})
	return out
}

// append writes an episode of n rows. The caller holds the lock of libhdf5.
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

// Close completes the file, flushes it to disk and renames it. After a failure, it
// removes the temporary file and returns the first error.
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

// release closes the temporary file and thereby releases its lock.
func (w *Writer) release() {
	w.lock.Close()
	w.lock = nil
}

// finish writes the last, partly filled chunk of each column and closes the file in
// libhdf5.
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

// Abort removes the temporary file. After Close it does nothing, so it can be
// deferred.
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

// columnWriter collects the bytes of a column until a chunk is full, since
// H5Dwrite_chunk writes complete chunks only.
type columnWriter struct {
	envs.Column
	id   C.hid_t
	buf  []byte
	rows int
}

// newColumn creates the data set of a column. A column of width 1 has one dimension
// unless it was a matrix in its source (envs.Column.Matrix): programs that subtract
// arrays of the shapes (R) and (R, 1) would get an (R, R) matrix.
func (w *Writer) newColumn(c envs.Column) (*columnWriter, error) {
	shape := []int{columnChunk}
	if c.Width > 1 || c.Matrix {
		shape = append(shape, c.Width)
	}
	id, err := w.newSet(c.Name, c.DType, shape, 0, 0)
	return &columnWriter{Column: c, id: id}, err
}

// newSet creates an HDF5 data set without rows. shape is that of a chunk.
func (w *Writer) newSet(name, dtype string, shape []int, filter, level int) (C.hid_t, error) {
	n, t := C.CString(name), C.CString(dtype)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(t))
	dims := toCLengths(shape)
	id := C.sw_create_dataset(w.file, n, C.sw_type(t), C.int(len(shape)), &dims[0], C.int(filter), C.int(level))
	if id < 0 {
		return id, libError()
	}
	return id, nil
}

// toCLengths converts a shape for C.
func toCLengths(v []int) []C.ulonglong {
	out := make([]C.ulonglong, len(v))
	for i, x := range v {
		out[i] = C.ulonglong(x)
	}
	return out
}

// add appends values and writes every chunk that becomes full.
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

// flush writes the buffer as the next chunk, of which the first rows rows are data.
// HDF5 stores chunks at full size, so the rest is padded with zeros; readers ignore
// it.
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

// extend sets the shape of an HDF5 data set.
func extend(id C.hid_t, dims []int) error {
	d := toCLengths(dims)
	if C.sw_extend(id, C.int(len(d)), &d[0]) < 0 {
		return libError()
	}
	return nil
}

// writeChunk writes the compressed bytes of a chunk and appends their checksum.
// H5Dwrite_chunk bypasses libhdf5's filters, so the checksum filter must be applied
// here.
func writeChunk(id C.hid_t, at []int, filtered []byte) error {
	o := toCLengths(at)
	// Clip, because appending must not overwrite what follows the slice in the
	// caller's memory.
	b := binary.LittleEndian.AppendUint32(slices.Clip(filtered), fletcher32(filtered))
	if C.sw_write_chunk(id, C.int(len(o)), &o[0], unsafe.Pointer(&b[0]), C.ulonglong(len(b))) < 0 {
		return libError()
	}
	return nil
}

// NeedSpace returns an error if bytes more bytes do not fit on the disk of path.
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

// MB formats a size for messages.
func MB(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// explain returns an error that names the file and, if the disk is full, says so:
// libhdf5 reports that as a failure several layers deep.
func (w *Writer) explain(err error) error {
	if free, e := safefile.Free(filepath.Dir(w.path)); e == nil && free < 16<<20 {
		return fmt.Errorf("writing the data set %s: %w (hint: its disk is full, %s free)", w.path, err, MB(free))
	}
	return fmt.Errorf("writing the data set %s: %w", w.path, err)
}
