package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// episode is one episode of a recording, ready to be written.
type episode struct {
	// columns are sorted by name.
	columns []envs.Column
	// edge is that of the frames.
	edge int
	data hdf5.EpisodeData
	// attrs are attributes of the data set: those of the source, and what has become of
	// the frames.
	attrs map[string]string
	// notes has a message for everything that was left out or changed.
	notes []string
}

// maxRowBytes bounds a row of a column of a data set.
const maxRowBytes = 1 << 16

// aliases maps names that other programs use to ours. An array takes our name unless
// another array of the source has it.
var aliases = []struct{ theirs, ours string }{
	{"actions", "action"},
	// stable-worldmodel's reader of LeRobot sets has this name.
	{"observation.state", "proprio"},
}

// take turns the rows that a reader delivered into columns and frames: it applies the
// user's names, aligns the actions and fits the frames. The array pixels has the
// number of rows. Arrays with another number of rows are left out if they have one
// axis, since those may be per episode, and are an error otherwise.
func (j *Job) take(r rows) (e episode, err error) {
	e.notes = append(slices.Clone(j.chosen), r.leftOut...)
	arrays, err := j.rename(r.arrays, &e.notes)
	if err != nil {
		return e, err
	}
	pixels, ok := arrays["pixels"]
	if !ok || pixels.rows() == 0 {
		return e, fmt.Errorf("it has no frames, and nothing here can use a set without (hint: frames are uint8 (rows, edge, edge, 3) in an array that --frames names; it has %s)", listed(arrays))
	}
	if _, ok := arrays["action"]; !ok {
		return e, fmt.Errorf("it has no actions (hint: --column action=NAME names their column; it has %s)", listed(arrays))
	}
	if j.Actions == Leading || j.Actions != Leaving && r.alignment == Leading {
		if arrays["action"], err = arrays["action"].advanced(); err != nil {
			return e, err
		}
		e.notes = append(e.notes, "each action led to its own row in the source: row t has the action of row t+1, and the last row of an episode none (NaN)")
	}
	if dtype := arrays["action"].dtype; dtype[0] != 'f' {
		e.notes = append(e.notes, fmt.Sprintf("its actions are %s and stay so; train takes discrete actions one-hot encoded", dtype))
	}
	e.data.Raw = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		a := arrays[name]
		fault := hdf5.NameFault(name)
		switch {
		case fault != "":
			e.notes = append(e.notes, fmt.Sprintf("the array %q is left out: %s", name, fault))
		case name == "pixels":
			if err := j.frames(&e, a); err != nil {
				return e, err
			}
		case isIndex(name):
		// A picture is never a column, however small.
		case a.isPicture():
			e.notes = append(e.notes, fmt.Sprintf("the frames %s are left out (--frames chooses a camera)", name))
		case a.rows() != pixels.rows() && (name == "action" || len(a.shape) > 1):
			return e, fmt.Errorf("its array %s has the shape %v, and there are %d frames (hint: one row per frame; the last action may be NaN)", name, a.shape, pixels.rows())
		case a.rows() != pixels.rows():
			e.notes = append(e.notes, fmt.Sprintf("the array %s has the shape %v and is left out: columns have %d rows", name, a.shape, pixels.rows()))
		// An array without numbers, or wider than any column.
		case a.width() == 0 || a.width()*widths[a.dtype] > maxRowBytes:
			if name == "action" {
				return e, fmt.Errorf("its actions have %d numbers per row (hint: is this the right column? --column action=NAME names another)", a.width())
			}
			e.notes = append(e.notes, fmt.Sprintf("the array %s has %d numbers per row and is left out", name, a.width()))
		default:
			e.data.Raw[name] = a.data
			e.columns = append(e.columns, envs.Column{Name: name, DType: a.dtype, Width: a.width(), Matrix: a.width() == 1 && len(a.shape) > 1})
		}
	}
	e.attrs = map[string]string{}
	maps.Copy(e.attrs, r.attrs)
	maps.Copy(e.attrs, j.fitted.attrs)
	return e, nil
}

// rename returns the arrays by the names of the data set's columns: without those to
// drop, with the user's names, and with our names for the aliases.
func (j *Job) rename(arrays map[string]array, notes *[]string) (map[string]array, error) {
	out := maps.Clone(arrays)
	for _, name := range j.Drop {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("it has no column %q to drop (hint: it has %s)", name, listed(arrays))
		}
		delete(out, name)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Columns)) {
		old := j.Columns[name]
		a, ok := arrays[old]
		if !ok {
			return nil, fmt.Errorf("it has no column %q (hint: --column %s=OLD, where OLD is one of %s)", old, name, listed(arrays))
		}
		if _, taken := out[name]; taken {
			return nil, fmt.Errorf("it has a column %q already (hint: --drop %s leaves that one out)", name, name)
		}
		delete(out, old)
		out[name] = a
	}
	for _, of := range aliases {
		a, ok := out[of.theirs]
		if _, taken := out[of.ours]; ok && !taken {
			delete(out, of.theirs)
			out[of.ours] = a
			*notes = append(*notes, fmt.Sprintf("the column %s is called %s in the source", of.ours, of.theirs))
		}
	}
	return out, nil
}

// listed lists the names of arrays for messages.
func listed[T any](arrays map[string]T) string {
	if len(arrays) == 0 {
		return "no arrays"
	}
	return strings.Join(slices.Sorted(maps.Keys(arrays)), ", ")
}

// camera returns which of several cameras has the frames, or "" if there are none, and
// notes the others.
func (j *Job) camera(cameras []string) (string, error) {
	camera := j.Frames
	switch {
	case camera != "" && !slices.Contains(cameras, camera):
		if cameras == nil {
			return "", fmt.Errorf("it has no frames called %q, and none at all (hint: nothing here can use a set without frames)", camera)
		}
		return "", fmt.Errorf("it has no frames called %q (hint: --frames is one of %s)", camera, strings.Join(cameras, ", "))
	case camera != "":
	case slices.Contains(cameras, "pixels"):
		camera = "pixels"
	case len(cameras) == 1:
		camera = cameras[0]
	case len(cameras) > 1:
		return "", fmt.Errorf("it has several cameras (hint: --frames NAME, one of %s)", strings.Join(cameras, ", "))
	}
	j.chosen = nil
	for _, c := range cameras {
		if c != camera {
			j.chosen = append(j.chosen, fmt.Sprintf("the frames %s are left out, those of %s are taken", c, camera))
		}
	}
	return camera, nil
}
