package dinov2

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/dataset/tensorfile"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

// tiny is a file in the published form, written by testdata/dinov2.py.
const tiny = committed + "/dinov2_tiny"

// tensorsOf returns the tensors of the tiny file by name.
func tensorsOf(t testing.TB) map[string]tensorfile.Tensor {
	t.Helper()
	f, err := tensorfile.Open(filepath.Join(tiny, publishedName))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tensorfile.Tensor{}
	for _, n := range f.Names() {
		if out[n], err = f.Tensor(n); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// fileOf writes a safetensors file of the tiny geometry and its config.json.
func fileOf(t testing.TB, tensors map[string]tensorfile.Tensor) string {
	t.Helper()
	var b bytes.Buffer
	if err := tensorfile.Write(&b, nil, list(tensors)); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(tiny, configName))
	if err != nil {
		t.Fatal(err)
	}
	return folder(t, map[string]string{publishedName: b.String(), configName: string(config)})
}

func list(tensors map[string]tensorfile.Tensor) (ts []tensorfile.Tensor) {
	for n, v := range tensors {
		v.Name = n
		ts = append(ts, v)
	}
	return ts
}

func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The expected geometry is that of testdata/dinov2.py, with the frame size of Small.
func TestRead(t *testing.T) {
	f, err := Read(tiny)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Config{Width: 24, Layers: 2, Heads: 3, MLP: 96, Patch: 4, Positions: 7, FrameSize: 224}); f.Config != want {
		t.Errorf("%+v, want %+v", f.Config, want)
	}
	b, err := os.ReadFile(filepath.Join(tiny, publishedName))
	if sum := sha256.Sum256(b); err != nil || f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("SHA-256 %s, %v", f.SHA256, err)
	}
	if again, err := Read(filepath.Join(tiny, publishedName)); err != nil || again.Config != f.Config {
		t.Errorf("by the file's path: %+v, %v", again, err)
	}
}

// valuesOf returns a file's numbers as an encoder holds them, in the order of its
// parameters.
func valuesOf(t *testing.T, f *File) (all []float64) {
	t.Helper()
	c := f.Config
	c.FrameSize = 2 * c.Patch
	dev := ref.New()
	e, _ := ready(t, dev, c, f)
	for _, p := range e.params {
		all = append(all, download(dev, p.Value)...)
	}
	return all
}

// TestSpellings checks that a file with the names of transformers 5, or without a
// mask token, gives the same encoder. TestReference reads a file with the hub's
// names.
func TestSpellings(t *testing.T) {
	f, err := Read(tiny)
	if err != nil {
		t.Fatal(err)
	}
	want, five := valuesOf(t, f), map[string]tensorfile.Tensor{}
	for n, v := range tensorsOf(t) {
		five[Transformers5(n)] = v
		if back := Transformers4(Transformers5(n)); back != n {
			t.Errorf("%s becomes %s", n, back)
		}
	}
	if _, ok := five["encoder.layer.1.attention.q_proj.bias"]; !ok {
		t.Error("the names of version 5 are not those of its code")
	}
	if got, err := Read(fileOf(t, five)); err != nil || !slices.Equal(valuesOf(t, got), want) {
		t.Errorf("transformers 5: %v, or other numbers", err)
	}
	delete(five, maskToken) // zero in the class, but not in the file
	got, err := Read(fileOf(t, five))
	if err != nil {
		t.Fatal(err)
	}
	if v := valuesOf(t, got); !slices.Equal(v[2*24:], want[2*24:]) || slices.Max(v[24:2*24]) != 0 { // class token, mask token
		t.Error("without a mask token other numbers change, or it is not zero")
	}
}

