// Package convert makes data sets from recordings in other layouts. The table layouts
// in layout.go lists them: each has a reader in a file of its own. A [Job] is one
// conversion. HDF5 files of our own layout are rewritten with our chunks and
// checksums (hdf5own.go). Known layouts that only other programs read are recognised, and the error
// names the lines that convert them.
//
// A reader delivers the rows of one episode at a time, by the names that they have in
// the source (rows). What is the same for all layouts follows in one place: which
// array has the actions, new names, the size of frames (episode.go, fit.go).
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
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// Job is one conversion.
type Job struct {
	// In is one file or folder in one of the layouts, or several .npz files.
	In  []string
	Out string
	// Frames selects the camera of an input with several. "" is the one called
	// pixels, or the only one.
	Frames string
	// Columns maps new names of columns to those in the source.
	Columns map[string]string
	// Drop has the names of columns in the source to leave out.
	Drop []string
	// Fit makes frames square, and Size is their edge in pixels; 0 keeps it.
	Fit  Fit
	Size int
	// Actions says what the action of a row does. Auto, the default, lets the layout
	// decide.
	Actions Alignment
	Filter  hdf5.Filter
	// Note is called for everything that is left out or changed.
	Note     func(string)
	Progress func(done, total int64, note string)

	// chosen are the notes of camera, which the first episode reports.
	chosen []string
	fitted fitted
}

// Alignment says which frame an action belongs to.
type Alignment string

// Leaving means that action[t] is taken in the state of row t, as in our data sets.
// Leading means that action[t] led to the state of row t.
const (
	Auto    Alignment = "auto"
	Leaving Alignment = "leaving"
	Leading Alignment = "leading"
)

// recording is a data set in another layout. Its episodes are read in ascending
// order, each once.
type recording interface {
	episodes() int
	episode(i int) (rows, error)
	close()
}

// rows are the rows of one episode as a reader delivers them.
type rows struct {
	// source is the file, or the number in a data set, for messages.
	source string
	// arrays have one row per frame, by their names in the source. The chosen camera
	// is called pixels: (T, H, W, C) or (T, C, H, W) numbers from 0 to 255.
	arrays map[string]array
	// alignment is that of the actions; "" is Leaving.
	alignment Alignment
	// attrs are attributes of the source that the data set keeps.
	attrs map[string]string
	// leftOut has a message for everything in the source that is not in arrays.
	leftOut []string
}

// Run converts one episode at a time, so that one is in memory. An interrupted
// conversion leaves no file at Out.
func (j Job) Run(ctx context.Context) error {
	r, err := j.open(ctx)
	if err != nil {
		return fmt.Errorf("converting %s: %w", j.In[0], err)
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

// open opens an input in one of the layouts. It returns nil for HDF5 files of which an
// exact copy is right, and for what nothing here reads: hdf5.Open then returns the
// error.
func (j *Job) open(ctx context.Context) (recording, error) {
	in, err := openInput(j.In)
	if err != nil {
		return nil, err
	}
	l := layoutOf(in)
	switch {
	case l == nil && in.isDir:
		return nil, fmt.Errorf("the folder has none of the layouts that are known here (hint: those are %s; is it the folder above or below?)", layoutNames())
	case l == nil:
		return openOwn(in, j)
	case l.open == nil:
		return nil, fmt.Errorf("it has the layout %s, which other programs read (hint: %s)", l.name, l.instead(j.In[0]))
	}
	r, err := l.open(ctx, in, j)
	if err != nil {
		return nil, fmt.Errorf("reading it as %s: %w", l.name, err)
	}
	return r, nil
}

// write writes the episodes. The first one determines the columns, and all others
// must have the same.
func (j *Job) write(ctx context.Context, r recording) error {
	var w *hdf5.Writer
	var opt hdf5.WriterOptions
	for i := range r.episodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, err := r.episode(i)
		var e episode
		if err == nil {
			e, err = j.take(from)
		}
		if err == nil && w == nil {
			for _, note := range e.notes {
				j.Note(fmt.Sprintf("%s: %s", from.source, note))
			}
			opt = hdf5.WriterOptions{Columns: e.columns, FrameSize: e.edge, Filter: j.Filter, Attrs: e.attrs}
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
			return fmt.Errorf("converting the episode %s: %w", from.source, err)
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
