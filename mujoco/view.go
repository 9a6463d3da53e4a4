package mujoco

import (
	"fmt"
	"sync"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// Element is a type of MuJoCo's numbers: mjtNum, float, int, mjtSize, mjtByte or mjtBool.
type Element interface {
	float64 | float32 | int32 | int64 | byte | bool
}

// Owner is a Model or a Data.
type Owner interface {
	// find gives a field by its name in MuJoCo's headers, the address of the struct that has
	// it, and the number of its elements.
	find(name string) (f field, base unsafe.Pointer, n int)
}

// field is a field, and its place in its table.
type field struct {
	mjc.Field
	table mjc.Table
	at    int
}

// names are the fields of mjModel and of mjData by name, and the lengths of the tables.
type names struct {
	model, data map[string]field
	lengths     [4]int
}

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

// layout holds the sizes of a model, and how many elements each field of the other tables has.
type layout [4][]int

func newLayout(m *mjc.CModel) (l layout) {
	for t, n := range headers().lengths {
		l[t] = mjc.Lengths(m, mjc.Table(t), n)
	}
	return l
}

func (m *Model) find(name string) (f field, base unsafe.Pointer, n int) {
	f = headers().model[name]
	return f, m.base(), m.layout[f.table][f.at]
}

func (d *Data) find(name string) (f field, base unsafe.Pointer, n int) {
	f = headers().data[name]
	return f, d.base(), d.m.layout[f.table][f.at]
}

// Size is a count of the model by its name in MuJoCo's headers, such as "nbody".
func (m *Model) Size(name string) int {
	f, ok := headers().model[name]
	if !ok || f.table != mjc.Sizes {
		panic("mujoco: the headers have no size " + name)
	}
	return m.layout[mjc.Sizes][f.at]
}

// Array is an array of a model or its data by its name in MuJoCo's headers, such as
// Array[float64](m, "body_mass"), or a value inside its options and visual settings, such
// as Array[float64](m, "opt.gravity"). It is nil if the model has no elements of it, and
// panics if the headers have no such array of T.
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
	p := (*T)(unsafe.Add(base, f.Offset))
	if f.table != mjc.Inline {
		p = *(**T)(unsafe.Add(base, f.Offset))
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice(p, n)
}

// QPos is qpos, nq.
func (d *Data) QPos() []float64 { return Array[float64](d, "qpos") }

// QVel is qvel, nv.
func (d *Data) QVel() []float64 { return Array[float64](d, "qvel") }

// Ctrl is ctrl, nu.
func (d *Data) Ctrl() []float64 { return Array[float64](d, "ctrl") }

// XPos is xpos, nbody x 3.
func (d *Data) XPos() []float64 { return Array[float64](d, "xpos") }

// GeomXPos is geom_xpos, ngeom x 3.
func (d *Data) GeomXPos() []float64 { return Array[float64](d, "geom_xpos") }

// SiteXPos is site_xpos, nsite x 3.
func (d *Data) SiteXPos() []float64 { return Array[float64](d, "site_xpos") }

// SiteXMat is site_xmat, nsite x 9.
func (d *Data) SiteXMat() []float64 { return Array[float64](d, "site_xmat") }

// MocapPos is mocap_pos, nmocap x 3.
func (d *Data) MocapPos() []float64 { return Array[float64](d, "mocap_pos") }

// MocapQuat is mocap_quat, nmocap x 4.
func (d *Data) MocapQuat() []float64 { return Array[float64](d, "mocap_quat") }

// Row is row i of an array with the given number of columns, as d.XPos() has 3 per body.
func Row[T any](array []T, i, columns int) []T {
	return array[i*columns : (i+1)*columns : (i+1)*columns]
}
