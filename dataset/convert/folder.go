package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"scalewm/dataset/safefile"
)

// folder is a data set as stable-worldmodel records films and pictures: ep_len.npz,
// one .npz file per column with the rows of all episodes, and one folder per camera
// with films ep_I.mp4 or pictures ep_I_step_J.jpeg (docs/sources.md#folder-of-films).
type folder struct {
	ctx  context.Context
	job  *Job
	path string
	// columns has the rows of all episodes, by name.
	columns map[string]array
	lengths []int
	// lengths and offsets are the number of rows and the first row of each episode.
	offsets []int
	// camera is the folder with the frames, or "" if there is none.
	camera string
	// leftOut has messages about columns and cameras that are left out.
	leftOut []string
}

// arrayName is the name of the only array in each file, which np.savez gives to an
// argument without a name.
const arrayName = "arr_0"

// openFolder reads all columns of a folder and chooses its camera.
func openFolder(ctx context.Context, in *input, j *Job) (recording, error) {
	path := in.path()
	f := &folder{ctx: ctx, job: j, path: path, columns: map[string]array{}}
	lengths, err := f.read("ep_len")
	if err != nil {
		return nil, err
	}
	n, err := lengths.integers()
	if err != nil {
		return nil, fmt.Errorf("lengths of its episodes: %w", err)
	}
	// ep_offset.npz is not read: the rows of episodes follow one another, so the
	// lengths determine the offsets.
	rows := 0
	for i, v := range n {
		if v < 1 || v > maxEpisode {
			return nil, fmt.Errorf("episode %d has %d rows (hint: an episode has 1 to %d)", i, v, maxEpisode)
		}
		f.lengths, f.offsets = append(f.lengths, v), append(f.offsets, rows)
		rows += v
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var cameras []string
	for _, e := range entries {
		name, isColumn := strings.CutSuffix(e.Name(), ".npz")
		// Unlike e, this follows links: cameras may be links to folders.
		st, err := os.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%w (hint: copy what the link points to)", err)
		}
		switch {
		case st.IsDir():
			cameras = append(cameras, e.Name())
		case isColumn && !isIndex(name):
			a, err := f.read(name)
			if err == nil && a.rows() != rows {
				err = fmt.Errorf("it has the shape %v, and the episodes have %d rows in all", a.shape, rows)
			}
			if errors.Is(err, errNotNumeric) {
				f.leftOut = append(f.leftOut, fmt.Sprintf("the column %s is left out: %v", name, err))
			} else if err != nil {
				return nil, fmt.Errorf("its column %s: %w", name, err)
			} else {
				f.columns[name] = a
			}
		}
	}
	f.camera, err = j.camera(cameras)
	return f, err
}

// maxEpisode bounds the rows of an episode, and the episodes of a data set. Larger
// numbers are damage.
const maxEpisode = 1 << 22

// read reads the array of a .npz file.
func (f *folder) read(name string) (array, error) {
	arrays, err := readNPZ(filepath.Join(f.path, name+".npz"), everyArray, &f.leftOut)
	if err != nil {
		return array{}, err
	}
	a, ok := arrays[arrayName]
	if !ok {
		return a, fmt.Errorf("%s.npz has no array %s (hint: stable_worldmodel's recorder writes one)", name, arrayName)
	}
	return a, nil
}

func (f *folder) episodes() int { return len(f.lengths) }

// close does nothing: films are closed after each episode.
func (f *folder) close() {}

// episode cuts the rows of an episode out of the columns and reads its frames.
func (f *folder) episode(i int) (rows, error) {
	r := rows{source: fmt.Sprintf("%d of %s", i, f.path), arrays: map[string]array{}, leftOut: f.leftOut}
	for name, a := range f.columns {
		r.arrays[name] = a.slice(f.offsets[i], f.offsets[i]+f.lengths[i])
	}
	var err error
	if f.camera != "" {
		r.arrays["pixels"], err = f.frames(i)
	}
	return r, err
}

// frames returns the frames of an episode, from its film or else from its pictures. A
// picture after the last row is an error: which rows the pictures belong to is then
// unknown.
func (f *folder) frames(i int) (array, error) {
	base := filepath.Join(f.path, f.camera, fmt.Sprintf("ep_%d", i))
	film, err := openFilm(f.ctx, base+".mp4", 0)
	if err == nil {
		defer film.close()
		a, err := film.frames(0, f.lengths[i], f.job.fit)
		if err == nil {
			err = film.finish(f.lengths[i])
		}
		return a, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return array{}, err
	}
	name := func(step int, ending string) string { return fmt.Sprintf("%s_step_%d%s", base, step, ending) }
	// The first ending that exists is used.
	endings := []string{".jpeg", ".jpg", ".png"}
	for _, ending := range endings {
		path := name(f.lengths[i], ending)
		if _, err := os.Stat(path); err == nil {
			return array{}, fmt.Errorf("there are %d rows, and the picture %s follows their last (hint: record the episode again or leave it out)", f.lengths[i], path)
		}
	}
	return stack(f.lengths[i], f.job.fit, func(step int) (p picture, err error) {
		for _, ending := range endings {
			path := name(step, ending)
			var b []byte
			if b, err = safefile.Read(path, safefile.MaxPicture); err == nil {
				p, err = readPicture(b)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if err != nil {
			err = fmt.Errorf("frame %d: %w (hint: neither the film %s.mp4 nor this picture can be read)", step, err, base)
		}
		return p, err
	})
}
