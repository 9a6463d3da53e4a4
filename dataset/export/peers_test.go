package export

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// peer compares an export with its data set by testdata/peers.py, which reads it with
// the program that the format is for. path is put on Python's path.
func peer(t *testing.T, path, program, in, out string, more ...string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("SCALEWM_PEERS"), append([]string{"-B", "testdata/peers.py", program, in, out}, more...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path, "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1")
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	var got struct {
		Rows                 int
		Columns, Differences []string
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%s says %q: %v", program, answer, err)
	}
	for _, d := range got.Differences {
		t.Errorf("%s: %s", program, d)
	}
	want := []string{"pixels"}
	for _, c := range open(t, in).Columns() {
		if c.Name != "ep_idx" && c.Name != "step_idx" {
			want = append(want, c.Name)
		}
	}
	if slices.Sort(want); got.Rows != 12 || !slices.Equal(got.Columns, want) {
		t.Errorf("%s compared %v of %d rows, want %v of 12", program, got.Columns, got.Rows, want)
	}
}

// NumPy reads the episodes that it would have written.
func TestPeersNumPy(t *testing.T) {
	if _, err := os.Stat(os.Getenv("SCALEWM_PEERS")); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with h5py")
	}
	in := recording(t)
	out, _ := exported(t, in, "npz")
	peer(t, "", "numpy", in, out)
}

// zarr-python reads the replay buffer.
func TestPeersZarr(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if err := exec.Command(python, "-B", "-c", "import h5py, zarr").Run(); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with h5py and zarr (make setup-peers)")
	}
	in := recording(t)
	out, _ := exported(t, in, "zarr")
	peer(t, "", "zarr", in, out)
}

// lerobot reads the set without a network. It has its own folder, since it needs other
// versions of packages than the peers.
func TestPeersLeRobot(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	path := filepath.Join(filepath.Dir(python), "../../peers-lerobot")
	if _, err := os.Stat(filepath.Join(path, "complete")); python == "" || err != nil {
		t.Skip("peers: no folder peers-lerobot next to the peers (make setup-peers)")
	}
	in := recording(t)
	out, _ := exported(t, in, "lerobot")
	peer(t, path, "lerobot", in, out, "10")
}
