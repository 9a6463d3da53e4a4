package replay

import (
	"errors"
	"path/filepath"
	"testing"

	"scalewm/envs"
	"scalewm/envs/cube"
)

// Worlds in which the reference implementation has drawn every factor
// (testdata/make_cube_varied.py): with the stored controls, cubes of other sizes are
// grasped to the same bits, and colours, light and camera give the same bytes.
func TestVariedRecordingsOfCube(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needMuJoCo(t)
	if task, err := envs.Lookup("cube"); err != nil {
		t.Fatal(err)
	} else if _, err := task.New(nil); errors.Is(err, cube.ErrNoFiles) {
		t.Skipf("cube: %v", err)
	}
	r, _ := replayArm(t, filepath.Join("testdata", "cube_varied_states.h5"), Options{FromControl: true})
	if r.Episodes != 3 || r.Rows != 3*46 {
		t.Errorf("%d episodes, %d rows", r.Episodes, r.Rows)
	}
	for _, name := range []string{"qpos", "qvel", "sim_qacc_warmstart", "proprio_effector_pos", "proprio_gripper_opening", "privileged_block_0_pos"} {
		if c, ok := r.Columns[name]; !ok || c.RowsEqual != c.Rows {
			t.Errorf("%s: %+v", name, c)
		}
	}
	here := openGL(t)
	r, attr := replayArm(t, filepath.Join("testdata", "cube_varied_frames.h5"), Options{Pixels: true, FromControl: true})
	sameFrames(t, here, r.Frames, 8, attr)
}
