// Package hdf5test reads any HDF5 file by path, for tests that compare with recorded
// results of other implementations. It uses libhdf5 without the lock of package hdf5,
// so no other goroutine may use the library during a call.
//
// It knows no layout and trusts its files: do not use it on files from elsewhere.
package hdf5test

/*
#cgo pkg-config: hdf5-serial
#cgo CFLAGS: -O2 -Wall
#include <stdlib.h>
#include "tree.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// Tree is an open file, whose arrays and attributes are read by path.
type Tree struct {
	path  string
	file  C.hid_t
	names []string
}

// Open opens a file until the test ends. It fails the test if it cannot.
func Open(t testing.TB, path string) *Tree {
	t.Helper()
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	tree := &Tree{path: path, file: C.sw_tree_open(p)}
	if tree.file < 0 {
		t.Fatalf("libhdf5 cannot open %s", path)
	}
	t.Cleanup(func() { C.H5Fclose(tree.file) })
	s := C.sw_tree_names(tree.file)
	if s == nil {
		t.Fatalf("libhdf5 cannot list %s", path)
	}
	defer C.free(unsafe.Pointer(s))
	tree.names = strings.Fields(C.GoString(s))
	slices.Sort(tree.names)
	return tree
}

// Names returns the paths of all arrays in alphabetical order.
func (t *Tree) Names() []string { return t.names }

// Has reports whether there is an array at a path.
func (t *Tree) Has(name string) bool {
	_, ok := slices.BinarySearch(t.names, name)
	return ok
}

// Read returns an array, row-major, and its shape, which is nil for a scalar.
// Integers, booleans and floats of any width are converted to float64.
func (t *Tree) Read(name string) (values []float64, shape []int, err error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var dims [C.SW_MAX_DIMS]C.ulonglong
	rank, count := C.int(-1), 1
	if t.Has(name) {
		rank = C.sw_tree_shape(t.file, n, &dims[0])
	}
	for _, d := range dims[:max(rank, 0)] {
		shape = append(shape, int(d))
		count *= int(d)
	}
	values = make([]float64, count)
	if rank < 0 || count > 0 && C.sw_tree_read(t.file, n, (*C.double)(&values[0]), C.size_t(count)) < 0 {
		return nil, nil, fmt.Errorf("%s has no array of numbers %q", t.path, name)
	}
	return values, shape, nil
}

// Attr returns a scalar attribute of a group or an array: a number, or a string of
// fewer than 4096 bytes.
func (t *Tree) Attr(object, name string) (number float64, text string, err error) {
	o, n := C.CString(object), C.CString(name)
	defer C.free(unsafe.Pointer(o))
	defer C.free(unsafe.Pointer(n))
	var buf [4096]C.char
	if C.sw_tree_attr(t.file, o, n, (*C.double)(&number), &buf[0], C.size_t(len(buf))) < 0 {
		return 0, "", fmt.Errorf("%s of %s has no scalar attribute %s", object, t.path, name)
	}
	return number, C.GoString(&buf[0]), nil
}
