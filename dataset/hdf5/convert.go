package hdf5

import (
	"context"
	"fmt"
	"path/filepath"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/envs"
)

// Convert copies a data set to a file with our chunks, the given filter, and
// checksums. Values are copied exactly. Episodes keep their order, and their indices
// are written again; HDF5 data sets that are not columns (File.Skipped) are left out.
// progress may be nil.
func Convert(ctx context.Context, src *File, out string, filter Filter, progress func(done, total int64, note string)) error {
	if same, err := samePath(src.path, out); err != nil || same {
		return fmt.Errorf("converting %s: the output is the input (hint: choose another --out)", src.path)
	}
	opt := WriterOptions{FrameSize: src.FrameSize(), Filter: filter, Attrs: src.Attrs()}
	for _, c := range src.Columns() {
		if !IsIndex(c.Name) {
			opt.Columns = append(opt.Columns, c)
		}
	}
	w, err := Create(out, opt)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, e := range src.Episodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ep, err := src.Copy(opt.Columns, e)
		if err == nil {
			ep.Frames, err = readFrames(src, e)
		}
		if err != nil {
			return fmt.Errorf("converting episode %d: %w", i, err)
		}
		if err := w.Append(ep); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(i+1), int64(len(src.Episodes())), "episodes")
		}
	}
	return w.Close()
}

// samePath compares absolute paths. Links are not resolved: the output replaces a
// link, not what it points to.
func samePath(a, b string) (bool, error) {
	x, err := filepath.Abs(a)
	if err != nil {
		return false, err
	}
	y, err := filepath.Abs(b)
	return x == y, err
}

// Copy reads columns of an episode in the form that a Writer takes, bit for bit.
// Integers beyond 2^53 therefore survive, which Read would round.
func (h *File) Copy(columns []envs.Column, e dataset.Episode) (EpisodeData, error) {
	ep := EpisodeData{Columns: map[string][]float64{}, Raw: map[string][]byte{}}
	for _, c := range columns {
		var err error
		// float16 is written as float32.
		if c.DType == "float16" {
			ep.Columns[c.Name], err = h.Read(c.Name, e.Offset, e.Offset+e.Len)
		} else {
			ep.Raw[c.Name], err = h.sets[c.Name].raw(e.Offset, e.Offset+e.Len)
		}
		if err != nil {
			return ep, fmt.Errorf("reading %s of %s: %w", c.Name, h.path, err)
		}
	}
	return ep, nil
}

// EncodedFrames reads the frames of an episode as EpisodeData.Encoded takes them, without
// decoding them. The file must be one that a Writer wrote with the filter Deflate. It
// verifies checksums.
func (h *File) EncodedFrames(e dataset.Episode) ([][]byte, error) {
	s := h.pixels
	own := s != nil && s.refs != nil && s.fullRows && s.chunk[0] == 1 && len(s.filters) == 2 && s.filters[0].id == filterDeflate && s.filters[1].id == filterFletcher
	if !own {
		return nil, fmt.Errorf("reading encoded frames of %s: its frames are not stored one by one with deflate and a checksum", h.path)
	}
	frames := make([][]byte, e.Len)
	return frames, parallel.For(context.Background(), 0, e.Len, func(_, t int) error {
		ref := s.refs[e.Offset+t]
		err := errDamaged
		if ref.addr != undefAddr && ref.mask == 0 && int(ref.size) <= 2*s.chunkBytes+1<<16 {
			raw := make([]byte, ref.size)
			if _, err = s.in.ReadAt(raw, int64(ref.addr)); err == nil {
				frames[t], err = stripFletcher(raw)
			}
		}
		if err != nil {
			return fmt.Errorf("reading the frame of row %d of %s: %w", e.Offset+t, h.path, hinted(err, damaged))
		}
		return nil
	})
}

// readFrames decodes the frames of an episode on all cores.
func readFrames(src *File, e dataset.Episode) ([][]byte, error) {
	if src.FrameSize() == 0 {
		return nil, nil
	}
	frames := make([][]byte, e.Len)
	return frames, parallel.For(context.Background(), 0, e.Len, func(_, t int) error {
		frames[t] = make([]byte, frameBytes(src.FrameSize()))
		return src.Frame(e.Offset+t, frames[t])
	})
}
