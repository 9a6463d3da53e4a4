package replay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"scalewm/dataset/hdf5"
	_ "scalewm/envs/pointmaze"
)

// replayMaze replays a recording, entire episodes or single steps.
func replayMaze(t *testing.T, path string, oneStep bool) *Report {
	t.Helper()
	src, err := hdf5.Open(path)
	must(t, err)
	defer src.Close()
	r, err := Run(context.Background(), src, Options{File: filepath.Base(path), Pixels: true, OneStep: oneStep, PerEpisode: true})
	must(t, err)
	return r
}

// numbers are the float64 columns of PointMaze.
var numbers = []string{"qpos", "qvel", "drawn_xy"}

// farthest returns the largest difference in the numbers of an episode.
func farthest(e EpisodeDiff) float64 {
	d := 0.0
	for _, name := range numbers {
		d = max(d, e.Columns[name].MaxAbs)
	}
	return d
}

// within counts the episodes whose differences are all within bound.
func within(es []EpisodeDiff, bound float64) (n int) {
	for _, e := range es {
		if farthest(e) <= bound {
			n++
		}
	}
	return n
}

// Recordings of MuJoCo 2.3.7 and 4.0.0 (testdata/make_pointmaze.py): uniform actions,
// walls, corners, centres inside walls, goals and the edges of success. The bound for
// one step is 1e-12, and 1e-9 for 4.0.0, whose solver stops at its tolerance when a
// ball rests in a corner. For an episode it is 1e-6, because hits of corners amplify
// rounding (docs/sources.md#pointmaze-contacts), but 1e-8 for 17 of the 20 with 100
// uniform actions.
func TestRecordingsOfPointMaze(t *testing.T) {
	for _, c := range []struct {
		file                          string
		episodes, rows, frames, flags int
		step                          float64
	}{
		{"pointmaze_states.h5", 86, 4467, 0, 1925, 1e-12},
		{"pointmaze_frames.h5", 27, 283, 283, 0, 1e-12},
		{"pointmaze_modern.h5", 29, 1365, 0, 0, 1e-9},
	} {
		for oneStep, bound := range map[bool]float64{true: c.step, false: 1e-6} {
			r := replayMaze(t, filepath.Join("testdata", c.file), oneStep)
			if r.Episodes != c.episodes || r.Rows != c.rows || r.Frames.Count != c.frames || r.Terminated != (FlagDiff{c.flags, 0}) {
				t.Errorf("%s: %d episodes, %d rows, frames %+v, flags %+v", c.file, r.Episodes, r.Rows, r.Frames, r.Terminated)
			}
			for _, name := range numbers {
				if d := r.Columns[name]; d.Rows != c.rows || d.MaxAbs > bound {
					t.Errorf("%s, one step %v: %s: %+v", c.file, oneStep, name, d)
				}
			}
			if !oneStep && c.file == "pointmaze_states.h5" && within(r.PerEpisode[:20], 1e-8) < 17 {
				t.Errorf("%d of 20 episodes within 1e-8 of MuJoCo", within(r.PerEpisode[:20], 1e-8))
			}
			if f := r.Frames; f.Mean > 0.01 || f.Moving > 0.06 {
				t.Errorf("%s: frames %+v", c.file, f)
			}
		}
	}
}

// Another 24 + 45 episodes, recorded by this test with the installed MuJoCo. With any
// version, one step of uniform actions is within 1e-9.
func TestPeersRecordPointMaze(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with h5py and mujoco")
	}
	path := filepath.Join(t.TempDir(), "fresh.h5")
	script := exec.Command(python, filepath.Join("testdata", "make_pointmaze.py"), "12345", path)
	script.Env = append(os.Environ(), "MUJOCO_GL=disabled")
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole, step := replayMaze(t, path, false), replayMaze(t, path, true)
	if whole.Terminated.Wrong != 0 || whole.Terminated.Compared == 0 {
		t.Errorf("flags %+v", whole.Terminated)
	}
	if n := within(step.PerEpisode[:20], 1e-9); n < 20 {
		t.Errorf("one step: %d of 20 episodes within 1e-9", n)
	}
	if n := within(whole.PerEpisode[:20], 1e-6); n < 20 {
		t.Errorf("whole: %d of 20 episodes within 1e-6", n)
	}
}
