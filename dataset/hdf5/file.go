// Package hdf5 reads and writes data sets in the field's HDF5 layout: one data
// set a column at the root, the rows of all episodes one after another, ep_len
// and ep_offset (docs/dataset-format.md).
//
// libhdf5 only opens and lists a file and writes ours. Reading decodes chunks in
// this package, from many goroutines at once. The package knows nothing of
// tasks, clips or models.
//
// A File (file.go) is a listing by libhdf5 (lib.go, lib.c) and a dset for each
// column (dset.go): where the chunks are (chunkindex.go), how they are decoded
// (filter.go, blosc.go) and which are kept decoded. What libhdf5 is too old to
// describe is read from the object's own header (header.go). A Writer
// (writer.go, libwrite.c) hands finished chunks to libhdf5; Convert copies one
// into the other.
package hdf5

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// Names with a meaning of their own in the layout.
const (
	pixelsName = "pixels"
	lenName    = "ep_len"
	offsetName = "ep_offset"
	indexName  = "ep_idx"
	stepName   = "step_idx"
)

// layout lists the columns of every task's files. They are read or the file is
// refused; anything else that is no column is left out.
var layout = []string{pixelsName, "action", "reward", "terminated", "truncated", indexName, "episode_idx", stepName}

// maxRowBytes is the widest numeric column that is a column; wider ones (other
// images) are listed as skipped.
const maxRowBytes = 1 << 16

// MaxFrameSize is the largest edge of frames, in pixels.
const MaxFrameSize = 4096

// frameBytes is the size of a frame of an edge.
func frameBytes(edge int) int { return edge * edge * 3 }

// File is an open data set. It implements dataset.Source.
type File struct {
	path      string
	list      *listing
	f         *os.File
	in        io.ReaderAt // the file from its superblock on
	cache     chunkCache
	rows      int
	episodes  []dataset.Episode
	columns   []envs.Column
	sets      map[string]*dset
	pixels    *dset
	frameSize int // edge of the frames, 0 without pixels
	skipped   map[string]string
	print     fingerprint
}

var _ dataset.Source = (*File)(nil)

// Open opens a data set, ours or a published one. Errors name the file and say
// what is wrong with it in one line.
func Open(path string) (*File, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		hint := "`scalewm collect` makes one"
		if isLance(path) {
			if whole, err := filepath.Abs(path); err == nil { // relative ones are looked for elsewhere
				path = whole
			}
			hint = fmt.Sprintf("it is a Lance folder; `stable_worldmodel.data.convert(%q, \"out.h5\", dest_format=\"hdf5\")` in Python makes an HDF5 file of it", path)
		}
		return nil, fmt.Errorf("opening the data set: %w (hint: %s)", err, hint)
	}
	h := &File{path: path, f: f, sets: map[string]*dset{}, skipped: map[string]string{}}
	if err := h.open(); err != nil {
		h.Close()
		return nil, fmt.Errorf("opening the data set %s: %w", path, hinted(err, "is it a whole HDF5 file? Fetch or make it again"))
	}
	return h, nil
}

// hinted adds a hint to an error that has none of its own.
func hinted(err error, hint string) error {
	if strings.Contains(err.Error(), "(hint: ") {
		return err
	}
	return fmt.Errorf("%w (hint: %s)", err, hint)
}

// isLance says whether a path is a data set in the other format of stable-worldmodel.
func isLance(path string) bool {
	st, err := os.Stat(filepath.Join(path, "_versions"))
	return err == nil && st.IsDir()
}

// open verifies what libhdf5 is about to read, lists the file and takes its columns in.
func (h *File) open() error {
	st, err := h.f.Stat()
	if err != nil {
		return err
	}
	super, err := readSuperblock(h.f, st.Size())
	if err != nil {
		return err
	}
	size := st.Size() - super.base
	h.in = io.NewSectionReader(h.f, super.base, size)
	if h.list, err = openListing(h.path, super, newCursor(h.in, size)); err != nil {
		return err
	}
	return h.load(size)
}

func (h *File) load(size int64) error {
	byName := map[string]described{}
	for _, d := range h.list.sets {
		byName[d.name] = d
	}
	if err := h.loadEpisodes(byName, size); err != nil {
		return err
	}
	for name, reason := range h.list.others {
		if slices.Contains(layout, name) {
			return fmt.Errorf("column %s cannot be read: it is %s (hint: a column of that name holds numbers of every row; fetch or make the file again)", name, reason)
		}
		h.skipped[name] = reason
	}
	for _, d := range h.list.sets {
		if reason, err := h.addColumn(d, size); err != nil {
			return fmt.Errorf("column %s: %w", d.name, err)
		} else if reason != "" && slices.Contains(layout, d.name) {
			return fmt.Errorf("column %s cannot be read: %s (hint: a column of that name holds numbers of every row; fetch or make the file again)", d.name, reason)
		} else if reason != "" {
			h.skipped[d.name] = reason
		}
	}
	return nil
}

