// Command libscalewm is a C library over the packages of this module, for programs in other
// languages; the Python package beside it is one. It is built with -buildmode=c-shared.
//
// The ABI is three functions. scalewm_abi says its version. scalewm_call does an operation,
// named by a string, on an object, named by a handle (0 for none), with a request in JSON and
// memory of the caller's, which it reads and writes in place and never keeps. Its result says
// whether the answer is a JSON value (done), a message (failed) or nothing (more: the time
// slice is over, and the same call with `more` set goes on). So no call takes long, and the
// caller can look for a signal between two. scalewm_free frees an answer.
//
// What an operation wants and gives stands at its function. Operations may be added under one
// version; a change of one that exists is another version.
package main

/*
#include <stdint.h>
#include <stdlib.h>
typedef struct { void* data; int64_t bytes; } scalewm_buffer;
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// abi is the version of the ABI.
const abi = 1

// Results of scalewm_call.
const (
	done   = 0
	failed = 1
	more   = 2
)

// maxBuffers is more than any operation takes.
const maxBuffers = 1 << 10

//export scalewm_abi
func scalewm_abi() C.int32_t { return abi }

//export scalewm_free
func scalewm_free(answer *C.char) { C.free(unsafe.Pointer(answer)) }

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
		*answer = C.CString(err.Error())
		return failed
	case again:
		return more
	case text != "":
		*answer = C.CString(text)
	}
	return done
}

// memoryOf is the caller's memory, a slice for each buffer.
func memoryOf(buffers *C.scalewm_buffer, n int) ([][]byte, error) {
	if n < 0 || n > maxBuffers || n > 0 && buffers == nil {
		return nil, fmt.Errorf("%d buffers", n)
	}
	out := make([][]byte, n)
	for i, b := range unsafe.Slice(buffers, n) {
		if b.bytes < 0 || b.bytes > 0 && b.data == nil {
			return nil, fmt.Errorf("buffer %d: %d bytes at %p", i, int64(b.bytes), b.data)
		}
		out[i] = unsafe.Slice((*byte)(b.data), int(b.bytes))
	}
	return out, nil
}

func main() {}
