package lewm

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/weights"
)

// saved writes a model's checkpoint and applies change to its sidecar afterwards.
func saved(t *testing.T, m *Model, change func(s *weights.Sidecar)) string {
	t.Helper()
	config, _ := json.Marshal(m.Config())
	s := weights.Sidecar{Kind: model.FamilyLeWM, Schema: model.Schema, Config: config}
	path := filepath.Join(t.TempDir(), weights.FileName)
	if err := weights.Save(path, model.Tensors(m.Dev, m), &s); err != nil {
		t.Fatal(err)
	}
	change(&s)
	side, _ := s.Encode()
	write(t, weights.SidecarOf(path), side)
	return filepath.Dir(path)
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// load calls model.Load for a checkpoint of this family.
func load(dev device.Device, path string) (*Model, *weights.Sidecar, error) {
	w, s, err := model.Load(dev, path, "")
	if err != nil {
		return nil, nil, err
	}
	return w.(*Model), s, nil
}

func TestLoad(t *testing.T) { eachProjector(t, checkLoad) }

func checkLoad(t *testing.T, c Config) {
	dev := ref.New()
	m := stirredOn(t, dev, c)
	for _, c := range m.Counts() {
		*c.N = 12
	}
	back, _, err := load(dev, saved(t, m, func(*weights.Sidecar) {}))
	if err != nil {
		t.Fatal(err)
	}
	sameTensors(t, m, back)
	if got := *back.Counts()[0].N; got != 12 {
		t.Errorf("%d batches came back of 12", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	dev, m := stirred(t)
	for name, c := range map[string]struct {
		change func(s *weights.Sidecar)
		want   string
	}{
		"kind":      {func(s *weights.Sidecar) { s.Kind = "other" }, `is of kind "other" (hint: this program knows lewm`},
		"schema":    {func(s *weights.Sidecar) { s.Schema = 99 }, "schema 99"},
		"sum":       {func(s *weights.Sidecar) { s.SHA256 = "00" }, "checksum differs from that in their sidecar"},
		"config":    {func(s *weights.Sidecar) { s.Config = []byte(`{"patch":"x"}`) }, "config"},
		"shape":     {geometry(func(c *Config) { c.Projector++ }), "another geometry"},
		"deeper":    {geometry(func(c *Config) { c.Layers++ }), "no tensor"},
		"shallower": {geometry(func(c *Config) { c.Layers-- }), "a tensor that the model does not have"},
	} {
		_, _, err := load(dev, saved(t, m, c.change))
		refused(t, name, err, c.want)
	}
	_, _, err := load(dev, t.TempDir())
	refused(t, "an empty folder", err, "opening weights")
}

// geometry returns a change of the config in a sidecar.
func geometry(change func(*Config)) func(*weights.Sidecar) {
	return func(s *weights.Sidecar) {
		c := tiny()
		change(&c)
		s.Config, _ = json.Marshal(c)
	}
}

func refused(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("%s: %v, want %q and a hint", name, err, want)
	}
}

func sameTensors(t *testing.T, a, b *Model) {
	t.Helper()
	theirs := model.Tensors(b.Dev, b)
	for i, want := range model.Tensors(a.Dev, a) {
		if got := theirs[i]; got.Name != want.Name || !slices.Equal(got.Shape, want.Shape) || !slices.Equal(got.F32, want.F32) {
			t.Fatalf("%s came back as %s", want.Name, got.Name)
		}
	}
}

// hydraText returns the config.json of a geometry.
func hydraText(t *testing.T, c Config) []byte {
	tree, _ := c.Hydra()
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// publish writes a model in the published form, a .pt file and config.json.
func publish(t *testing.T, m *Model, change func(ts []tensorfile.Tensor) []tensorfile.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, weights.HydraName), hydraText(t, m.Config()))
	path := filepath.Join(dir, weights.PTName)
	if err := weights.Save(path, change(model.Tensors(m.Dev, m)), &weights.Sidecar{Kind: model.FamilyLeWM}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(weights.SidecarOf(path)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A published checkpoint can be given by its folder or its path.
func TestLoadPublished(t *testing.T) { eachProjector(t, checkPublished) }

func checkPublished(t *testing.T, c Config) {
	dev := ref.New()
	m := stirredOn(t, dev, c)
	dir := publish(t, m, slices.Clone[[]tensorfile.Tensor])
	for _, path := range []string{dir, filepath.Join(dir, weights.PTName)} {
		back, side, err := load(dev, path)
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, m, back)
		if back.Config() != m.Config() {
			t.Errorf("config %+v, want %+v", back.Config(), m.Config())
		}
		if side.Kind != model.FamilyLeWM || side.Method != "lewm" || side.Protocol != "paper" || side.Task != "" {
			t.Errorf("sidecar %+v", side)
		}
	}
}

// Every kind of damage to a published checkpoint is an error.
func TestLoadPublishedRefuses(t *testing.T) {
	dev, m := stirred(t)
	for name, c := range map[string]struct {
		change func(ts []tensorfile.Tensor) []tensorfile.Tensor
		want   string
	}{
		"missing": {func(ts []tensorfile.Tensor) []tensorfile.Tensor { return ts[1:] }, "no tensor"},
		"mask token": {func(ts []tensorfile.Tensor) []tensorfile.Tensor {
			return append(ts, tensorfile.Tensor{Name: maskToken, Shape: []int{1}, F32: []float32{0}})
		}, ""},
		"extra": {func(ts []tensorfile.Tensor) []tensorfile.Tensor {
			return append(ts, tensorfile.Tensor{Name: "encoder.pooler.dense.bias", Shape: []int{1}, F32: []float32{0}})
		}, "a tensor that the model does not have: encoder.pooler"},
		"shape": {func(ts []tensorfile.Tensor) []tensorfile.Tensor { ts[4].Shape = []int{1, len(ts[4].F32)}; return ts }, "the model needs"},
		"nan":   {func(ts []tensorfile.Tensor) []tensorfile.Tensor { ts[4].F32[1] = float32(math.NaN()); return ts }, "has NaN at 1"},
		"inf":   {func(ts []tensorfile.Tensor) []tensorfile.Tensor { ts[4].F32[0] = float32(math.Inf(-1)); return ts }, "has -Inf at 0"},
	} {
		_, _, err := load(dev, publish(t, m, c.change))
		if c.want != "" || err != nil {
			refused(t, name, err, c.want)
		}
	}
	two := publish(t, m, slices.Clone[[]tensorfile.Tensor])
	write(t, filepath.Join(two, "weights_epoch_9.pt"), nil)
	_, _, err := load(dev, two)
	refused(t, "two files", err, "2 files of weights: weights.pt, weights_epoch_9.pt")
	bare := publish(t, m, slices.Clone[[]tensorfile.Tensor])
	os.Remove(filepath.Join(bare, weights.HydraName))
	_, _, err = load(dev, bare)
	refused(t, "no config.json", err, "config.json")
}

// The tree of the released models, as listed in docs/sources.md#checkpoint-files, and
// its variants.
const released = `{"_target_": "stable_worldmodel.wm.lewm.LeWM",
 "encoder": {"_target_": "stable_pretraining.backbone.utils.vit_hf", "size": "tiny", "patch_size": 14, "image_size": 224, "pretrained": false, "use_mask_token": false},
 "predictor": {"_target_": "stable_worldmodel.wm.lewm.module.Predictor", "num_frames": 3, "input_dim": 192, "hidden_dim": 192, "output_dim": 192, "depth": 6, "heads": 16, "mlp_dim": 2048, "dim_head": 64, "dropout": 0.1, "emb_dropout": 0.0},
 "action_encoder": {"_target_": "stable_worldmodel.wm.lewm.module.Embedder", "input_dim": 25, "emb_dim": 192},
 "projector": {"_target_": "m.MLP", "input_dim": 192, "output_dim": 192, "hidden_dim": 2048, "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": true}},
 "pred_proj": {"_target_": "m.MLP", "input_dim": 192, "output_dim": 192, "hidden_dim": 2048, "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": true}}}`

// embedder returns a file that has only the tensor that the tree does not describe.
func embedder(t *testing.T) *tensorfile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), weights.PTName)
	ts := []tensorfile.Tensor{{Name: "action_encoder.patch_embed.weight", Shape: []int{10, 25, 1}, F32: make([]float32, 250)}}
	if err := weights.Save(path, ts, &weights.Sidecar{}); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDescribe(t *testing.T) {
	want := paper()
	want.ActionDim = 5
	f := embedder(t)
	for name, swap := range map[string][2]string{
		"released":       {"", ""},
		"size left out":  {`"size": "tiny", `, ""},
		"le-wm's":        {"stable_worldmodel.wm.lewm.LeWM", "jepa.JEPA"},
		"ViTModel's own": {`"size": "tiny", "patch_size": 14, "image_size": 224`, `"config": {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768, "patch_size": 14, "image_size": 224}`},
	} {
		got, err := describe([]byte(strings.Replace(released, swap[0], swap[1], 1)), f)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"not JSON":     {`{`, `[`, "config.json"},
		"a word":       {`"patch_size": 14`, `"patch_size": "14"`, "config.json"},
		"size":         {`"tiny"`, `"giant"`, "giant"},
		"no biases":    {`"pretrained"`, `"qkv_bias": false, "pretrained"`, "qkv_bias"},
		"epsilon":      {`"pretrained"`, `"layer_norm_eps": 1e-6, "pretrained"`, "layer_norm_eps"},
		"activation":   {`"pretrained"`, `"hidden_act": "relu", "pretrained"`, "relu"},
		"channels":     {`"pretrained"`, `"num_channels": 4, "pretrained"`, "3 channels"},
		"encoder":      {"stable_pretraining.backbone.utils.vit_hf", "torchvision.models.resnet18", "resnet18"},
		"norm":         {"torch.nn.BatchNorm1d", "torch.nn.LayerNorm", "projector without BatchNorm1d"},
		"other layers": {`"hidden_dim": 2048`, `"_args_": [{"_target_": "torch.nn.ReLU"}], "hidden_dim": 2048`, "projector without BatchNorm1d"},
		"output width": {`"output_dim": 192, "depth"`, `"output_dim": 128, "depth"`, "pred_proj.input_dim is 192 where 128"},
		"latent width": {`"emb_dim": 192`, `"emb_dim": 64`, "action_encoder.emb_dim is 64"},
	} {
		_, err := describe([]byte(strings.Replace(released, c.old, c.new, 1)), f)
		refused(t, name, err, c.want)
	}
}

// describe reads the trees that Hydra returns, for all sizes.
func TestHydra(t *testing.T) {
	wide := tiny()
	wide.Smoothed, wide.FrameSkip, wide.ActionDim = 7, 1, 3
	wide.PredictorWidth, wide.PredictorOut, wide.PredProjector, wide.ActionScale = 11, 12, 13, 2
	for _, c := range []Config{tiny(), paper(), wide, linear()} {
		if got, err := describe(hydraText(t, c), embedder(t)); err != nil || got != c {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
}

func FuzzHydra(f *testing.F) {
	f.Add([]byte(released))
	f.Add([]byte(`{"projector":{"_target_":"torch.nn.Sequential","_args_":[{"_target_":"torch.nn.Linear","in_features":8,"out_features":6},{"_target_":"torch.nn.BatchNorm1d"}]}}`))
	f.Add([]byte(`{"projector":{"norm_fn":{"_target_":"BatchNorm1d"}},"pred_proj":{"norm_fn":{"_target_":"BatchNorm1d"}},"encoder":{"num_attention_heads":-1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := describe(b, &tensorfile.File{}); err == nil && c.Validate() == nil {
			hydraText(t, c.(Config))
		}
	})
}
