package collect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"

	"scalewm/envs"
	_ "scalewm/envs/tworoom"
)

// peer runs testdata/peers.py and decodes its output.
func peer(t *testing.T, reader, path string, into any) {
	t.Helper()
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with h5py and stable-worldmodel")
	}
	cmd := exec.Command(python, "testdata/peers.py", reader, path)
	cmd.Env = append(os.Environ(), "STABLEWM_HOME="+t.TempDir(), "HDF5_PLUGIN_PATH=/nowhere")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", reader, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s says %q: %v", reader, out, err)
	}
}

func collected(t *testing.T) *hdf5.File {
	t.Helper()
	out := filepath.Join(t.TempDir(), "tworoom.h5")
	mustRun(t, out, Spec{Task: "tworoom", Episodes: 3, Seed: 8}, 2)
	f, err := hdf5.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func float32Bytes(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// h5py without plug-ins reads the same pixels.
func TestPeersH5py(t *testing.T) {
	f := collected(t)
	var got struct {
		Rows          map[string][2]any
		Pixels, State string
		Attrs         map[string]string
	}
	peer(t, "h5py", f.Path(), &got)
	all := make([]byte, f.Rows()*envs.FrameBytes)
	for row := range f.Rows() {
		if err := f.Frame(row, all[row*envs.FrameBytes:(row+1)*envs.FrameBytes]); err != nil {
			t.Fatal(err)
		}
	}
	if got.Pixels != digest(all) {
		t.Error("h5py reads other pixels")
	}
	state, err := f.Read("state", 0, f.Rows())
	if err != nil {
		t.Fatal(err)
	}
	narrow := make([]float32, len(state))
	for i, v := range state {
		narrow[i] = float32(v)
	}
	if got.State != digest(float32Bytes(narrow)) {
		t.Error("h5py reads other states")
	}
	if got.Attrs["env"] != "tworoom" {
		t.Errorf("h5py reads attributes %v", got.Attrs)
	}
	for name, dtype := range map[string]string{"pixels": "uint8", "action": "float32", "ep_len": "int32", "ep_offset": "int64", "ep_idx": "int32", "step_idx": "int32", "terminated": "uint8"} {
		if got.Rows[name][1] != dtype {
			t.Errorf("h5py sees %s as %v", name, got.Rows[name])
		}
	}
}

// stable-worldmodel's load_dataset returns the same clips in the same order.
func TestPeersClips(t *testing.T) {
	f := collected(t)
	var got struct {
		Length int
		Clips  []struct {
			Index, Episode        int
			Pixels, Action, State string
		}
	}
	peer(t, "swm", f.Path(), &got)
	clips := dataset.Clips(f, 4, 5)
	if got.Length != len(clips) || len(got.Clips) < 20 {
		t.Fatalf("the peer has %d clips, we %d", got.Length, len(clips))
	}
	// The loader of a single clip, with a scale that changes nothing.
	q := envs.Q{Columns: []string{"state"}, Parts: []string{"x", "y"}, Of: func(row envs.Row, dst []float64) { copy(dst, row["state"]) }}
	same := dataset.Moments{Mean: []float64{0, 0}, Std: []float64{1, 1}}
	for _, c := range got.Clips {
		l, err := dataset.NewLoader(f, dataset.Original(f), clips[c.Index:c.Index+1], dataset.LoaderOptions{
			Batch: 1, Frames: 4, Skip: 5, Action: same, Q: &q, QMoments: same})
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if digest(b.Pixels) != c.Pixels || digest(float32Bytes(b.Actions)) != c.Action || digest(float32Bytes(b.Q)) != c.State || int(b.Episode[0]) != c.Episode {
			t.Errorf("clip %d differs from the peer's", c.Index)
		}
		l.Close()
	}
}
