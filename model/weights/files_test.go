package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile"
	"scalewm/dataset/safefile/fuzztest"
	"scalewm/dataset/tensorfile"
)

// sample returns a tensor of each type.
func sample() []tensorfile.Tensor {
	return []tensorfile.Tensor{
		{Name: "b", Shape: []int{2, 3}, F32: []float32{1, -2, 3.5, 0, 1e30, 1e-40}},
		{Name: "a", Shape: []int{2}, F64: []float64{.1, -1e-300}},
		{Name: "count", I64: []int64{1500}},
	}
}

// safetensors returns a file with that header and that data.
func safetensors(head, data string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), data...)
}

func refuses(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("%s: %v, want %q and a hint", name, err, want)
	}
}

// write writes a checkpoint of the sample tensors to a folder.
func write(t *testing.T) (dir string, s Sidecar) {
	t.Helper()
	s = Sidecar{Kind: "lewm", Schema: 1, ID: "ab", Method: "scale", Task: "tworoom", Config: []byte(`{"dim":48}`), Train: []byte(`{}`),
		Step: 1500, Seed: 3072, ActionMean: []float64{0.1, -0.2}, ActionStd: []float64{1, 2}, QName: "full"}
	dir = t.TempDir()
	if err := Save(filepath.Join(dir, FileName), sample(), &s); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A folder and the path of its safetensors file name the same checkpoint.
func TestLoad(t *testing.T) {
	dir, want := write(t)
	for _, path := range []string{dir, filepath.Join(dir, FileName)} {
		f, s, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		s.Config, want.Config = nil, nil // indented in the file
		if d := cmp.Diff(&want, s); d != "" || len(f.Names()) != 3 {
			t.Errorf("%s: %d tensors, sidecar %s", path, len(f.Names()), d)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"no sidecar": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, SidecarName)) }, "neither a sidecar weights.json of scalewm nor a config.json in its folder"},
		"no weights": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, FileName)) }, "opening weights"},
		"not JSON":   {func(t *testing.T, dir string) { put(t, filepath.Join(dir, SidecarName), []byte("{")) }, "not a sidecar"},
		"other JSON": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, SidecarName), []byte("{}")) }, "kind or sha256"},
		"a path": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, SidecarName), []byte(`{"kind":"lewm","sha256":"00","method":"../../../../tmp/x"}`))
		}, `its method: "../../../../tmp/x" is not a valid name`},
		"replaced": {func(t *testing.T, dir string) { put(t, filepath.Join(dir, FileName), []byte("x")) }, "checksum differs from that in their sidecar"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := write(t)
			c.spoil(t, dir)
			if _, _, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
		})
	}
}

// A changed bit anywhere in a sidecar is detected, except in the key "digest" itself.
// A sidecar without a digest, as other programs write it, is accepted.
func TestSidecarDigest(t *testing.T) {
	dir, want := write(t)
	b, err := os.ReadFile(filepath.Join(dir, SidecarName))
	if err != nil {
		t.Fatal(err)
	}
	name := bytes.LastIndex(b, []byte(`"digest"`))
	for i := range b {
		if name <= i && i < name+len(`"digest"`) {
			continue
		}
		for bit := range 8 {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << bit
			if s, err := ParseSidecar(flipped); err == nil {
				t.Fatalf("bit %d of byte %d, %q: read as %+v", bit, i, b[max(i-10, 0):min(i+10, len(b))], s)
			}
		}
	}
	old := append(bytes.TrimRight(b[:name], ", \n"), '}')
	if s, err := ParseSidecar(old); err != nil || s.SHA256 != want.SHA256 {
		t.Errorf("without a digest: %+v, %v", s, err)
	}
}

