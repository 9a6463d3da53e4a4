package libscalewm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

const (
	// recordSpecAttr is the attribute that identifies a recording. It is not
	// collect.SpecAttr, which marks recordings of our own tasks.
	recordSpecAttr = "record_spec"
	// recordSuffix ends the names of parts, which are complete HDF5 files.
	recordSuffix = ".part"
	// recordPartRows and maxRecordParts bound the rows of a part, unless one episode
	// has more, and the number of parts.
	recordPartRows = 2000
	maxRecordParts = 100_000
	// maxRowBytes bounds a row of a column: readers accept chunks of 512 MB, and a
	// chunk has 1000 rows.
	maxRowBytes = 1 << 19
)

// recording writes a data set of episodes that the caller simulates. The episodes are
// split into parts, which are files in the folder OUT.parts. An interrupted recording
// continues with the missing parts, and the bytes of the result are the same.
type recording struct {
	request recordingRequest
	columns []envs.Column
	lock    *os.File
	parts   []recordPart
	missing []recordPart
	exists  bool         // the output is complete
	w       *hdf5.Writer // of the part missing[0]; nil before its first episode
	written int          // episodes in w
	ctx     context.Context
	cancel  context.CancelFunc
	pending chan error // result of what runs in the background; nil if nothing does
	err     error      // the first error of the background
	merging bool
	rows    int // of the output, when merged
}

// recordingRequest is the request of recording.new.
type recordingRequest struct {
	Out       string            `json:"out"`
	Spec      string            `json:"spec"` // identifies the data set: the file is a function of it
	Attrs     map[string]string `json:"attrs"`
	Columns   []recordColumn    `json:"columns"`
	FrameSize int               `json:"frame_size"`
	Episodes  int               `json:"episodes"`
	MaxRows   int               `json:"max_rows"` // of an episode
}

// recordColumn describes a column of a recording.
type recordColumn struct {
	columnInfo
	Matrix bool `json:"matrix"` // a column of width 1 has the shape (rows, 1)
}

// recordPart is the episodes [From, To). The fields are hashed into the name of its file.
type recordPart struct {
	Spec     string
	From, To int
	path     string
}

