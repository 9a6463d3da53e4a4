// Package export writes data sets in the formats of other programs, the reverse of
// package convert. The table formats lists them: each has a writer in a file of its
// own. A [Job] is one export.
//
// What is the same for all formats is in this file: which columns are written and
// under which names, the missing last action of an episode, and that the folder
// appears complete or not at all. A writer gets one episode at a time. The package
// knows no task.
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
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// format is a format of other programs.
type format struct {
	name string
	// names maps our columns to theirs. The first column that the data set has gets a
	// name; pixels is that of the frames.
	names []naming
	// reserved are names that the format writes itself.
	reserved []string
	// complete says that readers of the format expect a number in every action.
	complete bool
	create   func(dir string, s *set) (writer, error)
}

type naming struct{ ours, theirs string }

// formats has all formats. To add one, write its writer in a file of its own and add a
// line here.
var formats = []format{
	{name: "lerobot", names: leRobotNames, reserved: leRobotOwn, complete: true, create: createLeRobot},
	{name: "zarr", names: []naming{{"pixels", "img"}}, complete: true, create: createZarr},
	{name: "npz", create: createNPZ},
}

// Formats returns the names of all formats.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// set describes a data set to a writer.
type set struct {
	// columns are sorted by our names, without the frames. Their types are float32,
	// float64 or integers.
	columns []column
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

// writer writes episodes in one format.
type writer interface {
	append(ctx context.Context, e *episode) error
	// close writes what depends on all episodes, and closes all files. abort only
	// closes files.
	close() error
	abort()
}

// Job is one export.
type Job struct {
	// In is a data set, and Out a folder, which must not exist.
	In, Out string
	// To is one of Formats.
	To string
	// FPS is the number of rows per second in formats with times.
	FPS int
	// Note is called for everything that is left out or changed.
	Note     func(string)
	Progress func(done, total int64, note string)
}

// Result describes an export.
type Result struct {
	Episodes int `json:"episodes"`
	Rows     int `json:"rows"`
	// Columns maps our names of columns, and pixels, to those in the format.
	Columns map[string]string `json:"columns"`
}

// Run exports one episode at a time, so that one is in memory. If it fails or is
// interrupted, there is nothing at Out.
func (j Job) Run(ctx context.Context) (Result, error) {
	src, err := hdf5.Open(j.In)
	if err != nil {
		return Result{}, err
	}
	defer src.Close()
	f := formats[slices.IndexFunc(formats, func(f format) bool { return f.name == j.To })]
	s := j.describe(src, f)
	if err := s.check(src); err != nil {
		return Result{}, fmt.Errorf("exporting %s: %w", j.In, err)
	}
	first := 0
	err = safefile.FillFolder(j.Out, func(dir string) error {
		w, err := f.create(dir, s)
		if err != nil {
			return err
		}
		defer w.abort()
		for i, e := range src.Episodes() {
			if err := ctx.Err(); err != nil {
				return err
			}
			ep, err := s.read(ctx, src, e)
			if err == nil {
				ep.index, ep.first, first = i, first, first+ep.rows
				if f.complete {
					s.complete(ep)
				}
				err = w.append(ctx, ep)
			}
			if err != nil {
				return fmt.Errorf("exporting episode %d: %w", i, err)
			}
			if j.Progress != nil {
				j.Progress(int64(i+1), int64(s.episodes), "episodes")
			}
		}
		return w.close()
	})
	if err != nil {
		return Result{}, err
	}
	if s.repeated > 0 {
		j.Note(fmt.Sprintf("%d of %d episodes have no last action (NaN); it repeats the action before it", s.repeated, s.episodes))
	}
	for i, c := range s.columns {
		if n := s.unknown[i]; n > 0 {
			j.Note(fmt.Sprintf("%s has NaN in %d rows, as in %s", c.theirs, n, j.In))
		}
	}
	r := Result{Episodes: s.episodes, Rows: s.rows, Columns: map[string]string{}}
	for _, c := range s.columns {
		r.Columns[c.Name] = c.theirs
	}
	if s.edge > 0 {
		r.Columns["pixels"] = s.pixels
	}
	return r, nil
}

// describe chooses the columns and their names, and notes what is left out or renamed.
func (j Job) describe(src *hdf5.File, f format) *set {
	s := &set{pixels: "pixels", edge: src.FrameSize(), episodes: len(src.Episodes()), fps: j.FPS, unknown: map[int]int{}}
	if s.task, _ = src.Attr("env"); s.task == "" {
		s.task = strings.TrimSuffix(filepath.Base(j.In), filepath.Ext(j.In))
	}
	for _, name := range slices.Sorted(maps.Keys(src.Skipped())) {
		j.Note(fmt.Sprintf("%q is left out: %s", name, src.Skipped()[name]))
	}
	if len(src.Attrs()) > 0 {
		j.Note("attributes are left out: " + strings.Join(slices.Sorted(maps.Keys(src.Attrs())), ", "))
	}
	taken := map[string]bool{}
	for _, c := range src.Columns() {
		taken[c.Name] = true
	}
	renamed := map[string]string{}
	for _, n := range f.names {
		if (taken[n.ours] || n.ours == "pixels" && s.edge > 0) && !taken[n.theirs] {
			renamed[n.ours], taken[n.theirs] = n.theirs, true
			j.Note(fmt.Sprintf("%s is called %s in the export", n.ours, n.theirs))
		}
	}
	if renamed["pixels"] != "" {
		s.pixels = renamed["pixels"]
	}
	for _, c := range src.Columns() {
		if hdf5.IsIndex(c.Name) {
			continue
		}
		if fault := nameFault(c.Name, f); fault != "" {
			j.Note(fmt.Sprintf("the column %s is left out: %s", c.Name, fault))
			continue
		}
		if c.DType == "float16" {
			c.DType = "float32"
		}
		of := column{c, c.Name}
		if renamed[c.Name] != "" {
			of.theirs = renamed[c.Name]
		}
		s.columns = append(s.columns, of)
	}
	return s
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
	columns := src.Columns()
	columns = slices.DeleteFunc(slices.Clone(columns), func(c envs.Column) bool {
		return !slices.ContainsFunc(s.columns, func(of column) bool { return of.Name == c.Name })
	})
	data, err := src.Copy(columns, at)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
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
