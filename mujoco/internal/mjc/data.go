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
	Inverse           Op = C.MJC_INVERSE
	Kinematics        Op = C.MJC_KINEMATICS
	ComPos            Op = C.MJC_COMPOS
	RNEPostConstraint Op = C.MJC_RNEPOST
	FwdPosition       Op = C.MJC_FWDPOSITION
	FwdVelocity       Op = C.MJC_FWDVELOCITY
	SetConst          Op = C.MJC_SETCONST
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

// Energy points to potential and kinetic energy.
func Energy(d *CData) *[2]float64 { return (*[2]float64)(unsafe.Pointer(d.energy)) }

// NContact is the number of contacts.
func NContact(d *CData) int { return int(*d.ncon) }

// Run does op n times, or until the data cannot go on.
func Run(d *CData, op Op, n int) Code { return Code(C.mjc_run(d, C.int(op), C.int(n))) }

// ResetKey sets the state to a keyframe, which exists.
func ResetKey(d *CData, key int) Code { return Code(C.mjc_reset_key(d, C.int(key))) }

// CopyData copies a simulation of the same model.
func CopyData(to, from *CData) Code { return Code(C.mjc_data_copy(to, from)) }

// GetState fills out, which has StateSize values.
func GetState(d *CData, out []float64, spec int) Code {
	return Code(C.mjc_get_state(d, doubles(out), C.int(spec)))
}

// SetState reads in, which has StateSize values.
func SetState(d *CData, in []float64, spec int) Code {
	return Code(C.mjc_set_state(d, doubles(in), C.int(spec)))
}

// Jac fills the Jacobians (3 x nv, or nil) of an object.
func Jac(d *CData, kind, id int, jacp, jacr []float64) Code {
	return Code(C.mjc_jac(d, C.int(kind), C.int(id), nil, doubles(jacp), doubles(jacr)))
}

// JacPoint fills those of a point, in world coordinates, that moves with a body.
func JacPoint(d *CData, body int, point *[3]float64, jacp, jacr []float64) Code {
	return Code(C.mjc_jac(d, 0, C.int(body), (*C.double)(&point[0]), doubles(jacp), doubles(jacr)))
}

// Contact is one contact point, laid out as C's mjc_contact.
type Contact struct {
	Dist         float64    // between the surfaces, negative when they overlap
	Pos          [3]float64 // midpoint, world coordinates
	Frame        [9]float64 // rows: normal from the first geom to the second, two tangents
	Friction     [5]float64 // tangent 1, tangent 2, spin, roll 1, roll 2
	Dim          int32      // of the contact space: 1, 3, 4 or 6
	Geom         [2]int32   // -1: a flex
	Exclude      int32      // 0: takes part in the dynamics
	ConstraintAt int32      // row in the constraint arrays, -1: none
}

// Contacts fills out and returns how many there were.
func Contacts(d *CData, out []Contact) int {
	return int(C.mjc_contacts(d, (*C.mjc_contact)(unsafe.Pointer(unsafe.SliceData(out))), C.int(len(out))))
}

// The two layouts are one: this does not compile where their sizes differ.
var _ [unsafe.Sizeof(Contact{}) - unsafe.Sizeof(C.mjc_contact{})]byte
var _ [unsafe.Sizeof(C.mjc_contact{}) - unsafe.Sizeof(Contact{})]byte

// ContactForce fills the force and torque of contact i in its frame.
func ContactForce(d *CData, i int, out *[6]float64) Code {
	return Code(C.mjc_contact_force(d, C.int(i), (*C.double)(&out[0])))
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

// LastCode is how the last call ended.
func LastCode(d *CData) Code { return Code(d.code) }

// Counts are the warnings by kind since the last reset.
func Counts(d *CData) [C.MJC_NWARNING]int {
	var out [C.MJC_NWARNING]int
	for i, n := range d.count {
		out[i] = int(n)
	}
	return out
}

// Raise raises an error of MuJoCo's own, as tests want one.
func Raise(d *CData, message string) Code {
	p := C.CString(message)
	defer C.free(unsafe.Pointer(p))
	return Code(C.mjc_raise(d, p))
}

// Pool is a set of C threads that step many data in one call.
type Pool struct {
	p    *C.mjc_pool
	list **C.mjc_data
	n    int
}

// NewPool starts threads, the caller's counted, for these data.
func NewPool(threads int, data []*CData) (*Pool, error) {
	p := C.mjc_pool_new(C.int(threads))
	list := (**C.mjc_data)(C.calloc(C.size_t(len(data)), C.size_t(unsafe.Sizeof(data[0]))))
	if p == nil || list == nil {
		return nil, errors.New("no memory for the threads")
	}
	copy(unsafe.Slice(list, len(data)), data)
	return &Pool{p, list, len(data)}, nil
}

// Step steps each n times and returns how many did not end OK.
func (p *Pool) Step(n int) int { return int(C.mjc_pool_step(p.p, p.list, C.int(p.n), C.int(n))) }

// Free ends the threads, not the data.
func (p *Pool) Free() {
	C.mjc_pool_free(p.p)
	C.free(unsafe.Pointer(p.list))
}
