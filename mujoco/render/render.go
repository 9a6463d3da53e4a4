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

// MaxSize bounds width and height, in pixels.
const MaxSize = 8192

// ErrClosed is returned by a closed Renderer.
var ErrClosed = errors.New("render: used after Close")

// Info says what draws.
type Info struct {
	Backend                   string // EGL or OSMesa
	Vendor, Renderer, Version string // as OpenGL names itself
}

// Software says that the processor draws, and no graphics card.
func (i Info) Software() bool { return strings.Contains(i.Renderer, "llvmpipe") }

// Renderer draws one model, in one size. Calls from several goroutines take turns.
type Renderer struct {
	model         *mujoco.Model
	width, height int
	info          Info
	turn          sync.Mutex
	work          chan func()   // to the OS thread that owns the context; nil after Close
	done          chan struct{} // one value for each piece of work that is finished
	stuck         error         // set once a frame was given up
	r             *mjc.Renderer // the thread's
	text          mjc.Text      // the thread's
	pixels        []byte        // the last frame, bottom row first
	err           error         // of the last piece of work
	next          job           // the frame to draw
	draw          func()        // draws it, on the thread; made once, so that frames allocate nothing
}

// job is a frame that is asked for.
type job struct {
	data    *mjc.CData
	release func()
	camera  int
}

// New makes a context and a renderer with MuJoCo's default options, as its Python
// package has them. The error wraps ErrNoOpenGL where nothing can draw.
func New(m *mujoco.Model, width, height int) (*Renderer, error) {
	return open(m, width, height, false)
}

// NewPlain is the slow twin of New: where the processor draws, it draws all that MuJoCo asks for, where New's leaves
// out what did not move or cannot be seen. Their frames are the same bytes.
func NewPlain(m *mujoco.Model, width, height int) (*Renderer, error) {
	return open(m, width, height, true)
}

func open(m *mujoco.Model, width, height int, plain bool) (*Renderer, error) {
	if width < 1 || height < 1 || width > MaxSize || height > MaxSize {
		return nil, fmt.Errorf("render: frames of %d x %d pixels (hint: 1 to %d each)", width, height, MaxSize)
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
	r := &Renderer{model: m, width: width, height: height, work: make(chan func()), done: make(chan struct{}, 1)}
	r.draw = func() {
		defer r.next.release()
		r.pixels, r.err = r.text.Draw(r.r, r.next.data, r.next.camera, r.Bytes())
	}
	go own(r.work, r.done, release)
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

// own runs a renderer's work on one OS thread, which its context belongs to. It never
// unlocks the thread, which therefore ends with it.
func own(work <-chan func(), done chan<- struct{}, release func()) {
	runtime.LockOSThread()
	defer release()
	for f := range work {
		f()
		done <- struct{}{}
	}
}

// do runs f on the thread and waits.
func (r *Renderer) do(f func() error) error {
	r.work <- func() { r.err = f() }
	<-r.done
	return r.err
}

// Info says what draws; a data set's record should hold it.
func (r *Renderer) Info() Info { return r.info }

// Bytes is the size of a frame: height x width x 3.
func (r *Renderer) Bytes() int { return r.width * r.height * 3 }

// Render draws the data from a camera of the model, as they are (after Forward, Step1 or what else computed the
// places of things) and fills dst with Bytes values: rows from the top, RGB. When ctx
// ends first, the frame is given up and with it the renderer, because a graphics
// driver that hangs cannot be stopped; a ctx with a timeout is thus a watchdog.
func (r *Renderer) Render(ctx context.Context, d *mujoco.Data, camera int, dst []byte) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	if err := r.check(d, camera, len(dst)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("render: not drawn: %w", context.Cause(ctx))
	}
	c, release, err := d.Share()
	if err != nil {
		return err
	}
	r.next = job{c, release, camera}
	if err := r.within(ctx, r.draw); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("render: drawing: %w (hint: Reset the data)", r.err)
	}
	row := 3 * r.width
	for y := range r.height {
		copy(dst[y*row:(y+1)*row], r.pixels[(r.height-1-y)*row:])
	}
	return nil
}

// within runs f on the thread, but waits no longer than ctx.
func (r *Renderer) within(ctx context.Context, f func()) error {
	r.work <- f
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		r.stuck = fmt.Errorf("render: a frame was given up: %w (hint: a driver that hangs needs a new process)", context.Cause(ctx))
		return r.stuck
	}
}

func (r *Renderer) check(d *mujoco.Data, camera, n int) error {
	switch {
	case r.work == nil:
		return ErrClosed
	case r.stuck != nil:
		return r.stuck
	case d.Model() != r.model:
		return errors.New("render: the data belong to another model than the renderer")
	case camera < 0 || camera >= r.model.Size("ncam"):
		return fmt.Errorf("render: camera %d: the model has %d", camera, r.model.Size("ncam"))
	case n != r.Bytes():
		return fmt.Errorf("render: room of %d bytes for a frame of %d x %d x 3", n, r.height, r.width)
	}
	return nil
}

// Close ends the context and its thread. More calls do nothing.
func (r *Renderer) Close() {
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.work == nil {
		return
	}
	if r.stuck == nil {
		_ = r.do(func() error { mjc.FreeRenderer(r.r); return nil })
	}
	close(r.work)
	r.work = nil
}
