package hdf5

/*
#include <stdlib.h>
#include "lib.h"
*/
import "C"

import (
	"unsafe"

	"scalewm/envs"
)

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

func writeChunk(id C.hid_t, at []int, b []byte) error {
	o := culls(at)
	if C.sw_write_chunk(id, C.int(len(o)), &o[0], unsafe.Pointer(&b[0]), C.ulonglong(len(b))) < 0 {
		return libError()
	}
	return nil
}
