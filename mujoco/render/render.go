package render

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"scalewm/mujoco"
	"scalewm/mujoco/internal/mjc"
)

// MaxSize is the maximum width and height of a frame, in pixels.
const MaxSize = 8192

// ErrClosed is returned by calls on a closed Renderer.
var ErrClosed = errors.New("render: used after Close")

// Info describes what draws. It belongs in the record of a data set, because frames of
// different OpenGL implementations differ.
type Info struct {
	Backend                   string // EGL or OSMesa
	Vendor, Renderer, Version string // OpenGL's own description
}

// Software reports whether the CPU draws (Mesa's llvmpipe) instead of a graphics card.
func (i Info) Software() bool { return strings.Contains(i.Renderer, "llvmpipe") }

// Renderer draws one model at one size. Calls from several goroutines are serialised.
//
// An OpenGL context is bound to the OS thread it was made current on. Each Renderer
// therefore runs all its C calls on its own locked thread, to which do and doWithin
// pass functions through the channel work.
type Renderer struct {
	model         *mujoco.Model
	width, height int
	info          Info
	mu            sync.Mutex
	work          chan func()   // to the thread that owns the context; nil after Close
	done          chan struct{} // receives one value per completed function
	stuck         error         // set when a frame is abandoned; returned by all later calls
	r             *mjc.Renderer // used on the thread only
	text          mjc.Text      // error buffer, used on the thread only
	pixels        []byte        // the last frame in C memory, bottom row first
	err           error         // of the last function
	next          job           // the frame to draw
	draw          func()        // draws next on the thread; created once, so that frames do not allocate
}

// job is a frame to draw. The thread calls release when the C data is no longer in use.
type job struct {
	data    *mjc.CData
	release func()
	camera  int
}

// New returns a renderer for frames of width x height pixels with MuJoCo's default
// options, the same as those of MuJoCo's Python package. The error wraps ErrNoOpenGL if
// no OpenGL works. The caller must Close the renderer. It keeps the C model alive.
func New(m *mujoco.Model, width, height int) (*Renderer, error) {
	return open(m, width, height, false)
}

// NewPlain is like New, but without the caches that New uses in software rendering: it
// redraws what did not move and what cannot be seen. Its frames are byte for byte the
// same as New's, so it serves as the reference for New in tests.
func NewPlain(m *mujoco.Model, width, height int) (*Renderer, error) {
	return open(m, width, height, true)
}

func open(m *mujoco.Model, width, height int, plain bool) (*Renderer, error) {
	if width < 1 || height < 1 || width > MaxSize || height > MaxSize {
		return nil, fmt.Errorf("render: frame size %d x %d is out of range (hint: 1 to %d pixels each)", width, height, MaxSize)
	}
	c, release, err := m.Share()
	if err != nil {
		return nil, err
	}
	name, err := backend()
	if err != nil {
		release()
		return nil, err
	}
	// done is buffered: if Render abandons a frame, nobody receives its completion.
	r := &Renderer{model: m, width: width, height: height, work: make(chan func()), done: make(chan struct{}, 1)}
	r.draw = func() {
		defer r.next.release()
		r.pixels, r.err = r.text.Draw(r.r, r.next.data, r.next.camera, r.Bytes())
	}
	go runThread(r.work, r.done, release)
	r.do(func() error {
		if r.r, r.err = mjc.NewRenderer(c, width, height, plain); r.err == nil {
			v, d, s := mjc.GLStrings()
			r.info = Info{name, v, d, s}
		}
		return r.err
	})
	if r.err != nil {
		close(r.work)
		return nil, fmt.Errorf("%w: %s: %w", ErrNoOpenGL, name, r.err)
	}
	return r, nil
}

// runThread runs the functions from work on one OS thread, because the OpenGL context
// belongs to it. It never unlocks the thread, so the Go runtime ends the thread with
// the goroutine and never reuses it for other goroutines with a context current.
func runThread(work <-chan func(), done chan<- struct{}, release func()) {
	runtime.LockOSThread()
	defer release()
	for f := range work {
		f()
		done <- struct{}{}
	}
}

// do runs f on the thread and waits for it.
func (r *Renderer) do(f func() error) error {
	r.work <- func() { r.err = f() }
	<-r.done
	return r.err
}

// Info returns what draws.
func (r *Renderer) Info() Info { return r.info }

// Bytes returns the size of a frame in bytes: height x width x 3.
func (r *Renderer) Bytes() int { return r.width * r.height * 3 }

// Render draws d from a camera of the model, given by index, into dst, which must have
// length Bytes: RGB, row-major, top row first. It uses the positions in d as they are;
// call Forward, Step1 or another function that computes them before.
//
// If ctx ends first, Render returns and abandons the frame and the renderer, because a
// call into a hanging graphics driver cannot be interrupted. A ctx with a timeout thus
// serves as a watchdog. All later calls return the same error.
func (r *Renderer) Render(ctx context.Context, d *mujoco.Data, camera int, dst []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(d, camera, len(dst)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("render: frame not drawn: %w", context.Cause(ctx))
	}
	c, release, err := d.Share()
	if err != nil {
		return err
	}
	r.next = job{c, release, camera}
	if err := r.doWithin(ctx, r.draw); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("render: drawing: %w (hint: Reset the data)", r.err)
	}
	// OpenGL's origin is the bottom left corner, so the rows are reversed.
	row := 3 * r.width
	for y := range r.height {
		copy(dst[y*row:(y+1)*row], r.pixels[(r.height-1-y)*row:])
	}
	return nil
}

// doWithin runs f on the thread, but stops waiting when ctx ends.
func (r *Renderer) doWithin(ctx context.Context, f func()) error {
	r.work <- f
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		r.stuck = fmt.Errorf("render: frame abandoned: %w (hint: a driver that hangs needs a new process)", context.Cause(ctx))
		return r.stuck
	}
}

// check returns an error if the arguments of Render are invalid. The data of
// another model would be read out of bounds, and a bad camera would be a fatal error of
// MuJoCo, which makes the data unusable.
func (r *Renderer) check(d *mujoco.Data, camera, n int) error {
	switch {
	case r.work == nil:
		return ErrClosed
	case r.stuck != nil:
		return r.stuck
	case d.Model() != r.model:
		return errors.New("render: the data belongs to another model than the renderer")
	case camera < 0 || camera >= r.model.Size("ncam"):
		return fmt.Errorf("render: camera %d: the model has %d", camera, r.model.Size("ncam"))
	case n != r.Bytes():
		return fmt.Errorf("render: buffer of %d bytes for a frame of %d x %d x 3", n, r.height, r.width)
	}
	return nil
}

// Close destroys the context and ends its thread. After an abandoned frame the thread is
// still in the driver: then its context is leaked, and the thread ends if the driver
// returns. Calling Close again does nothing.
func (r *Renderer) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.work == nil {
		return
	}
	if r.stuck == nil {
		_ = r.do(func() error { mjc.FreeRenderer(r.r); return nil })
	}
	close(r.work)
	r.work = nil
}
