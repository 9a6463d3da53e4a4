package mujoco

import (
	"fmt"
	"sync"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// Element is the Go type of a MuJoCo array element: mjtNum, float, int, mjtSize,
// mjtByte or mjtBool, respectively.
type Element interface {
	float64 | float32 | int32 | int64 | byte | bool
}

// Owner is a Model or a Data: a C struct whose fields Array can access by name.
type Owner interface {
	// find returns a field by its name in MuJoCo's headers, the address of the struct
	// that contains it, and its number of elements.
	find(name string) (f field, base unsafe.Pointer, n int)
}

// field is a field of a C struct with its position in its table.
type field struct {
	mjc.Field
	table mjc.Table
	index int // in the table
}

// names maps names to the fields of mjModel and mjData. lengths[t] is the number of
// fields in table t.
type names struct {
	model, data map[string]field
	lengths     [4]int
}

// headers is computed once from the tables compiled into package mjc.
var headers = sync.OnceValue(func() names {
	h := names{model: map[string]field{}, data: map[string]field{}}
	for _, t := range []mjc.Table{mjc.Sizes, mjc.Inline, mjc.Model, mjc.Data} {
		of := h.model
		if t == mjc.Data {
			of = h.data
		}
		all := mjc.Fields(t)
		for i, f := range all {
			of[f.Name] = field{f, t, i}
		}
		h.lengths[t] = len(all)
	}
	return h
})

// layout holds, per table, one number per field: the value of each size of the model,
// and for the other tables the number of elements. They are fixed when the model is
// compiled, so each Model computes them once.
type layout [4][]int

func newLayout(m *mjc.CModel) (l layout) {
	for t, n := range headers().lengths {
		l[t] = mjc.Lengths(m, mjc.Table(t), n)
	}
	return l
}

// find returns the zero field for an unknown name. Its table is Sizes, which Array
// rejects with a panic.
func (m *Model) find(name string) (f field, base unsafe.Pointer, n int) {
	f = headers().model[name]
	return f, m.base(), m.layout[f.table][f.index]
}

func (d *Data) find(name string) (f field, base unsafe.Pointer, n int) {
	f = headers().data[name]
	return f, d.base(), d.m.layout[f.table][f.index]
}

// Size returns a size of the model by its name in MuJoCo's headers, such as "nbody". It
// panics if there is no such size.
func (m *Model) Size(name string) int {
	f, ok := headers().model[name]
	if !ok || f.table != mjc.Sizes {
		panic("mujoco: the headers have no size " + name)
	}
	return m.layout[mjc.Sizes][f.index]
}

// Array returns an array of a model or data by its name in MuJoCo's headers, such as
// Array[float64](m, "body_mass"), or a value inside the model's options and visual
// settings, such as Array[float64](m, "opt.gravity"). The slice aliases MuJoCo's memory.
// It is nil if this model has no elements of that array. Array panics if the headers
// have no such array with elements of type T.
func Array[T Element](o Owner, name string) []T {
	f, base, n := o.find(name)
	var c string
	switch any(*new(T)).(type) {
	case float64:
		c = "mjtNum"
	case float32:
		c = "float"
	case int32:
		c = "int"
	case int64:
		c = "mjtSize"
	case byte:
		c = "mjtByte"
	case bool:
		c = "mjtBool"
	}
	if f.Type != c || f.table == mjc.Sizes {
		panic(fmt.Sprintf("mujoco: %s is no array of %T", name, *new(T)))
	}
	// Inline fields are in the struct itself; for the others the struct has a pointer.
	p := (*T)(unsafe.Add(base, f.Offset))
	if f.table != mjc.Inline {
		p = *(**T)(unsafe.Add(base, f.Offset))
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice(p, n)
}

// QPos returns qpos, the generalised positions: nq values.
func (d *Data) QPos() []float64 { return Array[float64](d, "qpos") }

// QVel returns qvel, the generalised velocities: nv values.
func (d *Data) QVel() []float64 { return Array[float64](d, "qvel") }

// Ctrl returns ctrl, the controls: nu values.
func (d *Data) Ctrl() []float64 { return Array[float64](d, "ctrl") }

// XPos returns xpos, the positions of the bodies: nbody x 3.
func (d *Data) XPos() []float64 { return Array[float64](d, "xpos") }

// GeomXPos returns geom_xpos, the positions of the geoms: ngeom x 3.
func (d *Data) GeomXPos() []float64 { return Array[float64](d, "geom_xpos") }

// SiteXPos returns site_xpos, the positions of the sites: nsite x 3.
func (d *Data) SiteXPos() []float64 { return Array[float64](d, "site_xpos") }

// SiteXMat returns site_xmat, the rotation matrices of the sites: nsite x 9.
func (d *Data) SiteXMat() []float64 { return Array[float64](d, "site_xmat") }

// MocapPos returns mocap_pos, the positions of the mocap bodies: nmocap x 3.
func (d *Data) MocapPos() []float64 { return Array[float64](d, "mocap_pos") }

// MocapQuat returns mocap_quat, the orientations of the mocap bodies as quaternions
// w, x, y, z: nmocap x 4.
func (d *Data) MocapQuat() []float64 { return Array[float64](d, "mocap_quat") }

// Row returns row i of a row-major array with the given number of columns, for example
// 3 for d.XPos(). Its capacity ends with the row, so append cannot overwrite the next.
func Row[T any](array []T, i, columns int) []T {
	return array[i*columns : (i+1)*columns : (i+1)*columns]
}
