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

// Compile compiles XML text, or the named file when xml is "", looking first among
// the assets. warning is what the compiler said of a model that it did make.
func Compile(xml, file string, assets []Asset) (m *CModel, warning string, err error) {
	v := C.mjc_vfs_new()
	defer C.mjc_vfs_free(v)
	for _, a := range assets {
		if err := addAsset(v, a); err != nil {
			return nil, "", err
		}
	}
	var cx, cf *C.char
	if xml != "" {
		cx = C.CString(xml)
		defer C.free(unsafe.Pointer(cx))
	}
	cf = C.CString(file)
	defer C.free(unsafe.Pointer(cf))
	msg := withText(func(t *C.char) { m = C.mjc_compile(cx, cf, v, t) })
	if m == nil {
		return nil, "", errors.New(msg)
	}
	return m, msg, nil
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

// Load reads a model that Save wrote.
func Load(b []byte) (*CModel, error) {
	if len(b) > math.MaxInt32 {
		return nil, errors.New("more than 2 GB")
	}
	var m *C.mjModel
	msg := withText(func(t *C.char) { m = C.mjc_load(unsafe.Pointer(unsafe.SliceData(b)), C.int(len(b)), t) })
	if m == nil {
		return nil, errors.New(msg)
	}
	return m, nil
}

// Save gives the model in MuJoCo's binary format.
func Save(m *CModel) ([]byte, error) {
	n := int64(C.mjc_size(m))
	if n > math.MaxInt32 {
		return nil, errors.New("more than 2 GB")
	}
	b := make([]byte, n)
	var rc C.int
	msg := withText(func(t *C.char) { rc = C.mjc_save(m, unsafe.Pointer(unsafe.SliceData(b)), C.int(n), t) })
	if rc != 0 {
		return nil, errors.New(msg)
	}
	return b, nil
}

// Copy duplicates a model.
func Copy(m *CModel) (*CModel, error) {
	var to *C.mjModel
	msg := withText(func(t *C.char) { to = C.mjc_copy(m, t) })
	if to == nil {
		return nil, errors.New(msg)
	}
	return to, nil
}

// FreeModel ends a model.
func FreeModel(m *CModel) { C.mjc_model_free(m) }

// ID is the number of a named object, -1 if there is none.
func ID(m *CModel, kind int, name string) int {
	p := C.CString(name)
	defer C.free(unsafe.Pointer(p))
	return int(C.mjc_id(m, C.int(kind), p))
}

// Name is the name of an object, "" if it has none.
func Name(m *CModel, kind, id int) string { return C.GoString(C.mjc_name(m, C.int(kind), C.int(id))) }

// StateSize is the number of values of a state, -1 for what is no specification.
func StateSize(m *CModel, spec int) int { return int(C.mjc_state_size(m, C.int(spec))) }

// IntegratePos moves qpos (nq) by qvel (nv) for dt.
func IntegratePos(m *CModel, qpos, qvel []float64, dt float64) {
	C.mjc_integrate(m, doubles(qpos), doubles(qvel), C.double(dt))
}

// DifferentiatePos gives the velocity (nv) that takes one position (nq) to another in dt.
func DifferentiatePos(m *CModel, qvel []float64, dt float64, from, to []float64) {
	C.mjc_differentiate(m, doubles(qvel), C.double(dt), doubles(from), doubles(to))
}

func doubles(s []float64) *C.double { return (*C.double)(unsafe.SliceData(s)) }
