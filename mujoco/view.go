package mujoco

import (
	"sync"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// span is one field: where its pointer, or for a field inside mjModel the field
// itself, is in the struct, and how many elements it has.
type span struct {
	offset uintptr
	n      int
}

// layout holds the fields in the order of MuJoCo's headers, which is the order
// that the generated methods count in.
type layout struct {
	sizes               []int
	inline, model, data []span
}

// offsets reads the field tables once.
var offsets = sync.OnceValue(func() (out [4][]mjc.Field) {
	for _, t := range []mjc.Table{mjc.Sizes, mjc.Inline, mjc.Model, mjc.Data} {
		out[t] = mjc.Fields(t)
	}
	return out
})

func newLayout(m *mjc.CModel) *layout {
	all := offsets()
	spans := func(t mjc.Table) []span {
		out := make([]span, len(all[t]))
		for i, n := range mjc.Lengths(m, t, len(out)) {
			out[i] = span{all[t][i].Offset, n}
		}
		return out
	}
	return &layout{mjc.Lengths(m, mjc.Sizes, len(all[mjc.Sizes])), spans(mjc.Inline), spans(mjc.Model), spans(mjc.Data)}
}

// view is the array that a field of the struct at base points to.
func view[T any](base unsafe.Pointer, s span) []T {
	if s.n == 0 {
		return nil
	}
	return unsafe.Slice(*(**T)(unsafe.Add(base, s.offset)), s.n)
}

// inside is an array that lies in the struct itself.
func inside[T any](base unsafe.Pointer, s span) []T {
	return unsafe.Slice((*T)(unsafe.Add(base, s.offset)), s.n)
}

// Row is row i of an array with so many columns, as d.XPos() has 3 per body.
func Row[T any](array []T, i, columns int) []T {
	return array[i*columns : (i+1)*columns : (i+1)*columns]
}
