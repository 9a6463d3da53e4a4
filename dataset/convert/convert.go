// Package convert makes data sets from recordings in other layouts. It reads
//
//   - NumPy's .npz files, one episode each, or a folder of them;
//   - folders of films or pictures, as stable-worldmodel records them;
//   - LeRobot data sets of version 2 and 3;
//   - HDF5 files, which are rewritten with our chunks and checksums.
//
// Other known layouts are recognised, and the error names what can read them. A [Job]
// is one conversion.
//
// Inputs come from elsewhere and may be damaged or malicious. Readers check every
// declared size against the size of the file before they allocate memory, never
// decode a film as anything but MP4, and return an error if rows and frames do not
// match exactly. The package knows no task.
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

// Job is one conversion.
type Job struct {
	// In is one HDF5 file, one or more .npz files, or a folder in one of the layouts.
	In  []string
	Out string
	// Frames selects the films or pictures of a folder with several cameras. "" is
	// the one called pixels, or the only one.
	Frames string
	Filter hdf5.Filter
	// Note is called for everything that is left out.
	Note     func(string)
	Progress func(done, total int64, note string)
}

// recording is a data set in another layout. Its episodes are read in ascending
// order, each once.
type recording interface {
	episodes() int
	episode(i int) (episode, error)
	close()
}

// Run converts one episode at a time, so that one is in memory. An interrupted
// conversion leaves no file at Out.
func (j Job) Run(ctx context.Context) error {
	r, err := j.open(ctx)
	if err != nil {
		return fmt.Errorf("converting %s: %w", j.In[0], err)
	}
	if _, ok := r.(npzFiles); j.Frames != "" && (ok || r == nil) {
		return fmt.Errorf("converting %s: its frames are its array pixels (hint: leave --frames out; it names a camera of a folder that has several)", j.In[0])
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

// open detects the layout of the input. It returns nil for HDF5, and also for what
// nothing here reads: the reader of HDF5 then returns the error.
func (j Job) open(ctx context.Context) (recording, error) {
	// Several inputs are episodes in .npz files; every other layout is one file or
	// folder.
	isNPZ := func(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npz") }
	if !slices.ContainsFunc(j.In, func(path string) bool { return !isNPZ(path) }) {
		return npzFiles(j.In), nil
	}
	if len(j.In) > 1 {
		return nil, fmt.Errorf("%s: several inputs must all be .npz files (hint: convert one data set per call)", j.In[1])
	}
	if st, err := os.Stat(j.In[0]); err != nil || !st.IsDir() {
		return nil, nil
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(j.In[0], name))
		return err == nil
	}
	switch {
	// A file that only this layout has identifies it.
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
		// The reader of HDF5 knows which folders others can read.
		return nil, nil
	}
	return files, nil
}

// write writes the episodes. The first one determines the columns, and all others
// must have the same.
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

// describe lists columns for messages.
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
