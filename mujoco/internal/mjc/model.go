package mjc

/*
#include <stdlib.h>
#include "mjc.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// CModel is MuJoCo's mjModel, in C memory.
type CModel = C.mjModel

// Asset is one file of MuJoCo's virtual file system.
type Asset struct {
	Name  string
	Bytes []byte
}

// Compile compiles XML text. The files that it refers to must be among the assets. The
// caller must free the model.
func Compile(xml string, assets []Asset) (m *CModel, err error) {
	v := C.mjc_vfs_new()
	defer C.mjc_vfs_free(v)
	for _, a := range assets {
		if err := addAsset(v, a); err != nil {
			return nil, err
		}
	}
	text := C.CString(xml)
	defer C.free(unsafe.Pointer(text))
	msg := withText(func(t *C.char) { m = C.mjc_compile(text, v, t) })
	if m == nil {
		return nil, errors.New(msg)
	}
	return m, nil
}

// addAsset copies one asset into the virtual file system. C takes the size as an int.
func addAsset(v *C.mjVFS, a Asset) error {
	if len(a.Bytes) > math.MaxInt32 {
		return fmt.Errorf("asset %s has more than 2 GB", a.Name)
	}
	name := C.CString(a.Name)
	defer C.free(unsafe.Pointer(name))
	switch C.mjc_vfs_add(v, name, unsafe.Pointer(unsafe.SliceData(a.Bytes)), C.int(len(a.Bytes))) {
	case 0:
		return nil
	case 2:
		return fmt.Errorf("asset %s occurs twice", a.Name)
	}
	return fmt.Errorf("asset %s was rejected by MuJoCo's virtual file system", a.Name)
}

// FreeModel frees a model.
func FreeModel(m *CModel) { C.mjc_model_free(m) }

// ID returns the index of a named object, -1 if there is none.
func ID(m *CModel, kind int, name string) int {
	p := C.CString(name)
	defer C.free(unsafe.Pointer(p))
	return int(C.mjc_id(m, C.int(kind), p))
}

// StateSize returns the number of values in a state vector, -1 if spec is invalid.
func StateSize(m *CModel, spec int) int { return int(C.mjc_state_size(m, C.int(spec))) }

// doubles returns the address of the first element. cgo pins the array during the call.
func doubles(s []float64) *C.double { return (*C.double)(unsafe.SliceData(s)) }
