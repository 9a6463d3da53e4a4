// Package dataset reads logged experience and prepares it for training.
//
// A [Source] is a data set: episodes of consecutive rows with numeric columns and
// frames (package hdf5 implements it for files). From it the package makes
//
//   - clips, the training examples ([Clips]), and their split into training and
//     validation ([Split]; [Cut] does both and scales the actions);
//   - statistics for z-scores ([ColumnMoments], [QMoments]);
//   - frames at another size, cached in memory or on disk ([Resized]);
//   - batches in an order that depends only on the seed, fetched in the background
//     ([Loader]);
//   - a report on everything that is wrong with the data ([Check]).
//
// The package knows neither tasks, except by the columns of their state, nor models.
// Packages collect and replay connect data sets with simulators.
package dataset

import (
	"errors"
	"fmt"
	"strings"

	"scalewm/envs"
)

// ErrInexact is wrapped by the error of Source.Read when the column has integers
// beyond 2^53 that float64 cannot represent.
var ErrInexact = errors.New("an integer beyond 2^53 that float64 cannot hold")

// Episode is a run of consecutive rows, from row Offset of the file.
type Episode struct{ Offset, Len int }

// Source is a readable data set. Its methods may be called from several goroutines at
// once.
type Source interface {
	// Rows returns the number of rows of all episodes.
	Rows() int
	// Episodes returns the episodes in the order of the file. Callers must not change
	// the slice.
	Episodes() []Episode
	// Columns returns the numeric columns, without properties that only a task knows.
	// Row t is the state before the action of row t, except in columns about the step
	// into the row (terminated, reward, substeps, ...).
	Columns() []envs.Column
	// Read returns rows [from, to) of a column, row-major, converted to float64. If
	// the conversion changes an integer, Read returns the rounded numbers and an
	// error that wraps ErrInexact.
	Read(column string, from, to int) ([]float64, error)
	// FrameSize returns the edge of the square frames in pixels, or 0 if there is no
	// pixels column.
	FrameSize() int
	// Frame decodes the frame of a row into dst, which has (size, size, 3) bytes,
	// RGB.
	Frame(row int, dst []byte) error
	// Attr returns a string attribute of the file (env, numeric_mode, ...) and
	// whether it exists.
	Attr(name string) (string, bool)
	// Fingerprint returns a SHA-256 in hex over layout and content. It is the same
	// for equal data, however the file is chunked or compressed. Splits, cells and
	// caches are bound to it.
	Fingerprint() (string, error)
	Close() error
}

// FindColumn returns the description of a column. If there is none of that name, the
// error lists the existing ones.
func FindColumn(src Source, name string) (envs.Column, error) {
	var have []string
	for _, c := range src.Columns() {
		if c.Name == name {
			return c, nil
		}
		have = append(have, c.Name)
	}
	return envs.Column{}, fmt.Errorf("the data set has no column %q (hint: it has %s)", name, strings.Join(have, ", "))
}

// CheckTask returns an error unless src is a recording of a task, with frames. The
// attribute env must be the task's name or id, if the file has it; the frames must
// have the size of the simulated ones; and actions must have dim numbers. NoTask
// accepts every env and size.
func CheckTask(src Source, name, id string, dim int) error {
	if env, ok := src.Attr("env"); ok && name != NoTask && env != name && env != id {
		return fmt.Errorf("it records the task %q, not %q (hint: give a data set of that task, or the --task of this one)", env, name)
	}
	if src.FrameSize() == 0 {
		return fmt.Errorf("it has no pixels (hint: collect it again with frames, or use a file with a pixels column)")
	}
	if size := src.FrameSize(); name != NoTask && size != envs.FrameSize {
		return fmt.Errorf("its frames have %d pixels, those of the task %s %d (hint: --task %s trains on frames of any size)", size, name, envs.FrameSize, NoTask)
	}
	a, err := FindColumn(src, "action")
	if err != nil {
		return err
	}
	if a.Width != dim {
		return fmt.Errorf("its actions have %d numbers, those of %s %d (hint: is this the right file?)", a.Width, name, dim)
	}
	return nil
}
