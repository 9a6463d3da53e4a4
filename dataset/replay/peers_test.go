package replay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"scalewm/dataset/hdf5"
)

// The reference simulator, run by this test with seeds of no recording here: frames
// and states of Push-T are still equal bit for bit.
func TestPeersRecordPushT(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with stable-worldmodel")
	}
	dir := t.TempDir()
	if out, err := exec.Command(python, "testdata/make_pusht.py", dir, "100000", "frames").CombinedOutput(); err != nil {
		t.Fatalf("recording: %v\n%s", err, out)
	}
	src, err := hdf5.Open(filepath.Join(dir, "pusht_frames.h5"))
	must(t, err)
	defer src.Close()
	r, err := Run(context.Background(), src, Options{Pixels: true})
	must(t, err)
	if d := r.Columns["state"]; d.Rows != 104 || d.RowsEqual != 104 || r.Frames.Count != 104 || r.Frames.Max != 0 || r.Terminated.Wrong != 0 {
		t.Errorf("%+v", r)
	}
}
