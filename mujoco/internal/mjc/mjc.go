// Package mjc is the cgo layer of packages mujoco and render: the only place that calls
// MuJoCo's C functions.
//
// It opens the library at run time and resolves its functions into one table. It is
// compiled against the pinned headers, so that struct layouts come from them. MuJoCo's
// fatal errors, which would terminate the process, become return values (see MJC_TRY
// in api.h). The package contains handles and numbers only. Lifetimes, bounds checks
// and Go error types are the responsibility of package mujoco: a wrong length or a
// freed handle here is memory corruption.
//
// No function retains a Go pointer. Slices passed to C are read or written during the
// call only, while cgo pins them.
package mjc

/*
// The program's symbols are exported so that MuJoCo finds eglGetProcAddress of gl.c.
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

// Version is the version of the headers and of the library, in MuJoCo's notation:
// 3011000 is 3.11.0.
const Version = C.MJC_VERSION

// Headers returns the version of the headers that this build was compiled against, 0 if
// it was compiled without headers.
func Headers() int { return int(C.mjc_headers()) }

// withText calls f with a zeroed C buffer of MJC_TEXT bytes and returns the string that
// f left in it.
func withText(f func(t *C.char)) string {
	t := (*C.char)(C.calloc(1, C.MJC_TEXT))
	defer C.free(unsafe.Pointer(t))
	f(t)
	return C.GoString(t)
}

// Open opens the library at path and fills the function table. Calls must not overlap,
// and there must be no call after a successful one.
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

// A Table is a group of fields of MuJoCo's structs.
type Table int

// Sizes are the counts in mjModel, such as nbody. Inline are the values in the structs
// inside mjModel (opt, stat, vis). Model and Data are the arrays of mjModel and mjData.
const (
	Sizes  Table = C.MJC_SIZES
	Inline Table = C.MJC_INLINE
	Model  Table = C.MJC_MODEL
	Data   Table = C.MJC_DATA
)

// Field describes one field: its name, its C type, and its offset in mjModel or mjData
// in bytes. For arrays, the offset is that of the pointer.
type Field struct {
	Name, Type string
	Offset     uintptr
}

// Fields returns the fields of a table in the order of MuJoCo's headers.
func Fields(t Table) []Field {
	var n C.int
	p := C.mjc_fields(C.int(t), &n)
	out := make([]Field, n)
	for i, f := range unsafe.Slice(p, n) {
		out[i] = Field{C.GoString(f.name), C.GoString(f._type), uintptr(f.offset)}
	}
	return out
}

// Lengths returns one number for each of the n fields of a table: the value of each
// size for Sizes, and the number of elements for the other tables.
func Lengths(m *CModel, t Table, n int) []int {
	c := make([]C.int64_t, n)
	C.mjc_lengths(m, C.int(t), &c[0])
	out := make([]int, n)
	for i := range c {
		out[i] = int(c[i])
	}
	return out
}

// WarningText returns MuJoCo's message for a warning.
func WarningText(warning, info int) string {
	return withText(func(t *C.char) { C.mjc_warning_text(C.int(warning), C.int(info), t) })
}
