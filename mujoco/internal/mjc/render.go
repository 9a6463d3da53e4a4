package mjc

/*
#include "render.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Backend is a way to draw without a window.
type Backend int

// The backends.
const (
	EGL    Backend = C.MJC_EGL
	OSMesa Backend = C.MJC_OSMESA
)

// OpenGL loads a backend and tries it on this thread. After a success it must not be called again.
func OpenGL(b Backend, device int) error {
	var rc C.int
	msg := withText(func(t *C.char) { rc = C.mjc_gl_open(C.int(b), C.int(device), t) })
	if rc != 0 {
		return errors.New(msg)
	}
	return nil
}

// GLStrings names the OpenGL of this thread: who made it, what draws, its version.
func GLStrings() (vendor, renderer, version string) {
	s := func(which C.int) string { return C.GoString(C.mjc_gl_string(which)) }
	return s(C.MJC_GL_VENDOR), s(C.MJC_GL_RENDERER), s(C.MJC_GL_VERSION)
}

// Renderer is MuJoCo's renderer with an OpenGL context. All its functions are
// called on the thread that made it.
type Renderer = C.mjc_renderer

// NewRenderer makes a context, current on this thread, and a renderer on it; a plain
// one draws all that MuJoCo asks for in each frame.
func NewRenderer(m *CModel, width, height int, plain bool) (*Renderer, error) {
	var r *C.mjc_renderer
	all := C.int(0)
	if plain {
		all = 1
	}
	msg := withText(func(t *C.char) { r = C.mjc_renderer_new(m, C.int(width), C.int(height), all, t) })
	if r == nil {
		return nil, errors.New(msg)
	}
	return r, nil
}

// FreeRenderer ends both.
func FreeRenderer(r *Renderer) { C.mjc_renderer_free(r) }

// Text is room for the error of a call of Draw; it is the caller's to keep.
type Text [C.MJC_TEXT]C.char

// Draw draws the data from a camera of the model and gives n bytes of the renderer's
// own memory, RGB, bottom row first, good until the next call.
func (t *Text) Draw(r *Renderer, d *CData, camera, n int) ([]byte, error) {
	p := C.mjc_renderer_draw(r, d, C.int(camera), &t[0])
	if p == nil {
		return nil, errors.New(C.GoString(&t[0]))
	}
	return unsafe.Slice((*byte)(p), n), nil
}