func FuzzSidecar(f *testing.F) {
	f.Add([]byte(`{"kind":"lewm","schema":1,"sha256":"00","config":{},"action_mean":[0]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *Sidecar
		var err error
		fuzztest.Read(t, len(b), func() { s, err = ParseSidecar(b) })
		if err == nil && (s.Kind == "" || safefile.CheckName(s.Method) != nil || safefile.CheckName(s.Task) != nil) {
			t.Errorf("a sidecar without names: %+v", s)
		}
	})
}

// The checkpoint of a folder is weights.safetensors, or else its only file of weights. Its
// sidecar is read if it exists, and otherwise created from config.json.
func TestLoadPT(t *testing.T) {
	dir := t.TempDir()
	s := Sidecar{Kind: "lewm"}
	path := filepath.Join(dir, "epoch_3.pt")
	if err := Save(path, sample(), &s); err != nil {
		t.Fatal(err)
	}
	f, got, err := Load(dir)
	if err != nil || !f.PT || got.Kind != "lewm" || got.SHA256 != s.SHA256 {
		t.Errorf("a .pt with a sidecar: %+v, %v", got, err)
	}
	os.Remove(SidecarOf(path))
	_, _, err = Load(dir)
	refuses(t, "no config", err, "config.json")
	put(t, filepath.Join(dir, HydraName), []byte("{"))
	_, _, err = Load(path)
	refuses(t, "config", err, "is not JSON")
	put(t, filepath.Join(dir, HydraName), []byte(`{"a":1}`))
	if _, got, err = Load(path); err != nil || got.Kind != Published || string(got.Config) != `{"a":1}` || got.SHA256 != s.SHA256 {
		t.Errorf("published: %+v, %v", got, err)
	}
	put(t, filepath.Join(dir, "other.pt"), nil)
	_, _, err = Load(dir)
	refuses(t, "two", err, "2 files of weights: epoch_3.pt, other.pt")
	own := Sidecar{Kind: "own"}
	if err := Save(filepath.Join(dir, FileName), sample(), &own); err != nil {
		t.Fatal(err)
	}
	if f, got, err := Load(dir); err != nil || f.PT || got.Kind != "own" {
		t.Errorf("beside ours: %+v, %v", got, err)
	}
}

// A large file whose header does not account for its size is rejected before memory
// is allocated for it, whatever a sidecar says. The test's files are sparse and use
// few blocks.
func TestLargeFiles(t *testing.T) {
	var pt, safe bytes.Buffer
	ts := []tensorfile.Tensor{{Name: "a", Shape: []int{2}, F32: []float32{1, 2}}}
	if err := errors.Join(tensorfile.WritePT(&pt, ts), tensorfile.Write(&safe, nil, ts)); err != nil {
		t.Fatal(err)
	}
	short := safetensors(`{"a":{"dtype":"F32","shape":[268435456],"data_offsets":[0,1073741824]}}`, "")
	long := safetensors(`{"a":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}`, "")
	for _, c := range []struct {
		name string
		head []byte
		size int64
		want string
	}{
		{PTName, nil, 60 << 30, "a file of this kind at most"},
		{FileName, nil, 50 << 30, "a file of this kind at most"},
		{PTName, nil, 4 << 30, "neither a zip archive of torch.save nor safetensors"},
		{PTName, []byte("PK\x03\x04"), 4 << 30, "not a complete file of torch.save"},
		{PTName, pt.Bytes(), 4 << 30, "not a complete file of torch.save"},
		{FileName, []byte("\x10\x00\x00\x00\x00\x00\x00\x00{"), 4 << 30, "the header is not JSON"},
		{FileName, nil, 4 << 30, "neither a zip archive of torch.save nor safetensors"},
		{FileName, safe.Bytes(), 4 << 30, "its tensors fill 8 of its"},
		{FileName, short, 4 << 30, "its tensors fill 1073741824 of its"},
		{FileName, long, 4 << 30, "lie outside"},
		{FileName, []byte("\xff\xff\xff\xff\xff\xff\xff\xff{"), 4 << 30, "the header claims"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.name)
		put(t, path, c.head)
		put(t, filepath.Join(dir, SidecarName), []byte(`{"kind":"lewm","sha256":"00"}`))
		put(t, filepath.Join(dir, HydraName), []byte("{}"))
		if err := os.Truncate(path, c.size); err != nil {
			t.Skip("no sparse files here: ", err)
		}
		began := time.Now()
		fuzztest.Read(t, 1<<10, func() {
			_, _, err := Load(path)
			_, other := tensorfile.Open(path)
			for _, err := range []error{err, other} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "(hint: ") {
					t.Errorf("%s that begins with %.20q: %v, want %q", c.name, c.head, err, c.want)
				}
			}
		})
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s that begins with %.20q took %v", c.name, c.head, d)
		}
	}
}

// The format of a file is that of its contents, whatever its name. A folder with one file
// of weights is a checkpoint, and files that a training keeps are none.
func TestPublishedNames(t *testing.T) {
	var pt, safe bytes.Buffer
	if err := errors.Join(tensorfile.WritePT(&pt, sample()), tensorfile.Write(&safe, nil, sample())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"weights.pt", "lewm.pth", "best.pth.tar", "epoch=9-step=1234.ckpt", "pytorch_model.bin", "model.safetensors", FileName} {
		for format, b := range map[string][]byte{"torch.save": pt.Bytes(), "safetensors": safe.Bytes()} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			put(t, path, b)
			put(t, filepath.Join(dir, HydraName), []byte(`{}`))
			put(t, filepath.Join(dir, ResumeName), safe.Bytes())
			put(t, filepath.Join(dir, "best.safetensors"), safe.Bytes())
			put(t, filepath.Join(dir, "best.json"), []byte(`{}`))
			if err := os.Mkdir(filepath.Join(dir, "sharded.ckpt"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{dir, path} {
				f, s, err := Load(from)
				if err != nil || f.PT != (format == "torch.save") || len(f.Names()) != 3 || s.Kind != Published {
					t.Errorf("%s of %s: %+v, %v", from, format, s, err)
				}
			}
		}
	}
}
