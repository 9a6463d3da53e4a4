package hdf5

/*
#include <stdlib.h>
#include "libtree.h"
*/
import "C"

import (
	"fmt"
	"sort"
	"strings"
	"unsafe"

	"scalewm/dataset/safefile"
)

// Tree is any HDF5 file as arrays and attributes by path, read whole through
// libhdf5. It is for files of numbers that we trust, such as reference cases of
// other implementations; data sets are read by Open.
type Tree struct {
	path  string
	file  C.hid_t
	names []string
}

// OpenTree opens a file.
func OpenTree(path string) (*Tree, error) {
	// libhdf5 does not say which of many reasons it is that a file is not there, and
	// waits where it is a pipe.
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w (hint: is the path right?)", err)
	}
	f.Close()
	t := &Tree{path: path}
	err = withLib(func() error {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		if t.file = C.H5Fopen(p, C.H5F_ACC_RDONLY, C.H5P_DEFAULT); t.file < 0 {
			return libError()
		}
		s := C.sw_tree_names(t.file)
		if s == nil {
			err := libError()
			C.H5Fclose(t.file)
			return err
		}
		defer C.free(unsafe.Pointer(s))
		t.names = strings.FieldsFunc(C.GoString(s), func(r rune) bool { return r == '\n' })
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w (hint: is it a whole HDF5 file?)", path, err)
	}
	sort.Strings(t.names)
	return t, nil
}

// Names lists the paths of all arrays in alphabetical order.
func (t *Tree) Names() []string { return t.names }

// Has says whether there is an array at a path.
func (t *Tree) Has(name string) bool {
	i := sort.SearchStrings(t.names, name)
	return i < len(t.names) && t.names[i] == name
}

// Read returns an array, row-major, and its shape. Integers, booleans and
// floats of any width are widened.
func (t *Tree) Read(name string) (values []float64, shape []int, err error) {
	if !t.Has(name) {
		return nil, nil, fmt.Errorf("%s has no array %q (hint: h5ls -r lists them)", t.path, name)
	}
	err = withLib(func() error {
		n := C.CString(name)
		defer C.free(unsafe.Pointer(n))
		var dims [C.SW_MAX_DIMS]C.ulonglong
		rank := C.sw_tree_shape(t.file, n, &dims[0])
		if rank < 0 {
			return libError()
		}
		count := 1
		for _, d := range dims[:rank] {
			shape = append(shape, int(d))
			count *= int(d)
		}
		if values = make([]float64, count); count == 0 {
			return nil
		}
		if C.sw_tree_read(t.file, n, (*C.double)(&values[0]), C.size_t(count)) < 0 {
			return libError()
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s of %s: %w (hint: does it hold numbers?)", name, t.path, err)
	}
	return values, shape, nil
}

// Attr returns a scalar attribute of a group or array, a number or a text.
func (t *Tree) Attr(object, name string) (number float64, text string, err error) {
	err = withLib(func() error {
		o, n := C.CString(object), C.CString(name)
		defer C.free(unsafe.Pointer(o))
		defer C.free(unsafe.Pointer(n))
		var buf [4096]C.char
		if C.sw_tree_attr(t.file, o, n, (*C.double)(&number), &buf[0], C.size_t(len(buf))) < 0 {
			return libError()
		}
		text = C.GoString(&buf[0])
		return nil
	})
	if err != nil {
		return 0, "", fmt.Errorf("attribute %s of %s in %s: %w (hint: h5dump -A lists them)", name, object, t.path, err)
	}
	return number, text, nil
}

// Close closes the file.
func (t *Tree) Close() error {
	return withLib(func() error {
		if C.H5Fclose(t.file) < 0 {
			return libError()
		}
		return nil
	})
}
