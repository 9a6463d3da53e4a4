package convert

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// zarrSet is a replay buffer of diffusion_policy: a Zarr group with arrays of the rows
// of all episodes in data, and the row after the last of each episode in
// meta/episode_ends (docs/sources.md#zarr).
type zarrSet struct {
	ctx   context.Context
	job   *Job
	path  string
	store *zarrStore
	// ends is the row after the last of each episode.
	ends []int
	// arrays are those that are read, by name; the camera is called pixels. An array
	// that the user leaves out is nil.
	arrays map[string]*zarrArray
	// leftOut has messages about arrays and rows that are left out.
	leftOut []string
}

// openZarr opens a buffer. It reads episode_ends and the metadata of all arrays.
func openZarr(ctx context.Context, in *input, j *Job) (recording, error) {
	store, err := openZarrStore(in)
	if err != nil {
		return nil, err
	}
	z := &zarrSet{ctx: ctx, job: j, path: in.path(), store: store, arrays: map[string]*zarrArray{}}
	if err = z.readEnds(); err == nil {
		all := map[string]*zarrArray{}
		if err = z.list("data", "", all); err == nil {
			err = z.choose(all)
		}
	}
	if err != nil {
		store.close()
		return nil, err
	}
	return z, nil
}

// readEnds reads meta/episode_ends.
func (z *zarrSet) readEnds() error {
	const name = "meta/episode_ends"
	a, err := z.store.array(name)
	if err == errNoZarrArray {
		return fmt.Errorf("it has no array %s, which has the end of each episode in a replay buffer (hint: is this the group with data/ and meta/? Of other arrays, np.savez in Python writes the episodes that `scalewm data convert` reads)", name)
	}
	if err != nil {
		return err
	}
	switch err = a.fault; {
	case err != nil:
	case len(a.shape) != 1 || a.shape[0] > maxEpisode:
		err = fmt.Errorf("it has the shape %v (hint: it has one number for each episode)", a.shape)
	case a.shape[0] == 0:
		return nil
	default:
		err = z.bounded(a, a.shape[0])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ends, err := a.rows(z.ctx, z.store, 0, a.shape[0])
	if err == nil {
		z.ends, err = ends.integers()
	}
	last := 0
	for i, end := range z.ends {
		if err == nil && (end <= last || end-last > maxEpisode) {
			err = fmt.Errorf("episode %d ends at row %d and the one before it at row %d (hint: the ends increase, and an episode has at most %d rows)", i, end, last, maxEpisode)
		}
		last = end
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

func (z *zarrSet) episodes() int { return len(z.ends) }

func (z *zarrSet) close() { z.store.close() }

// episode reads the rows of an episode.
func (z *zarrSet) episode(i int) (rows, error) {
	r := rows{source: fmt.Sprintf("%d of %s", i, z.path), arrays: map[string]array{}, leftOut: z.leftOut}
	from := 0
	if i > 0 {
		from = z.ends[i-1]
	}
	for _, name := range slices.Sorted(maps.Keys(z.arrays)) {
		a := z.arrays[name]
		if a == nil {
			r.arrays[name] = array{dtype: "uint8", shape: []int{0}}
			continue
		}
		// Notes of the first episode only would not name a chunk of a later one.
		was := a.missing
		rows, err := a.rows(z.ctx, z.store, from, z.ends[i])
		if err != nil {
			return r, err
		}
		if r.arrays[name] = rows; was == "" && a.missing != "" {
			z.job.Note(fmt.Sprintf("the chunk %s is not stored, or further ones; they have the array's fill value", a.missing))
		}
	}
	return r, nil
}
