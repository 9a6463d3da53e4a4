// Package mjc is the only place where MuJoCo's C is called. It opens the library
// at run time, keeps one table of its functions, is compiled against the pinned
// headers (so that struct layouts come from them) and turns MuJoCo's fatal errors,
// which would end the process, into values. It knows handles and numbers only:
// lifetimes, bounds and Go errors are package mujoco's.
package mjc

/*
#cgo CFLAGS: -O2 -Wall -I${SRCDIR}/../../../third_party/fetched/mujoco/include
#cgo LDFLAGS: -ldl -lpthread -Wl,--export-dynamic
#include <stdlib.h>
#include "mjc.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Version is that of the headers and of the library, as MuJoCo counts (3.11.0).
const Version = C.MJC_VERSION

// Headers is the version of the headers that this build was compiled against, 0
// without any.
func Headers() int { return int(C.mjc_headers()) }

// withText runs f with room for a message and returns what was written.
func withText(f func(t *C.char)) string {
	t := (*C.char)(C.calloc(1, C.MJC_TEXT))
	defer C.free(unsafe.Pointer(t))
	f(t)
	return C.GoString(t)
}

// Open opens the library at path and fills the function table. It is called once
// at a time, and never again after it has succeeded.
func Open(path string) error {
	var rc C.int
	msg := withText(func(t *C.char) {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		rc = C.mjc_open(p, t)
	})
	if rc != 0 {
		return errors.New(msg)
	}
	return nil
}

// A Table is a group of MuJoCo's fields.
type Table int

// The tables: counts of mjModel, values in the structs inside mjModel, arrays of
// mjModel, arrays of mjData.
const (
	Sizes  Table = C.MJC_SIZES
	Inline Table = C.MJC_INLINE
	Model  Table = C.MJC_MODEL
	Data   Table = C.MJC_DATA
)

// Field says where one field is, and its type in C.
type Field struct {
	Name, Type string
	Offset     uintptr
}

// Fields lists a table in the order of MuJoCo's headers.
func Fields(t Table) []Field {
	var n C.int
	p := C.mjc_fields(C.int(t), &n)
	out := make([]Field, n)
	for i, f := range unsafe.Slice(p, n) {
		out[i] = Field{C.GoString(f.name), C.GoString(f._type), uintptr(f.offset)}
	}
	return out
}

// Lengths gives the values of Sizes, or the element counts of another table.
func Lengths(m *CModel, t Table, n int) []int {
	c := make([]C.int64_t, n)
	C.mjc_lengths(m, C.int(t), &c[0])
	out := make([]int, n)
	for i := range c {
		out[i] = int(c[i])
	}
	return out
}

// WarningText is MuJoCo's sentence for a warning.
func WarningText(warning, info int) string {
	return withText(func(t *C.char) { C.mjc_warning_text(C.int(warning), C.int(info), t) })
}