// loadEpisodes reads ep_len and ep_offset; together they cover the rows.
func (h *File) loadEpisodes(byName map[string]described, size int64) error {
	lens, err := h.readIndex(byName, lenName, size)
	if err != nil {
		return err
	}
	offsets, err := h.readIndex(byName, offsetName, size)
	if err != nil {
		return err
	}
	if len(lens) != len(offsets) {
		return fmt.Errorf("%s has %d entries and %s %d", lenName, len(lens), offsetName, len(offsets))
	}
	if len(lens) == 0 {
		return errors.New("it has no episodes")
	}
	for i := range lens {
		if lens[i] < 1 || offsets[i] < 0 || lens[i] > 1<<40 || offsets[i] > 1<<40 {
			return fmt.Errorf("episode %d has length %v at row %v", i, lens[i], offsets[i])
		}
		e := dataset.Episode{Offset: int(offsets[i]), Len: int(lens[i])}
		h.episodes = append(h.episodes, e)
		h.rows = max(h.rows, e.Offset+e.Len)
	}
	return nil
}

// maxEpisodes bounds what a small file can claim, and so the memory for it.
// Published files have some ten thousand.
const maxEpisodes = 1 << 22

func (h *File) readIndex(byName map[string]described, name string, size int64) ([]float64, error) {
	d, ok := byName[name]
	if !ok {
		return nil, fmt.Errorf("there is no %s (hint: the layout is that of docs/dataset-format.md; this file has %s)", name, strings.Join(slices.Sorted(maps.Keys(byName)), ", "))
	}
	if len(d.dims) != 1 || d.dtype() == "" {
		return nil, fmt.Errorf("%s is not a list of numbers", name)
	}
	s, err := newDset(d, h.in, size, h.list.simple, &h.cache)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.rows > maxEpisodes {
		return nil, fmt.Errorf("%s claims %d episodes", name, s.rows)
	}
	return s.numbers(0, s.rows)
}

// addColumn takes in one data set, or says why it is left out.
func (h *File) addColumn(d described, size int64) (skipped string, err error) {
	dt := d.dtype()
	switch {
	case d.name == lenName || d.name == offsetName:
		return "", nil
	case NameFault(d.name) != "":
		return NameFault(d.name), nil
	case dt == "":
		return "not numbers", nil
	case len(d.dims) == 0:
		return "no rows", nil
	case strings.HasPrefix(d.name, "ep_") && d.name != indexName && int(d.dims[0]) == len(h.episodes) && len(h.episodes) != h.rows:
		return "one entry an episode", nil
	case int(d.dims[0]) != h.rows:
		return "", fmt.Errorf("it has %d rows, the episodes %d (hint: the file is torn or of another layout)", d.dims[0], h.rows)
	}
	s, err := newDset(d, h.in, size, h.list.simple, &h.cache)
	if err != nil {
		return "", err
	}
	if d.name == pixelsName {
		if dt != "uint8" || len(d.dims) != 4 || d.dims[1] != d.dims[2] || d.dims[1] < 1 || d.dims[1] > MaxFrameSize || d.dims[3] != 3 {
			return "", fmt.Errorf("it is %s %v, frames are uint8 (rows, edge, edge, 3) with an edge of 1 to %d pixels", dt, d.dims, MaxFrameSize)
		}
		h.frameSize = int(d.dims[1])
		h.pixels = s
		return "", nil
	}
	if s.rowBytes == 0 || s.rowBytes > maxRowBytes {
		return fmt.Sprintf("%d bytes a row", s.rowBytes), nil
	}
	h.sets[d.name] = s
	h.columns = append(h.columns, envs.Column{Name: d.name, DType: dt, Width: s.rowBytes / s.elem,
		Matrix: len(d.dims) == 2 && d.dims[1] == 1})
	return "", nil
}

// NameFault says why a name cannot be a column's, "" where it can.
func NameFault(name string) string {
	switch {
	case name == "" || name == "." || strings.ContainsAny(name, "/\x00"):
		return "HDF5 has no such name"
	case len(name) > maxName:
		return fmt.Sprintf("its name is longer than %d bytes", maxName)
	case safefile.Visible(name) != name || strings.ContainsAny(name, "\n\t"):
		return "control characters in its name"
	}
	return ""
}

// Path is where the file lies.
func (h *File) Path() string { return h.path }

// Rows implements dataset.Source.
func (h *File) Rows() int { return h.rows }

