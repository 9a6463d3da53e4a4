package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// bounded returns an error if rows of an array claim far more memory than the set has.
// Chunks that are not stored have the fill value, so that a few bytes could claim any
// number of rows. Zstd, the best of the codecs, stores zeros in 1/30000.
func (z *zarrSet) bounded(a *zarrArray, rows int) error {
	const ratio, fixed = 1 << 16, 1 << 14
	if float64(rows)*float64(a.rowBytes()) > ratio*(fixed+float64(z.store.stored)) {
		return fmt.Errorf("%d rows of the shape %v are claimed by a set of %d bytes (hint: copy it again; its metadata is damaged or its chunks are missing)", rows, a.shape, z.store.stored)
	}
	return nil
}

// list adds the arrays of a group to all. Names in a nested group begin with that of
// the group and a dot.
func (z *zarrSet) list(group, prefix string, all map[string]*zarrArray) error {
	entries, err := fs.ReadDir(z.store.FS, group)
	if err != nil || strings.Count(group, "/") > maxAxes {
		return fmt.Errorf("it has no readable group %s (hint: the arrays of a replay buffer are in data/; is the set complete?)", group)
	}
	for _, e := range entries {
		name := path.Join(group, e.Name())
		// Unlike e, this follows links.
		if st, err := fs.Stat(z.store.FS, name); err != nil || !st.IsDir() {
			continue
		}
		a, err := z.store.array(name)
		if err == errNoZarrArray {
			err = z.list(name, prefix+e.Name()+".", all)
		} else if err == nil {
			all[prefix+e.Name()] = a
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// choose decides which arrays are read.
func (z *zarrSet) choose(all map[string]*zarrArray) error {
	rows := 0
	if len(z.ends) > 0 {
		rows = z.ends[len(z.ends)-1]
	}
	// Frames of floats are a camera only if none has bytes: depth has floats too.
	var cameras, floats []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch a := all[name]; {
		case slices.Contains(z.job.Drop, name), errors.Is(a.fault, errNotNumeric):
		case name == z.job.Frames, name == "pixels", a.like("uint8").isCamera() && a.t.name == "u1":
			cameras = append(cameras, name)
		case a.like("uint8").isCamera():
			floats = append(floats, name)
		}
	}
	if cameras == nil {
		cameras = floats
	}
	camera, err := z.job.camera(cameras)
	if err != nil {
		return err
	}
	// total is the size of a row of all arrays.
	total, spare := 0, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		leaveOut := func(why string, args ...any) {
			z.leftOut = append(z.leftOut, fmt.Sprintf("the array %s %s", name, fmt.Sprintf(why, args...)))
		}
		switch {
		case slices.Contains(z.job.Drop, name):
			z.arrays[name] = nil
		case name != camera && slices.Contains(cameras, name): // camera noted it
		case errors.Is(a.fault, errNotNumeric):
			leaveOut("is left out: %v", a.fault)
		case name != camera && a.like(dtypes[a.t.name]).isPicture():
			leaveOut("has pictures and is left out (--frames chooses a camera)")
		case len(a.shape) == 0 || len(a.shape) == 1 && a.shape[0] < rows:
			leaveOut("has the shape %v and is left out: there are %d rows", a.shape, rows)
		case a.shape[0] < rows:
			return fmt.Errorf("its array %s has %d rows, and the last episode ends at row %d of meta/episode_ends (hint: is the set complete? --drop %s leaves the array out)", name, a.shape[0], rows, name)
		case a.fault != nil:
			return fmt.Errorf("its array %s: %w", name, a.fault)
		case name != camera && a.rowBytes() > maxRowBytes:
			leaveOut("has %d numbers per row and is left out", a.like("").width())
		default:
			if err := z.bounded(a, rows); err != nil {
				return fmt.Errorf("its array %s: %w", name, err)
			}
			spare = max(spare, a.shape[0]-rows)
			total += a.rowBytes()
			if name == camera {
				name = "pixels"
			}
			z.arrays[name] = a
		}
	}
	if spare > 0 {
		z.leftOut = append(z.leftOut, fmt.Sprintf("%d rows after the last episode, which ends at row %d, are left out", spare, rows))
	}
	last := 0
	for i, end := range z.ends {
		if end-last > maxArrays/max(1, total) {
			return fmt.Errorf("episode %d of %d rows is larger than %d GB (hint: --drop leaves arrays out)", i, end-last, maxArrays>>30)
		}
		last = end
	}
	return nil
}

// like returns an array of the same shape, without numbers.
func (a *zarrArray) like(dtype string) array { return array{dtype: dtype, shape: a.shape} }
