// Package export writes data sets in the formats of other programs, the reverse of
// package convert. The table formats lists them: each has a writer in a file of its
// own. A [Job] is one export.
//
// What is the same for all formats is in one place: which columns are written and
// under which names, and the missing last action of an episode (set.go). A writer gets
// one episode at a time. The package knows no task.
package export

import (
	"context"
	"fmt"
	"slices"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
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
