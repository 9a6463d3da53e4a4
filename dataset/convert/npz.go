package convert

import (
	"archive/zip"
	"fmt"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
)

// npzFiles are .npz files, an episode each.
type npzFiles []string

func (f npzFiles) episodes() int { return len(f) }

func (f npzFiles) close() {}

func (f npzFiles) episode(i int) (e episode, err error) {
	e.source = f[i]
	arrays, err := readNPZ(f[i])
	if err != nil {
		return e, err
	}
	return e, e.take(arrays)
}

// readNPZ reads the arrays of a .npz file by name, without those that the writer makes.
func readNPZ(path string) (map[string]array, error) {
	f, err := cell.Open(path, cell.MaxData)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%w (hint: np.savez writes such files)", err)
	}
	arrays, left := map[string]array{}, int64(maxArrays)
	for _, member := range z.File {
		name, ok := strings.CutSuffix(member.Name, ".npy")
		if !ok || isIndex(name) {
			continue
		}
		r, err := member.Open()
		if err == nil {
			arrays[name], err = readNPY(r, left)
			left -= int64(len(arrays[name].data))
			r.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("its array %s: %w", name, err)
		}
	}
	return arrays, nil
}

// isIndex says that a column numbers episodes or steps, which the writer does anew.
func isIndex(name string) bool { return hdf5.IsIndex(name) || name == "ep_len" || name == "ep_offset" }