// Episodes implements dataset.Source.
func (h *File) Episodes() []dataset.Episode { return h.episodes }

// Columns implements dataset.Source; they come in alphabetical order.
func (h *File) Columns() []envs.Column { return h.columns }

// Skipped says which entries of the root group, and which attributes, are left out, and why.
func (h *File) Skipped() map[string]string { return h.skipped }

// Attr implements dataset.Source.
func (h *File) Attr(name string) (string, bool) { v, ok := h.list.attrs[name]; return v, ok }

// Attrs are all string attributes of the file.
func (h *File) Attrs() map[string]string { return h.list.attrs }

// FrameSize implements dataset.Source.
func (h *File) FrameSize() int { return h.frameSize }

// Read implements dataset.Source.
func (h *File) Read(column string, from, to int) ([]float64, error) {
	s, ok := h.sets[column]
	if !ok {
		_, err := dataset.FindColumn(h, column)
		return nil, fmt.Errorf("reading %s: %w", filepath.Base(h.path), err)
	}
	v, err := s.numbers(from, to)
	if err != nil {
		err = fmt.Errorf("reading %s of %s: %w", column, h.path, err)
	}
	return v, err
}

// numbers reads rows and widens them. With dataset.ErrInexact it returns rounded numbers.
func (s *dset) numbers(from, to int) ([]float64, error) {
	raw, err := s.raw(from, to)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(raw)/s.elem)
	if i := s.widen(out, raw); i >= 0 {
		return out, fmt.Errorf("row %d holds %w (hint: `scalewm data convert` copies it exactly, nothing else can use the column)", from+i*s.elem/s.rowBytes, dataset.ErrInexact)
	}
	return out, nil
}

// raw reads the bytes of rows in the column's own type, little-endian.
func (s *dset) raw(from, to int) ([]byte, error) {
	if from < 0 || to > s.rows || from > to {
		return nil, fmt.Errorf("rows %d to %d of %d", from, to, s.rows)
	}
	raw := make([]byte, (to-from)*s.rowBytes)
	if err := s.read(from, to, raw); err != nil {
		return nil, err
	}
	if s.bigEndian {
		for i := 0; i < len(raw); i += s.elem {
			slices.Reverse(raw[i : i+s.elem])
		}
	}
	return raw, nil
}

// Frame implements dataset.Source.
func (h *File) Frame(row int, dst []byte) error {
	if h.pixels == nil {
		return fmt.Errorf("reading frames of %s: it has no pixels", h.path)
	}
	if len(dst) != frameBytes(h.frameSize) {
		panic("hdf5: Frame into a buffer of another size")
	}
	if err := h.pixels.read(row, row+1, dst); err != nil {
		return fmt.Errorf("reading the frame of row %d of %s: %w", row, h.path, err)
	}
	return nil
}

// Unwritten are the rows [from, to) of a column, or of pixels, that the file has room for and nothing in: they read as
// the fill value, mostly 0.
func (h *File) Unwritten(column string) [][2]int {
	s := h.sets[column]
	if column == pixelsName {
		s = h.pixels
	}
	if s == nil {
		return nil
	}
	return s.unwritten()
}

// Close implements dataset.Source.
func (h *File) Close() error {
	var err error
	if h.list != nil {
		err = h.list.close()
	}
	return errors.Join(err, h.f.Close())
}

// Protection says in words which damage to the file does not go unseen: files of
// the earliest format have no checksums, and values have them where a filter adds one.
func (h *File) Protection() string {
	var bare []string
	for _, d := range h.list.sets {
		sums := func(f filterInfo) bool { return f.id == filterFletcher || f.id == filterDeflate } // deflate holds an Adler-32
		if h.skipped[d.name] == "" && !slices.ContainsFunc(d.filters, sums) {
			bare = append(bare, d.name)
		}
	}
	switch {
	case h.list.sealed && bare == nil:
		return "checksums cover its metadata and every value"
	case h.list.sealed:
		return "checksums cover its metadata, not the values of " + strings.Join(bare, ", ") + ": damage that leaves them readable is not seen"
	}
	return "this file has no checksums of its own: damage that leaves it readable is not seen"
}

// Storage says in words how frames are stored: chunk length and filters.
func (h *File) Storage() string {
	switch {
	case h.pixels == nil:
		return "none"
	case h.pixels.layout != layoutChunked:
		return "plain, one block"
	}
	var filters []string
	for _, f := range h.pixels.filters {
		filters = append(filters, filterName(f.id))
	}
	if filters == nil {
		filters = []string{"plain"}
	}
	return fmt.Sprintf("%s, %d a chunk", strings.Join(filters, "+"), h.pixels.chunk[0])
}
