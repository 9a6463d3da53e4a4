package replay

import (
	"context"
	"path/filepath"
	"testing"

	"scalewm/dataset/hdf5"
	_ "scalewm/envs/pusht"
)

// Recordings of the running reference implementation (testdata/make_pusht.py):
// pushes, walls, overlaps, all restart modes, both readings of the controller,
// evaluation pairs and both sides of every threshold. Everything must be equal bit
// for bit, frames included.
func TestRecordingsOfPushT(t *testing.T) {
	for _, c := range []struct {
		file                          string
		episodes, rows, flags, frames int
	}{
		{"pusht_states.h5", 93, 3721, 3628, 0},
		{"pusht_float32_pd.h5", 13, 873, 860, 0},
		{"pusht_numpy1.h5", 4, 244, 240, 0},  // 100 x action in float32
		{"pusht_widened.h5", 3, 123, 120, 0}, // float32 actions, 100 x action in float64
		{"pusht_frames.h5", 16, 104, 88, 104},
		// The reference implementation has drawn the factors of this one.
		{"pusht_varied_states.h5", 16, 16 * 51, 16 * 50, 0},
		{"pusht_varied_frames.h5", 14, 14 * 6, 14 * 5, 14 * 6},
	} {
		src, err := hdf5.Open(filepath.Join("testdata", c.file))
		must(t, err)
		defer src.Close()
		r, err := Run(context.Background(), src, Options{File: c.file, Pixels: c.frames > 0})
		must(t, err)
		if r.Episodes != c.episodes || r.Rows != c.rows || r.Terminated != (FlagDiff{c.flags, 0}) {
			t.Errorf("%s: %+v", c.file, r)
		}
		for _, name := range []string{"state", "proprio", "pos_agent", "vel_agent", "block_pose", "goal_pose", "n_contacts", "reward"} {
			want := c.rows
			if name == "reward" {
				want = c.flags
			}
			if d := r.Columns[name]; d.Rows != want || d.RowsEqual != want || d.MaxAbs != 0 {
				t.Errorf("%s: %s: %+v, want %d rows equal", c.file, name, d, want)
			}
		}
		if f := r.Frames; f.Count != c.frames || f.Max != 0 {
			t.Errorf("%s: frames %+v", c.file, f)
		}
	}
}

// In one-step mode only rows after row 0 can be compared, because no column has the
// solver's memory of contacts.
func TestOneStepOfPushT(t *testing.T) {
	src, err := hdf5.Open(filepath.Join("testdata", "pusht_frames.h5"))
	must(t, err)
	defer src.Close()
	r, err := Run(context.Background(), src, Options{OneStep: true})
	must(t, err)
	if d := r.Columns["state"]; r.Rows != 2*16 || d.RowsEqual != 2*16 {
		t.Errorf("%+v", r)
	}
}
