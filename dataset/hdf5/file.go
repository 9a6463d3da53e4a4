// Package hdf5 reads and writes data sets in the common HDF5 layout of this field:
// one HDF5 data set per column in the root group, the rows of all episodes one after
// another, and ep_len and ep_offset with the episodes (docs/dataset-format.md).
//
// [Open] returns a [File], which implements dataset.Source. [Create] returns a
// [Writer], to which episodes are appended. [Convert] copies a file into one with our
// chunks, filter and checksums.
//
// The division of work with libhdf5 follows from two of its properties. It is not
// thread-safe as packaged, so it would decode chunks one at a time; therefore it only
// opens and lists a file (lib.go, lib.c), and this package reads and decodes chunks
// from any number of goroutines. And some of its versions crash or hang on damaged
// metadata, so these are verified before it sees them.
//
//   - dset.go reads one column: where its chunks are (chunkindex.go), how they are
//     decoded (filter.go, blosc.go), and which decoded chunks are cached.
//   - checksum.go and globalheap.go verify metadata that only libhdf5 reads.
//   - header.go describes columns that an older libhdf5 cannot open, from their
//     object headers.
//   - writer.go and libwrite.c pass finished chunks to libhdf5.
//
// The package knows nothing of tasks, clips or models.
package hdf5

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// Columns with a special meaning in the layout.
const (
	pixelsName = "pixels"
	lenName    = "ep_len"
	offsetName = "ep_offset"
	indexName  = "ep_idx"
	stepName   = "step_idx"
)

// layout has the columns that files of every task have. If one of them cannot be
// read, Open returns an error. Any other entry that is not a column is skipped.
var layout = []string{pixelsName, "action", "reward", "terminated", "truncated", indexName, "episode_idx", stepName}

// maxRowBytes bounds a row of a numeric column. Wider data, such as further images,
// are skipped.
const maxRowBytes = 1 << 16

// MaxFrameSize is the largest edge of frames, in pixels.
const MaxFrameSize = 4096

// frameBytes returns the size of a frame with that edge.
func frameBytes(edge int) int { return edge * edge * 3 }

// File is an open data set. It implements dataset.Source, and its methods may be
// called from several goroutines at once.
type File struct {
	path string
	list *listing
	f    *os.File
	// in is the file from its superblock on: addresses in the file count from there.
	in       io.ReaderAt
	cache    chunkCache
	rows     int
	episodes []dataset.Episode
	columns  []envs.Column
	sets     map[string]*dset
	pixels   *dset
	// frameSize is the edge of the frames, or 0 without pixels.
	frameSize int
	// skipped has the reason for each entry that is not a column, by name.
	skipped map[string]string
	print   fingerprint
}

var _ dataset.Source = (*File)(nil)

// Open opens a data set, one of ours or a published one. It reads and verifies the
// metadata and reads the episodes, but no other values. Errors name the file and say
// in one line what is wrong with it.
func Open(path string) (*File, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		hint := "`scalewm collect` makes one"
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			hint = "a data set is one HDF5 file; `scalewm data info` says how to convert a folder"
		}
		return nil, fmt.Errorf("opening the data set: %w (hint: %s)", err, hint)
	}
	h := &File{path: path, f: f, sets: map[string]*dset{}, skipped: map[string]string{}}
	if err := h.open(); err != nil {
		h.Close()
		return nil, fmt.Errorf("opening the data set %s: %w", path, hinted(err, "is it a complete HDF5 file? Fetch or make it again, or convert it: `scalewm data info` knows the layouts of other programs"))
	}
	return h, nil
}

// hinted adds a hint to an error that does not have one.
func hinted(err error, hint string) error {
	if strings.Contains(err.Error(), "(hint: ") {
		return err
	}
	return fmt.Errorf("%w (hint: %s)", err, hint)
}

// open verifies the metadata that libhdf5 is about to read, lists the file and adds
// its columns. The order matters: libhdf5 can crash or loop on damaged metadata.
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
	if h.list, err = openListing(h.path, super, newCursor(h.in, size), maxSets); err != nil {
		return err
	}
	return h.load(size)
}

// load reads the episodes and adds the columns.
func (h *File) load(size int64) error {
	byName := map[string]description{}
	for _, d := range h.list.sets {
		byName[d.name] = d
	}
	if err := h.loadEpisodes(byName, size); err != nil {
		return err
	}
	for name, reason := range h.list.nonColumns {
		if slices.Contains(layout, name) {
			return fmt.Errorf("column %s cannot be read: it is %s (hint: a column of that name must have numbers for every row; fetch or make the file again)", name, reason)
		}
		h.skipped[name] = reason
	}
	for _, d := range h.list.sets {
		if reason, err := h.addColumn(d, size); err != nil {
			return fmt.Errorf("column %s: %w", d.name, err)
		} else if reason != "" && slices.Contains(layout, d.name) {
			return fmt.Errorf("column %s cannot be read: %s (hint: a column of that name must have numbers for every row; fetch or make the file again)", d.name, reason)
		} else if reason != "" {
			h.skipped[d.name] = reason
		}
	}
	return nil
}