func TestRefuses(t *testing.T) {
	refuses := func(name, path, want string) {
		t.Helper()
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want %q and a hint", name, err, want)
		}
	}
	refuses("no file", filepath.Join(t.TempDir(), "none.safetensors"), "opening the backbone")
	refuses("an empty folder", t.TempDir(), "opening the backbone")
	refuses("a malicious pickle", "../../dataset/tensorfile/testdata/module.pt", `pickled object of "torch.nn.modules.linear.Linear"`)
	refuses("a file of another kind", "../../dataset/tensorfile/testdata/plain.pt", "there is no tensor embeddings.patch_embeddings.projection.weight")

	whole, err := os.ReadFile(filepath.Join(tiny, publishedName))
	if err != nil {
		t.Fatal(err)
	}
	refuses("a cut file", folder(t, map[string]string{publishedName: string(whole[:len(whole)-1])}), "lie outside")
	refuses("no heads known", folder(t, map[string]string{publishedName: string(whole)}), "width is 24, which 0 heads do not divide")

	const scale = "encoder.layer.1.layer_scale1.lambda1"
	for name, c := range map[string]struct {
		change func(ts map[string]tensorfile.Tensor)
		want   string
	}{
		"registers":   {func(ts map[string]tensorfile.Tensor) { ts["embeddings.register_tokens"] = ts[scale] }, "register tokens"},
		"hub's":       {func(ts map[string]tensorfile.Tensor) { ts["register_tokens"] = ts[scale] }, "register tokens"},
		"SwiGLU":      {func(ts map[string]tensorfile.Tensor) { ts["encoder.layer.0.mlp.weights_in.bias"] = ts[scale] }, "SwiGLU"},
		"hub's giant": {func(ts map[string]tensorfile.Tensor) { ts["blocks.0.mlp.w12.bias"] = ts[scale] }, "SwiGLU"},
		"missing":     {func(ts map[string]tensorfile.Tensor) { delete(ts, scale) }, `no tensor "` + scale},
		"left over":   {func(ts map[string]tensorfile.Tensor) { ts["classifier.weight"] = ts[scale] }, "a tensor that the model does not have: classifier.weight"},
		"both names":  {func(ts map[string]tensorfile.Tensor) { ts["blocks.1.ls1.gamma"] = ts[scale] }, "are both"},
		"another size": {func(ts map[string]tensorfile.Tensor) {
			ts[scale] = tensorfile.Tensor{Shape: []int{25}, F32: make([]float32, 25)}
		}, scale + " is [25], the model needs [24]"},
		"another table": {func(ts map[string]tensorfile.Tensor) {
			ts["embeddings.position_embeddings"] = tensorfile.Tensor{Shape: []int{1, 49, 24}, F32: make([]float32, 49*24)}
		}, "position_embeddings is [1 49 24], the model needs [1 37 24]"},
		"no number": {func(ts map[string]tensorfile.Tensor) { ts[scale].F32[3] = float32(math.NaN()) }, scale + " has NaN at 3"},
		"a matrix":  {func(ts map[string]tensorfile.Tensor) { ts["embeddings.position_embeddings"] = ts[scale] }, "which is not a shape of DINOv2"},
	} {
		ts := tensorsOf(t)
		c.change(ts)
		refuses(name, fileOf(t, ts), c.want)
	}
	for text, want := range map[string]string{
		`{`:                                                "config.json",
		`{"hidden_size":32}`:                               "says hidden_size 32, its tensors have 24",
		`{"num_hidden_layers":12}`:                         "says num_hidden_layers 12, its tensors have 2",
		`{"num_attention_heads":5}`:                        "5 heads do not divide",
		`{"num_attention_heads":-3}`:                       "heads is -3",
		`{"model_type":"dinov2_with_registers"}`:           `type "dinov2_with_registers"`,
		`{"use_swiglu_ffn":true}`:                          "SwiGLU",
		`{"hidden_act":"gelu_new"}`:                        `hidden_act "gelu_new"`,
		`{"layer_norm_eps":1e-12,"num_attention_heads":3}`: "layer_norm_eps 1e-12",
		`{"num_channels":4,"num_attention_heads":3}`:       "num_channels 4",
		`{"patch_size":14,"num_attention_heads":3}`:        "says patch_size 14",
	} {
		refuses(text, folder(t, map[string]string{publishedName: string(whole), configName: text}), want)
	}
}

func TestValidate(t *testing.T) {
	if err := Small().Validate(); err != nil || Small().Patches() != 256 { // docs/sources.md#dino-wm
		t.Errorf("%v, %d patches", err, Small().Patches())
	}
	for want, change := range map[string]func(c *Config){
		"layers is 0":          func(c *Config) { c.Layers = 0 },
		"larger than frame":    func(c *Config) { c.FrameSize = 13 },
		"heads 5 do not":       func(c *Config) { c.Heads = 5 },
		`resample is "other"`:  func(c *Config) { c.Resample = "other" },
		"positions is 1000000": func(c *Config) { c.Positions = 1e6 },
	} {
		c := Small()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%v, want %q and a hint", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	// A complete backbone of width 3, so that inputs are small.
	var s nn.Set
	var ts []tensorfile.Tensor
	for _, p := range New(&s, "", Config{Width: 3, Layers: 1, Heads: 1, MLP: 2, Patch: 1, Positions: 1, FrameSize: 1}).params {
		ts = append(ts, tensorfile.Tensor{Name: p.Name[1:], Shape: p.Shape, F32: make([]float32, p.Len())})
	}
	var b bytes.Buffer
	if err := tensorfile.Write(&b, nil, ts); err != nil {
		f.Fatal(err)
	}
	config := []byte(`{"num_attention_heads":3}`)
	if d, err := parseConfig(config); err != nil {
		f.Fatal(err)
	} else if _, err := parse("f", b.Bytes(), d); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), config)
	f.Add(b.Bytes()[:400], []byte(`{"model_type":"dinov2","hidden_size":3,"layer_norm_eps":1e-6,"hidden_act":"gelu"}`))
	f.Fuzz(func(t *testing.T, b, config []byte) {
		fuzztest.Read(t, len(b)+len(config), func() {
			d, err := parseConfig(config)
			if err != nil {
				return
			}
			if f, err := parse("f", b, d); err == nil && f.Config.Validate() != nil {
				t.Errorf("%+v", f.Config)
			}
		})
	})
}

// TestPeers writes files of the published geometry with transformers' own class, with
// both kinds of names, and compares features and position tables.
func TestPeers(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with torch and transformers")
	}
	out := t.TempDir()
	for _, name := range []string{"dinov2_small", "dinov2_small_hub"} {
		cmd := exec.Command(python, "testdata/dinov2.py", out, name)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		t.Run(name, func(t *testing.T) {
			c := openCase(t, filepath.Join(out, name))
			if c.file.Config != Small() || !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(c.file.SHA256) {
				t.Errorf("%+v, SHA-256 %s", c.file.Config, c.file.SHA256)
			}
			for p, tol := range map[device.Precision]float64{device.FP32: singleTolerance, device.BF16: bf16Tolerance} {
				dev, err := cpu.New(cpu.Options{Precision: p})
				if err != nil {
					t.Fatal(err)
				}
				c.run(t, dev, tol)
				dev.Close()
			}
		})
	}
}

// A file that is too large for a backbone, or whose header does not account for its
// size, is rejected without using time or memory. Both files are sparse.
func TestReadLargeFiles(t *testing.T) {
	for size, want := range map[int64]string{50 << 30: "a file of this kind at most", 4 << 30: "neither a zip archive of torch.save nor safetensors"} {
		path := filepath.Join(t.TempDir(), publishedName)
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skip("no sparse files here: ", err)
		}
		fuzztest.Read(t, 0, func() {
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%d bytes: %v, want %q and a hint", size, err, want)
			}
		})
	}
}
