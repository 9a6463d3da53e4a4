package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"scalewm/dataset/hdf5"
)

// hdf5Names has the names in the root group of an HDF5 file.
type hdf5Names struct {
	sets   map[string]bool
	groups []string
}

// hdf5 returns the names in the root group of a path of the input, which is a file.
// They are empty if it is not HDF5 or cannot be read: hdf5.Open returns the error.
func (in *input) hdf5() hdf5Names {
	if in.names == nil {
		in.names = &hdf5Names{sets: map[string]bool{}}
		if in.isDir || isNPZ(in.paths[0]) {
			return *in.names
		}
		if tree, err := hdf5.OpenTree(in.paths[0]); err == nil {
			defer tree.Close()
			in.names.groups = tree.Groups()
			for name := range tree.Sets() {
				in.names.sets[name] = true
			}
		}
	}
	return *in.names
}

// hasGroup reports whether there is a group of this name.
func (n hdf5Names) hasGroup(name string) bool { return slices.Contains(n.groups, name) }

// hdf5Sets are data sets of an HDF5 file, by the names of the columns that they become.
type hdf5Sets struct {
	job  *Job
	sets map[string]*hdf5.Set
	// camera is the set with the frames.
	camera string
	// encoded has the sets whose rows are JPEG or PNG files.
	encoded map[string]bool
	leftOut []string
}

func newHDF5Sets(j *Job) *hdf5Sets {
	return &hdf5Sets{job: j, sets: map[string]*hdf5.Set{}, encoded: map[string]bool{}}
}

// note adds a message about something that is left out.
func (s *hdf5Sets) note(format string, args ...any) {
	s.leftOut = append(s.leftOut, fmt.Sprintf(format, args...))
}

// noteOthers notes what a group has apart from data sets, except the groups that are
// used.
func (s *hdf5Sets) noteOthers(g *hdf5.Group, used ...string) {
	for _, name := range g.Groups() {
		if !slices.Contains(used, name) {
			s.note("the group %s is left out", hdf5.Quoted(name))
		}
	}
	others := g.Others()
	for _, name := range slices.Sorted(maps.Keys(others)) {
		s.note("%s is left out: it is %s", hdf5.Quoted(name), others[name])
	}
}

// add adds a set, unless its values cannot be a column. If the name is taken, the set
// is called prefix + name.
func (s *hdf5Sets) add(prefix, name string, set *hdf5.Set) {
	if _, taken := s.sets[name]; taken {
		name = prefix + name
	}
	if fault := cmp.Or(set.Fault(), hdf5.NameFault(name)); fault != "" {
		s.note("%s is left out: %s", hdf5.Quoted(name), fault)
		return
	}
	s.sets[name] = set
}

// addGroup adds the sets of a group and of the groups in it. Names of the latter
// follow those of their groups after a dot.
func (s *hdf5Sets) addGroup(prefix, within string, g *hdf5.Group) error {
	for _, name := range slices.Sorted(maps.Keys(g.Sets())) {
		s.add(prefix, within+name, g.Sets()[name])
	}
	s.noteOthers(g, g.Groups()...)
	for _, name := range g.Groups() {
		sub, err := g.Group(name)
		if err == nil {
			err = s.addGroup(prefix, within+name+".", sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSpace adds what a group has under a name, if anything: a set, or all sets of a
// group, whose names then begin with within.
func (s *hdf5Sets) addSpace(g *hdf5.Group, name, within string) error {
	if set, ok := g.Sets()[name]; ok && s.sets[name] != set {
		s.add("", name, set)
	}
	if !slices.Contains(g.Groups(), name) {
		return nil
	}
	sub, err := g.Group(name)
	if err != nil {
		return err
	}
	return s.addGroup(name+".", within, sub)
}

// choose chooses the camera and removes all other pictures. hint is for sets without
// frames.
func (s *hdf5Sets) choose(hint string) error {
	var cameras, pictures []string
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		set := s.sets[name]
		ok, err := isEncoded(set)
		if err != nil {
			return fmt.Errorf("its %s: %w", name, err)
		}
		s.encoded[name] = ok
		if shape := set.Shape(); ok || (array{dtype: set.DType(), shape: shape}).isCamera() || name == s.job.Frames || name == "pixels" {
			cameras = append(cameras, name)
		} else if set.DType() == "bytes" || set.DType() == "uint8" && len(shape) > 2 {
			pictures = append(pictures, name)
		}
	}
	// A picture that is the only one may be grey. The error for one of four colours
	// follows when it is read.
	if cameras == nil && len(pictures) == 1 && s.sets[pictures[0]].DType() == "uint8" {
		cameras, pictures = pictures, nil
	}
	var err error
	if s.camera, err = s.job.camera(cameras); err != nil {
		return err
	}
	if s.camera == "" {
		return fmt.Errorf("it has no frames, and nothing here can use a set without (hint: %s; it has %s)", hint, listed(s.sets))
	}
	for _, name := range cameras {
		if name != s.camera {
			delete(s.sets, name)
		}
	}
	for _, name := range pictures {
		delete(s.sets, name)
		s.note("%s is left out: it is neither numbers nor frames of one or three colours", name)
	}
	for name, set := range s.sets {
		if name != s.camera && set.RowBytes() > maxRowBytes {
			delete(s.sets, name)
			s.note("%s is left out: it has %d bytes per row", name, set.RowBytes())
		}
	}
	return nil
}

// expect leaves out sets with another number of rows than n if they have one axis, as
// one value per episode has, and otherwise returns an error.
func (s *hdf5Sets) expect(n int) error {
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		shape := s.sets[name].Shape()
		if shape[0] != n && (len(shape) > 1 || name == "action" || name == "actions") {
			return fmt.Errorf("its column %s has %d rows, and there are %d frames (hint: is the file complete?)", name, shape[0], n)
		} else if shape[0] != n {
			delete(s.sets, name)
			s.note("%s is left out: it has %d rows, and there are %d frames", name, shape[0], n)
		}
	}
	return nil
}
