package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// set describes a data set to a writer.
type set struct {
	// columns are sorted by our names, without the frames. Their types are float32,
	// float64 or integers.
	columns []column
	// stored are the same columns as the file has them, float16 too.
	stored []envs.Column
	// pixels is the name of the frames in the format, and edge their size; 0 means
	// that there are none.
	pixels         string
	edge           int
	episodes, rows int
	// task is the recorded task, or the name of the file.
	task string
	// fps is the number of rows per second.
	fps int
	// repeated counts the last actions that were missing, and unknown the rows of each
	// column with NaN.
	repeated int
	unknown  map[int]int
}

// column is a column and its name in the format.
type column struct {
	envs.Column
	theirs string
}

// shape returns the axes of the column after that of the rows.
func (c column) shape() []int {
	if c.Width == 1 && !c.Matrix {
		return nil
	}
	return []int{c.Width}
}

// episode is one episode.
type episode struct {
	// index is its number, first the number of rows before it, and rows its length.
	index, first, rows int
	// values has the rows of each column of the set, little-endian.
	values [][]byte
	// frames has the shape (rows, edge, edge, 3).
	frames []byte
}

// frame returns the frame of row t.
func (e *episode) frame(t int) []byte {
	n := len(e.frames) / e.rows
	return e.frames[t*n : (t+1)*n]
}

// describe chooses the columns and their names, and notes what is left out or renamed.
func (j Job) describe(src *hdf5.File, f format) *set {
	s := &set{edge: src.FrameSize(), episodes: len(src.Episodes()), fps: j.FPS, unknown: map[int]int{}}
	if s.task, _ = src.Attr("env"); s.task == "" {
		s.task = strings.TrimSuffix(filepath.Base(j.In), filepath.Ext(j.In))
	}
	for _, name := range slices.Sorted(maps.Keys(src.Skipped())) {
		j.Note(fmt.Sprintf("%q is left out: %s", name, src.Skipped()[name]))
	}
	if len(src.Attrs()) > 0 {
		j.Note("attributes are left out: " + strings.Join(slices.Sorted(maps.Keys(src.Attrs())), ", "))
	}
	names := j.names(src, f)
	s.pixels = names["pixels"]
	for _, c := range src.Columns() {
		if hdf5.IsIndex(c.Name) {
			continue
		}
		if fault := nameFault(c.Name, f); fault != "" {
			j.Note(fmt.Sprintf("the column %s is left out: %s", c.Name, fault))
			continue
		}
		s.stored = append(s.stored, c)
		if c.DType == "float16" {
			c.DType = "float32"
		}
		s.columns = append(s.columns, column{c, names[c.Name]})
	}
	return s
}

// names returns the names of all columns, and of pixels, in a format.
func (j Job) names(src *hdf5.File, f format) map[string]string {
	names := map[string]string{}
	if src.FrameSize() > 0 {
		names["pixels"] = "pixels"
	}
	taken := map[string]bool{}
	for _, c := range src.Columns() {
		names[c.Name], taken[c.Name] = c.Name, true
	}
	for _, n := range f.names {
		if names[n.ours] != "" && !taken[n.theirs] {
			names[n.ours], taken[n.theirs] = n.theirs, true
			j.Note(fmt.Sprintf("%s is called %s in the export", n.ours, n.theirs))
		}
	}
	return names
}

// maxBytes bounds an episode in memory.
const maxBytes = 8 << 30

// check counts the rows. A malicious file can declare episodes that share rows, or
// that are longer than the rows it has stored.
func (s *set) check(src dataset.Source) error {
	row := 3 * s.edge * s.edge
	for _, c := range s.columns {
		row += c.Width * sizes[c.DType]
	}
	for i, e := range src.Episodes() {
		if s.rows += e.Len; e.Len > maxBytes/max(row, 1) || s.rows > src.Rows() {
			return fmt.Errorf("episode %d has %d rows of %d bytes, or shares rows with others (hint: an episode has at most %d GB; `scalewm data check` says what is wrong)", i, e.Len, row, maxBytes>>30)
		}
	}
	return nil
}

// nameFault returns why a column of this name is not exported, or "". Names become
// paths in some formats.
func nameFault(name string, f format) string {
	switch {
	case slices.Contains(f.reserved, name):
		return "the format has its own"
	case name[0] == '.' || strings.ContainsAny(name, `/\`):
		return "its name is not that of a file"
	}
	return ""
}

// read reads the rows of an episode.
func (s *set) read(ctx context.Context, src *hdf5.File, at dataset.Episode) (*episode, error) {
	e := &episode{rows: at.Len}
	data, err := src.Copy(s.stored, at)
	if err != nil {
		return nil, err
	}
	for _, c := range s.stored {
		values := data.Raw[c.Name]
		// float16 is delivered as numbers, which float32 holds exactly.
		for _, v := range data.Columns[c.Name] {
			values = binary.LittleEndian.AppendUint32(values, math.Float32bits(float32(v)))
		}
		e.values = append(e.values, values)
	}
	if s.edge > 0 {
		e.frames = make([]byte, at.Len*s.edge*s.edge*3)
		err = dataset.ReadFrames(ctx, dataset.Original(src), at.Offset, at.Offset+at.Len, e.frames, 0)
	}
	return e, err
}

// complete replaces a last action with NaN by the action before it. Samplers of LeRobot
// and diffusion_policy pad the end of an episode in the same way. An episode of one row
// gets 0. NaN elsewhere is counted.
func (s *set) complete(e *episode) {
	for i, c := range s.columns {
		if c.DType[0] != 'f' {
			continue
		}
		values, row := e.values[i], len(e.values[i])/e.rows
		if last := values[len(values)-row:]; c.Name == "action" && hasNaN(c.DType, last) {
			s.repeated++
			if clear(last); e.rows > 1 {
				copy(last, values[len(values)-2*row:])
			}
		}
		for t := range e.rows {
			if hasNaN(c.DType, values[t*row:(t+1)*row]) {
				s.unknown[i]++
			}
		}
	}
}

func hasNaN(dtype string, data []byte) bool {
	return slices.ContainsFunc(numbers(dtype, data), math.IsNaN)
}
