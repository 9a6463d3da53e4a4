package dinowm

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

func refused(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("%s: %v, want %q and a hint", name, err, want)
	}
}

// saved writes a model's checkpoint in the form that train writes.
func saved(t *testing.T, m *Model) string {
	t.Helper()
	config, err := json.Marshal(m.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := weights.Sidecar{Kind: model.FamilyDinoWM, Schema: model.Schema, Method: "dinowm-random", Config: config, Train: json.RawMessage("{}"), Backbone: m.Cfg.SHA256}
	path := filepath.Join(t.TempDir(), weights.FileName)
	if err := weights.Save(path, model.Tensors(m.Dev, m), &s); err != nil {
		t.Fatal(err)
	}
	return path
}

// loaded reads a checkpoint as the program's verbs do.
func loaded(t *testing.T, path string) (*model.Checkpoint, *weights.Sidecar) {
	t.Helper()
	c, s, err := model.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// asPyTorch writes a checkpoint in PyTorch's form, with its tensors modified by change.
func asPyTorch(t *testing.T, c *model.Checkpoint, transformers int, change func([]tensorfile.Tensor) []tensorfile.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	ts, config, err := c.Published(transformers)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, weights.PTName)
	if err := weights.Save(path, change(ts), &weights.Sidecar{Kind: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(weights.SidecarOf(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, weights.HydraName), config, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func same(t *testing.T, a, b []tensorfile.Tensor) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%d tensors, want %d", len(b), len(a))
	}
	for i := range a {
		if a[i].Name != b[i].Name || !slices.Equal(a[i].Shape, b[i].Shape) || !slices.Equal(a[i].F32, b[i].F32) {
			t.Fatalf("%s came back as %s", a[i].Name, b[i].Name)
		}
	}
}

// variants are the geometries of tokens: that of the authors and that of
// stable-worldmodel.
func variants() map[string]Config {
	proprio := tiny()
	proprio.PositionFrames, proprio.Proprio, proprio.ProprioEmbedding = 3, 4, 2
	return map[string]Config{"action": tiny(), "proprioception": proprio}
}

// A checkpoint is converted to PyTorch's form and back, with the names of both
// versions of transformers, with the backbone wrapped as stable-worldmodel's training
// wraps it, and with proprioception.
func TestThereAndBack(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, ref.New(), c)
			ours, _ := loaded(t, saved(t, m))
			same(t, model.Tensors(m.Dev, m), ours.Tensors)
			for _, version := range []int{4, 5} {
				dir := asPyTorch(t, ours, version, func(ts []tensorfile.Tensor) []tensorfile.Tensor {
					for i := range ts {
						if rest, ok := strings.CutPrefix(ts[i].Name, backbone); ok && version == 5 {
							ts[i].Name = "model." + backbone + backbone + rest
						} else if version == 5 {
							ts[i].Name = "model." + ts[i].Name
						}
					}
					return ts
				})
				back, side := loaded(t, dir)
				same(t, model.Tensors(m.Dev, m), back.Tensors)
				got := back.Geometry.(Config)
				if got.SHA256 = c.SHA256; got != c { // a published file does not identify its backbone
					t.Errorf("the geometry came back as %+v, want %+v", got, c)
				}
				if side.Method != "dinowm" || side.Kind != model.FamilyDinoWM || side.Task != "" {
					t.Errorf("the sidecar %+v", side)
				}
			}
			_, err := ours.World(ref.New())
			if name == "action" && err != nil {
				t.Error(err)
			} else if name == "proprioception" {
				refused(t, name, err, "proprioception")
			}
		})
	}
}

// Wrapped modules, a prefix and a decoder, which trainers save, leave the model as it is.
func TestReadOfTrainers(t *testing.T) {
	m := newModel(t, ref.New(), tiny())
	ours, _ := loaded(t, saved(t, m))
	c, side := loaded(t, asPyTorch(t, ours, 5, func(ts []tensorfile.Tensor) []tensorfile.Tensor {
		for i := range ts {
			ts[i].Name = "net." + strings.Replace(ts[i].Name, "predictor.", "predictor._orig_mod.", 1)
		}
		return append(ts, tensorfile.Tensor{Name: "net.decoder.bias", F32: []float32{1}}, tensorfile.Tensor{Name: "decoder_optimizer.step", F32: []float32{1}})
	}))
	same(t, model.Tensors(m.Dev, m), c.Tensors)
	if want := []string{"left out tensors that are not the model's: decoder (1), decoder_optimizer (1)"}; !slices.Equal(side.Notes, want) {
		t.Errorf("notes %q, want %q", side.Notes, want)
	}
	_, _, err := model.Open(asPyTorch(t, ours, 4, func(ts []tensorfile.Tensor) []tensorfile.Tensor {
		return append(ts, tensorfile.Tensor{Name: "extra_encoders.goal.bias", F32: []float32{1}})
	}), "")
	refused(t, "another token", err, "does not have: extra_encoders.goal.bias")
}

