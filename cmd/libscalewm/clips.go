package libscalewm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/parallel"
)

// clips is the clips of a data set as a training run sees them: its split, order and scaling.
// Opening runs in the background; the fields below opened are valid once it is closed.
type clips struct {
	request     clipsRequest
	ctx         context.Context
	cancel      context.CancelFunc
	opened      chan struct{} // closed when the data set is open, or err is set
	err         error
	info        clipsInfo
	src         *hdf5.File
	frames      dataset.FrameReader
	closeFrames func() error
	cuts        []dataset.Clip
	scaler      dataset.Moments
	column      [][]float64     // values of the requested columns, all rows
	pick        *dataset.Loader // for clips by number
	batch       *dataset.Loader // for the batches of steps; nil before the first
	batchN      int             // batch size of batch
	news        chan progress
	pending     chan fetched // result of the fetch in progress; nil if there is none
}

// fetched is the result of a fetch.
type fetched struct {
	*dataset.Batch
	err error
}

// clipsRequest is the request of clips.new.
type clipsRequest struct {
	Path       string   `json:"path"`
	Frames     int      `json:"frames"` // per clip, T
	Skip       int      `json:"skip"`   // rows between frames
	Size       int      `json:"size"`   // edge of the frames in pixels; 0: as stored
	Split      string   `json:"split"`
	Seed       int64    `json:"seed"`
	Protocol   string   `json:"protocol"`
	Columns    []string `json:"columns"`
	Normalised bool     `json:"normalised"`
	Workers    int      `json:"workers"`
}

// clipsInfo is the answer of clips.open.
type clipsInfo struct {
	Want       string       `json:"want"` // "done"
	Clips      int          `json:"clips"`
	Rows       int          `json:"rows"`
	Episodes   int          `json:"episodes"`
	FrameSize  int          `json:"frame_size"`
	Actions    int          `json:"actions"` // numbers per row
	ActionMean []float64    `json:"action_mean"`
	ActionStd  []float64    `json:"action_std"`
	Columns    []columnInfo `json:"columns"`
}

// columnInfo describes a requested column.
type columnInfo struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Width int    `json:"width"`
}

// newClips starts to open a data set, which takes a while if it is large: {"path", ...} gives
// {"handle"}. clips.open must follow.
func newClips(c call) (any, error) {
	d := &clips{opened: make(chan struct{}), news: make(chan progress, 1)}
	if err := c.read(&d.request); err != nil {
		return nil, err
	}
	if w := d.request; w.Frames < 1 || w.Skip < 1 || w.Size < 0 || w.Size > hdf5.MaxFrameSize || w.Workers < 0 || !slices.Contains([]string{"train", "val", "all"}, w.Split) {
		return nil, fmt.Errorf("clips of %d frames, %d rows apart, %d pixels, %d workers, split %q (hint: frames and skip from 1, split train, val or all)", w.Frames, w.Skip, w.Size, w.Workers, w.Split)
	}
	// These names are taken, and a column must not be requested twice.
	for i, name := range d.request.Columns {
		if slices.Contains([]string{"pixels", "action", "row", "episode"}, name) || slices.Contains(d.request.Columns[:i], name) {
			return nil, fmt.Errorf("the column %s is part of the clips already (hint: omit it; action_mean and action_std undo the scaling of actions)", name)
		}
	}
	// Opening checks the data and may resize all frames, so it runs on a goroutine.
	d.ctx, d.cancel = context.WithCancel(context.Background())
	go func() {
		// Deferred calls run in reverse order: err is set before opened is closed.
		defer close(d.opened)
		defer recoverTo(&d.err)
		d.err = d.begin()
	}()
	return map[string]uint64{"handle": objects.add(d)}, nil
}

