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

// CModel is MuJoCo's mjModel.
type CModel = C.mjModel

// Asset is one file of a virtual file system.
type Asset struct {
	Name  string
	Bytes []byte
}

// Compile compiles XML text; files that it names are among the assets.
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
		return fmt.Errorf("asset %s is there twice", a.Name)
	}
	return fmt.Errorf("asset %s cannot be added", a.Name)
}

// FreeModel ends a model.
func FreeModel(m *CModel) { C.mjc_model_free(m) }

// ID is the number of a named object, -1 if there is none.
func ID(m *CModel, kind int, name string) int {
	p := C.CString(name)
	defer C.free(unsafe.Pointer(p))
	return int(C.mjc_id(m, C.int(kind), p))
}

// StateSize is the number of values of a state, -1 for what is no specification.
func StateSize(m *CModel, spec int) int { return int(C.mjc_state_size(m, C.int(spec))) }

func doubles(s []float64) *C.double { return (*C.double)(unsafe.SliceData(s)) }