func TestReadRefuses(t *testing.T) {
	m := newModel(t, ref.New(), tiny())
	ours, _ := loaded(t, saved(t, m))
	for name, c := range map[string]struct {
		from, to string
		want     string
	}{
		"another model":  {"PreJEPA", "LeWM", "PreJEPA"},
		"no JSON":        {`"history_size"`, `"history_size": "x", "y"`, "config.json"},
		"order":          {`"action": {`, `"goal": {}, "action": {`, "goal, action"},
		"heads":          {`"heads": 2`, `"heads": 3`, "another geometry"},
		"history":        {`"history_size": 3`, `"history_size": 9`, "history"},
		"position table": {`"num_frames": 4`, `"num_frames": 5`, "another geometry"},
	} {
		dir := asPyTorch(t, ours, 4, func(ts []tensorfile.Tensor) []tensorfile.Tensor { return ts })
		path := filepath.Join(dir, weights.HydraName)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), c.from, c.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err = model.Open(dir, "")
		refused(t, name, err, c.want)
	}
	dir := asPyTorch(t, ours, 4, func(ts []tensorfile.Tensor) []tensorfile.Tensor {
		return slices.DeleteFunc(ts, func(t tensorfile.Tensor) bool { return t.Name == "backbone.layernorm.bias" })
	})
	_, _, err := model.Open(dir, "")
	refused(t, "a tensor is missing", err, "no tensor")
}

// TestPeers checks that stable-worldmodel's modules, constructed from a converted
// config.json, load the converted weights strictly and predict the same values
// (testdata/load_strict.py), for both variants of tokens.
func TestPeers(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with torch, transformers and stable-worldmodel")
	}
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			dev := ref.New()
			m := newModel(t, dev, c)
			ours, _ := loaded(t, saved(t, m))
			dir := asPyTorch(t, ours, 5, func(ts []tensorfile.Tensor) []tensorfile.Tensor { return ts })
			var errs strings.Builder
			cmd := exec.Command(python, "testdata/load_strict.py", dir)
			cmd.Stderr = &errs
			text, err := cmd.Output()
			var want []float64
			if err == nil {
				err = json.Unmarshal(text, &want)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			const frames = 4
			px := make([]byte, frames*m.Info().FrameBytes())
			for i := range px {
				px[i] = byte(i * 7919 >> 3)
			}
			bytes := dev.AllocBytes(len(px))
			dev.UploadBytes(bytes, px)
			features := device.NewMat(dev, frames*m.Info().Patches, m.Info().Dim)
			m.Encode(features, bytes, frames)
			var inputs []device.Mat
			for _, e := range m.extras {
				in := device.NewMat(dev, frames, e.W.Value.Cols)
				v := make([]float64, in.Len())
				for i := range v {
					v[i] = math.Sin(float64(i))
				}
				dev.Upload64(in, v)
				inputs = append(inputs, in)
			}
			p := &nn.Pass{Dev: dev, Arena: device.NewArena(dev)}
			if worst := furthest(download(dev, dense(p, m.forward(p, features, inputs...).Pred)), want); len(want) == 0 || worst > 1e-4 {
				t.Errorf("off by %g from what the original predicts in float32", worst)
			}
		})
	}
}

// No config.json makes describe panic or return an invalid geometry.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte(`{"_target_":"stable_worldmodel.wm.PreJEPA","history_size":3,"predictor":{"heads":2,"num_frames":4},"extra_encoders":{"modules":{"action":{}}}}`))
	f.Add([]byte(`{"_target_":"PreJEPA","encoder":{"backbone":{"config":{"num_attention_heads":-1}}},"extra_encoders":{"modules":[1]}}`))
	m, err := tiny().Declare()
	if err != nil {
		f.Fatal(err)
	}
	dev := ref.New()
	m.Alloc(dev, false)
	path := filepath.Join(f.TempDir(), weights.FileName)
	if err := weights.Save(path, model.Tensors(dev, m), &weights.Sidecar{Kind: "x"}); err != nil {
		f.Fatal(err)
	}
	file, err := tensorfile.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		s := &weights.Sidecar{Kind: weights.Published, Config: config}
		if _, err := model.Read(file, s, ""); err != nil && !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("no hint: %v", err)
		}
	})
}
