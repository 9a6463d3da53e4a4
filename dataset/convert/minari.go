package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
)

// minari is a data set in Minari's HDF5 storage: a group for each episode, with one
// more observation than actions (docs/sources.md#minari).
type minari struct {
	job  *Job
	tree *hdf5.Tree
	path string
	// groups are the names of the episodes, sorted by number.
	groups []string
}

// minariFile is the name of the file in NAME/data.
const minariFile = "main_data.hdf5"

var minariEpisode = regexp.MustCompile(`^episode_\d+$`)

// isMinari reports whether the input is NAME, NAME/data or NAME/data/main_data.hdf5.
func isMinari(in *input) bool {
	return in.has("data/"+minariFile) || in.has(minariFile) || slices.ContainsFunc(in.hdf5().groups, minariEpisode.MatchString)
}

// isMinariArrow reports whether the input is NAME or NAME/data in Minari's other
// storage.
func isMinariArrow(in *input) bool {
	for _, name := range []string{"data/metadata.json", "metadata.json"} {
		if b, err := safefile.Read(in.path(name), safefile.MaxRecord); in.isDir && err == nil && strings.Contains(string(b), `"minari_version"`) {
			return true
		}
	}
	return false
}

// insteadOfMinariArrow returns the lines of Python that write NumPy episodes.
func insteadOfMinariArrow(path string) string {
	return fmt.Sprintf("in Python: `from minari.dataset.minari_dataset import MinariDataset; import numpy as np; "+
		"[np.savez(f\"episodes/{e.id}.npz\", pixels=e.observations[:-1], action=e.actions) for e in MinariDataset(%q).iterate_episodes()]`, "+
		"then `scalewm data convert episodes/`", filepath.Join(strings.TrimSuffix(absolute(path), "/data"), "data"))
}

// openMinari opens the file and lists its episodes.
func openMinari(_ context.Context, in *input, j *Job) (recording, error) {
	path := in.path()
	for _, name := range []string{minariFile, "data/" + minariFile} {
		if in.has(name) {
			path = in.path(filepath.FromSlash(name))
		}
	}
	tree, err := hdf5.OpenTree(path)
	if err != nil {
		return nil, err
	}
	m := &minari{job: j, tree: tree, path: path}
	for _, name := range tree.Groups() {
		if minariEpisode.MatchString(name) {
			m.groups = append(m.groups, name)
		}
	}
	slices.SortFunc(m.groups, natural)
	if err := m.count(); err != nil {
		tree.Close()
		return nil, err
	}
	return m, nil
}

// count compares the number of episodes with that in metadata.json, if there is one.
func (m *minari) count() error {
	b, err := safefile.Read(filepath.Join(filepath.Dir(m.path), "metadata.json"), safefile.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var meta struct {
		Episodes *int `json:"total_episodes"`
	}
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err == nil && meta.Episodes != nil && *meta.Episodes != len(m.groups) {
		err = fmt.Errorf("it has %d episodes, and metadata.json says %d (hint: fetch it again; without metadata.json all episodes are taken)", len(m.groups), *meta.Episodes)
	}
	return err
}

func (m *minari) episodes() int { return len(m.groups) }

func (m *minari) close() { m.tree.Close() }

// episode reads one group. Rewards and the marks of an episode's end are about the step
// out of a row here, and about the step into it in our data sets.
func (m *minari) episode(i int) (rows, error) {
	r := rows{source: m.groups[i] + " of " + m.path}
	g, err := m.tree.Group.Group(m.groups[i])
	if err != nil {
		return r, err
	}
	defer g.Close()
	s := newHDF5Sets(m.job)
	if err := s.addSpace(g, "actions", "actions."); err != nil {
		return r, err
	}
	for _, name := range []string{"rewards", "terminations", "truncations"} {
		if set, ok := g.Sets()[name]; ok {
			s.add("", name, set)
		}
	}
	// The sets so far have a row for each step.
	steps := slices.Sorted(maps.Keys(s.sets))
	if err = s.addSpace(g, "observations", ""); err == nil {
		err = s.choose("Minari keeps frames as observations, (T+1, H, W, 3) uint8 or a JPEG in each row")
	}
	if err != nil {
		return r, err
	}
	s.noteOthers(g, "observations", "actions")
	if r.arrays, err = s.read(0, -1); err != nil {
		return r, err
	}
	r.leftOut = s.leftOut
	n := r.arrays["pixels"].rows()
	for _, name := range steps {
		a := r.arrays[name]
		if d := n - a.rows(); d != 0 && d != 1 || n == 0 {
			return r, fmt.Errorf("it has %d observations and %d %s (hint: Minari records as many, or one observation more; was the recording interrupted?)", n, a.rows(), name)
		}
		if strings.HasPrefix(name, "actions") && a.rows() < n {
			if r.arrays[name], err = a.padded(); err != nil {
				return r, fmt.Errorf("its %s: %w", name, err)
			}
		}
	}
	r.enter(n, "rewards", "reward")
	r.enter(n, "terminations", "terminated")
	r.enter(n, "truncations", "truncated")
	return r, nil
}
