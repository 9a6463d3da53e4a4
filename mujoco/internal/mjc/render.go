package mjc

/*
#include "render.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Backend is an implementation of off-screen OpenGL.
type Backend int

// The backends.
const (
	EGL    Backend = C.MJC_EGL
	OSMesa Backend = C.MJC_OSMESA
)

// OpenGL loads a backend and makes a test context on the calling thread. After a
// success it must not be called again: MuJoCo resolves OpenGL once per process.
func OpenGL(b Backend, device int) error {
	var rc C.int
	msg := withText(func(t *C.char) { rc = C.mjc_gl_open(C.int(b), C.int(device), t) })
	if rc != 0 {
		return errors.New(msg)
	}
	return nil
}

// GLStrings returns the vendor, renderer and version strings of the OpenGL context that
// is current on the calling thread.
func GLStrings() (vendor, renderer, version string) {
	s := func(which C.int) string { return C.GoString(C.mjc_gl_string(which)) }
	return s(C.MJC_GL_VENDOR), s(C.MJC_GL_RENDERER), s(C.MJC_GL_VERSION)
}

// Renderer is MuJoCo's renderer with its OpenGL context. All its functions must be
// called on the OS thread that created it.
type Renderer = C.mjc_renderer

// NewRenderer creates a context, makes it current on the calling thread, and creates a
// renderer on it. A plain renderer redraws everything in each frame.
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

// FreeRenderer frees the renderer and its context.
func FreeRenderer(r *Renderer) { C.mjc_renderer_free(r) }

// Text is the error buffer of Draw. The caller provides it, so that Draw does not
// allocate.
type Text [C.MJC_TEXT]C.char

// Draw draws d from a camera of the model and returns the n bytes of the frame: RGB,
// bottom row first. They are in the renderer's C memory and valid until the next call.
func (t *Text) Draw(r *Renderer, d *CData, camera, n int) ([]byte, error) {
	p := C.mjc_renderer_draw(r, d, C.int(camera), &t[0])
	if p == nil {
		return nil, errors.New(C.GoString(&t[0]))
	}
	return unsafe.Slice((*byte)(p), n), nil
}
