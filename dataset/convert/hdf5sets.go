package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
			s.note("the group %s is left out", visible(name))
		}
	}
	others := g.Others()
	for _, name := range slices.Sorted(maps.Keys(others)) {
		s.note("%s is left out: it is %s", visible(name), others[name])
	}
}

// visible returns a name for messages. One that no column can have is quoted.
func visible(name string) string {
	if hdf5.NameFault(name) != "" {
		return strconv.Quote(name)
	}
	return name
}

// add adds a set, unless its values cannot be a column. If the name is taken, the set
// is called prefix + name.
func (s *hdf5Sets) add(prefix, name string, set *hdf5.Set) {
	if _, taken := s.sets[name]; taken {
		name = prefix + name
	}
	if fault := cmp.Or(set.Fault(), hdf5.NameFault(name)); fault != "" {
		s.note("%s is left out: %s", visible(name), fault)
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
			return fmt.Errorf("its %s has %d rows, and there are %d frames (hint: is the file complete?)", name, shape[0], n)
		} else if shape[0] != n {
			delete(s.sets, name)
			s.note("%s is left out: it has %d rows, and there are %d frames", name, shape[0], n)
		}
	}
	return nil
}

// isEncoded reports whether the rows of a set are JPEG or PNG files: byte strings, or
// rows of bytes if all files have one length.
func isEncoded(set *hdf5.Set) (bool, error) {
	shape := set.Shape()
	if dtype := set.DType(); shape[0] == 0 || dtype != "bytes" && (dtype != "uint8" || len(shape) != 2) {
		return false, nil
	}
	first, err := files(set, 0, 1)
	return err == nil && (strings.HasPrefix(string(first[0]), "\xff\xd8\xff") || strings.HasPrefix(string(first[0]), "\x89PNG\r\n")), err
}

// files returns the files in the rows [from, to) of a set.
func files(set *hdf5.Set, from, to int) (out [][]byte, err error) {
	if set.DType() == "bytes" {
		return set.ReadBytes(from, to)
	}
	b, err := set.Read(from, to)
	if err != nil {
		return nil, err
	}
	for row := range slices.Chunk(b, set.RowBytes()) {
		out = append(out, row)
	}
	return out, nil
}

// read returns the rows [from, to) of all sets by name, and those of the camera as
// pixels. If to is negative, it returns all rows of each set.
func (s *hdf5Sets) read(from, to int) (map[string]array, error) {
	arrays := map[string]array{}
	for name, set := range s.sets {
		last, read := to, readHDF5
		if to < 0 {
			last = set.Shape()[0]
		}
		if s.encoded[name] {
			read = s.pictures
		}
		a, err := read(set, from, last)
		if err != nil {
			return nil, fmt.Errorf("its %s: %w", name, err)
		}
		if name == s.camera {
			// Grey pictures may have no axis of colours.
			if name = "pixels"; len(a.shape) == 3 {
				a.shape = append(a.shape, 1)
			}
		}
		arrays[name] = a
	}
	return arrays, nil
}

// pictures decodes rows of files.
func (s *hdf5Sets) pictures(set *hdf5.Set, from, to int) (array, error) {
	encoded, err := files(set, from, to)
	if err != nil {
		return array{}, err
	}
	return stack(len(encoded), s.job.fit, func(i int) (picture, error) {
		p, err := readPicture(encoded[i])
		if err != nil {
			err = fmt.Errorf("the picture of row %d: %w (hint: the file is damaged, fetch or make it again)", from+i, err)
		}
		return p, err
	})
}

// readHDF5 reads rows of numbers.
func readHDF5(set *hdf5.Set, from, to int) (array, error) {
	if set.RowBytes() > 0 && to-from > maxArrays/set.RowBytes() {
		return array{}, fmt.Errorf("an episode is larger than %d GB (hint: does it have the marks that end its episodes?)", maxArrays>>30)
	}
	data, err := set.Read(from, to)
	shape := append([]int{to - from}, set.Shape()[1:]...)
	if set.DType() == "float16" {
		return numpyType{name: "f2", size: 2}.array(shape, data, false), err
	}
	return array{dtype: set.DType(), shape: shape, data: data}, err
}

// entering returns an array of n rows in which row t has the value of the step into it,
// which row t-1 of the source has. The first row has no step into it: NaN, or 0 in an
// array of integers.
func (a array) entering(n int) array {
	row := len(a.data) / max(a.rows(), 1)
	out := array{dtype: a.dtype, shape: append([]int{n}, a.shape[1:]...), data: make([]byte, row, n*row)}
	if nan, err := (array{dtype: a.dtype, shape: append([]int{0}, a.shape[1:]...)}).padded(); err == nil {
		copy(out.data, nan.data)
	}
	out.data = append(out.data, a.data[:min(len(a.data), (n-1)*row)]...)
	return out
}

// enter renames an array that is about the step out of a row to one about the step into
// it, as in our data sets. n is the number of frames.
func (r *rows) enter(n int, theirs, ours string) {
	a, ok := r.arrays[theirs]
	if _, taken := r.arrays[ours]; !ok || taken {
		return
	}
	delete(r.arrays, theirs)
	r.arrays[ours] = a.entering(n)
	message := fmt.Sprintf("%s is called %s in the source; each row has that of the step into it", ours, theirs)
	if a.rows() == n {
		message += ", and that of an episode's last step is left out"
	}
	r.leftOut = append(r.leftOut, message)
}
