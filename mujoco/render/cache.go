package render

import (
	"context"
	"slices"
	"sync"

	"scalewm/mujoco"
)

// Cache draws any of many models in one size. It keeps the renderers of the models
// drawn last, since making one costs as much as ten frames, and closes the others.
// Calls from several goroutines take turns.
type Cache struct {
	keep, width, height int
	turn                sync.Mutex
	used                []*Renderer // the last used at the end
}

// NewCache makes a cache of at most keep renderers; each is made at its first frame.
func NewCache(keep, width, height int) *Cache {
	return &Cache{keep: keep, width: width, height: height}
}

// Render is Renderer.Render with the renderer of the data's model.
func (c *Cache) Render(ctx context.Context, d *mujoco.Data, cam Camera, dst []byte) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	r, err := c.of(d.Model())
	if err != nil {
		return err
	}
	return r.Render(ctx, d, cam, dst)
}

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
