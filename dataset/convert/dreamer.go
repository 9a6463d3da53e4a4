package convert

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// dreamer are the replay files of Dreamer agents and of V-D4RL: .npz files whose
// array is_first, or step_type of dm_env, marks the first rows of episodes
// (docs/sources.md#dreamer-replay).
//
// There are two conventions under the same names. Up to DreamerV2, and in V-D4RL, the
// action of a row led to its frame, and the first row of an episode has zeros. In
// DreamerV3 the action of a row leaves it, and the last row has zeros; its files cut
// episodes anywhere, and the name of a file has that of its successor. The zeros
// distinguish the two.
type dreamer struct {
	job *Job
	all []dreamerEpisode
	// alignment is that of all files.
	alignment Alignment
	// path is the file whose arrays are in memory.
	path    string
	arrays  map[string]array
	leftOut []string
}

// dreamerEpisode is an episode, in parts of one file each.
type dreamerEpisode struct {
	parts []dreamerPart
	// cut says that the first row is not the first of the episode.
	cut bool
}

type dreamerPart struct {
	path string
	span
}

// isDreamer reports whether .npz files are those of a replay buffer. Files before
// DreamerV2 have image and discount, and no is_first.
func isDreamer(in *input) bool {
	return in.member("action") && (in.member("is_first") || in.member("step_type") || in.member("image") && in.member("discount"))
}

// openDreamer reads the flags and the actions of all files, which are small, and finds
// the episodes.
func openDreamer(_ context.Context, in *input, j *Job) (recording, error) {
	d := &dreamer{job: j, alignment: j.Actions}
	var all []replayStep
	for _, chain := range replayChains(in.npz()) {
		for k, path := range chain {
			steps, err := replaySteps(path)
			if err != nil {
				return nil, fmt.Errorf("the file %s: %w", filepath.Base(path), err)
			}
			all = append(all, steps...)
			d.cut(path, steps, k == 0)
		}
	}
	if d.alignment == Leaving || d.alignment == Leading {
		return d, nil
	}
	var err error
	d.alignment, err = replayAlignment(all)
	return d, err
}

// cut adds the episodes of a file. begins says that the file does not continue the
// one before.
func (d *dreamer) cut(path string, steps []replayStep, begins bool) {
	from := 0
	for t := 1; t <= len(steps); t++ {
		if t < len(steps) && !steps[t].first {
			continue
		}
		part := dreamerPart{path, span{from, t}}
		if n := len(d.all); from == 0 && !begins && !steps[0].first && n > 0 {
			d.all[n-1].parts = append(d.all[n-1].parts, part)
		} else {
			d.all = append(d.all, dreamerEpisode{parts: []dreamerPart{part}, cut: !steps[from].first})
		}
		from = t
	}
}

func (d *dreamer) episodes() int { return len(d.all) }

func (d *dreamer) close() {}

// episode joins the parts of an episode.
func (d *dreamer) episode(i int) (r rows, err error) {
	for k, part := range d.all[i].parts {
		if d.path != part.path {
			d.leftOut = nil
			if d.arrays, err = readNPZ(part.path, everyArray, &d.leftOut); err == nil {
				err = d.job.chooseArray(d.arrays)
			}
			if d.path = part.path; err != nil {
				return r, fmt.Errorf("the file %s: %w", filepath.Base(part.path), err)
			}
		}
		if k == 0 {
			r = rows{source: fmt.Sprintf("%d, rows %d to %d of %s", i, part.from, part.to-1, part.path), arrays: map[string]array{}, alignment: d.alignment, leftOut: slices.Clone(d.leftOut)}
		}
		n := d.arrays["action"].rows()
		for _, name := range slices.Sorted(maps.Keys(d.arrays)) {
			a := d.arrays[name]
			if a.rows() != n {
				return r, fmt.Errorf("the file %s: its array %s has the shape %v, and there are %d rows (hint: is the file complete?)", filepath.Base(part.path), name, a.shape, n)
			}
			a = a.slice(part.from, part.to)
			if before, ok := r.arrays[name]; ok {
				if a, err = before.joined(a); err != nil {
					return r, fmt.Errorf("the array %s of the file %s: %w", name, filepath.Base(part.path), err)
				}
			} else if k > 0 {
				return r, fmt.Errorf("the file %s has an array %s, which the file before does not have (hint: are they of one run?)", filepath.Base(part.path), name)
			}
			r.arrays[name] = a
		}
	}
	if d.all[i].cut {
		r.leftOut = append(r.leftOut, "its first row is not the first of an episode: the file before is missing")
	}
	if d.alignment == Leaving {
		err = r.dropLastAction()
	}
	return r, err
}
