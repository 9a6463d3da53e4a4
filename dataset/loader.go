package dataset

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/envs"
)

// Batch is B clips of T frames. Its memory is reused: it is valid until the second
// next call of Loader.Batch, so that one batch can be copied to a device while the
// previous one is in use.
type Batch struct {
	Step  int
	Clips []Clip
	// Rows has the file's row of every frame, (B*T).
	Rows []int32
	// Pixels has the frames, (B*T, size, size, 3), clip-major, row-major RGB. It is
	// nil if the Loader has no frames.
	Pixels []byte
	// Actions has z-scored actions, (B*T, skip*A), with 0 for NaN. Block k of a clip
	// holds the skip actions that follow frame k, in time order.
	Actions []float32
	// Q has the standardised task state of every frame, (B*T, d_q). It is nil without
	// LoaderOptions.Q.
	Q []float32
	// Episode has the episode of every clip, (B).
	Episode []int32
	// Left has the number of rows from the last but one frame of every clip to its goal,
	// (B). It is nil without LoaderOptions.Goals.
	Left []float32
}

// LoaderOptions are the options of a Loader.
type LoaderOptions struct {
	// Batch is the number of clips in a batch, B.
	Batch int
	// Frames is the number of frames of a clip, T, and Skip the number of rows
	// between two of them. The paper uses 4 and 5.
	Frames, Skip int
	Seed         int64
	// Workers is the number of goroutines that fetch a batch; 0 is one per core.
	Workers int
	// Action scales actions; it comes from ColumnMoments with ddof 0.
	Action Moments
	// Q is the task state to return with each frame, or nil.
	Q *envs.Q
	// QMoments standardises Q; it comes from QMoments.
	QMoments Moments
	// Goals replaces the last frame of each clip by a goal: a row drawn uniformly from
	// those after the last but one frame, up to the end of the episode and at most
	// MaxGoal rows later (0: any number). It needs Frames >= 2. Batch.Actions are those
	// of consecutive frames in any case.
	Goals   bool
	MaxGoal int
	// Pixels allocates Batch.Pixels; nil is Go's allocator.
	Pixels HostMemory
}

// HostMemory allocates memory that a device can copy from fast, such as page-locked
// memory of a GPU driver.
type HostMemory interface {
	AllocHost(n int) []byte
	FreeHost([]byte)
}

// Loader returns batches by step number and fetches the following steps in the
// background.
//
// The batch of a step is a pure function of data, clips, options and step, so a run
// that resumes at step n gets the same bytes as an uninterrupted one, with any number
// of workers. A Loader serves one goroutine at a time.
type Loader struct {
	clips  []Clip
	frames FrameReader
	opt    LoaderOptions
	// actions are those of all rows, standardised, (rows, A). They are small compared
	// with the frames, so all of them are in memory.
	actions []float32
	actionW int
	// q has the shape (rows, d_q).
	q        []float32
	episodes []Episode
	fetchers
	waited time.Duration
}

// fetchers is the state of a Loader's background work.
type fetchers struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// ahead has the steps that are being fetched or are ready, in the order of their
	// start. One is fetched at a time.
	ahead []*fetch
	// held has the batches that the consumer may still use, at most two.
	held []*Batch
	// free has batches for reuse.
	free []*Batch
	// pixels has the memory that HostMemory allocated, for Close.
	pixels [][]byte
	order  epochOrder
}

// prefetch is the number of batches fetched ahead of the consumer.
const prefetch = 2

// fetch is a batch that is being fetched. done is closed when batch is filled or err
// is set.
type fetch struct {
	batch *Batch
	done  chan struct{}
	err   error
}

// NewLoader returns a loader and reads the actions, and the columns of q, into
// memory. clips are those of one split. frames is a reader over src or a resized set,
// or nil if the caller has all frames elsewhere and needs only their rows.
func NewLoader(src Source, frames FrameReader, clips []Clip, opt LoaderOptions) (*Loader, error) {
	if opt.Batch < 1 || opt.Frames < 1 || opt.Skip < 1 || opt.Goals && opt.Frames < 2 {
		panic("dataset: a Loader needs Batch, Frames and Skip >= 1, and two frames for goals")
	}
	if len(clips) < opt.Batch {
		return nil, fmt.Errorf("loading batches of %d: the data set gives only %d clips (hint: collect more episodes or use a smaller batch)", opt.Batch, len(clips))
	}
	l := &Loader{clips: clips, frames: frames, opt: opt, episodes: src.Episodes()}
	if err := l.readColumns(src); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.order = epochOrder{n: len(clips), seed: opt.Seed, epoch: -1}
	return l, nil
}

