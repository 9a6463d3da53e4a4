package convert

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"scalewm/dataset/hdf5"
)

// robomimic is an HDF5 file of demonstrations, as robomimic, MimicGen and LIBERO have
// them: a group data/demo_N for each (docs/sources.md#robomimic).
type robomimic struct {
	job  *Job
	tree *hdf5.Tree
	path string
	data *hdf5.Group
	// demos are the names of the groups, sorted by number.
	demos []string
	// rows is the number of rows read so far.
	rows    int
	leftOut []string
}

var robomimicDemo = regexp.MustCompile(`^demo_\d+$`)

// isRobomimic reports whether the file has the group data and no rows of its own.
func isRobomimic(in *input) bool {
	return in.hdf5().hasGroup("data") && len(in.hdf5().sets) == 0
}

// openRobomimic opens a file and lists its demonstrations.
func openRobomimic(_ context.Context, in *input, j *Job) (recording, error) {
	tree, err := hdf5.OpenTree(in.path())
	if err != nil {
		return nil, err
	}
	r := &robomimic{job: j, tree: tree, path: in.path()}
	if err := r.list(); err != nil {
		tree.Close()
		return nil, err
	}
	return r, nil
}

// list lists the demonstrations and notes other groups.
func (r *robomimic) list() (err error) {
	if r.data, err = r.tree.Group.Group("data"); err != nil {
		return err
	}
	for _, name := range r.data.Groups() {
		if robomimicDemo.MatchString(name) {
			r.demos = append(r.demos, name)
		} else {
			r.leftOut = append(r.leftOut, fmt.Sprintf("the group data/%s is left out", name))
		}
	}
	if r.demos == nil {
		return unknownHDF5(r.tree)
	}
	for _, name := range r.tree.Groups() {
		if name != "data" {
			r.leftOut = append(r.leftOut, fmt.Sprintf("the group %s is left out: all demonstrations are converted", name))
		}
	}
	slices.SortFunc(r.demos, natural)
	return agree(r.data, "num_demos", len(r.demos))
}

// agree returns an error if a group has an attribute of this name with another number.
func agree(g *hdf5.Group, name string, n int) error {
	if text, ok := g.Attr(name); ok {
		if v, err := strconv.ParseFloat(text, 64); err == nil && v != float64(n) {
			return fmt.Errorf("there are %d, and its attribute %s is %s (hint: the file is not complete, or its attributes are of another one)", n, name, text)
		}
	}
	return nil
}

func (r *robomimic) episodes() int { return len(r.demos) }

func (r *robomimic) close() { r.tree.Close() }

// episode reads one demonstration: the sets of its group, and those of obs. next_obs
// repeats obs, one row later, and the observation after the last action has no row.
func (r *robomimic) episode(i int) (rows, error) {
	out := rows{source: r.demos[i] + " of " + r.path}
	g, err := r.data.Group(r.demos[i])
	if err != nil {
		return out, err
	}
	defer g.Close()
	s := newHDF5Sets(r.job)
	for _, name := range slices.Sorted(maps.Keys(g.Sets())) {
		s.add("", name, g.Sets()[name])
	}
	s.noteOthers(g, "obs")
	if err := s.addSpace(g, "obs", ""); err != nil {
		return out, err
	}
	if err := s.choose("robomimic's dataset_states_to_obs.py adds frames to a file of states"); err != nil {
		return out, err
	}
	if out.arrays, err = s.read(0, -1); err != nil {
		return out, err
	}
	out.leftOut = append(s.leftOut, r.leftOut...)
	n := out.arrays["pixels"].rows()
	if err := agree(g, "num_samples", n); err != nil {
		return out, err
	}
	out.enter(n, "rewards", "reward")
	if r.rows += n; i == len(r.demos)-1 {
		return out, agree(r.data, "total", r.rows)
	}
	return out, nil
}
