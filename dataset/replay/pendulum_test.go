package replay

import (
	"context"
	"path/filepath"
	"testing"

	"scalewm/dataset/collect"
	"scalewm/envs"
	_ "scalewm/envs/mjenv/pendulum"
)

// The worked example of a new task is collected with a factor that varies, and
// replayed from its file to the same bits and frames. All it needs is the import
// above.
func TestNewTaskIsCollectedAndReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needMuJoCo(t)
	openGL(t)
	path := filepath.Join(t.TempDir(), "pendulum.h5")
	job, err := collect.Prepare(context.Background(), path, collect.Spec{Task: "pendulum", Episodes: 2, Seed: 1, Switches: envs.Options{"ball.color": envs.Sample}})
	must(t, err)
	made, err := job.Run(context.Background(), 1, nil)
	must(t, err)
	must(t, job.Close())
	if made.Episodes != 2 || made.Rows != 202 { // 100 steps and the row of the reset
		t.Errorf("collected %+v", made)
	}
	for what, opt := range map[string]Options{"whole": {Pixels: true}, "one step": {OneStep: true}, "controls": {FromControl: true}} {
		r, _ := replayArm(t, path, opt)
		for _, name := range []string{"qpos", "qvel", "sim_ctrl", "reward"} {
			if c, ok := r.Columns[name]; !ok || c.RowsEqual != c.Rows || c.Rows == 0 {
				t.Errorf("%s: %s: %+v", what, name, c)
			}
		}
		if opt.Pixels && (r.Frames.Count != 202 || r.Frames.Max > 0) {
			t.Errorf("frames %+v", r.Frames)
		}
	}
}