// begin opens the data set, selects the clips and creates the loader.
func (d *clips) begin() (err error) {
	w := d.request
	protocol, err := dataset.ParseProtocol(w.Protocol)
	if err != nil {
		return err
	}
	if d.src, err = hdf5.Open(w.Path); err != nil {
		return err
	}
	// As a training run does, before it uses the data.
	if err := dataset.CheckFinite(d.src, nil); err != nil {
		return fmt.Errorf("loading %s: %w", w.Path, err)
	}
	cuts, err := dataset.Cut(d.src, protocol, w.Frames, w.Skip, w.Seed)
	if err != nil {
		return err
	}
	// The scaling of actions is the same for all splits.
	d.scaler = cuts.Action
	switch w.Split {
	case "train":
		d.cuts = cuts.Train
	case "val":
		d.cuts = cuts.Val
	default:
		// All clips, in file order.
		d.cuts = dataset.Clips(d.src, w.Frames, w.Skip)
	}
	if len(d.cuts) == 0 {
		return fmt.Errorf("loading %s: no episode has the %d rows of a clip (hint: a smaller skip or fewer frames)", w.Path, w.Frames*w.Skip)
	}
	action, err := dataset.FindColumn(d.src, "action")
	if err != nil {
		return err
	}
	d.info = clipsInfo{Want: "done", Clips: len(d.cuts), Rows: d.src.Rows(), Episodes: len(d.src.Episodes()), FrameSize: d.src.FrameSize(), Actions: action.Width,
		ActionMean: d.scaler.Mean, ActionStd: d.scaler.Std, Columns: []columnInfo{}}
	for _, name := range w.Columns {
		col, err := dataset.FindColumn(d.src, name)
		if err != nil {
			return err
		}
		// A type that buffers do not support, such as float16, is widened.
		if sizeOf(col.DType) == 0 {
			col.DType = "float64"
		}
		values, err := d.src.Read(name, 0, d.src.Rows())
		if err != nil {
			return err
		}
		d.column = append(d.column, values)
		d.info.Columns = append(d.info.Columns, columnInfo{col.Name, col.DType, col.Width})
	}
	// Frames as stored, unless another size is requested.
	d.frames, d.closeFrames = dataset.Original(d.src), func() error { return nil }
	if w.Size != 0 && w.Size != d.src.FrameSize() {
		set, err := dataset.Resized(d.ctx, d.src, dataset.ResizeOptions{Size: w.Size, Workers: w.Workers, Path: w.Path}, func(done, total int64, note string) { publish(d.news, done, total, note) })
		if err != nil {
			return err
		}
		d.frames, d.closeFrames, d.info.FrameSize = set, set.Close, w.Size
	}
	// Clips by number have no batch size; the loader needs one all the same.
	d.pick, err = d.loader(1)
	return err
}

// loader returns a loader of batches of the given size, with the options of a training run.
func (d *clips) loader(batch int) (*dataset.Loader, error) {
	return dataset.NewLoader(d.src, d.frames, d.cuts, dataset.LoaderOptions{Batch: batch, Frames: d.request.Frames, Skip: d.request.Skip, Seed: d.request.Seed,
		Workers: d.request.Workers, Action: d.scaler})
}

// open waits until the data set is open: {"want": "progress", ...} or a clipsInfo.
func (d *clips) open(call) (answer any, again bool, err error) {
	select {
	case <-d.opened:
		return d.info, false, d.err
	case p := <-d.news:
		return p, false, nil
	case <-time.After(slice):
		return nil, true, nil
	}
}

// clip fetches clips by their numbers. Buffers: the numbers, int64, then those of fill.
func (d *clips) clip(c call) (again bool, err error) {
	if err := d.ready(); err != nil {
		return false, err
	}
	if len(c.buffers) < 1 {
		return false, errors.New("clips: the buffer of numbers is missing")
	}
	numbers, err := ints(c.buffers[0], len(c.buffers[0])/8, "numbers of clips")
	if err != nil {
		return false, err
	}
	// Copied, because the fetch runs after this call may have returned.
	which := make([]int, len(numbers))
	for i, n := range numbers {
		which[i] = int(n)
	}
	return d.serve(c, c.buffers[1:], len(which), func() (*dataset.Batch, error) { return d.pick.Pick(d.ctx, which) })
}

// step fetches the batch of a training step: {"batch", "step"}. Buffers: those of fill.
func (d *clips) step(c call) (again bool, err error) {
	var q struct{ Batch, Step int }
	if err := errors.Join(d.ready(), c.read(&q)); err != nil {
		return false, err
	}
	if q.Batch < 1 || q.Step < 0 {
		return false, fmt.Errorf("step %d of batches of %d clips (hint: steps are numbered from 0; a batch has at least one clip)", q.Step, q.Batch)
	}
	// A loader prefetches batches of one size, so another size needs a new one.
	if d.batch == nil || d.batchN != q.Batch {
		if d.pending != nil { // of an abandoned call; its loader must not be closed before it ends
			<-d.pending
			d.pending = nil
		}
		if d.batch != nil {
			d.batch.Close()
		}
		if d.batch, err = d.loader(q.Batch); err != nil {
			return false, err
		}
		d.batchN = q.Batch
	}
	return d.serve(c, c.buffers, q.Batch, func() (*dataset.Batch, error) { return d.batch.Batch(d.ctx, q.Step) })
}

// ready returns an error unless the data set is open.
func (d *clips) ready() error {
	select {
	case <-d.opened:
		return d.err
	default:
		return errors.New("the data set is not open yet (hint: call clips.open until it is done)")
	}
}

