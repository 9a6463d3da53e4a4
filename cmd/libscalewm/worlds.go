package libscalewm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/envs/vector"
)

const (
	// maxWorlds exceeds what a process has memory for.
	maxWorlds = 1 << 20
	// slice is the time after which a call returns and must be repeated: short enough for a
	// prompt reaction to Ctrl-C, long enough that the repetition costs little.
	slice = 200 * time.Millisecond
	// pixels is the name of the frame among the watched columns.
	pixels = "pixels"
)

// worlds is n worlds of one task, with the columns that the caller watches. Each call that
// changes worlds ends by writing the watched columns of all worlds to its last buffers, one
// buffer per column, so that one call per step is enough.
type worlds struct {
	task    envs.Task
	options envs.Options
	n       int
	workers int
	watched []envs.Column  // the frame is a column of FrameBytes uint8
	created []envs.Env     // by worlds.make so far
	all     *vector.Worlds // nil before worlds.make has ended
	streams []*rand.Rand   // of each world; nil before its first seed
	actions []float64      // (n, A)
	scratch []float64      // (n, width of the widest watched column)
	at      int            // number of worlds served by the call in progress
	err     error          // of its first world that failed
}

// newWorlds prepares n worlds: {"task", "n", "workers", "options", "watch"} gives {"handle"}.
// workers is the number of threads, 0 for one per core. watch lists columns, and "pixels" for
// the frame. worlds.make must follow.
func newWorlds(c call) (any, error) {
	var q struct {
		Task    string       `json:"task"`
		N       int          `json:"n"`
		Workers int          `json:"workers"`
		Options envs.Options `json:"options"`
		Watch   []string     `json:"watch"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	task, err := envs.Lookup(q.Task)
	if err != nil {
		return nil, err
	}
	if q.N < 1 || q.N > maxWorlds {
		return nil, fmt.Errorf("%d worlds of %s (hint: from 1 to %d)", q.N, q.Task, maxWorlds)
	}
	w := &worlds{task: task, options: q.Options, n: q.N, workers: q.Workers,
		streams: make([]*rand.Rand, q.N), actions: make([]float64, q.N*task.Spec.ActionDim)}
	if err := w.watch(q.Watch); err != nil {
		return nil, err
	}
	return map[string]uint64{"handle": objects.add(w)}, nil
}

// watch sets the watched columns: the task's own, or those of its factors.
func (w *worlds) watch(names []string) error {
	widest := 0
	for _, name := range names {
		if name == pixels {
			w.watched = append(w.watched, envs.Column{Name: pixels, DType: "uint8", Width: envs.FrameBytes})
			continue
		}
		// Factors have columns too, whether or not an option names them.
		recorded := w.task.Spec.Columns
		for _, f := range w.task.Spec.Factors {
			recorded = append(recorded, f.Column())
		}
		i := slices.IndexFunc(recorded, func(c envs.Column) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("task %s has no column %q (hint: pixels, or one of scalewm.tasks()[%q])", w.task.Spec.Name, name, w.task.Spec.Name)
		}
		w.watched = append(w.watched, recorded[i])
		widest = max(widest, recorded[i].Width)
	}
	w.scratch = make([]float64, w.n*widest)
	return nil
}

// close closes the worlds, including those of an incomplete worlds.make.
func (w *worlds) close() error {
	// The handle can be closed before worlds.make has ended.
	if w.all == nil {
		w.all = vector.New(w.created, 1)
	}
	return w.all.Close()
}

// each calls work for all worlds, in runs, until the time slice is over. If it fails for a
// world, the others are still served, and the error at the end names the first. The state of
// the call is kept in w.at and w.err.
func (w *worlds) each(c call, what string, work func(i int) error) (again bool, err error) {
	if w.all == nil {
		return false, errors.New("the worlds have not been created (hint: call worlds.make first)")
	}
	if !c.more {
		w.at, w.err = 0, nil
	}
	// The first run takes about a quarter of a second where drawing is slowest. Runs grow
	// while they take a small part of the slice.
	start, run := time.Now(), 16*max(1, w.workers)
	for w.at < w.n {
		to := min(w.at+run, w.n)
		err := w.all.Each(what, w.at, to, func(i int) (err error) {
			// A panic on a goroutine of Each would end the process.
			defer recoverTo(&err)
			return work(i)
		})
		if w.at = to; w.err == nil {
			w.err = err
		}
		switch spent := time.Since(start); {
		case w.at < w.n && spent > slice:
			return true, nil
		case spent < slice/16:
			run *= 4
		}
	}
	return false, w.err
}

// make creates the worlds of a new handle.
func (w *worlds) make(call) (again bool, err error) {
	for start := time.Now(); len(w.created) < w.n; {
		if time.Since(start) > slice {
			return true, nil
		}
		// The first world of a task may compile its model, which takes longest.
		e, err := w.task.New(w.options)
		if err != nil {
			return false, fmt.Errorf("creating world %d of %d: %w", len(w.created), w.n, err)
		}
		w.created = append(w.created, e)
	}
	w.all = vector.New(w.created, w.workers)
	return false, nil
}

// chosen returns which worlds a mask of n bytes selects: those with a byte other than 0. An
// empty mask selects all.
func (w *worlds) chosen(mask []byte) (func(i int) bool, error) {
	if len(mask) == 0 {
		return func(int) bool { return true }, nil
	}
	return func(i int) bool { return mask[i] != 0 }, fits(mask, w.n, "choosing worlds")
}

// checkBuffers checks that the call has own buffers followed by those of the watched columns,
// and the lengths of the latter.
func (w *worlds) checkBuffers(c call, own int) error {
	if len(c.buffers) != own+len(w.watched) {
		return fmt.Errorf("%d buffers, not %d", len(c.buffers), own+len(w.watched))
	}
	for j, v := range w.watched {
		if err := fits(c.buffers[own+j], w.n*v.Width*sizeOf(v.DType), v.Name); err != nil {
			return err
		}
	}
	return nil
}

// writeWatched writes the watched columns of world i. It runs on several goroutines, so each
// world has its own part of scratch.
func (w *worlds) writeWatched(i int, out [][]byte) error {
	e := w.all.World(i)
	widest := len(w.scratch) / w.n
	for j, v := range w.watched {
		size := v.Width * sizeOf(v.DType)
		dst := out[j][i*size : (i+1)*size]
		if v.Name == pixels {
			if err := e.Frame(dst); err != nil {
				return err
			}
			continue
		}
		x := w.scratch[i*widest : i*widest+v.Width]
		// Worlds observe float64; store converts to the column's type.
		if err := e.Observe(v.Name, x); err != nil {
			return err
		}
		store(dst, v.DType, x)
	}
	return nil
}

// observe writes the watched columns.
func (w *worlds) observe(c call) (bool, error) {
	if err := w.checkBuffers(c, 0); err != nil {
		return false, err
	}
	return w.each(c, "observing", func(i int) error { return w.writeWatched(i, c.buffers) })
}

// frames draws all worlds into one buffer of shape (n, FrameBytes).
func (w *worlds) frames(c call) (bool, error) {
	if len(c.buffers) != 1 {
		return false, fmt.Errorf("%d buffers, not 1", len(c.buffers))
	}
	dst := c.buffers[0]
	if err := fits(dst, w.n*envs.FrameBytes, "frames"); err != nil {
		return false, err
	}
	return w.each(c, "drawing", func(i int) error {
		return w.all.World(i).Frame(dst[i*envs.FrameBytes : (i+1)*envs.FrameBytes])
	})
}

// reset starts an episode in the selected worlds. Buffers: the mask; one seed per world, int64.
// A negative seed continues the world's current random stream.
func (w *worlds) reset(c call) (bool, error) {
	if err := w.checkBuffers(c, 2); err != nil {
		return false, err
	}
	chosen, err := w.chosen(c.buffers[0])
	if err != nil {
		return false, err
	}
	seeds, err := ints(c.buffers[1], w.n, "seeds")
	if err != nil {
		return false, err
	}
	return w.each(c, "resetting", func(i int) error {
		if chosen(i) {
			if seeds[i] >= 0 {
				// The purpose separates these streams from those of data collection.
				w.streams[i] = rng.Stream("gymnasium", seeds[i])
			}
			if err := w.restart(i); err != nil {
				return err
			}
		}
		return w.writeWatched(i, c.buffers[2:])
	})
}

// restart resets a world with its random stream.
func (w *worlds) restart(i int) error {
	if w.streams[i] == nil {
		return errors.New("a world's first reset needs a seed")
	}
	return w.all.World(i).Reset(w.streams[i])
}

// step makes one step in each world, except that the selected worlds start an episode instead.
// Buffers: the mask (empty for none); actions (n, A) of the task's type; rewards, float64; and
// whether the episode ended, one byte each. The last two are 0 where an episode started. If
// the action of one world is invalid (envs.CheckAction), no world moves.
func (w *worlds) step(c call) (bool, error) {
	if err := w.checkBuffers(c, 4); err != nil {
		return false, err
	}
	reset := func(int) bool { return false }
	if len(c.buffers[0]) > 0 {
		var err error
		if reset, err = w.chosen(c.buffers[0]); err != nil {
			return false, err
		}
	}
	s, a := w.task.Spec, w.task.Spec.ActionDim
	// The results are written in place. Every buffer is checked before the first world moves.
	ended := c.buffers[3]
	rewards, err := floats(c.buffers[2], w.n, "rewards")
	if err := errors.Join(err, fits(c.buffers[1], len(w.actions)*sizeOf(s.ActionDType), "actions"), fits(ended, w.n, "terminated")); err != nil {
		return false, err
	}
	// Actions are read and checked in the first slice only; later ones use the copy.
	if !c.more {
		load(w.actions, s.ActionDType, c.buffers[1])
		for i := range w.n {
			if err := envs.CheckAction(s, w.actions[i*a:(i+1)*a]); err != nil && !reset(i) {
				return false, fmt.Errorf("stepping world %d of %d: %w", i, w.n, err)
			}
		}
	}
	return w.each(c, "stepping", func(i int) error {
		// Also for worlds that fail, so that the buffers never contain old values.
		rewards[i], ended[i] = 0, 0
		if reset(i) {
			if err := w.restart(i); err != nil {
				return err
			}
		} else {
			out, err := w.all.World(i).Step(w.actions[i*a : (i+1)*a])
			if err != nil {
				return err
			}
			rewards[i] = out.Reward
			if out.Terminated {
				ended[i] = 1
			}
		}
		return w.writeWatched(i, c.buffers[4:])
	})
}

// set sets the selected worlds from rows: {"what", "columns": [{"name", "width"}, ...]}. Buffers:
// the mask; the rows, float64 of shape (n, sum of widths), with the columns in the order of the
// request. what is "state", "goal", or "start", the first row of a recorded episode with its
// hidden columns, if it has them.
func (w *worlds) set(c call) (bool, error) {
	var q struct {
		What    string   `json:"what"`
		Columns []column `json:"columns"`
	}
	if err := errors.Join(c.read(&q), w.checkBuffers(c, 2)); err != nil {
		return false, err
	}
	chosen, err := w.chosen(c.buffers[0])
	if err != nil {
		return false, err
	}
	put, ok := setters[q.What]
	if !ok {
		return false, fmt.Errorf("cannot set %q (hint: state, goal or start)", q.What)
	}
	// The limits keep n times the sum of widths from overflowing.
	width := 0
	for _, col := range q.Columns {
		if col.Width < 1 || col.Width > envs.FrameBytes || width > envs.FrameBytes {
			return false, fmt.Errorf("column %s has %d numbers", col.Name, col.Width)
		}
		width += col.Width
	}
	values, err := floats(c.buffers[1], w.n*width, "rows")
	if err != nil {
		return false, err
	}
	// Each world gets copies of its values, because the buffer belongs to the caller.
	return w.each(c, "setting the "+q.What+" of", func(i int) error {
		if chosen(i) {
			row, rest := envs.Row{}, values[i*width:(i+1)*width]
			for _, col := range q.Columns {
				row[col.Name], rest = slices.Clone(rest[:col.Width]), rest[col.Width:]
			}
			if err := put(w.all.World(i), row); err != nil {
				return err
			}
		}
		return w.writeWatched(i, c.buffers[2:])
	})
}

// column is a column in the rows of a request.
type column struct {
	Name  string `json:"name"`
	Width int    `json:"width"`
}

// setters are the values of what. "start" falls back to SetState if the row lacks hidden
// columns.
var setters = map[string]func(envs.Env, envs.Row) error{
	"state": envs.Env.SetState,
	"goal":  envs.Env.SetGoal,
	"start": func(e envs.Env, row envs.Row) error {
		// Restart is exact; SetState sets the state columns only.
		if r, ok := e.(envs.Restarter); ok {
			if err := r.Restart(row, true); !errors.Is(err, envs.ErrNotExact) {
				return err
			}
		}
		return e.SetState(row)
	},
}

// vary replaces the selected worlds by new ones with other options: {"options"}. Buffer: the
// mask. The new worlds need a reset.
func (w *worlds) vary(c call) (bool, error) {
	var q struct {
		Options envs.Options `json:"options"`
	}
	if err := c.read(&q); err != nil {
		return false, err
	}
	if len(c.buffers) != 1 {
		return false, fmt.Errorf("%d buffers, not 1", len(c.buffers))
	}
	chosen, err := w.chosen(c.buffers[0])
	if err != nil {
		return false, err
	}
	return w.each(c, "creating again", func(i int) error {
		if !chosen(i) {
			return nil
		}
		e, err := w.task.New(q.Options)
		if err != nil {
			return err
		}
		return w.all.Replace(i, e)
	})
}
