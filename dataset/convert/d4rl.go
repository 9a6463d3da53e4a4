package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/dataset/hdf5"
)

// d4rl is an HDF5 file with the rows of all episodes, as D4RL and V-D4RL have them
// (docs/sources.md#d4rl). The rows of one episode are in memory at a time.
type d4rl struct {
	tree *hdf5.Tree
	path string
	sets *hdf5Sets
	// rows is the number of frames.
	rows      int
	spans     []span
	alignment Alignment
}

// d4rlMarks are the sets that say where episodes begin or end, which is in ep_len of
// our data sets. terminals and timeouts are those of D4RL, the others those of V-D4RL.
var d4rlMarks = []string{"terminals", "timeouts", "step_type", "is_first", "is_last"}

// isD4RL reports whether the root group has the rows of all episodes and marks.
func isD4RL(in *input) bool {
	has := in.hdf5().sets
	marked := slices.ContainsFunc(d4rlMarks, func(name string) bool { return has[name] }) || has["rewards"] && (has["observations"] || in.hdf5().hasGroup("observations"))
	return marked && !has["ep_len"] && (has["actions"] || has["action"])
}

// openD4RL opens a file and finds its episodes.
func openD4RL(_ context.Context, in *input, j *Job) (recording, error) {
	tree, err := hdf5.OpenTree(in.path())
	if err != nil {
		return nil, err
	}
	d := &d4rl{tree: tree, path: in.path(), sets: newHDF5Sets(j)}
	if err = d.collect(); err == nil {
		err = d.cut()
	}
	if err != nil {
		tree.Close()
		return nil, err
	}
	return d, nil
}

// collect collects the columns: the sets of the root group, of infos, and of
// observations that are a group.
func (d *d4rl) collect() error {
	root, s := d.tree.Group, d.sets
	for _, name := range slices.Sorted(maps.Keys(root.Sets())) {
		switch {
		case strings.HasPrefix(name, "next_"):
			s.note("%s is left out: it repeats the next row", hdf5.Quoted(name))
		case slices.Contains(d4rlMarks, name):
			s.note("%s says where episodes end and is not a column", name)
		default:
			s.add("", name, root.Sets()[name])
		}
	}
	s.noteOthers(root, "observations", "infos")
	for _, name := range []string{"observations", "infos"} {
		if err := s.addSpace(root, name, ""); err != nil {
			return err
		}
	}
	if err := s.choose("most files of D4RL have states only; frames are observations or another set, uint8 (rows, H, W, 3) or (rows, 3, H, W)"); err != nil {
		return err
	}
	d.rows = s.sets[s.camera].Shape()[0]
	return s.expect(d.rows)
}

// mark returns one of the marks, with a number for each row, or an array without rows
// if the file does not have it.
func (d *d4rl) mark(name string) (array, error) {
	set := d.tree.Sets()[name]
	if set == nil {
		return array{}, nil
	}
	if s := set.Shape(); len(s) == 0 || s[0] != d.rows || set.DType() == "bytes" || set.RowBytes() > 8 {
		return array{}, fmt.Errorf("its %s has the shape %v, and there are %d frames (hint: one number per row says where episodes end)", name, s, d.rows)
	}
	a, err := readHDF5(set, 0, d.rows)
	if err != nil {
		err = fmt.Errorf("its %s: %w", name, err)
	}
	return a, err
}

// cut finds the episodes. In D4RL's files one ends where terminals or timeouts is set.
// In V-D4RL's it begins where step_type is 0, and zeros of actions say what an action
// does.
func (d *d4rl) cut() (err error) {
	var ends []array
	marks := map[string]array{}
	for _, name := range d4rlMarks {
		a, err := d.mark(name)
		switch {
		case err != nil:
			return err
		case a.shape == nil:
		case slices.Contains(replayMarks, name):
			marks[name] = a
		default:
			ends = append(ends, a)
		}
	}
	if len(marks) > 0 {
		before, err := d.replay(marks)
		if err != nil {
			return err
		}
		ends = append(ends, before)
	}
	if d.spans, err = cutAtEnds(d.rows, ends...); err != nil {
		return err
	}
	if len(d.spans) == 1 {
		d.sets.note("no row before the last is marked as the end of an episode, so its %d rows are one", d.rows)
	} else if len(marks) == 0 && d.tree.Sets()["timeouts"] == nil {
		d.sets.note("it has no timeouts: episodes that end by time are not cut")
	}
	return nil
}

// replay sets the alignment from the marks of a replay buffer, unless the user did. It
// returns an array that is 1 in the rows before those that begin an episode.
func (d *d4rl) replay(marks map[string]array) (before array, err error) {
	set, ok := d.sets.sets["action"]
	if !ok {
		return before, errors.New("it has marks of a replay buffer but no action (hint: is it a file of another program?)")
	}
	if marks["action"], err = readHDF5(set, 0, d.rows); err != nil {
		return before, fmt.Errorf("its action: %w", err)
	}
	steps, err := replayStepsOf(marks)
	if err != nil {
		return before, err
	}
	before = array{dtype: "uint8", shape: []int{d.rows}, data: make([]byte, d.rows)}
	for t := range max(d.rows-1, 0) {
		before.data[t] = byte(count(steps[t+1].first))
	}
	if how := d.sets.job.Actions; how != Leading && how != Leaving {
		d.alignment, err = replayAlignment(steps)
	}
	return before, err
}

func (d *d4rl) episodes() int { return len(d.spans) }

func (d *d4rl) close() { d.tree.Close() }

// episode reads the rows of one episode. D4RL's rewards are about the step out of a
// row; V-D4RL's reward is about the step into it.
func (d *d4rl) episode(i int) (r rows, err error) {
	at := d.spans[i]
	r = rows{source: fmt.Sprintf("%d of %s", i, d.path), alignment: d.alignment, leftOut: slices.Clone(d.sets.leftOut)}
	if r.arrays, err = d.sets.read(at.from, at.to); err != nil {
		return r, err
	}
	r.enter(at.to-at.from, "rewards", "reward")
	if d.alignment != Leading && d.sets.job.Actions != Leading {
		err = r.dropLastAction()
	}
	return r, err
}
