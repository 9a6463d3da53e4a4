// Package convert makes data sets of recordings in other layouts: NumPy's files, an episode
// each, stable_worldmodel's folders of films or pictures, LeRobot's sets. Other known
// layouts are recognised, and the error says what reads them. It knows no task.
package convert

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// Job is a conversion.
type Job struct {
	In       []string // one data set in HDF5, .npz files or a folder of these, or a folder in another layout
	Out      string
	Frames   string // which films or pictures are the frames where there are several, "": pixels, or the only ones
	Filter   hdf5.Filter
	Note     func(string) // is told what is left out
	Progress func(done, total int64, note string)
}

// recording is a data set in another layout, read an episode at a time from 0 on.
type recording interface {
	episodes() int
	episode(i int) (episode, error)
	close()
}

// Run converts, an episode at a time. An interrupted conversion leaves nothing at Out.
func (j Job) Run(ctx context.Context) error {
	r, err := j.open(ctx)
	if err != nil {
		return fmt.Errorf("converting %s: %w", j.In[0], err)
	}
	if _, ok := r.(npzFiles); j.Frames != "" && (ok || r == nil) {
		return fmt.Errorf("converting %s: its frames are its pixels (hint: leave --frames out, which names a camera of a folder with several)", j.In[0])
	}
	if r != nil {
		defer r.close()
		return j.write(ctx, r)
	}
	src, err := hdf5.Open(j.In[0])
	if err != nil {
		return err
	}
	defer src.Close()
	for _, name := range slices.Sorted(maps.Keys(src.Skipped())) {
		j.Note(fmt.Sprintf("%q is left out: %s", name, src.Skipped()[name]))
	}
	return hdf5.Convert(ctx, src, j.Out, j.Filter, j.Progress)
}

// open finds out what the input is; nil is a data set in HDF5.
func (j Job) open(ctx context.Context) (recording, error) {
	isNPZ := func(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npz") }
	if !slices.ContainsFunc(j.In, func(path string) bool { return !isNPZ(path) }) {
		return npzFiles(j.In), nil
	}
	if len(j.In) > 1 {
		return nil, fmt.Errorf("%s: only .npz files may be several (hint: one data set a call)", j.In[1])
	}
	if st, err := os.Stat(j.In[0]); err != nil || !st.IsDir() {
		return nil, nil
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(j.In[0], name))
		return err == nil
	}
	switch {
	case has("meta/info.json"):
		return openLeRobot(ctx, j.In[0], j.Frames, j.Note)
	case has("ep_len.npz"):
		return openFolder(ctx, j.In[0], j.Frames)
	}
	entries, err := os.ReadDir(j.In[0])
	if err != nil {
		return nil, err
	}
	var files npzFiles
	for _, e := range entries {
		if isNPZ(e.Name()) {
			files = append(files, filepath.Join(j.In[0], e.Name()))
		}
	}
	if files == nil {
		return nil, nil // the reader of HDF5 says what folders it knows
	}
	return files, nil
}

// write writes the episodes; the first one says which columns there are.
func (j Job) write(ctx context.Context, r recording) error {
	var w *hdf5.Writer
	var opt hdf5.WriterOptions
	for i := range r.episodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.episode(i)
		if err == nil && w == nil {
			for _, note := range e.leftOut {
				j.Note(fmt.Sprintf("%s: %s", e.source, note))
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
			return fmt.Errorf("converting the episode %s: %w", e.source, err)
		}
		if j.Progress != nil {
			j.Progress(int64(i+1), int64(r.episodes()), "episodes")
		}
	}
	if w == nil {
		return fmt.Errorf("converting %s: it has no episodes (hint: is this the right folder?)", j.In[0])
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