// newRecording prepares a recording: {"out", "spec", ...} gives {"handle", "missing"}. The
// caller passes the episodes of the ranges [from, to) of missing to recording.append, in
// this order, and calls recording.finish. Nothing is missing if the output exists and has
// the same spec. An output of another spec is an error.
func newRecording(c call) (any, error) {
	r := &recording{}
	q := &r.request
	if err := c.read(q); err != nil {
		return nil, err
	}
	if q.Out == "" || q.Spec == "" || q.FrameSize < 1 || q.FrameSize > hdf5.MaxFrameSize || q.Episodes < 1 || q.Episodes > collect.MaxEpisodes || q.MaxRows < 1 || len(q.Columns) >= maxBuffers {
		return nil, fmt.Errorf("recording into %q: %d episodes of at most %d rows, frames of %d pixels and %d columns (hint: 1 to %d episodes, frames of 1 to %d pixels)",
			q.Out, q.Episodes, q.MaxRows, q.FrameSize, len(q.Columns), collect.MaxEpisodes, hdf5.MaxFrameSize)
	}
	for _, col := range q.Columns {
		if size := hdf5.SizeOf(col.DType); size == 0 || col.Width < 1 || col.Width > maxRowBytes/size {
			return nil, fmt.Errorf("recording into %s: the column %q has %d numbers of type %q (hint: a row of a column has at most %d bytes; observe= chooses the columns)", q.Out, col.Name, col.Width, col.DType, maxRowBytes)
		}
		r.columns = append(r.columns, envs.Column{Name: col.Name, DType: col.DType, Width: col.Width, Matrix: col.Matrix})
	}
	if err := r.prepare(); err != nil {
		r.release()
		return nil, fmt.Errorf("recording into %s: %w", q.Out, err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	missing := [][2]int{}
	for _, p := range r.missing {
		missing = append(missing, [2]int{p.From, p.To})
	}
	return map[string]any{"handle": objects.add(r), "missing": missing}, nil
}

// prepare looks at the output and finds the missing parts.
func (r *recording) prepare() (err error) {
	q := r.request
	// Lstat, since a link that leads nowhere must not be replaced either.
	if _, err := os.Lstat(q.Out); !errors.Is(err, fs.ErrNotExist) {
		r.exists = true
		return r.check(q.Out, q.Episodes)
	}
	if r.lock, err = safefile.Claim(filepath.Join(r.folder(), ".lock"), syscall.LOCK_EX); err == nil && r.lock == nil {
		err = errors.New("another process is recording into it (hint: let it finish)")
	}
	if err != nil {
		return err
	}
	each := max(1, recordPartRows/q.MaxRows, (q.Episodes+maxRecordParts-1)/maxRecordParts)
	for from := 0; from < q.Episodes; from += each {
		p := recordPart{Spec: q.Spec, From: from, To: min(from+each, q.Episodes)}
		id, err := cell.ID("record", p)
		if err != nil {
			return err
		}
		p.path = filepath.Join(r.folder(), id+recordSuffix)
		r.parts = append(r.parts, p)
		// A part that cannot be opened is recorded again.
		if r.check(p.path, p.To-p.From) != nil {
			r.missing = append(r.missing, p)
		}
	}
	return nil
}

func (r *recording) folder() string { return r.request.Out + ".parts" }

// check returns an error unless a file is complete and has spec, columns and frame size of the
// recording.
func (r *recording) check(path string, episodes int) error {
	f, err := hdf5.Open(path)
	if err != nil {
		return fmt.Errorf("another file exists there: %w", err)
	}
	defer f.Close()
	if have, _ := f.Attr(recordSpecAttr); have != r.request.Spec || len(f.Episodes()) != episodes {
		return fmt.Errorf("it exists, recorded with %s, not %s (hint: remove it or choose another out=; id also covers the code of environment and policy)", cmp.Or(have, "something unknown"), r.request.Spec)
	}
	if f.FrameSize() != r.request.FrameSize {
		return fmt.Errorf("its frames have %d pixels, not %d", f.FrameSize(), r.request.FrameSize)
	}
	for _, want := range r.columns {
		if have, err := dataset.FindColumn(f, want.Name); err != nil || have.DType != want.DType || have.Width != want.Width {
			return cmp.Or(err, fmt.Errorf("its column %s is %s x %d, not %s x %d", want.Name, have.DType, have.Width, want.DType, want.Width))
		}
	}
	return nil
}

// create creates the output, or the file of a part.
func (r *recording) create(path string) (*hdf5.Writer, error) {
	attrs := maps.Clone(r.request.Attrs)
	if attrs == nil {
		attrs = map[string]string{}
	}
	attrs[recordSpecAttr] = r.request.Spec
	return hdf5.Create(path, hdf5.WriterOptions{Columns: r.columns, FrameSize: r.request.FrameSize, Attrs: attrs})
}

// background runs f on a goroutine. wait must have returned false before.
func (r *recording) background(f func() error) {
	ended := make(chan error, 1)
	r.pending = ended
	go func() {
		var err error
		// Deferred calls run in reverse order: a panic becomes the error that is sent.
		defer func() { ended <- err }()
		defer recoverTo(&err)
		err = f()
	}()
}

// wait waits for the background during a time slice. After an error, every call returns it.
func (r *recording) wait() (again bool, err error) {
	if r.pending != nil {
		select {
		case r.err = <-r.pending:
			r.pending = nil
		case <-time.After(slice):
			return true, nil
		}
	}
	return false, r.err
}

// append adds the next episode. Buffers: each column, (rows, width) in its type, and the
// frames, (rows, S, S, 3). They are copied and written in the background, so that the caller
// can simulate the next episode; an error is returned by the next call.
func (r *recording) append(c call) (again bool, err error) {
	if again, err := r.wait(); again || err != nil {
		return again, err
	}
	if len(c.buffers) != len(r.columns)+1 || len(r.missing) == 0 || r.merging {
		return false, fmt.Errorf("recording: %d buffers for %d columns and frames, %d parts are missing", len(c.buffers), len(r.columns), len(r.missing))
	}
	frames, size := slices.Clone(c.buffers[len(r.columns)]), 3*r.request.FrameSize*r.request.FrameSize
	rows := len(frames) / size
	if rows < 1 || rows > r.request.MaxRows {
		return false, fmt.Errorf("recording: an episode of %d rows (hint: 1 to %d)", rows, r.request.MaxRows)
	}
	if err := fits(frames, rows*size, "frames"); err != nil {
		return false, err
	}
	ep := hdf5.EpisodeData{Raw: map[string][]byte{}, Frames: slices.Collect(slices.Chunk(frames, size))}
	for i, col := range r.columns {
		if err := fits(c.buffers[i], rows*col.Width*hdf5.SizeOf(col.DType), "column "+col.Name); err != nil {
			return false, err
		}
		ep.Raw[col.Name] = slices.Clone(c.buffers[i])
	}
	r.background(func() error { return r.write(ep) })
	return false, nil
}

// write writes an episode, and completes the part if it is the part's last.
func (r *recording) write(ep hdf5.EpisodeData) (err error) {
	p := r.missing[0]
	if r.w == nil {
		if r.w, err = r.create(p.path); err != nil {
			return err
		}
	}
	if err := r.w.Append(ep); err != nil {
		return err
	}
	if r.written++; r.written < p.To-p.From {
		return nil
	}
	w := r.w
	r.w, r.written, r.missing = nil, 0, r.missing[1:]
	return w.Close()
}

// finish merges the parts into the output and removes them. The answer is {"rows"}.
func (r *recording) finish(call) (answer any, again bool, err error) {
	if again, err := r.wait(); again || err != nil {
		return nil, again, err
	}
	if len(r.missing) > 0 {
		return nil, false, fmt.Errorf("recording into %s: episodes from %d on are missing", r.request.Out, r.missing[0].From+r.written)
	}
	if !r.merging {
		r.merging = true
		r.background(r.merge)
		return nil, true, nil
	}
	return map[string]int{"rows": r.rows}, false, nil
}

// merge writes the output unless it exists. Frames are copied in compressed form.
func (r *recording) merge() error {
	if !r.exists {
		w, err := r.create(r.request.Out)
		if err != nil {
			return err
		}
		defer w.Abort()
		for _, p := range r.parts {
			if err := r.copy(w, p.path); err != nil {
				return fmt.Errorf("merging the parts of %s: %w", r.request.Out, err)
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	// A run that was killed at its very end may have left the parts of a complete output.
	if err := safefile.RemoveParts(r.folder(), recordSuffix); err != nil {
		return fmt.Errorf("removing the parts of %s: %w", r.request.Out, err)
	}
	f, err := hdf5.Open(r.request.Out)
	if err != nil {
		return err
	}
	r.rows = f.Rows()
	return f.Close()
}

// copy appends the episodes of a part.
func (r *recording) copy(w *hdf5.Writer, path string) error {
	f, err := hdf5.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, e := range f.Episodes() {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		ep, err := f.Copy(r.columns, e)
		if err == nil {
			ep.Encoded, err = f.EncodedFrames(e)
		}
		if err == nil {
			err = w.Append(ep)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close abandons the part in progress. Complete parts stay for the next recording.
func (r *recording) close() error {
	r.cancel()
	if r.pending != nil {
		<-r.pending
	}
	if r.w != nil {
		r.w.Abort()
	}
	r.release()
	return nil
}

// release unlocks the output.
func (r *recording) release() {
	if r.lock != nil {
		r.lock.Close()
	}
}
