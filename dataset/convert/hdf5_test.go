package convert

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
)

var nan = math.NaN()

// convertHDF5 converts a file of testdata/hdf5, or a path, with options.
func convertHDF5(t *testing.T, name string, j Job) (*hdf5.File, string, error) {
	t.Helper()
	if j.In = []string{name}; !filepath.IsAbs(name) {
		j.In[0] = filepath.Join("testdata", "hdf5", name)
	}
	var notes []string
	j.Out, j.Note = filepath.Join(t.TempDir(), "out.h5"), func(s string) { notes = append(notes, s) }
	said := func() string { return strings.Join(notes, "\n") }
	if err := j.Run(t.Context()); err != nil {
		if _, statErr := os.Stat(j.Out); !errors.Is(statErr, fs.ErrNotExist) {
			t.Errorf("%s: something is there after %v", name, err)
		}
		return nil, said(), err
	}
	f, err := hdf5.Open(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, said(), nil
}

// actionsOf returns the actions of episodes of the given lengths, as make_hdf5.py has
// them; those of the last rows are NaN unless last is set.
func actionsOf(lengths []int, last bool) (v []float64) {
	for k, n := range lengths {
		for t := range n {
			if v = append(v, float64(100*k+t), 1); t == n-1 && !last {
				copy(v[len(v)-2:], []float64{nan, nan})
			}
		}
	}
	return v
}

// rewardsOf returns the rewards of the steps into the rows.
func rewardsOf(lengths []int) (v []float64) {
	for k, n := range lengths {
		v = append(v, nan)
		for t := range n - 1 {
			v = append(v, float64(10*k+t))
		}
	}
	return v
}

// levels returns the grey levels of the frames, plus more.
func levels(lengths []int, more int) (v []byte) {
	for k, n := range lengths {
		for t := range n {
			v = append(v, byte(40*k+4*t+more))
		}
	}
	return v
}

// The expected values are those of testdata/make_hdf5.py.
func TestHDF5Layouts(t *testing.T) {
	for name, is := range map[string]struct {
		file    string
		job     Job
		lengths []int
		red     []byte
		actions []float64
		// columns has the first values of other columns; nil says that there is none.
		columns map[string][]float64
		notes   []string
	}{
		"Minari": {"minari.hdf5", Job{Frames: "image"}, []int{3, 4, 2}, []byte{0, 4, 8, 80, 84, 88, 92, 40, 44}, []float64{0, 1, 1, 1, nan, nan, 200, 1, 201, 1, 202, 1, nan, nan, 100, 1, nan, nan},
			map[string][]float64{"reward": {nan, 0, 1, nan, 20}, "terminated": {0, 0, 1, 0, 0, 0, 1, 0, 1}, "truncated": {0}, "pose._index_0": {0, 1, 2, 3}, "observations.rewards": {0, 1, 2, 0}, "wrist": nil, "rewards": nil},
			[]string{"frames wrist", "text is left out", "infos is left out", "reward is called rewards"}},
		"Minari, the other camera": {"minari.hdf5", Job{Frames: "wrist"}, []int{3, 4, 2}, []byte{200, 204, 208, 24, 28, 32, 36, 240, 244}, nil, nil, []string{"frames image"}},
		"Minari, JPEG":             {"minari_jpeg.hdf5", Job{}, []int{3, 4}, levels([]int{3, 4}, 0), actionsOf([]int{3, 4}, false), map[string][]float64{"reward": rewardsOf([]int{3, 4})}, nil},
		"Minari, as many actions":  {"minari_as_many.hdf5", Job{Frames: "image"}, []int{3, 2}, levels([]int{3, 2}, 0), actionsOf([]int{3, 2}, true), map[string][]float64{"reward": rewardsOf([]int{3, 2})}, []string{"last step is left out"}},
		"D4RL": {"d4rl.hdf5", Job{}, []int{3, 4, 2}, levels([]int{3, 4, 2}, 0), actionsOf([]int{3, 4, 2}, false),
			map[string][]float64{"reward": rewardsOf([]int{3, 4, 2}), "qpos": {0, 1, 2}, "infos.rewards": {1}, "terminals": nil, "timeouts": nil, "next_observations": nil},
			[]string{"next_observations is left out", "metadata is left out", "seed is left out: it has 2 rows", "terminals says where"}},
		"V-D4RL": {"replay.hdf5", Job{}, []int{3, 4}, levels([]int{3, 4}, 0), []float64{1, 1, 2, 1, nan, nan, 101, 1, 102, 1, 103, 1, nan, nan},
			map[string][]float64{"reward": {0, 1, 2}, "step_type": nil}, []string{"led to its own row"}},
		"V-D4RL, leaving": {"replay_unclear.hdf5", Job{Actions: Leaving}, []int{3, 4}, levels([]int{3, 4}, 0), actionsOf([]int{3, 4}, false), nil, nil},
		"robomimic": {"robomimic.hdf5", Job{Frames: "agentview_image"}, []int{3, 2, 4}, levels([]int{3, 2, 4}, 0), actionsOf([]int{3, 2, 4}, true),
			map[string][]float64{"reward": rewardsOf([]int{3, 2, 4}), "robot0_eef_pos": {0, 1, 2, 3}, "dones": {0}, "wrist_image": nil}, []string{"next_obs is left out", "mask is left out", "wrist_image"}},
		"other names": {"own.h5", Job{Frames: "image", Drop: []string{"half"}}, []int{3, 4}, levels([]int{3, 4}, 0), actionsOf([]int{3, 4}, true),
			map[string][]float64{"half": nil, "wide": nil}, []string{"task is left out", "ep_seed is left out", "group more is left out", "called actions in the source"}},
		"leading, cropped": {"own.h5", Job{Frames: "wide", Fit: FitCrop, Columns: map[string]string{"action": "actions", "x": "half"}, Actions: Leading}, []int{3, 4}, levels([]int{3, 4}, 0),
			[]float64{1, 1, 2, 1, nan, nan, 101, 1, 102, 1, 103, 1, nan, nan}, map[string][]float64{"x": {0, 1, 2}}, nil},
	} {
		f, notes, err := convertHDF5(t, is.file, is.job)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lengths, red, actions := content(t, f)
		if !slices.Equal(lengths, is.lengths) || !near(red, is.red) || is.actions != nil && !same(actions, is.actions) {
			t.Errorf("%s: episodes %v, frames %v, actions %v", name, lengths, red, actions)
		}
		for column, want := range is.columns {
			v, err := f.Read(column, 0, f.Rows())
			if (err == nil) != (want != nil) || len(v) < len(want) || !same(v[:len(want)], want) {
				t.Errorf("%s: column %s is %v, %v, want %v", name, column, v, err, want)
			}
		}
		for _, want := range is.notes {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: nothing is said of %q in %q", name, want, notes)
			}
		}
	}
}

