package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
)

// ownHDF5 is an HDF5 file of our own layout whose columns have other names or shapes,
// or that the user wants changed.
type ownHDF5 struct {
	tree             *hdf5.Tree
	path             string
	sets             *hdf5Sets
	lengths, offsets []int
}

// openOwn opens an HDF5 file that has none of the layouts. It returns nil if an exact
// copy is what the user wants, or if the file is not HDF5.
func openOwn(in *input, j *Job) (recording, error) {
	if in.isDir || isNPZ(in.path()) {
		return nil, nil
	}
	tree, err := hdf5.OpenTree(in.path())
	if err != nil || j.isPlain(tree) {
		if err == nil {
			tree.Close()
		}
		return nil, nil
	}
	f := &ownHDF5{tree: tree, path: in.path(), sets: newHDF5Sets(j)}
	if err := f.open(); err != nil {
		tree.Close()
		return nil, err
	}
	return f, nil
}

// isPlain reports whether the file has the frames and actions of our layout and the
// user wants no change.
func (j *Job) isPlain(tree *hdf5.Tree) bool {
	pixels, action := tree.Sets()["pixels"], tree.Sets()["action"]
	if pixels == nil || action == nil || pixels.DType() != "uint8" || tree.Sets()["ep_len"] == nil {
		return false
	}
	s := pixels.Shape()
	square := len(s) == 4 && s[1] == s[2] && s[3] == 3
	return square && (j.Frames == "" || j.Frames == "pixels") && len(j.Columns)+len(j.Drop) == 0 && (j.Size == 0 || j.Size == s[1]) && j.Actions != Leading
}

// open reads the episodes and collects the columns.
func (f *ownHDF5) open() (err error) {
	root := f.tree.Group
	if root.Sets()["ep_len"] == nil || root.Sets()["ep_offset"] == nil {
		return unknownHDF5(f.tree)
	}
	if f.lengths, err = readList(root, "ep_len"); err != nil {
		return err
	}
	if f.offsets, err = readList(root, "ep_offset"); err != nil {
		return err
	}
	if len(f.lengths) != len(f.offsets) {
		return fmt.Errorf("ep_len has %d entries and ep_offset %d", len(f.lengths), len(f.offsets))
	}
	rows := 0
	for i, n := range f.lengths {
		if n < 1 || n > maxEpisode || f.offsets[i] < 0 {
			return fmt.Errorf("episode %d has length %d at row %d", i, n, f.offsets[i])
		}
		rows = max(rows, f.offsets[i]+n)
	}
	for _, name := range slices.Sorted(maps.Keys(root.Sets())) {
		set := root.Sets()[name]
		if s := set.Shape(); !isIndex(name) && strings.HasPrefix(name, "ep_") && len(s) > 0 && s[0] == len(f.lengths) {
			f.sets.note("%s is left out: one entry per episode", name)
		} else if !isIndex(name) {
			f.sets.add("", name, set)
		}
	}
	f.sets.noteOthers(root)
	if err := f.sets.choose("frames are uint8 (rows, edge, edge, 3) in a column that --frames names"); err != nil {
		return err
	}
	for name, set := range f.sets.sets {
		if n := set.Shape()[0]; n != rows {
			return fmt.Errorf("column %s has %d rows, the episodes %d (hint: the file is torn or of another layout)", name, n, rows)
		}
	}
	return nil
}

// readList reads one of the two lists of episodes.
func readList(g *hdf5.Group, name string) ([]int, error) {
	set := g.Sets()[name]
	if s := set.Shape(); len(s) != 1 || set.DType() == "bytes" || s[0] > maxEpisode {
		return nil, fmt.Errorf("its %s is not a list of numbers", name)
	}
	a, err := readHDF5(set, 0, set.Shape()[0])
	if err != nil {
		return nil, fmt.Errorf("its %s: %w", name, err)
	}
	return a.integers()
}

func (f *ownHDF5) episodes() int { return len(f.lengths) }

func (f *ownHDF5) close() { f.tree.Close() }

// episode reads the rows of one episode.
func (f *ownHDF5) episode(i int) (r rows, err error) {
	r = rows{source: fmt.Sprintf("%d of %s", i, f.path), leftOut: f.sets.leftOut, attrs: f.tree.Attrs()}
	r.arrays, err = f.sets.read(f.offsets[i], f.offsets[i]+f.lengths[i])
	return r, err
}

// unknownHDF5 returns the error for a file of no known layout, which lists what it has.
func unknownHDF5(tree *hdf5.Tree) error {
	return errors.New("it is an HDF5 file of no known layout and has " + tree.Contents() +
		" (hint: known are ep_len and ep_offset with pixels and action; observations, actions and terminals, as D4RL has them; data/demo_0/obs, as robomimic has them; " +
		"and episode_0/observations, as Minari has them. For anything else, np.savez(\"ep_0.npz\", pixels=..., action=...) in Python writes an episode)")
}
