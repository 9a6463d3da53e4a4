package render

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"scalewm/mujoco"
)

// patience is how long a graphics card may take for a frame; one that hangs never
// comes to an end by itself. Software may be slow on a busy machine, but does not hang.
const patience = time.Minute

// Cache draws any of many models in one size. It keeps the renderers of the models
// drawn last, since making one costs as much as ten frames, and closes the others.
// Calls from several goroutines take turns.
type Cache struct {
	keep, width, height int
	patience            time.Duration
	turn                sync.Mutex
	used                []*Renderer // the last used at the end
}

// NewCache makes a cache of at most keep renderers; each is made at its first frame.
func NewCache(keep, width, height int) *Cache {
	return &Cache{keep: keep, width: width, height: height, patience: patience}
}

// Render is Renderer.Render with the renderer of the data's model. A frame that a
// graphics card does not draw within a minute is given up.
func (c *Cache) Render(ctx context.Context, d *mujoco.Data, camera int, dst []byte) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	r, err := c.of(d.Model())
	if err != nil {
		return err
	}
	if !r.info.Software() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.patience, errHangs)
		defer cancel()
	}
	return r.Render(ctx, d, camera, dst)
}

// errHangs is why a watched frame is given up.
var errHangs = errors.New("the graphics card does not answer")

// OneCore is the environment of a process that is to draw on one core; nil where a
// graphics card draws, and before the first frame.
func (c *Cache) OneCore() []string {
	c.turn.Lock()
	defer c.turn.Unlock()
	if len(c.used) == 0 || !c.used[0].info.Software() {
		return nil
	}
	return []string{"LP_NUM_THREADS=0"} // of llvmpipe
}

// of finds a model's renderer or makes it, and moves it to the end.
func (c *Cache) of(m *mujoco.Model) (r *Renderer, err error) {
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
