package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
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
	d := &dreamer{job: j}
	var zeros dreamerZeros
	for _, chain := range chains(in.npz()) {
		for k, path := range chain {
			first, last, action, err := dreamerFlags(path)
			if err != nil {
				return nil, fmt.Errorf("the file %s: %w", filepath.Base(path), err)
			}
			zeros.count(first, last, action)
			d.cut(path, first, k == 0)
		}
	}
	d.alignment = j.Actions
	if d.alignment != Leaving && d.alignment != Leading {
		var err error
		if d.alignment, err = zeros.alignment(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// chains returns the files in the order of their rows. The names of DreamerV3 are
// TIME-ID-SUCCESSOR-LENGTH.npz, and each file follows the one whose successor it is.
// Every other file is a chain by itself.
func chains(files []string) (all [][]string) {
	parse := func(path string) (id, successor string) {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "-")
		if len(parts) != 4 {
			return "", ""
		}
		return parts[1], parts[2]
	}
	byID, follows := map[string]string{}, map[string]bool{}
	for _, path := range files {
		if id, _ := parse(path); id != "" {
			byID[id] = path
		}
	}
	for _, path := range files {
		if _, successor := parse(path); byID[successor] != "" {
			follows[byID[successor]] = true
		}
	}
	taken := map[string]bool{}
	for _, path := range files {
		var chain []string
		// A file that follows another is taken with that one.
		for next := path; next != "" && !taken[next] && (next != path || !follows[path]); {
			taken[next] = true
			chain = append(chain, next)
			_, successor := parse(next)
			next = byID[successor]
		}
		if chain != nil {
			all = append(all, chain)
		}
	}
	// Files whose names form a circle.
	for _, path := range files {
		if !taken[path] {
			all = append(all, []string{path})
		}
	}
	return all
}

// dreamerFlags returns the flags and the actions of a file. Without flags a file is
// one episode.
func dreamerFlags(path string) (first, last []bool, action array, err error) {
	flags := []string{"is_first", "is_last", "step_type", "action"}
	arrays, err := readNPZ(path, func(name string) bool { return slices.Contains(flags, name) }, &[]string{})
	if err != nil {
		return nil, nil, action, err
	}
	action, ok := arrays["action"]
	if !ok {
		return nil, nil, action, errors.New("it has no array action (hint: is it a file of another program?)")
	}
	n := action.rows()
	is := func(name string, value float64) ([]bool, error) {
		out := make([]bool, n)
		a, ok := arrays[name]
		if ok && (a.rows() != n || a.width() != 1) {
			return nil, fmt.Errorf("its array %s has the shape %v for %d rows", name, a.shape, n)
		}
		for t := range out {
			out[t] = ok && (a.number(t) == value)
		}
		return out, nil
	}
	// The types of steps of dm_env: 0 is the first of an episode and 2 the last.
	if _, ok := arrays["step_type"]; ok {
		first, err = is("step_type", 0)
		if err == nil {
			last, err = is("step_type", 2)
		}
	} else if first, err = is("is_first", 1); err == nil {
		last, err = is("is_last", 1)
	}
	if _, ok := arrays["is_first"]; err == nil && !ok && arrays["step_type"].shape == nil && n > 0 {
		first[0] = true
	}
	return first, last, action, err
}

// dreamerZeros counts the first and the last rows of episodes, and those of them with
// an action of zeros.
type dreamerZeros struct{ firsts, zeroFirsts, lasts, zeroLasts int }

func (z *dreamerZeros) count(first, last []bool, action array) {
	width := action.width()
	for t := range first {
		zero := true
		for k := range width {
			zero = zero && action.number(t*width+k) == 0
		}
		if first[t] {
			z.firsts++
			if zero {
				z.zeroFirsts++
			}
		}
		if last[t] {
			z.lasts++
			if zero {
				z.zeroLasts++
			}
		}
	}
}

// alignment returns what the zeros say.
func (z dreamerZeros) alignment() (Alignment, error) {
	leading := z.firsts > 0 && z.zeroFirsts == z.firsts
	leaving := z.lasts > 0 && z.zeroLasts == z.lasts
	if leading == leaving {
		return "", fmt.Errorf("it cannot be known whether an action led to the image of its row (DreamerV2) or leaves it (DreamerV3): of %d rows with is_first %d have an action of zeros, of %d with is_last %d (hint: --actions leading or --actions leaving says it)",
			z.firsts, z.zeroFirsts, z.lasts, z.zeroLasts)
	}
	if leading {
		return Leading, nil
	}
	return Leaving, nil
}

// cut adds the episodes of a file. begins says that the file does not continue the
// one before.
func (d *dreamer) cut(path string, first []bool, begins bool) {
	from := 0
	for t := 1; t <= len(first); t++ {
		if t < len(first) && !first[t] {
			continue
		}
		part := dreamerPart{path, span{from, t}}
		if n := len(d.all); from == 0 && !begins && !first[0] && n > 0 {
			d.all[n-1].parts = append(d.all[n-1].parts, part)
		} else {
			d.all = append(d.all, dreamerEpisode{parts: []dreamerPart{part}, cut: !first[from]})
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
