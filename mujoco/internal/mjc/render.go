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

// Camera says where a scene is seen from; see render.h.
type Camera struct {
	Fixed                        int
	LookAt                       [3]float64
	Distance, Azimuth, Elevation float64
}

// Renderer is MuJoCo's renderer with an OpenGL context. All its functions are
// called on the thread that made it.
type Renderer = C.mjc_renderer

// NewRenderer makes a context, current on this thread, and a renderer on it.
func NewRenderer(m *CModel, width, height int) (*Renderer, error) {
	var r *C.mjc_renderer
	msg := withText(func(t *C.char) { r = C.mjc_renderer_new(m, C.int(width), C.int(height), t) })
	if r == nil {
		return nil, errors.New(msg)
	}
	return r, nil
}

// FreeRenderer ends both.
func FreeRenderer(r *Renderer) { C.mjc_renderer_free(r) }

// What SetFlag sets.
const (
	RenderFlag = C.MJC_RENDER_FLAG
	VisualFlag = C.MJC_VISUAL_FLAG
	GeomGroup  = C.MJC_GEOM_GROUP
	SiteGroup  = C.MJC_SITE_GROUP
)

// SetFlag shows or hides flag or group i; false if there is no such.
func SetFlag(r *Renderer, what, i int, on bool) bool {
	c := C.int(0)
	if on {
		c = 1
	}
	return C.mjc_renderer_set(r, C.int(what), C.int(i), c) == 0
}

// Frame is room for what a call of Draw passes to C; it is the caller's to keep.
type Frame struct {
	text [C.MJC_TEXT]C.char
	cam  C.mjc_camera
}

// Draw draws the data and gives n bytes of the renderer's own memory, RGB, bottom
// row first, good until the next call.
func (f *Frame) Draw(r *Renderer, d *CData, cam *Camera, n int) ([]byte, error) {
	f.cam = C.mjc_camera{fixed: C.int(cam.Fixed), distance: C.double(cam.Distance), azimuth: C.double(cam.Azimuth), elevation: C.double(cam.Elevation)}
	for i, x := range cam.LookAt {
		f.cam.lookat[i] = C.double(x)
	}
	p := C.mjc_renderer_draw(r, d, &f.cam, &f.text[0])
	if p == nil {
		return nil, errors.New(C.GoString(&f.text[0]))
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// UploadTexture sends a texture of the model to OpenGL again.
func UploadTexture(r *Renderer, texture int) error {
	var rc C.int
	msg := withText(func(t *C.char) { rc = C.mjc_renderer_texture(r, C.int(texture), t) })
	if rc != 0 {
		return errors.New(msg)
	}
	return nil
}
