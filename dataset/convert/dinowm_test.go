package convert

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dinoWMSet returns a copy of a fixture, with the films of testdata/films.
func dinoWMSet(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	err := os.CopyFS(dir, os.DirFS("testdata/"+name))
	for i, film := range []string{"ep_0.mp4", "ep_1.mp4"} {
		var b []byte
		if name == "pusht" && err == nil {
			if b, err = os.ReadFile("testdata/films/pixels/" + film); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Join(dir, "obses"), 0o777), os.WriteFile(filepath.Join(dir, "obses", []string{"episode_000.mp4", "episode_001.mp4"}[i]), b, 0o666))
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The expected values are those of testdata/make_dinowm.py. Padding, which is 99, does
// not appear. Films need ffmpeg.
func TestDINOWM(t *testing.T) {
	for name, is := range map[string]struct {
		state func(step, k float64) []float64
		edge  int
		notes []string
	}{
		"maze":  {func(step, k float64) []float64 { return []float64{step, k, 10 * step} }, 8, []string{"seeds.pth is left out"}},
		"pusht": {func(step, k float64) []float64 { return []float64{step, k, 10 * step, -step, k} }, 32, []string{"abs_actions.pth is left out", "shapes.pkl is left out"}},
	} {
		if _, err := exec.LookPath("ffmpeg"); err != nil && name == "pusht" {
			t.Log("without ffmpeg on the PATH, films are not read")
			continue
		}
		f, notes, err := run(t, dinoWMSet(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(notes) != len(is.notes) || !strings.Contains(strings.Join(notes, "\n"), is.notes[0]) || !strings.Contains(strings.Join(notes, "\n"), is.notes[len(is.notes)-1]) {
			t.Errorf("%s: notes %q, want %q", name, notes, is.notes)
		}
		if e := f.Episodes(); len(e) != 2 || e[0].Len != 3 || e[1].Len != 4 || f.FrameSize() != is.edge {
			t.Fatalf("%s: episodes %v, frames of %d", name, e, f.FrameSize())
		}
		frame := make([]byte, is.edge*is.edge*3)
		for row := range 7 {
			step, k := float64(row), 0.
			if row > 2 {
				step, k = float64(row-3), 1
			}
			action, err := f.Read("action", row, row+1)
			if err != nil || !slices.Equal(action, []float64{step + k/2, -step}) {
				t.Errorf("%s: action %v in row %d, %v", name, action, row, err)
			}
			if state, err := f.Read("state", row, row+1); err != nil || !slices.Equal(state, is.state(step, k)) {
				t.Errorf("%s: state %v in row %d, %v", name, state, row, err)
			}
			if err := f.Frame(row, frame); err != nil {
				t.Fatal(err)
			}
			for i, v := range frame {
				if want := []int{20 + 30*int(step), 200 - 40*int(k), 90}[i%3]; int(v) < want-6 || int(v) > want+6 || name == "maze" && int(v) != want {
					t.Fatalf("%s: row %d, byte %d: %d, want %d", name, row, i, v, want)
				}
			}
		}
		if name == "maze" {
			if door, err := f.Read("door_locations", 0, 7); err != nil || slices.Min(door) != 7 || slices.Max(door) != 7 {
				t.Errorf("door_locations %v, %v", door, err)
			}
		}
	}
}

// Each case changes one file of a set, or removes it if there is no other to take its
// place.
func TestDamagedDINOWM(t *testing.T) {
	for _, c := range []struct{ set, file, by, want string }{
		{"maze", "actions.pth", "", "neither rel_actions.pth nor actions.pth"},
		{"maze", "actions.pth", "seeds.pth", "neither rel_actions.pth nor actions.pth"},
		{"maze", "actions.pth", "obses/episode_000.pth", "actions.pth has the shape [3 8 8 3]"},
		{"maze", "seq_lengths.pth", "", "has 3 frames for 5 rows"},
		{"maze", "seq_lengths.pth", "seeds.pth", "has 3 frames for 1 rows"},
		{"maze", "seq_lengths.pth", "actions.pth", "its seq_lengths"},
		{"maze", "states.pth", "seeds.pth", "states.pth has the shape [2]"},
		{"maze", "obses/episode_001.pth", "", "episode_001.mp4 nor obses/episode_001.pth"},
		{"maze", "obses/episode_001.pth", "obses/episode_000.pth", "3 frames for 4 rows"},
		{"maze", "obses/episode_001.pth", "../make_dinowm.py", "not a complete file of torch.save"},
		{"pusht", "rel_actions.pth", "", "neither rel_actions.pth nor actions.pth"},
		{"pusht", "velocities.pth", "../maze/door_locations.pth", "velocities.pth has the shape [2 5]"},
		{"pusht", "seq_lengths.pkl", "shapes.pkl", "not a list of integers"},
		{"pusht", "obses/episode_000.mp4", "../films/pixels/ep_1.mp4", "has 4 frames for 3 rows"},
		{"pusht", "obses/episode_001.mp4", "../films/pixels/ep_0.mp4", "there are rows for 4 frames"},
	} {
		if _, err := exec.LookPath("ffmpeg"); err != nil && filepath.Ext(c.by) == ".mp4" {
			continue
		}
		dir := dinoWMSet(t, c.set)
		path := filepath.Join(dir, c.file)
		err := os.Remove(path)
		if c.by != "" {
			var b []byte
			b, err = os.ReadFile(filepath.Join("testdata", c.set, c.by))
			err = errors.Join(err, os.WriteFile(path, b, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, dir); err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "(hint: ") != 1 {
			t.Errorf("%s by %q: %v, want %q and a hint", c.file, c.by, err, c.want)
		}
	}
	dir := dinoWMSet(t, "maze")
	if err := os.Rename(dir, filepath.Join(filepath.Dir(dir), "train")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "(hint: convert one of them, such as "+filepath.Join(filepath.Dir(dir), "train")) {
		t.Error(err)
	}
}
