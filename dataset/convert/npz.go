package convert

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
)

// npzFiles are .npz files with one episode each.
type npzFiles struct {
	job   *Job
	files []string
}

// openNPZ opens files of episodes in the order of their paths.
func openNPZ(_ context.Context, in *input, j *Job) (recording, error) {
	return npzFiles{j, in.npz()}, nil
}

func (f npzFiles) episodes() int { return len(f.files) }

func (f npzFiles) close() {}

// episode reads all arrays of file i into memory.
func (f npzFiles) episode(i int) (r rows, err error) {
	r.source = f.files[i]
	if r.arrays, err = readNPZ(f.files[i], everyArray, &r.leftOut); err == nil {
		err = f.job.chooseArray(r.arrays)
	}
	return r, err
}

// chooseArray makes the frames the array pixels: those that --frames names, or the
// only ones. It notes the others and removes them.
func (j *Job) chooseArray(arrays map[string]array) error {
	var cameras []string
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		// The user may name an array whose numbers are not bytes.
		if arrays[name].isCamera() || name == j.Frames || name == "pixels" {
			cameras = append(cameras, name)
		}
	}
	camera, err := j.camera(cameras)
	if err != nil || camera == "" {
		return err
	}
	frames := arrays[camera]
	for _, name := range cameras {
		delete(arrays, name)
	}
	arrays["pixels"] = frames
	return nil
}

// npzArchive is an open .npz file.
type npzArchive struct {
	f *os.File
	// members are the arrays by name, except indices of episodes and steps, which the
	// writer makes.
	members map[string]*zip.File
	// leftOut has a message for each member that is not a column.
	leftOut []string
}

// openArchive opens a .npz file whose arrays have at most that many bytes together.
func openArchive(path string, most uint64) (*npzArchive, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	a := &npzArchive{f: f, members: map[string]*zip.File{}}
	if err := a.list(most); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// list lists the members.
func (a *npzArchive) list(most uint64) error {
	st, err := a.f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(a.f, st.Size())
	if err != nil {
		return fmt.Errorf("%w (hint: np.savez writes such files)", err)
	}
	if err := checkMembers(z.File, most); err != nil {
		return fmt.Errorf("%w (hint: the file is damaged or made to exhaust memory; np.savez writes plain ones)", err)
	}
	for _, member := range z.File {
		name, ok := strings.CutSuffix(member.Name, ".npy")
		fault := hdf5.NameFault(name)
		switch {
		case !ok:
			fault = "it is not a .npy file"
		case fault == "" && isIndex(name):
			continue
		}
		if fault != "" {
			a.leftOut = append(a.leftOut, fmt.Sprintf("the member %q is left out: %s", member.Name, fault))
			continue
		}
		a.members[name] = member
	}
	return nil
}

// open opens the rows of an array. The caller closes the second result.
func (a *npzArchive) open(name string) (*npyRows, io.Closer, error) {
	r, err := a.members[name].Open()
	if err != nil {
		return nil, nil, err
	}
	rows, err := openNPY(r, int64(a.members[name].UncompressedSize64))
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return rows, r, nil
}

// readNPZ reads the arrays of a .npz file by name, those that want accepts, and
// appends a message to leftOut for each member that is not a column.
func readNPZ(path string, want func(name string) bool, leftOut *[]string) (map[string]array, error) {
	z, err := openArchive(path, maxArrays)
	if err != nil {
		return nil, err
	}
	defer z.f.Close()
	arrays, err := z.read(want)
	*leftOut = append(*leftOut, z.leftOut...)
	return arrays, err
}

// read reads the arrays that want accepts. It adds those that are not columns to
// leftOut.
func (z *npzArchive) read(want func(name string) bool) (map[string]array, error) {
	arrays := map[string]array{}
	for _, name := range slices.Sorted(maps.Keys(z.members)) {
		if !want(name) {
			continue
		}
		n, r, err := z.open(name)
		if err == nil {
			if arrays[name], err = n.next(n.rows()); err == nil {
				err = n.end()
			}
			r.Close()
		}
		if errors.Is(err, errNotNumeric) {
			z.leftOut = append(z.leftOut, fmt.Sprintf("the array %s is left out: %v", name, err))
			delete(arrays, name)
		} else if err != nil {
			return nil, fmt.Errorf("its array %s: %w", name, err)
		}
	}
	return arrays, nil
}

// everyArray is the condition of readNPZ for all arrays.
func everyArray(string) bool { return true }

// checkMembers checks, before anything is decompressed, that the members of an
// archive have different names and do not overlap, and that their sizes are possible:
// deflate produces at most 1032 bytes from one (https://zlib.net/zlib_tech.html).
// Overlapping members are how small archives expand to enormous sizes.
func checkMembers(members []*zip.File, most uint64) error {
	const ratio, localHeader = 1032, 30
	// place is the range of a member in the file, with the fixed part of its local
	// header.
	type place struct{ from, to int64 }
	var places []place
	names, left := map[string]bool{}, most
	for _, m := range members {
		from, err := m.DataOffset()
		switch stored, size := m.CompressedSize64, m.UncompressedSize64; {
		case err != nil:
			return fmt.Errorf("its member %q: %w", m.Name, err)
		case names[m.Name]:
			return fmt.Errorf("it has two members %q", m.Name)
		case stored > 1<<50 || size > ratio*(stored+1):
			return fmt.Errorf("its member %q claims %d bytes in %d compressed ones", m.Name, size, stored)
		case size > left:
			return fmt.Errorf("its arrays are larger than %d GB", most>>30)
		default:
			names[m.Name], left = true, left-size
			places = append(places, place{from - localHeader, from + int64(stored)})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	for i := range places {
		if i > 0 && places[i].from < places[i-1].to {
			return fmt.Errorf("two of its %d members overlap", len(members))
		}
	}
	return nil
}

// isIndex reports whether a column only numbers episodes or steps. The writer makes
// those itself.
func isIndex(name string) bool { return hdf5.IsIndex(name) || name == "ep_len" || name == "ep_offset" }
