package render

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"scalewm/mujoco"
)

// frameTimeout is the time a graphics card may take for a frame. A driver that hangs
// never returns. Software rendering can be slow on a busy machine but does not hang,
// so it has no limit.
const frameTimeout = time.Minute

// Cache draws any number of models at one frame size. It retains the renderers of the
// models drawn last, since creating one costs as much as ten frames, and closes the
// least recently used. Calls from several goroutines are serialised.
type Cache struct {
	keep, width, height int // keep is the maximum number of renderers
	timeout             time.Duration
	mu                  sync.Mutex
	used                []*Renderer // least recently used first
}

// NewCache returns a cache of at most keep renderers, for frames of width x height
// pixels. It creates each renderer when its model is first drawn.
func NewCache(keep, width, height int) *Cache {
	return &Cache{keep: keep, width: width, height: height, timeout: frameTimeout}
}

// Render calls Renderer.Render on the renderer of the data's model. If a graphics card
// takes longer than a minute, Render abandons the frame and returns an error.
func (c *Cache) Render(ctx context.Context, d *mujoco.Data, camera int, dst []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.renderer(d.Model())
	if err != nil {
		return err
	}
	if !r.info.Software() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, errHangs)
		defer cancel()
	}
	return r.Render(ctx, d, camera, dst)
}

// errHangs is the cause of the timeout error.
var errHangs = errors.New("the graphics card does not answer")

// OneCore returns environment variables that restrict a process to draw on one core. It
// returns nil if a graphics card draws, and before the first frame.
func (c *Cache) OneCore() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) == 0 || !c.used[0].info.Software() {
		return nil
	}
	return []string{"LP_NUM_THREADS=0"} // llvmpipe then draws on the calling thread
}

// renderer returns the renderer of m, creating it if necessary, and marks it as the
// most recently used.
func (c *Cache) renderer(m *mujoco.Model) (r *Renderer, err error) {
	i := slices.IndexFunc(c.used, func(r *Renderer) bool { return r.model == m })
	if i >= 0 {
		r = c.used[i]
		c.used = slices.Delete(c.used, i, i+1)
	} else if r, err = New(m, c.width, c.height); err != nil {
		return nil, err
	}
	if len(c.used) == c.keep {
		c.used[0].Close()
		c.used = slices.Delete(c.used, 0, 1)
	}
	c.used = append(c.used, r)
	return r, nil
}
