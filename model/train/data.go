package train

import (
	"context"
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
)

// clips holds the clips of a training, and the scalers of actions and q.
type clips struct {
	dataset.Cuts
	q     dataset.Moments
	split string // how validation clips were held out, for the sidecar
}

// newClips checks the data set, whose fingerprint is fp, against the task, splits its
// clips into training and validation clips, and computes the scalers.
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
	if err := dataset.CheckActions(o.Data, o.Task.ActionLow, o.Task.ActionHigh); err != nil {
		return c, fmt.Errorf("training on this data set for the task %s: %w", o.Task.Name, err)
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

// constant is the standard deviation of q below which it only reflects rounding.
const constant = 1e-8

// scaleQ computes the scaler of q: over the entire file under the protocol paper,
// over the training episodes under strict.
func (c *clips) scaleQ(o Options, fp string) (err error) {
	var episodes []int
	if o.Protocol == dataset.Strict {
		episodes = dataset.TrainEpisodes(fp, len(o.Data.Episodes()))
	}
	if c.q, err = dataset.QMoments(o.Data, o.Task.Q, episodes); err != nil {
		return err
	}
	// A single component that does not vary is acceptable: its z-score is 0 everywhere.
	if slices.Max(c.q.Std) < constant {
		return fmt.Errorf("the state q of the data set is the same in all rows (hint: %s has nothing to learn from it; train %s, or collect episodes that differ)", o.Method.Name, model.Baseline)
	}
	return nil
}

// OpenFrames opens the data set's frames at the model's size, resizing them if
// necessary. close releases them.
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

// feed brings the batches of one split to the device, in one of four ways:
//
//   - It uploads the frames of each batch (slots). The frames of the next step are
//     copied while the kernels of this step run, so that there are two slots.
//   - All frames are resident on the device, and a batch is a list of row indices.
//   - It uploads the features of a frozen encoder instead of frames.
//   - It uploads frames as the first way does, and the frozen encoder computes their
//     features on the device.
type feed struct {
	dev      device.Device
	loader   *dataset.Loader
	slots    [2]device.Bytes // frames of even and odd steps
	resident device.Bytes    // all frames of the data set, by row; nil unless resident
	rows     device.Ints     // row indices of a batch within resident
	features *featureBatch   // nil unless the model's encoder is frozen
	sent     *dataset.Batch  // the batch of the last call of send
}

// encodesOnDevice reports whether a training runs a frozen encoder in every step, so
// that features do not pass through the host. That takes a device with memory of its
// own, which stores activations in bf16, the format to which features are rounded. A
// single latent row per frame takes less time to copy than its frame takes to encode.
func encodesOnDevice(dev device.Device, info model.Info) bool {
	return dev.Traits().Activations == device.BFloat16 && dev.FreeBytes() > 0 && info.Patches > 1
}

// Features provides the outputs of a frozen encoder for the frames of a data set.
type Features interface {
	// Features writes the features of the given rows to dst, P*D numbers per row.
	Features(ctx context.Context, rows []int32, dst []float32) error
	Close() error
}

// featureBatch holds the features of a batch on the device. A cache of patches stores
// them as bf16, so they are rounded to bf16 even if they are computed on the fly: the
// trained weights do not depend on where features come from.
type featureBatch struct {
	from   Features // nil if encoder computes the features
	values []float32

	encoder model.World
	rounded device.Mat // the features in the device's format of activations

	device.Mat
}

// encode computes the features of as many frames as the batch has.
func (m *featureBatch) encode(dev device.Device, frames device.Bytes) device.Mat {
	m.encoder.Encode(m.Mat, frames, m.Rows/m.encoder.Info().Patches)
	dev.Copy(m.rounded, m.Mat)
	dev.Copy(m.Mat, m.rounded)
	return m.Mat
}

// upload reads the features of rows and uploads them, as float32.
func (m *featureBatch) upload(ctx context.Context, dev device.Device, rows []int32) (device.Mat, error) {
	if err := m.from.Features(ctx, rows, m.values); err != nil {
		return device.Mat{}, err
	}
	dev.Upload(m.Mat, m.values)
	return m.Mat, nil
}

// newFeed returns a feed for batches of at most `frames` frames. It feeds features if
// they are not nil, rows of resident if that is not nil, and otherwise uploads
// frames, which encoder encodes if it is not nil. The caller keeps ownership of
// resident.
func newFeed(dev device.Device, features Features, encoder model.World, resident device.Bytes, frames int, info model.Info) *feed {
	f := &feed{dev: dev, resident: resident}
	if features != nil || encoder != nil {
		f.features = &featureBatch{from: features, encoder: encoder, Mat: device.NewMat(dev, frames*info.Patches, info.Dim)}
	}
	switch {
	case features != nil:
		f.features.values = make([]float32, f.features.Len())
		return f
	case encoder != nil:
		f.features.rounded = device.NewActivations(dev, f.features.Rows, f.features.Cols)
	case resident != nil:
		f.rows = dev.AllocInts(frames)
		return f
	}
	for i := range f.slots {
		f.slots[i] = dev.AllocBytes(frames * info.FrameBytes())
	}
	return f
}

// free releases the feed's memory. It first waits for copies that are still running.
func (f *feed) free() {
	f.dev.Sync()
	if f.features != nil {
		f.dev.Free(f.features.Buf)
		if f.features.rounded.IsSet() {
			f.dev.Free(f.features.rounded.Buf)
		}
	}
	if f.rows != nil {
		f.dev.Free(f.rows)
	}
	for _, s := range f.slots {
		if s != nil {
			f.dev.Free(s)
		}
	}
}

// close closes the loader and frees the feed.
func (f *feed) close() {
	f.dev.Sync() // a running copy may still read the loader's memory
	f.loader.Close()
	f.free()
}

// send takes the batch of a step from the loader, and starts to copy its frames to
// the device if the feed has slots for them.
func (f *feed) send(ctx context.Context, step int) error {
	b, err := f.loader.Batch(ctx, step)
	if err != nil {
		return err
	}
	f.sent = b
	if slot := f.slots[step%2]; slot != nil {
		f.dev.SendBytes(slot, 0, b.Pixels)
	}
	return nil
}

// take returns the batch of a step. Kernels queued after take may read the frames. If
// the batch was not sent before, take sends it.
func (f *feed) take(ctx context.Context, step int) (*dataset.Batch, model.Batch, error) {
	if f.sent == nil || f.sent.Step != step {
		if err := f.send(ctx, step); err != nil {
			return nil, model.Batch{}, err
		}
	}
	b, out := f.sent, model.Batch{B: len(f.sent.Clips), Pixels: f.slots[step%2]}
	f.dev.WaitSent()
	var err error
	switch {
	case f.features != nil && f.features.encoder != nil:
		out.Features = f.features.encode(f.dev, out.Pixels)
	case f.features != nil:
		out.Features, err = f.features.upload(ctx, f.dev, b.Rows)
	case f.resident != nil:
		f.dev.UploadInts(f.rows, b.Rows)
		out.Pixels, out.Frames = f.resident, f.rows
	}
	return b, out, err
}

// openFeeds opens the feeds of both splits. frames is nil if all frames are resident.
func (l *loop) openFeeds(frames dataset.FrameReader) (err error) {
	if l.train, err = l.feed(frames, l.clips.Train, l.o.Config.Batch); err != nil {
		return err
	}
	if n := min(l.o.Config.Batch, len(l.clips.Val)); n > 1 { // SIGReg compares a distribution over clips
		l.val, err = l.feed(frames, l.clips.Val, n)
	}
	return err
}

// feed opens a feed of batches of the given clips.
func (l *loop) feed(frames dataset.FrameReader, clips []dataset.Clip, batch int) (*feed, error) {
	opt := dataset.LoaderOptions{Batch: batch, Frames: l.t.info.ClipFrames(), Skip: l.t.info.FrameSkip, Seed: l.o.Seed,
		Workers: l.o.Workers, Action: l.clips.Action, Pixels: l.o.Dev, Goals: l.t.info.Goals, MaxGoal: l.t.info.MaxGoal}
	if l.o.Method.UsesQ() {
		opt.Q, opt.QMoments = &l.o.Task.Q, l.clips.q
	}
	if l.features != nil {
		frames = nil // l.features reads frames itself if it needs them
	}
	loader, err := dataset.NewLoader(l.o.Data, frames, clips, opt)
	if err != nil {
		return nil, err
	}
	f := newFeed(l.o.Dev, l.features, l.encoder, l.resident, batch*opt.Frames, l.t.info)
	f.loader = loader
	return f, nil
}

// closeFeeds closes both feeds, which stops their background goroutines.
func (l *loop) closeFeeds() {
	for _, f := range []*feed{l.train, l.val} {
		if f != nil {
			f.close()
		}
	}
	l.train, l.val = nil, nil
}

// close closes the feeds and frees the resident frames.
func (l *loop) close() {
	l.closeFeeds()
	if l.resident != nil {
		l.o.Dev.Free(l.resident)
	}
}

// makeResident uploads all frames of the data set to the device, if fits allows it.
// The loop calls it after its first step: only then has everything that a step needs
// been allocated, so that the free memory is really free.
func (l *loop) makeResident(ctx context.Context, frames dataset.FrameReader) (err error) {
	if l.features != nil || l.encoder != nil || !l.fits(frames) {
		return nil
	}
	resident, err := l.uploadAll(ctx, frames)
	if err != nil {
		return err
	}
	l.waited += l.train.loader.Waited()
	l.closeFeeds()
	l.resident = resident
	return l.openFeeds(nil)
}

// Limits for resident frames.
const (
	residentShare = 0.75     // maximum share of the memory that a step leaves free
	pieceBytes    = 64 << 20 // one piece is read while the previous one is copied
)

// fits reports whether all frames should be resident: they fit into the free memory,
// and the remaining steps would copy more frames than the data set has.
func (l *loop) fits(frames dataset.FrameReader) bool {
	rows := l.o.Data.Rows()
	left := (l.t.total - l.at.step) * l.o.Config.Batch * l.t.info.ClipFrames()
	return left > rows && float64(rows*frameBytes(frames)) <= residentShare*float64(l.o.Dev.FreeBytes())
}

// frameBytes returns the size of one RGB frame.
func frameBytes(frames dataset.FrameReader) int { return 3 * frames.Size() * frames.Size() }

// uploadAll copies all frames of the data set to the device, in row order. All
// workers read one piece while the previous one is copied. On an error nothing
// remains allocated.
func (l *loop) uploadAll(ctx context.Context, frames dataset.FrameReader) (device.Bytes, error) {
	dev, rows, size := l.o.Dev, l.o.Data.Rows(), frameBytes(frames)
	per := min(rows, max(1, pieceBytes/size))
	all := dev.AllocBytes(rows * size)
	host := [2][]byte{dev.AllocHost(per * size), dev.AllocHost(per * size)}
	defer func() {
		dev.Sync()
		dev.FreeHost(host[0])
		dev.FreeHost(host[1])
	}()
	for from, i := 0, 0; from < rows; from, i = from+per, i+1 {
		to := min(from+per, rows)
		err := dataset.ReadFrames(ctx, frames, from, to, host[i%2], l.o.Workers)
		dev.Sync() // the previous piece has arrived, and its host buffer is free
		if err == nil {
			dev.SendBytes(all, from*size, host[i%2][:(to-from)*size])
			err = dev.Err()
		}
		if err != nil {
			dev.Free(all)
			return nil, fmt.Errorf("uploading all frames to the device: %w", err)
		}
		if l.o.Progress != nil {
			l.o.Progress(int64(to), int64(rows), "frames to the device")
		}
	}
	return all, nil
}