// loadEpisodes reads ep_len and ep_offset. The number of rows is the end of the last
// episode, and the columns are compared with it later.
func (h *File) loadEpisodes(byName map[string]description, size int64) error {
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

// maxEpisodes bounds the memory that the declared length of an unwritten list can
// claim, which takes no space in the file. Published files have about ten thousand
// episodes.
const maxEpisodes = 1 << 22

// readIndex reads one of the two lists of episodes.
func (h *File) readIndex(byName map[string]description, name string, size int64) ([]float64, error) {
	d, ok := byName[name]
	if !ok {
		return nil, fmt.Errorf("there is no %s (hint: the layout is that of docs/dataset-format.md; this file has %s)", name, h.list.contents())
	}
	if len(d.dims) != 1 || d.dtype() == "" {
		return nil, fmt.Errorf("%s is not a list of numbers", name)
	}
	s, err := newDset(d, h.in, size, h.list.parsable, &h.cache)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.rows > maxEpisodes {
		return nil, fmt.Errorf("%s claims %d episodes", name, s.rows)
	}
	return s.numbers(0, s.rows)
}

// addColumn adds one HDF5 data set as a column or as the pixels, or returns the
// reason why it is skipped. It returns an error if the data set should be a column
// but is damaged.
func (h *File) addColumn(d description, size int64) (skipped string, err error) {
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
		return "one entry per episode", nil
	case int(d.dims[0]) != h.rows:
		return "", fmt.Errorf("it has %d rows, the episodes %d (hint: the file is torn or of another layout)", d.dims[0], h.rows)
	}
	s, err := newDset(d, h.in, size, h.list.parsable, &h.cache)
	if err != nil {
		return "", err
	}
	if d.name == pixelsName {
		if dt != "uint8" || len(d.dims) != 4 || d.dims[1] != d.dims[2] || d.dims[1] < 1 || d.dims[1] > MaxFrameSize || d.dims[3] != 3 {
			return "", fmt.Errorf("it is %s %v, frames are uint8 (rows, edge, edge, 3) with an edge of 1 to %d pixels (hint: `scalewm data convert` makes them so)", dt, d.dims, MaxFrameSize)
		}
		h.frameSize = int(d.dims[1])
		h.pixels = s
		return "", nil
	}
	if s.rowBytes == 0 || s.rowBytes > maxRowBytes {
		return fmt.Sprintf("%d bytes per row", s.rowBytes), nil
	}
	h.sets[d.name] = s
	h.columns = append(h.columns, envs.Column{Name: d.name, DType: dt, Width: s.rowBytes / s.elem,
		Matrix: len(d.dims) == 2 && d.dims[1] == 1})
	return "", nil
}

// NameFault returns why a column cannot have a name, or "" if it can.
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

// Path returns the path as it was passed to Open.
func (h *File) Path() string { return h.path }

// Rows implements dataset.Source.
func (h *File) Rows() int { return h.rows }

// Episodes implements dataset.Source.
func (h *File) Episodes() []dataset.Episode { return h.episodes }

// Columns implements dataset.Source. The columns are in alphabetical order.
func (h *File) Columns() []envs.Column { return h.columns }

// Skipped returns the entries of the root group and the attributes that were left
// out, with the reasons. The caller must not change the map.
func (h *File) Skipped() map[string]string { return h.skipped }

// Attr implements dataset.Source.
func (h *File) Attr(name string) (string, bool) { v, ok := h.list.attrs[name]; return v, ok }

// Attrs returns all string attributes of the file. The caller must not change the
// map.
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

// numbers reads rows [from, to) as float64. If the error wraps dataset.ErrInexact,
// the numbers are rounded.
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

// raw reads the bytes of rows [from, to) in the column's own type, little-endian.
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

// Unwritten returns the ranges [from, to) of rows of a column, or of pixels, that are
// declared but not stored. Reading them returns the fill value, usually 0.
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

// Protection describes which damage to the file would be detected. Files in the
// earliest format have no checksums in their metadata; values have one if a filter
// adds it.
func (h *File) Protection() string {
	var bare []string
	for _, d := range h.list.sets {
		// deflate streams end with an Adler-32.
		sums := func(f filterInfo) bool { return f.id == filterFletcher || f.id == filterDeflate }
		if h.skipped[d.name] == "" && !slices.ContainsFunc(d.filters, sums) {
			bare = append(bare, d.name)
		}
	}
	switch {
	case h.list.hasChecksums && bare == nil:
		return "checksums cover its metadata and every value"
	case h.list.hasChecksums:
		return "checksums cover its metadata, not the values of " + strings.Join(bare, ", ") + ": damage that leaves them readable is not seen"
	}
	return "this file has no checksums of its own: damage that leaves it readable is not seen"
}

// Storage describes how frames are stored: their filters and the number of frames per
// chunk.
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
	return fmt.Sprintf("%s, %d per chunk", strings.Join(filters, "+"), h.pixels.chunk[0])
}
