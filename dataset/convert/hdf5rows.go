package convert

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
)

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