// serve fetches a batch on a goroutine, so that the caller can be interrupted, and writes it
// to the caller's buffers when it is complete. The goroutine itself never touches them: after
// an interrupt the caller may free them.
func (d *clips) serve(c call, buffers [][]byte, n int, fetch func() (*dataset.Batch, error)) (again bool, err error) {
	if err := d.check(buffers, n); err != nil {
		return false, err
	}
	if !c.more {
		if d.pending != nil { // of a call that was interrupted
			<-d.pending
		}
		// Buffered, so that the goroutine ends even if nobody receives the result.
		found := make(chan fetched, 1)
		d.pending = found
		go func() {
			var f fetched
			defer func() { found <- f }()
			defer recoverTo(&f.err)
			f.Batch, f.err = fetch()
		}()
	}
	select {
	case f := <-d.pending:
		d.pending = nil
		if f.err != nil {
			return false, f.err
		}
		return false, d.fill(buffers, f.Batch)
	case <-time.After(slice):
		return true, nil
	}
}

// check returns an error unless the buffers have the sizes that fill writes: frames, actions,
// row indices (int32), episode indices (int32), and each column, for n clips.
func (d *clips) check(buffers [][]byte, n int) error {
	// Checked before the fetch, so that fill cannot write beyond a buffer.
	frames := n * d.request.Frames
	pixels := frames * 3 * d.info.FrameSize * d.info.FrameSize
	if d.request.Normalised {
		pixels *= 4 // float32
	}
	sizes := []int{pixels, 4 * frames * d.request.Skip * d.info.Actions, 4 * frames, 4 * n}
	for _, col := range d.info.Columns {
		sizes = append(sizes, frames*col.Width*sizeOf(col.DType))
	}
	if len(buffers) != len(sizes) {
		return fmt.Errorf("clips: %d buffers, not %d", len(buffers), len(sizes))
	}
	for i, size := range sizes {
		if err := fits(buffers[i], size, fmt.Sprintf("buffer %d of clips", i)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a batch to the buffers. Columns are looked up by row index.
func (d *clips) fill(buffers [][]byte, b *dataset.Batch) error {
	if d.request.Normalised {
		if err := d.normalise(buffers[0], b); err != nil {
			return err
		}
	} else {
		copy(buffers[0], b.Pixels)
	}
	copy(buffers[1], bytesOf(b.Actions))
	copy(buffers[2], bytesOf(b.Rows))
	copy(buffers[3], bytesOf(b.Episode))
	for i, col := range d.info.Columns {
		size := col.Width * sizeOf(col.DType)
		for k, row := range b.Rows {
			store(buffers[4+i][k*size:], col.DType, d.column[i][int(row)*col.Width:][:col.Width])
		}
	}
	return nil
}

// ImageNet's mean and standard deviation of red, green and blue
// (docs/sources.md#image-normalisation).
var (
	pixelMean = [3]float32{0.485, 0.456, 0.406}
	pixelStd  = [3]float32{0.229, 0.224, 0.225}
)

// normalise writes frames as float32, channels first: (value/255 - mean) / deviation. A table
// of the 256 results per channel replaces the arithmetic and gives the same bits.
func (d *clips) normalise(dst []byte, b *dataset.Batch) error {
	var table [3][256]float32
	for c := range table {
		for v := range table[c] {
			table[c][v] = (float32(v)/255 - pixelMean[c]) / pixelStd[c]
		}
	}
	n := d.info.FrameSize * d.info.FrameSize
	out, err := typed[float32](dst, len(dst)/4, "normalised frames")
	if err != nil {
		return err
	}
	// One frame per unit of work: row-major RGB to three planes.
	return parallel.For(d.ctx, d.request.Workers, len(b.Rows), func(_, i int) error {
		rgb, planes := b.Pixels[i*3*n:(i+1)*3*n], out[i*3*n:(i+1)*3*n]
		for p := range n {
			planes[p], planes[n+p], planes[2*n+p] = table[0][rgb[3*p]], table[1][rgb[3*p+1]], table[2][rgb[3*p+2]]
		}
		return nil
	})
}

// close cancels what is in progress, waits for it, and closes the files.
func (d *clips) close() error {
	d.cancel()
	<-d.opened
	if d.pending != nil {
		<-d.pending
	}
	// Loaders first: their goroutines read frames and file.
	var errs []error
	for _, l := range []*dataset.Loader{d.pick, d.batch} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if d.closeFrames != nil {
		errs = append(errs, d.closeFrames())
	}
	if d.src != nil {
		errs = append(errs, d.src.Close())
	}
	return errors.Join(errs...)
}
