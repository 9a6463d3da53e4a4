// Package convert makes data sets of recordings in other layouts: files of NumPy, an episode
// each. What it cannot read it recognises, to say what else reads it. It knows no task.
package convert

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// Job is a conversion.
type Job struct {
	In       []string // one data set in HDF5, .npz files, or a folder of these
	Out      string
	Filter   hdf5.Filter
	Note     func(string) // is told what is left out
	Progress func(done, total int64, note string)
}

// Run converts, an episode at a time. An interrupted conversion leaves nothing at Out.
func (j Job) Run(ctx context.Context) error {
	files, err := j.npzFiles()
	if err != nil {
		return err
	}
	if files != nil {
		return j.npz(ctx, files)
	}
	if len(j.In) > 1 {
		return fmt.Errorf("converting %s: only .npz files may be several (hint: one data set a call)", j.In[1])
	}
	if err := foreign(j.In[0]); err != nil {
		return err
	}
	src, err := hdf5.Open(j.In[0])
	if err != nil {
		return err
	}
	defer src.Close()
	return hdf5.Convert(ctx, src, j.Out, j.Filter, j.Progress)
}

// npzFiles are the episodes in the order in which they are given, or of their names in a folder; nil
// where the input is something else.
func (j Job) npzFiles() ([]string, error) {
	isNPZ := func(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npz") }
	if !slices.ContainsFunc(j.In, func(path string) bool { return !isNPZ(path) }) {
		return j.In, nil
	}
	if st, err := os.Stat(j.In[0]); err != nil || !st.IsDir() || len(j.In) > 1 || foreign(j.In[0]) != nil {
		return nil, nil
	}
	entries, err := os.ReadDir(j.In[0])
	if err != nil {
		return nil, fmt.Errorf("converting: %w", err)
	}
	var files []string
	for _, e := range entries {
		if isNPZ(e.Name()) {
			files = append(files, filepath.Join(j.In[0], e.Name()))
		}
	}
	return files, nil
}

// foreign says what helps with a folder in another known layout.
func foreign(path string) error {
	has := func(name string) bool {
		found, err := filepath.Glob(filepath.Join(path, name))
		return err == nil && len(found) > 0
	}
	switch {
	case has("meta/info.json"):
		return fmt.Errorf("converting %s: it is a LeRobot set, whose tables and films are not read here (hint: save each episode with np.savez(\"ep_000.npz\", pixels=..., action=...), frames square and uint8, and give that folder)", path)
	case has("ep_len.npz"):
		return fmt.Errorf("converting %s: it is in stable_worldmodel's format of films or pictures, which is not read here (hint: World.collect(..., format=\"hdf5\") records what is; or save each episode with np.savez(\"ep_000.npz\", pixels=..., action=...))", path)
	}
	return nil
}

// npz writes the episodes of files; the first one says which columns there are.
func (j Job) npz(ctx context.Context, files []string) error {
	var w *hdf5.Writer
	var opt hdf5.WriterOptions
	for i, path := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := readEpisode(path)
		if err == nil && w == nil {
			for _, note := range e.leftOut {
				j.Note(fmt.Sprintf("%s: %s", path, note))
			}
			opt = hdf5.WriterOptions{Columns: e.columns, FrameSize: e.edge, Filter: j.Filter}
			if w, err = hdf5.Create(j.Out, opt); err != nil {
				return err
			}
			defer w.Abort()
		}
		if err == nil && (!slices.EqualFunc(e.columns, opt.Columns, sameColumn) || e.edge != opt.FrameSize) {
			err = fmt.Errorf("it has %s, the first episode %s (hint: all episodes have the same arrays)", describe(e.columns, e.edge), describe(opt.Columns, opt.FrameSize))
		}
		if err == nil {
			err = w.Append(e.data)
		}
		if err != nil {
			return fmt.Errorf("converting the episode %s: %w", path, err)
		}
		if j.Progress != nil {
			j.Progress(int64(i+1), int64(len(files)), "episodes")
		}
	}
	return w.Close()
}

func sameColumn(a, b envs.Column) bool {
	return a.Name == b.Name && a.DType == b.DType && a.Width == b.Width && a.Matrix == b.Matrix
}

