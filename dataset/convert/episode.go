package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// episode is one episode of a recording.
type episode struct {
	// source is the file, or the number in a data set, for messages.
	source string
	// columns are sorted by name.
	columns []envs.Column
	// edge is that of the frames, or 0 without frames.
	edge int
	data hdf5.EpisodeData
	// leftOut has a message for each array that is not a column.
	leftOut []string
}

// maxRowBytes bounds a row of a column of a data set.
const maxRowBytes = 1 << 16

// take turns arrays into columns and frames. The array pixels, or else action, has
// the number of rows. Arrays with another number of rows are left out if they have
// one axis, since those may be per episode, and are an error otherwise.
func (e *episode) take(arrays map[string]array) error {
	lead, ok := arrays["pixels"]
	if !ok {
		lead, ok = arrays["action"]
	}
	if !ok || lead.rows() == 0 {
		return errors.New("it has no rows of pixels or action (hint: np.savez(path, pixels=..., action=...), the same names as in docs/dataset-format.md)")
	}
	e.data.Raw = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		a := arrays[name]
		fault := hdf5.NameFault(name)
		switch {
		case fault != "":
			e.leftOut = append(e.leftOut, fmt.Sprintf("the array %q is left out: %s", name, fault))
		case name == "pixels":
			if err := e.frames(a); err != nil {
				return err
			}
		case a.rows() != lead.rows() && (name == "action" || len(a.shape) > 1):
			return fmt.Errorf("its array %s has the shape %v, and there are %d rows (hint: one row per frame; the last action may be NaN)", name, a.shape, lead.rows())
		case a.rows() != lead.rows():
			e.leftOut = append(e.leftOut, fmt.Sprintf("the array %s has the shape %v and is left out: columns have %d rows", name, a.shape, lead.rows()))
		// An array without numbers, or wider than any column, such as further images.
		case a.width() == 0 || a.width()*widths[a.dtype] > maxRowBytes:
			e.leftOut = append(e.leftOut, fmt.Sprintf("the array %s has %d numbers per row and is left out", name, a.width()))
		default:
			e.data.Raw[name] = a.data
			e.columns = append(e.columns, envs.Column{Name: name, DType: a.dtype, Width: a.width(), Matrix: a.width() == 1 && len(a.shape) > 1})
		}
	}
	return nil
}

// frames takes the pixels, one frame per row.
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
