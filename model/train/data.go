package train

import (
	"context"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
)

// clips are the clips of a training, and the scalers of what it sees of them.
type clips struct {
	dataset.Cuts
	q     dataset.Moments
	split string // how validation clips were held out, for the sidecar
}

// newClips cuts, splits and scales the data set of fingerprint fp.
func newClips(o Options, fp string) (c clips, err error) {
	info := o.Model.Info()
	if err := dataset.CheckTask(o.Data, o.Task.Name, o.Task.ID, info.ActionDim()); err != nil {
		return c, fmt.Errorf("training on this data set: %w", err)
	}
	var q *envs.Q
	if o.Method.UsesQ() {
		q = &o.Task.Q
	}
	if err := dataset.CheckFinite(o.Data, q); err != nil {
		return c, fmt.Errorf("training on this data set: %w", err)
	}
	rows := info.ClipFrames() * info.FrameSkip
	if c.Cuts, err = dataset.Cut(o.Data, o.Protocol, info.ClipFrames(), info.FrameSkip, o.Seed); err != nil {
		return c, err
	}
	if len(c.Train)+len(c.Val) == 0 {
		return c, fmt.Errorf("no episode of the data set has the %d rows of a clip (hint: a smaller frame_skip or history, or longer episodes)", rows)
	}
	if len(c.Train) < o.Config.Batch {
		return c, fmt.Errorf("the data set gives %d training clips of %d rows, a batch needs %d (hint: collect more episodes)", len(c.Train), rows, o.Config.Batch)
	}
	unit := "clips"
	if o.Protocol == dataset.Strict {
		unit = "clips of held-out episodes"
	}
	c.split = fmt.Sprintf("%s: %d of %d clips for validation, %s, seed %d", o.Protocol, len(c.Val), len(c.Train)+len(c.Val), unit, o.Seed)
	if q != nil {
		err = c.scaleQ(o, fp)
	}
	return c, err
}

// constant is a deviation of q that is rounding only.
const constant = 1e-8

// scaleQ takes the scaler of q over the whole file (paper) or over the training
// episodes only (strict).
func (c *clips) scaleQ(o Options, fp string) (err error) {
	var episodes []int
	if o.Protocol == dataset.Strict {
		episodes = dataset.TrainEpisodes(fp, len(o.Data.Episodes()))
	}
	if c.q, err = dataset.QMoments(o.Data, o.Task.Q, episodes); err != nil {
		return err
	}
	if slices.Max(c.q.Std) < constant { // one entry that does not vary becomes 0, the mean
		return fmt.Errorf("the state q of the data set is the same in all rows (hint: %s has nothing to learn from it; train %s, or collect episodes that differ)", o.Method.Name, model.Baseline)
	}
	return nil
}

