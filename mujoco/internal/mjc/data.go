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

// CData is one simulation with the outcome of its last call.
type CData = C.mjc_data

// Code says how a call on data ended.
type Code int

// How a call ended; see mjc.h.
const (
	OK       Code = C.MJC_OK
	Warned   Code = C.MJC_WARNED
	Diverged Code = C.MJC_DIVERGED
	Fatal    Code = C.MJC_FATAL
	Unusable Code = C.MJC_UNUSABLE
)

// Op is something done to data.
type Op int

// The operations, as MuJoCo names them.
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

// NewData makes data in the initial state.
func NewData(m *CModel) (*CData, error) {
	var d *C.mjc_data
	msg := withText(func(t *C.char) { d = C.mjc_data_new(m, t) })
	if d == nil {
		return nil, errors.New("no memory for the data: " + msg)
	}
	return d, nil
}

// FreeData ends data.
func FreeData(d *CData) { C.mjc_data_free(d) }

// Base is the address of mjData.
func Base(d *CData) unsafe.Pointer { return unsafe.Pointer(d.d) }

// Time points to the simulated time.
func Time(d *CData) *float64 { return (*float64)(d.time) }

// Run does op n times, or until the data cannot go on.
func Run(d *CData, op Op, n int) Code { return Code(C.mjc_run(d, C.int(op), C.int(n))) }

// GetState fills out, which has StateSize values.
func GetState(d *CData, out []float64, spec int) Code {
	return Code(C.mjc_get_state(d, doubles(out), C.int(spec)))
}

// SetState reads in, which has StateSize values.
func SetState(d *CData, in []float64, spec int) Code {
	return Code(C.mjc_set_state(d, doubles(in), C.int(spec)))
}

// JacSite fills the Jacobians (3 x nv) of a site.
func JacSite(d *CData, site int, jacp, jacr []float64) Code {
	return Code(C.mjc_jac_site(d, C.int(site), doubles(jacp), doubles(jacr)))
}

// Outcome describes the last call that did not end OK.
type Outcome struct {
	Text                string // of a fatal error
	Warning, Info, Step int
	When                float64
}

// Last is the outcome of the last call.
func Last(d *CData) Outcome {
	return Outcome{C.GoString(&d.text[0]), int(d.warning), int(d.info), int(d.step), float64(d.when)}
}

// Raise raises an error of MuJoCo's own, as tests want one.
func Raise(d *CData, message string) Code {
	p := C.CString(message)
	defer C.free(unsafe.Pointer(p))
	return Code(C.mjc_raise(d, p))
}