// describe lists columns for people.
func describe(columns []envs.Column, edge int) string {
	var out []string
	for _, c := range columns {
		out = append(out, fmt.Sprintf("%s %s x %d", c.Name, c.DType, c.Width))
	}
	if edge > 0 {
		out = append(out, fmt.Sprintf("frames of %d pixels", edge))
	}
	return strings.Join(out, ", ")
}

// episode is the content of a file.
type episode struct {
	columns []envs.Column // by name
	edge    int           // of the frames, 0 without
	data    hdf5.EpisodeData
	leftOut []string // which arrays, and why
}

// maxRowBytes is the widest row that is a column of a data set.
const maxRowBytes = 1 << 16

// readEpisode reads the arrays of a .npz file. All with a row for each frame, or else for
// each action, are columns.
func readEpisode(path string) (e episode, err error) {
	f, err := cell.Open(path, cell.MaxData)
	if err != nil {
		return e, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return e, err
	}
	z, err := zip.NewReader(f, st.Size())
	if err != nil {
		return e, fmt.Errorf("%w (hint: np.savez writes such files)", err)
	}
	arrays := map[string]array{}
	for _, member := range z.File {
		name, ok := strings.CutSuffix(member.Name, ".npy")
		if !ok || hdf5.IsIndex(name) || name == "ep_len" || name == "ep_offset" { // which the writer makes
			continue
		}
		r, err := member.Open()
		if err == nil {
			arrays[name], err = readNPY(r)
			r.Close()
		}
		if err != nil {
			return e, fmt.Errorf("its array %s: %w", name, err)
		}
	}
	return e, e.take(arrays)
}

// take makes columns of arrays.
func (e *episode) take(arrays map[string]array) error {
	lead, ok := arrays["pixels"]
	if !ok {
		lead, ok = arrays["action"]
	}
	if !ok || lead.rows() == 0 {
		return errors.New("it has no rows of pixels or action (hint: np.savez(path, pixels=..., action=...), the same names as in docs/dataset-format.md)")
	}
	e.data.Columns = map[string][]float64{}
	var names []string
	for name := range arrays {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		a := arrays[name]
		switch {
		case name == "pixels":
			if err := e.frames(a); err != nil {
				return err
			}
		case a.rows() != lead.rows() && (name == "action" || len(a.shape) > 1):
			return fmt.Errorf("its array %s has the shape %v, and there are %d rows (hint: one row a frame; the last action may be NaN)", name, a.shape, lead.rows())
		case a.rows() != lead.rows():
			e.leftOut = append(e.leftOut, fmt.Sprintf("the array %s has the shape %v and is left out: columns have %d rows", name, a.shape, lead.rows()))
		case a.width() == 0 || a.width()*widths[a.dtype] > maxRowBytes:
			e.leftOut = append(e.leftOut, fmt.Sprintf("the array %s has %d numbers a row and is left out", name, a.width()))
		default:
			v, err := a.numbers()
			if err != nil {
				return fmt.Errorf("its array %s: %w", name, err)
			}
			e.data.Columns[name] = v
			e.columns = append(e.columns, envs.Column{Name: name, DType: a.dtype, Width: a.width(), Matrix: a.width() == 1 && len(a.shape) > 1})
		}
	}
	return nil
}

// frames takes the pixels.
func (e *episode) frames(a array) error {
	if s := a.shape; a.dtype != "uint8" || len(s) != 4 || s[1] != s[2] || s[3] != 3 || s[1] < 1 || s[1] > hdf5.MaxFrameSize {
		return fmt.Errorf("its pixels are %s %v, frames are uint8 (rows, edge, edge, 3) with an edge of 1 to %d (hint: crop or resize them to squares; x.transpose(0, 2, 3, 1) puts channels last)", a.dtype, a.shape, hdf5.MaxFrameSize)
	}
	e.edge = a.shape[1]
	size := len(a.data) / a.rows()
	for t := range a.rows() {
		e.data.Frames = append(e.data.Frames, a.data[t*size:(t+1)*size])
	}
	return nil
}
