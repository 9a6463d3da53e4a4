// Package dataset is logged experience: episodes of rows with columns and
// frames in the field's HDF5 layout, clips cut from them for training, their
// normalisation, splits and fingerprint. It knows no task (dataset/collect and
// dataset/replay do) and no model.
package dataset

import (
	"errors"
	"fmt"
	"strings"

	"scalewm/envs"
)

// ErrInexact is the error of reading integers beyond 2^53 that float64 cannot hold.
var ErrInexact = errors.New("an integer beyond 2^53 that float64 cannot hold")

// Episode is a run of rows of a file.
type Episode struct{ Offset, Len int }

// Source is a readable data set. It may be read by many goroutines at once.
type Source interface {
	Rows() int
	Episodes() []Episode
	// Columns are the numeric columns, without what only a task knows of them.
	// Row t is the state before the action of row t, except in the columns of the
	// step into the row (terminated, reward, substeps, ...).
	Columns() []envs.Column
	// Read returns rows [from, to) of a column, row-major, widened to float64. If that changes an
	// integer, it returns ErrInexact with the rounded numbers.
	Read(column string, from, to int) ([]float64, error)
	// FrameSize is the edge of the frames in pixels, 0 where there is no pixels column; Frame decodes
	// one, (size, size, 3) bytes, into dst.
	FrameSize() int
	Frame(row int, dst []byte) error
	// Attr is a string attribute of the file (env, numeric_mode, ...).
	Attr(name string) (string, bool)
	// Fingerprint is a hex SHA-256 over layout and content, the same for equal data
	// however it is chunked or compressed.
	Fingerprint() (string, error)
	Close() error
}

// FindColumn is the description of a column; the error lists those there are.
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

// CheckTask says why src is no recording with frames of a task: name and id are
// what its attribute env may say (a file without the attribute passes), its frames
// are the task's and its actions have dim numbers. NoTask takes every name and size.
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