func (l *Loader) readColumns(src Source) error {
	col, err := FindColumn(src, "action")
	if err != nil {
		return err
	}
	raw, err := src.Read("action", 0, src.Rows())
	if err != nil {
		return fmt.Errorf("loading actions: %w", err)
	}
	l.actionW = col.Width
	l.actions = standardise(raw, l.opt.Action)
	if l.opt.Q == nil {
		return nil
	}
	rows, err := ReadQ(src, *l.opt.Q, 0, src.Rows())
	if err != nil {
		return err
	}
	l.q = standardise(rows, l.opt.QMoments)
	return nil
}

// standardise returns z-scores and replaces NaN by 0, the mean
// (docs/sources.md#action-scaling). Only NaN differs from itself.
func standardise(rows []float64, m Moments) []float32 {
	out := make([]float32, len(rows))
	for i, v := range rows {
		if z := m.Scale(i%len(m.Mean), v); z == z {
			out[i] = float32(z)
		}
	}
	return out
}

// StepsPerEpoch returns the number of full batches in the clips. The remaining clips
// are dropped, different ones each epoch.
func (l *Loader) StepsPerEpoch() int { return len(l.clips) / l.opt.Batch }

// Waited returns the total time that the consumer has waited in Batch.
func (l *Loader) Waited() time.Duration { return l.waited }

// Batch returns the batch of a step, counted from 0 over all epochs, and starts to
// fetch the following steps. Steps in ascending order are fast; any other step
// discards what was fetched ahead.
func (l *Loader) Batch(ctx context.Context, step int) (*Batch, error) {
	// The batch returned before the last call is no longer in use; its memory serves
	// a later step.
	if len(l.held) == 2 {
		l.free, l.held = append(l.free, l.held[0]), l.held[1:]
	}
	if err := l.drop(ctx, step); err != nil {
		return nil, err
	}
	for i := range prefetch + 1 {
		l.start(step + i)
	}
	f := l.ahead[0]
	began := time.Now()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.waited += time.Since(began)
	if f.err != nil {
		return nil, fmt.Errorf("loading the batch of step %d: %w", step, f.err)
	}
	l.ahead = l.ahead[1:]
	l.held = append(l.held, f.batch)
	return f.batch, nil
}

// drop discards fetched batches up to the one of step. It waits for those still being
// fetched, because their memory is reused.
func (l *Loader) drop(ctx context.Context, step int) error {
	for len(l.ahead) > 0 && l.ahead[0].batch.Step != step {
		select {
		case <-l.ahead[0].done:
		case <-ctx.Done():
			return ctx.Err()
		}
		l.free = append(l.free, l.ahead[0].batch)
		l.ahead = l.ahead[1:]
	}
	return ctx.Err()
}

// start begins to fetch a step, unless it is being fetched already.
func (l *Loader) start(step int) {
	if slices.ContainsFunc(l.ahead, func(f *fetch) bool { return f.batch.Step == step }) {
		return
	}
	f := &fetch{batch: l.take(), done: make(chan struct{})}
	l.plan(f.batch, step)
	// Batches are fetched one after another, each with all workers: the next one
	// needed is then ready as early as possible.
	var before *fetch
	if n := len(l.ahead); n > 0 {
		before = l.ahead[n-1]
	}
	l.ahead = append(l.ahead, f)
	l.running.Go(func() {
		defer close(f.done)
		if before != nil {
			<-before.done
		}
		f.err = l.fill(l.ctx, f.batch)
	})
}

// take returns a free batch or a new one.
func (l *Loader) take() *Batch {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return l.newBatch(l.opt.Batch)
}

// newBatch allocates a batch of a number of clips.
func (l *Loader) newBatch(clips int) *Batch {
	o := l.opt
	n := clips * o.Frames
	b := &Batch{
		Clips:   make([]Clip, clips),
		Rows:    make([]int32, n),
		Pixels:  l.newPixels(n),
		Actions: make([]float32, n*o.Skip*l.actionW),
		Episode: make([]int32, clips),
	}
	if o.Q != nil {
		b.Q = make([]float32, n*len(o.Q.Parts))
	}
	if o.Goals {
		b.Left = make([]float32, clips)
	}
	return b
}

