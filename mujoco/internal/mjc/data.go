package mjc

/*
#include <stdlib.h>
#include "mjc.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// CData is one simulation (mjData) with the outcome of its last call, in C memory.
type CData = C.mjc_data

// Code is the result of a call on data.
type Code int

// The results; mjc.h describes them.
const (
	OK       Code = C.MJC_OK
	Warned   Code = C.MJC_WARNED
	Diverged Code = C.MJC_DIVERGED
	Fatal    Code = C.MJC_FATAL
	Unusable Code = C.MJC_UNUSABLE
)

// Op is an operation on data.
type Op int

// The operations, named after MuJoCo's functions.
const (
	Step              Op = C.MJC_STEP
	Step1             Op = C.MJC_STEP1
	Step2             Op = C.MJC_STEP2
	Forward           Op = C.MJC_FORWARD
	Kinematics        Op = C.MJC_KINEMATICS
	ComPos            Op = C.MJC_COMPOS
	RNEPostConstraint Op = C.MJC_RNEPOST
	FwdPosition       Op = C.MJC_FWDPOSITION
	Reset             Op = C.MJC_RESET
)

// NewData allocates data in the initial state. The caller must free it.
func NewData(m *CModel) (*CData, error) {
	var d *C.mjc_data
	msg := withText(func(t *C.char) { d = C.mjc_data_new(m, t) })
	if d == nil {
		return nil, errors.New("allocating mjData failed: " + msg)
	}
	return d, nil
}

// FreeData frees data.
func FreeData(d *CData) { C.mjc_data_free(d) }

// Base returns the address of mjData.
func Base(d *CData) unsafe.Pointer { return unsafe.Pointer(d.d) }

// Time returns the address of the simulated time.
func Time(d *CData) *float64 { return (*float64)(d.time) }

// Run executes op n times, or until the data diverges or becomes unusable.
func Run(d *CData, op Op, n int) Code { return Code(C.mjc_run(d, C.int(op), C.int(n))) }

// GetState fills out, whose length must be StateSize(spec).
func GetState(d *CData, out []float64, spec int) Code {
	return Code(C.mjc_get_state(d, doubles(out), C.int(spec)))
}

// SetState sets the state from in, whose length must be StateSize(spec).
func SetState(d *CData, in []float64, spec int) Code {
	return Code(C.mjc_set_state(d, doubles(in), C.int(spec)))
}

// JacSite fills jacp and jacr, 3 x nv each, with the Jacobians of a site.
func JacSite(d *CData, site int, jacp, jacr []float64) Code {
	return Code(C.mjc_jac_site(d, C.int(site), doubles(jacp), doubles(jacr)))
}

// Outcome describes the last call whose result was not OK. For a fatal error, Text is
// the message. For a warning, Warning is its kind, Info MuJoCo's index, Step the
// sub-step and When the simulated time before it, in seconds.
type Outcome struct {
	Text                string
	Warning, Info, Step int
	When                float64
}

// Last returns the outcome of the last call.
func Last(d *CData) Outcome {
	return Outcome{C.GoString(&d.text[0]), int(d.warning), int(d.info), int(d.step), float64(d.when)}
}

// Raise raises a MuJoCo error inside a guarded call. Tests use it.
func Raise(d *CData, message string) Code {
	p := C.CString(message)
	defer C.free(unsafe.Pointer(p))
	return Code(C.mjc_raise(d, p))
}
