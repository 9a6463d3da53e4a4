// Package libscalewm is a C library with the functions of this module for programs in other
// languages. It is part of cmd/scalewm if that is built with -buildmode=c-shared -tags
// library, so that one file has the library and the program. The Python package in the
// folder scalewm uses both.
//
// The ABI has three functions, and scalewm_main, which runs the program:
//
//   - scalewm_abi returns the version of the ABI.
//   - scalewm_call performs an operation, given by its name, on an object, given by a handle
//     (0 for none). The request is JSON. Arrays are passed as buffers in the caller's memory,
//     which the operation reads and writes in place. The library never keeps a pointer to a
//     buffer between calls; a call that continues passes the same buffers again.
//   - scalewm_free frees an answer.
//
// The result of scalewm_call is one of: done, with a JSON value or no answer; failed, with an
// error message; missing, which is failed because a file does not exist; or more, which means
// that the time slice is over, and that the caller must repeat the same call with resume set.
// So no call takes long, and an interpreter can handle signals such as Ctrl-C in between.
//
// Errors and panics become messages: no operation ends the caller's process. The request,
// buffers and answer of each operation are documented at its function. Operations may be added
// within one version of the ABI; a change of an existing one needs a new version.
package libscalewm

/*
#include <stdint.h>
#include <stdlib.h>
typedef struct { void* data; int64_t bytes; } scalewm_buffer;
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"
)

// abi is the version of the ABI. The Python package refuses any other.
const abi = 2

// The results of scalewm_call.
const (
	done    = 0
	failed  = 1
	more    = 2
	missing = 3
)

// maxBuffers is a limit that no operation reaches. It keeps a wrong count from being used
// as an array length.
const maxBuffers = 1 << 10

// scalewm_abi returns the version of the ABI.
//
//export scalewm_abi
func scalewm_abi() C.int32_t { return abi }

// scalewm_free frees an answer of scalewm_call, which is C memory. NULL is allowed.
//
//export scalewm_free
func scalewm_free(answer *C.char) { C.free(unsafe.Pointer(answer)) }

// scalewm_call performs an operation. It may be called from any thread, but calls on one
// object must not overlap. *answer receives C memory for scalewm_free, or NULL.
//
//export scalewm_call
func scalewm_call(operation *C.char, handle C.uint64_t, resume C.int32_t, request *C.char, buffers *C.scalewm_buffer, n C.int32_t, answer **C.char) C.int32_t {
	if answer == nil || operation == nil {
		return failed
	}
	*answer = nil
	var memory [][]byte
	text, again, err := "", false, error(nil)
	if memory, err = memoryOf(buffers, int(n)); err == nil {
		c := call{handle: uint64(handle), more: resume != 0, buffers: memory}
		if request != nil {
			c.request = []byte(C.GoString(request))
		}
		text, again, err = c.do(C.GoString(operation))
	}
	switch {
	case err != nil:
		// C memory: the caller cannot hold Go memory after the call.
		*answer = C.CString(err.Error())
		if errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		return failed
	case again:
		return more
	case text != "":
		*answer = C.CString(text)
	}
	return done
}

// memoryOf returns the caller's buffers as slices. They refer to C memory and are valid
// during the call only.
func memoryOf(buffers *C.scalewm_buffer, n int) ([][]byte, error) {
	if n < 0 || n > maxBuffers || n > 0 && buffers == nil {
		return nil, fmt.Errorf("%d buffers", n)
	}
	out := make([][]byte, n)
	// The checks keep a wrong pointer or length from becoming a slice that crashes Go.
	for i, b := range unsafe.Slice(buffers, n) {
		if b.bytes < 0 || b.bytes > 0 && b.data == nil {
			return nil, fmt.Errorf("buffer %d: %d bytes at %p", i, int64(b.bytes), b.data)
		}
		out[i] = unsafe.Slice((*byte)(b.data), int(b.bytes))
	}
	return out, nil
}