// near compares levels, which JPEG changes by one.
func near(a, b []byte) bool {
	return slices.EqualFunc(a, b, func(x, y byte) bool { return max(x, y)-min(x, y) <= 1 })
}

func TestHDF5ThatCannotBeConverted(t *testing.T) {
	torn := filepath.Join(t.TempDir(), "torn.hdf5")
	b, err := os.ReadFile("testdata/hdf5/robomimic.hdf5")
	if err == nil {
		err = os.WriteFile(torn, b[:len(b)/2], 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []struct {
		file string
		job  Job
		want string
	}{
		{"minari.hdf5", Job{}, "several cameras (hint: --frames NAME, one of image, wrist)"},
		{"minari_short.hdf5", Job{Frames: "image"}, "it has 3 observations and 1 actions"},
		{"d4rl_state.hdf5", Job{}, "reading it as D4RL: it has no frames"},
		{"d4rl_torn.hdf5", Job{}, "its column actions has 8 rows, and there are 9 frames"},
		{"replay_unclear.hdf5", Job{}, "--actions leading or --actions leaving"},
		{"robomimic.hdf5", Job{}, "several cameras (hint: --frames NAME, one of agentview_image, wrist_image)"},
		{"robomimic_total.hdf5", Job{Frames: "agentview_image"}, "there are 9, and its attribute total is 10"},
		{"robomimic_states.hdf5", Job{}, "dataset_states_to_obs.py"},
		{"own.h5", Job{}, "several cameras (hint: --frames NAME, one of image, wide)"},
		{"own.h5", Job{Frames: "wide"}, "the frames wide are 12 x 8 pixels"},
		{"own_torn.h5", Job{Frames: "image"}, "column speed has 6 rows, the episodes 7"},
		{"unknown.h5", Job{}, `no known layout and has a/, "images\nforged" float32 [2 3] (hint: known are ep_len`},
		{"cycle.hdf5", Job{}, "its links form a cycle"},
		{torn, Job{}, "truncated"},
	} {
		_, _, err := convertHDF5(t, is.file, is.job)
		if err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", is.file, err, is.want)
		}
	}
}

// A file that is right is copied exactly, and one with other names keeps its texts.
func TestOwnHDF5(t *testing.T) {
	f, _, err := convertHDF5(t, "own.h5", Job{Frames: "image"})
	if err != nil {
		t.Fatal(err)
	}
	if env, _ := f.Attr("env"); env != "pusht" {
		t.Errorf("the attribute env is %q", env)
	}
	whole, err := f.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	path := f.Path()
	for name, j := range map[string]Job{"plain": {}, "its own names": {Frames: "pixels", Size: 8, Fit: FitCrop, Actions: Leaving}} {
		g, notes, err := convertHDF5(t, path, j)
		if err != nil {
			t.Fatal(err)
		}
		if print, _ := g.Fingerprint(); print != whole || notes != "" {
			t.Errorf("%s: the copy has other data, notes %q", name, notes)
		}
	}
	g, _, err := convertHDF5(t, path, Job{Size: 4})
	if err != nil || g.FrameSize() != 4 {
		t.Errorf("scaled: %v", err)
	}
}

// A folder of Minari is NAME or NAME/data, and metadata.json says how many episodes it
// has.
func TestMinariFolders(t *testing.T) {
	b, err := os.ReadFile("testdata/hdf5/minari_jpeg.hdf5")
	if err != nil {
		t.Fatal(err)
	}
	for meta, want := range map[string]string{"": "", `{"total_episodes": 2}`: "", `{"total_episodes": 3}`: "it has 2 episodes, and metadata.json says 3", "{": "JSON"} {
		files := map[string][]byte{"data/main_data.hdf5": b}
		if meta != "" {
			files["data/metadata.json"] = []byte(meta)
		}
		dir := folderOf(t, files)
		for _, path := range []string{dir, filepath.Join(dir, "data"), filepath.Join(dir, "data", "main_data.hdf5")} {
			_, _, err := convertHDF5(t, path, Job{})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: %v", path, meta, err)
			}
		}
	}
	for _, name := range []string{"metadata.json", "data/metadata.json"} {
		_, _, err := convertHDF5(t, folderOf(t, map[string][]byte{name: []byte(`{"minari_version": "0.5.4"}`)}), Job{})
		if err == nil || !strings.Contains(err.Error(), "Arrow") || !strings.Contains(err.Error(), "iterate_episodes") {
			t.Error(err)
		}
	}
}

// Damage anywhere in a file gives its data, other values or an error of one line.
func TestFlippedHDF5(t *testing.T) {
	for file, j := range map[string]Job{"minari_jpeg.hdf5": {}, "d4rl.hdf5": {}} {
		b, err := os.ReadFile(filepath.Join("testdata", "hdf5", file))
		if err != nil {
			t.Fatal(err)
		}
		for at := 100; at < len(b); at += 1 + len(b)/60 {
			damaged := bytes.Clone(b)
			damaged[at] ^= 0x55
			_, _, err := convertHDF5(t, write(t, "flipped.hdf5", damaged), j)
			if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "(hint: ")) {
				t.Errorf("%s, byte %d: %v", file, at, err)
			}
		}
	}
}
