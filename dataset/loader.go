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

// Batch is B clips of T frames. Its memory is reused: it is valid until the
// call of Loader.Batch after the next, so that a batch can be on its way to a
// device while the one before is used.
type Batch struct {
	Step    int
	Clips   []Clip
	Rows    []int32   // (B*T) the file's row of every frame
	Pixels  []byte    // (B*T, size, size, 3), clip-major, row-major RGB; nil of a Loader without frames
	Actions []float32 // (B*T, skip*A), z-scored, NaN -> 0: block k holds the skip actions that leave frame k, in time order
	Q       []float32 // (B*T, d_q), standardised; nil without LoaderOptions.Q
	Episode []int32   // (B)
}

// LoaderOptions says what a Loader hands out.
type LoaderOptions struct {
	Batch        int // B
	Frames, Skip int // T and the rows between two frames; 4 and 5 in the paper
	Seed         int64
	Workers      int        // goroutines that fetch; 0: one a core
	Action       Moments    // from ColumnMoments(src, "action", ...) with ddof 0
	Q            *envs.Q    // nil: no q
	QMoments     Moments    // from QMoments
	Pixels       HostMemory // of Batch.Pixels; nil: Go's own
}

// HostMemory is memory that a device reads fast.
type HostMemory interface {
	AllocHost(n int) []byte
	FreeHost([]byte)
}

// Loader hands out batches by step number. The batch of a step is a pure
// function of (data, clips, options, step): a run resumed at step n, with
// whatever number of workers, sees the same bytes. Later steps are fetched in
// the background. It serves one consumer.
type Loader struct {
	clips   []Clip
	frames  FrameReader
	opt     LoaderOptions
	actions []float32 // (rows, A), standardised
	actionW int
	q       []float32 // (rows, d_q)
	fetchers
	waited time.Duration
}

// fetchers is the background part of a Loader.
type fetchers struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	ahead   []*fetch // steps being fetched, ascending
	held    []*Batch // what the consumer holds, at most two
	free    []*Batch
	pixels  [][]byte // of all batches
	order   epochOrder
}

// prefetch is how many batches are fetched ahead of the consumer.
const prefetch = 2

type fetch struct {
	batch *Batch
	done  chan struct{}
	err   error
}

// NewLoader reads the small columns into memory and is ready to serve. The
// clips are those of one split; frames is src itself or a resized set, or nil where
// all frames are elsewhere already and only their rows are needed.
func NewLoader(src Source, frames FrameReader, clips []Clip, opt LoaderOptions) (*Loader, error) {
	if opt.Batch < 1 || opt.Frames < 1 || opt.Skip < 1 {
		panic("dataset: a Loader needs Batch, Frames and Skip >= 1")
	}
	if len(clips) < opt.Batch {
		return nil, fmt.Errorf("loading batches of %d: the data set gives only %d clips (hint: collect more episodes or use a smaller batch)", opt.Batch, len(clips))
	}
	l := &Loader{clips: clips, frames: frames, opt: opt}
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

// standardise z-scores and then turns NaN into 0, the mean (docs/sources.md#action-scaling).
func standardise(rows []float64, m Moments) []float32 {
	out := make([]float32, len(rows))
	for i, v := range rows {
		if z := m.Scale(i%len(m.Mean), v); z == z {
			out[i] = float32(z)
		}
	}
	return out
}

// StepsPerEpoch is the number of full batches in the clips; the rest is
// dropped, other clips each epoch.
func (l *Loader) StepsPerEpoch() int { return len(l.clips) / l.opt.Batch }

// Waited is how long the consumer has waited in Batch so far.
func (l *Loader) Waited() time.Duration { return l.waited }

// Batch returns the batch of a step, counted from 0 over all epochs, and starts
// fetching the steps after it.
func (l *Loader) Batch(ctx context.Context, step int) (*Batch, error) {
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

// drop forgets what was fetched for other steps than step and those after it.
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

// start begins to fetch a step unless it is under way.
func (l *Loader) start(step int) {
	if slices.ContainsFunc(l.ahead, func(f *fetch) bool { return f.batch.Step == step }) {
		return
	}
	f := &fetch{batch: l.take(), done: make(chan struct{})}
	l.plan(f.batch, step)
	var before *fetch // one batch after the other, each with all workers
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

// take is a free batch or a new one.
func (l *Loader) take() *Batch {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return l.newBatch(l.opt.Batch)
}

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
	return b
}

// Pick fetches clips by their numbers, for callers with an order of their own. The batch
// is not reused.
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

// newPixels is memory for n frames.
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

// plan chooses a step's clips.
func (l *Loader) plan(b *Batch, step int) {
	per := l.StepsPerEpoch()
	order := l.order.of(step / per)
	b.Step = step
	for i, c := range order[step%per*l.opt.Batch:][:l.opt.Batch] {
		b.Clips[i] = l.clips[c]
		b.Episode[i] = int32(l.clips[c].Episode)
	}
}

// fill fetches a planned batch with all workers.
func (l *Loader) fill(ctx context.Context, b *Batch) error {
	return parallel.For(ctx, l.opt.Workers, len(b.Clips), func(_, i int) error { return l.fillClip(b, i) })
}

func (l *Loader) fillClip(b *Batch, i int) error {
	o, row := l.opt, b.Clips[i].Row
	bytes := len(b.Pixels) / len(b.Rows)
	block := o.Skip * l.actionW
	copy(b.Actions[i*o.Frames*block:(i+1)*o.Frames*block], l.actions[row*l.actionW:])
	for t := range o.Frames {
		at := i*o.Frames + t
		b.Rows[at] = int32(row + t*o.Skip)
		if o.Q != nil {
			dq := len(o.Q.Parts)
			copy(b.Q[at*dq:(at+1)*dq], l.q[(row+t*o.Skip)*dq:])
		}
		if l.frames == nil {
			continue
		}
		if err := l.frames.Frame(row+t*o.Skip, b.Pixels[at*bytes:(at+1)*bytes]); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the background work and ends the life of all batches.
func (l *Loader) Close() error {
	l.cancel()
	l.running.Wait()
	for _, p := range l.pixels {
		l.opt.Pixels.FreeHost(p)
	}
	l.pixels = nil
	return nil
}

// epochOrder is the order of the clips in an epoch, one permutation each.
type epochOrder struct {
	n     int
	seed  int64
	epoch int
	perm  []int32
}

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