// OpenFrames makes the data's frames at the model's size; close frees them.
func (o Options) OpenFrames(ctx context.Context) (frames dataset.FrameReader, close func() error, err error) {
	if o.Model.Info().FrameSize == o.Data.FrameSize() {
		return dataset.Original(o.Data), func() error { return nil }, nil
	}
	set, err := dataset.Resized(ctx, o.Data, dataset.ResizeOptions{Size: o.Model.Info().FrameSize, Workers: o.Workers, Path: o.DataPath}, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	return set, set.Close, nil
}

// feed brings the batches of one split to the device. Frames of the next step are
// on their way while this one runs; or all frames of the data set are on the device
// and a step sends their numbers.
type feed struct {
	dev    device.Device
	loader *dataset.Loader
	slots  [2]device.Bytes // frames of even and odd steps
	whole  device.Bytes    // all frames, by row; nil: batches are sent
	rows   device.Ints     // those of a batch, in whole
	made   *made           // instead of frames, for models whose encoder is frozen
	sent   *dataset.Batch  // the last that was sent
}

// Features are what a frozen encoder makes of the frames of a data set.
type Features interface {
	// Features writes those of rows to dst, P*D numbers in bf16 a row.
	Features(ctx context.Context, rows []int32, dst []uint16) error
	Close() error
}

// made is a batch's features on their way to the device. They are rounded to bf16
// wherever they come from, so that weights do not depend on it.
type made struct {
	from     Features
	bits     []uint16
	features []float32
	device.Mat
}

// take brings the features of rows to the device.
func (m *made) take(ctx context.Context, dev device.Device, rows []int32) (device.Mat, error) {
	if err := m.from.Features(ctx, rows, m.bits); err != nil {
		return device.Mat{}, err
	}
	for i, b := range m.bits {
		m.features[i] = math.Float32frombits(uint32(b) << 16)
	}
	dev.Upload(m.Mat, m.features)
	return m.Mat, nil
}

// newFeed is a feed for batches of at most that many frames: of what features gives of them, from whole, which stays the
// caller's, or sent.
func newFeed(dev device.Device, features Features, whole device.Bytes, frames int, info model.Info) *feed {
	f := &feed{dev: dev, whole: whole}
	switch {
	case features != nil:
		f.made = &made{from: features, Mat: device.NewMat(dev, frames*info.Patches, info.Dim)}
		f.made.bits, f.made.features = make([]uint16, f.made.Len()), make([]float32, f.made.Len())
	case whole != nil:
		f.rows = dev.AllocInts(frames)
	default:
		for i := range f.slots {
			f.slots[i] = dev.AllocBytes(frames * info.FrameBytes())
		}
	}
	return f
}

// free gives the memory back, once nothing is on its way to it.
func (f *feed) free() {
	f.dev.Sync()
	if f.made != nil {
		f.dev.Free(f.made.Buf)
		return
	}
	if f.whole != nil {
		f.dev.Free(f.rows)
		return
	}
	for _, s := range f.slots {
		f.dev.Free(s)
	}
}

// close is free, and ends the loader.
func (f *feed) close() {
	f.dev.Sync() // before the loader frees what is read
	f.loader.Close()
	f.free()
}

// send takes the batch of a step from the loader and lets its frames go.
func (f *feed) send(ctx context.Context, step int) error {
	b, err := f.loader.Batch(ctx, step)
	if err != nil {
		return err
	}
	f.sent = b
	if f.made == nil && f.whole == nil {
		f.dev.SendBytes(f.slots[step%2], 0, b.Pixels)
	}
	return nil
}

// take is the batch of a step, and its frames for the kernels from now on.
func (f *feed) take(ctx context.Context, step int) (*dataset.Batch, model.Batch, error) {
	if f.sent == nil || f.sent.Step != step {
		if err := f.send(ctx, step); err != nil {
			return nil, model.Batch{}, err
		}
	}
	b := f.sent
	if f.made != nil {
		features, err := f.made.take(ctx, f.dev, b.Rows)
		return b, model.Batch{B: len(b.Clips), Features: features}, err
	}
	f.dev.AwaitSent()
	if f.whole == nil {
		return b, model.Batch{B: len(b.Clips), Pixels: f.slots[step%2]}, nil
	}
	f.dev.UploadInts(f.rows, b.Rows)
	return b, model.Batch{B: len(b.Clips), Pixels: f.whole, Frames: f.rows}, nil
}

// openFeeds makes the feeds; frames nil: all are on the device.
func (l *loop) openFeeds(frames dataset.FrameReader) (err error) {
	if l.train, err = l.feed(frames, l.clips.Train, l.o.Config.Batch); err != nil {
		return err
	}
	if n := min(l.o.Config.Batch, len(l.clips.Val)); n > 1 { // SIGReg needs two
		l.val, err = l.feed(frames, l.clips.Val, n)
	}
	return err
}

func (l *loop) feed(frames dataset.FrameReader, clips []dataset.Clip, batch int) (*feed, error) {
	opt := dataset.LoaderOptions{Batch: batch, Frames: l.t.info.ClipFrames(), Skip: l.t.info.FrameSkip, Seed: l.o.Seed,
		Workers: l.o.Workers, Action: l.clips.Action, Pixels: l.o.Dev}
	if l.o.Method.UsesQ() {
		opt.Q, opt.QMoments = &l.o.Task.Q, l.clips.q
	}
	if l.features != nil {
		frames = nil // whoever makes the features reads them
	}
	loader, err := dataset.NewLoader(l.o.Data, frames, clips, opt)
	if err != nil {
		return nil, err
	}
	f := newFeed(l.o.Dev, l.features, l.whole, batch*opt.Frames, l.t.info)
	f.loader = loader
	return f, nil
}

// closeFeeds ends the background work.
func (l *loop) closeFeeds() {
	for _, f := range []*feed{l.train, l.val} {
		if f != nil {
			f.close()
		}
	}
	l.train, l.val = nil, nil
}

func (l *loop) close() {
	l.closeFeeds()
	if l.whole != nil {
		l.o.Dev.Free(l.whole)
	}
}

// reside moves the data set to the device, if it may. That is after a step, when
// all that a step needs has its memory.
func (l *loop) reside(ctx context.Context, frames dataset.FrameReader) (err error) {
	if l.features != nil || !l.fits(frames) {
		return nil
	}
	whole, err := l.store(ctx, frames)
	if err != nil {
		return err
	}
	l.waited += l.train.loader.Waited()
	l.closeFeeds()
	l.whole = whole
	return l.openFeeds(nil)
}

// Bounds of what is kept on the device.
const (
	share = 0.75     // of the memory that a step leaves free
	piece = 64 << 20 // bytes that are read while as many are sent
)

// fits says whether all frames may be kept on the device: if they fit beside
// what a step took, and the steps that are left would send more.
func (l *loop) fits(frames dataset.FrameReader) bool {
	rows := l.o.Data.Rows()
	left := (l.t.total - l.at.step) * l.o.Config.Batch * l.t.info.ClipFrames()
	return left > rows && float64(rows*frameBytes(frames)) <= share*float64(l.o.Dev.Room())
}

func frameBytes(frames dataset.FrameReader) int { return 3 * frames.Size() * frames.Size() }

// store sends all frames to the device, by row: a piece is read with all workers
// while the one before is on its way.
func (l *loop) store(ctx context.Context, frames dataset.FrameReader) (device.Bytes, error) {
	dev, rows, size := l.o.Dev, l.o.Data.Rows(), frameBytes(frames)
	per := min(rows, max(1, piece/size))
	whole := dev.AllocBytes(rows * size)
	host := [2][]byte{dev.AllocHost(per * size), dev.AllocHost(per * size)}
	defer func() {
		dev.Sync()
		dev.FreeHost(host[0])
		dev.FreeHost(host[1])
	}()
	for from, i := 0, 0; from < rows; from, i = from+per, i+1 {
		to := min(from+per, rows)
		err := dataset.ReadFrames(ctx, frames, from, to, host[i%2], l.o.Workers)
		dev.Sync() // the piece before is there
		if err == nil {
			dev.SendBytes(whole, from*size, host[i%2][:(to-from)*size])
			err = dev.Err()
		}
		if err != nil {
			dev.Free(whole)
			return nil, fmt.Errorf("bringing all frames to the device: %w", err)
		}
		if l.o.Progress != nil {
			l.o.Progress(int64(to), int64(rows), "frames to the device")
		}
	}
	return whole, nil
}