// Pick fetches clips by their index in the loader's clips, for callers with their own
// order. Goals are drawn as for step 0. The batch belongs to the caller and is not reused.
func (l *Loader) Pick(ctx context.Context, clips []int) (*Batch, error) {
	b := l.newBatch(len(clips))
	for i, c := range clips {
		if c < 0 || c >= len(l.clips) {
			return nil, fmt.Errorf("loading clip %d: there are %d (hint: they are numbered from 0)", c, len(l.clips))
		}
		b.Clips[i], b.Episode[i] = l.clips[c], int32(l.clips[c].Episode)
	}
	if err := l.fill(ctx, b); err != nil {
		return nil, fmt.Errorf("loading %d clips: %w", len(clips), err)
	}
	return b, nil
}

// newPixels allocates memory for n frames, or returns nil if the loader has no
// frames.
func (l *Loader) newPixels(n int) []byte {
	if l.frames == nil {
		return nil
	}
	n *= l.frames.Size() * l.frames.Size() * 3
	if l.opt.Pixels == nil {
		return make([]byte, n)
	}
	l.pixels = append(l.pixels, l.opt.Pixels.AllocHost(n))
	return l.pixels[len(l.pixels)-1]
}

// plan sets the clips of a step. It runs in the consumer's goroutine, since the order
// of the epoch is cached.
func (l *Loader) plan(b *Batch, step int) {
	per := l.StepsPerEpoch()
	order := l.order.of(step / per)
	b.Step = step
	for i, c := range order[step%per*l.opt.Batch:][:l.opt.Batch] {
		b.Clips[i] = l.clips[c]
		b.Episode[i] = int32(l.clips[c].Episode)
	}
}

// fill reads the data of a planned batch with all workers. A worker fills one clip at
// a time.
func (l *Loader) fill(ctx context.Context, b *Batch) error {
	if l.opt.Goals {
		l.drawGoals(b)
	}
	return parallel.For(ctx, l.opt.Workers, len(b.Clips), func(_, i int) error { return l.fillClip(b, i) })
}

// drawGoals draws the distances to the goals of a batch, a pure function of seed, step
// and clips.
func (l *Loader) drawGoals(b *Batch) {
	r := rng.Stream("goals", l.opt.Seed, b.Step)
	for i, c := range b.Clips {
		e := l.episodes[c.Episode]
		most := e.Offset + e.Len - 1 - (c.Row + (l.opt.Frames-2)*l.opt.Skip)
		if l.opt.MaxGoal > 0 {
			most = min(most, l.opt.MaxGoal)
		}
		b.Left[i] = float32(1 + r.IntN(most))
	}
}

// rowOf returns the row of frame t of clip i.
func (l *Loader) rowOf(b *Batch, i, t int) int {
	row := b.Clips[i].Row + t*l.opt.Skip
	if l.opt.Goals && t == l.opt.Frames-1 {
		row += int(b.Left[i]) - l.opt.Skip
	}
	return row
}

// fillClip copies the actions and, for each frame, row, q and pixels of clip i. The
// actions of a clip are consecutive rows, so they are one copy.
func (l *Loader) fillClip(b *Batch, i int) error {
	o := l.opt
	bytes := len(b.Pixels) / len(b.Rows)
	block := o.Skip * l.actionW
	copy(b.Actions[i*o.Frames*block:(i+1)*o.Frames*block], l.actions[b.Clips[i].Row*l.actionW:])
	for t := range o.Frames {
		at, row := i*o.Frames+t, l.rowOf(b, i, t)
		b.Rows[at] = int32(row)
		if o.Q != nil {
			dq := len(o.Q.Parts)
			copy(b.Q[at*dq:(at+1)*dq], l.q[row*dq:])
		}
		if l.frames == nil {
			continue
		}
		if err := l.frames.Frame(row, b.Pixels[at*bytes:(at+1)*bytes]); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the background work and frees the memory of all batches, which must not
// be used afterwards.
func (l *Loader) Close() error {
	l.cancel()
	l.running.Wait()
	for _, p := range l.pixels {
		l.opt.Pixels.FreeHost(p)
	}
	l.pixels = nil
	return nil
}

// epochOrder is the order of n clips in one epoch, a permutation drawn from seed and
// epoch. The order of the last epoch used is cached.
type epochOrder struct {
	n     int
	seed  int64
	epoch int
	perm  []int32
}

// of returns the permutation of an epoch, by the inside-out Fisher-Yates shuffle. A
// prefetch across the end of an epoch and a step back rebuild it; both are rare.
func (o *epochOrder) of(epoch int) []int32 {
	if epoch == o.epoch {
		return o.perm
	}
	o.epoch, o.perm = epoch, make([]int32, o.n)
	r := rng.Stream("loader", o.seed, epoch)
	for i := range o.perm {
		j := r.IntN(i + 1)
		o.perm[i] = o.perm[j]
		o.perm[j] = int32(i)
	}
	return o.perm
}
