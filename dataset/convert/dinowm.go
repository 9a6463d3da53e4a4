package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// dinoWM is a folder of DINO-WM's data sets: one tensor for each column, padded to the
// longest episode, and a film or a tensor of frames for each episode
// (docs/sources.md#dino-wm-folders).
type dinoWM struct {
	ctx context.Context
	job *Job
	in  *input
	// columns have the shape (episodes, rows of the longest, ...).
	columns map[string]array
	lengths []int
	// frames is the format of the paths of frames, without extension; its verb takes
	// the number of the episode.
	frames  string
	leftOut []string
}

// isDINOWM reports whether an input is one of DINO-WM's folders, or a folder of two.
func isDINOWM(in *input) bool {
	return in.has("states.pth") || in.has("train/states.pth") || in.has("val/states.pth")
}

// openDINOWM reads all columns of a folder.
func openDINOWM(ctx context.Context, in *input, j *Job) (recording, error) {
	if !in.has("states.pth") {
		return nil, fmt.Errorf("it has a set in each of its folders (hint: convert one of them, such as %s)", filepath.Dir(in.path(in.match("*/states.pth")[0])))
	}
	d := &dinoWM{ctx: ctx, job: j, in: in, columns: map[string]array{}, frames: "obses/episode_%03d"}
	if in.has("000000/obses.pth") {
		d.frames = "%06d/obses" // the sets rope and granular
	}
	states, err := d.tensor("states.pth")
	if err != nil {
		return nil, err
	}
	if len(states.shape) < 3 {
		return nil, fmt.Errorf("states.pth has the shape %v (hint: it is (episodes, rows, numbers))", states.shape)
	}
	if err = d.readColumns(states.shape[:2]); err == nil {
		err = d.readLengths(states.shape[0], states.shape[1])
	}
	if err == nil {
		_, err = j.camera([]string{"pixels"})
	}
	return d, err
}

// readColumns reads all files of tensors. shape is the number of episodes and of rows
// of the longest.
func (d *dinoWM) readColumns(shape []int) error {
	for _, name := range d.in.entries {
		stem, isTensor := strings.CutSuffix(name, ".pth")
		switch {
		case name == "abs_actions.pth":
			d.leftOut = append(d.leftOut, "abs_actions.pth is left out: it has targets in pixels, and the actions are those of rel_actions.pth")
		case stem == "seq_lengths" || name == "seq_lengths.pkl" || !isTensor && filepath.Ext(name) != ".pkl":
		case !isTensor:
			d.leftOut = append(d.leftOut, name+" is left out: it has no tensor")
		default:
			a, err := d.tensor(name)
			if err != nil {
				return err
			}
			if len(a.shape) < 2 {
				d.leftOut = append(d.leftOut, fmt.Sprintf("%s is left out: it has the shape %v, and no row for each frame", name, a.shape))
			} else if !slices.Equal(a.shape[:2], shape) {
				return fmt.Errorf("%s has the shape %v, and states.pth %d episodes of %d rows (hint: all files come from one recording; move this one away)", name, a.shape, shape[0], shape[1])
			} else {
				d.columns[stem] = a
			}
		}
	}
	return d.name()
}

// name gives the columns the names and the values that DINO-WM's loader gives them:
// velocities follow the state in a row, and actions of Push-T are divided by 100, in
// float32.
func (d *dinoWM) name() error {
	state := d.columns["states"]
	if v, ok := d.columns["velocities"]; ok {
		s, v := state.float32(1), v.float32(1)
		if len(s.shape) != 3 || len(v.shape) != 3 {
			return fmt.Errorf("velocities.pth has the shape %v and states.pth %v (hint: both are (episodes, rows, numbers))", v.shape, s.shape)
		}
		state = array{dtype: "float32", shape: []int{s.shape[0], s.shape[1], s.shape[2] + v.shape[2]}}
		for i := range s.shape[0] * s.shape[1] {
			state.data = append(state.data, s.data[4*i*s.shape[2]:4*(i+1)*s.shape[2]]...)
			state.data = append(state.data, v.data[4*i*v.shape[2]:4*(i+1)*v.shape[2]]...)
		}
	}
	action, ok := d.columns["actions"]
	if rel, isPushT := d.columns["rel_actions"]; isPushT {
		action, ok = rel.float32(100), true
	}
	if !ok {
		return errors.New("it has neither rel_actions.pth nor actions.pth (hint: DINO-WM's loader divides rel_actions, in pixels, by 100)")
	}
	for _, name := range []string{"states", "velocities", "actions", "rel_actions"} {
		delete(d.columns, name)
	}
	d.columns["state"], d.columns["action"] = state, action
	return nil
}

func (d *dinoWM) episodes() int { return len(d.lengths) }

// close does nothing: films are closed after each episode.
func (d *dinoWM) close() {}

// episode returns the rows of an episode without the padding, and its frames.
func (d *dinoWM) episode(i int) (rows, error) {
	r := rows{source: fmt.Sprintf("%d of %s", i, d.in.path()), arrays: map[string]array{}, leftOut: d.leftOut}
	for _, name := range slices.Sorted(maps.Keys(d.columns)) {
		a := d.columns[name]
		one := a.slice(i, i+1)
		r.arrays[name] = array{dtype: a.dtype, shape: one.shape[1:], data: one.data}.slice(0, d.lengths[i])
	}
	var err error
	r.arrays["pixels"], err = d.pixels(fmt.Sprintf(d.frames, i), d.lengths[i])
	return r, err
}

// pixels returns the frames of an episode, from its film or else from its tensor. It
// returns an error if there is not exactly one for each row.
func (d *dinoWM) pixels(path string, rows int) (array, error) {
	film, err := openFilm(d.ctx, d.in.path(path+".mp4"), 0)
	if err == nil {
		defer film.close()
		a, err := film.frames(0, rows, d.job.fit)
		if err == nil {
			err = film.finish(rows)
		}
		return a, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return array{}, err
	}
	a, err := d.tensor(path + ".pth")
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("there is neither %s.mp4 nor %s.pth (hint: is the set complete?)", d.in.path(path), path)
	}
	if err == nil && a.rows() != rows {
		err = fmt.Errorf("%s.pth has %d frames for %d rows (hint: which frames belong to the rows cannot be known; record the episode again or leave it out)", path, a.rows(), rows)
	}
	return a, err
}
