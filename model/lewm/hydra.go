package lewm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
)

// hydra is the config.json of a published checkpoint, a tree from which Hydra
// constructs the modules (docs/sources.md#checkpoint-files). Absent keys are zero.
type hydra struct {
	Encoder   hydraViT `json:"encoder"`
	Predictor struct {
		NumFrames int     `json:"num_frames"`
		InputDim  int     `json:"input_dim"`
		HiddenDim int     `json:"hidden_dim"`
		OutputDim int     `json:"output_dim"`
		Depth     int     `json:"depth"`
		Heads     int     `json:"heads"`
		MLP       int     `json:"mlp_dim"`
		HeadDim   int     `json:"dim_head"`
		Dropout   float64 `json:"dropout"`
	} `json:"predictor"`
	Action struct {
		InputDim int `json:"input_dim"`
		EmbDim   int `json:"emb_dim"`
		Smoothed int `json:"smoothed_dim"`
		MLPScale int `json:"mlp_scale"`
	} `json:"action_encoder"`
	Projector hydraProjector `json:"projector"`
	PredProj  hydraProjector `json:"pred_proj"`
}

// hydraViT holds the arguments of stable_pretraining's vit_hf, or of transformers'
// ViTModel, which has them in Config.
type hydraViT struct {
	Target    string    `json:"_target_"`
	Config    *hydraViT `json:"config"`
	Size      string    `json:"size"`
	ImageSize int       `json:"image_size"`
	Patch     int       `json:"patch_size"`
	Width     int       `json:"hidden_size"`
	Layers    int       `json:"num_hidden_layers"`
	Heads     int       `json:"num_attention_heads"`
	MLP       int       `json:"intermediate_size"`

	// Options of the reference implementation that nn.ViT does not have.
	Bias     *bool    `json:"qkv_bias"`
	Eps      *float64 `json:"layer_norm_eps"`
	Act      string   `json:"hidden_act"`
	Channels int      `json:"num_channels"`
}

// hydraProjector holds the arguments of a projector: an MLP, or a torch.nn.Sequential of
// the Linear and the BatchNorm1d of a projector without a hidden layer.
type hydraProjector struct {
	InputDim  int         `json:"input_dim"`
	HiddenDim int         `json:"hidden_dim"`
	OutputDim int         `json:"output_dim"`
	Norm      hydraNorm   `json:"norm_fn"`
	Layers    hydraLayers `json:"_args_"`
}

type hydraNorm struct {
	Target string   `json:"_target_"`
	Eps    *float64 `json:"eps"`
}

// hydraLayers are the modules of a Sequential.
type hydraLayers []struct {
	hydraNorm
	In  int `json:"in_features"`
	Out int `json:"out_features"`
}

// flatten moves the arguments of a Sequential of two modules into the fields of an MLP.
func (m *hydraProjector) flatten() {
	if len(m.Layers) == 2 && strings.HasSuffix(m.Layers[0].Target, "nn.Linear") {
		m.InputDim, m.OutputDim, m.Norm, m.Layers = m.Layers[0].In, m.Layers[0].Out, m.Layers[1].hydraNorm, nil
	}
}

// sizes are the named sizes of vit_hf. The MLP's hidden layer is four times as wide.
var sizes = map[string]struct{ width, layers, heads int }{
	"tiny": {192, 12, 3}, "small": {384, 12, 6}, "base": {768, 12, 12}, "large": {1024, 24, 16}, "huge": {1280, 32, 16},
}

// hydraHint is appended to errors about a config.json.
const hydraHint = "(hint: give the config.json that was published with these weights)"

// describe returns the geometry of a published checkpoint. It takes each number from
// the config or, if the config omits it, from the shapes of the tensors in f.
func describe(config []byte, f *tensorfile.File) (model.Geometry, error) {
	var t hydra
	if err := json.Unmarshal(config, &t); err != nil {
		return nil, fmt.Errorf("%v %s", err, hydraHint)
	}
	t.Projector.flatten()
	t.PredProj.flatten()
	if err := t.supported(); err != nil {
		return nil, err
	}
	vit, err := t.Encoder.resolve()
	if err != nil {
		return nil, err
	}
	c := Config{ImageSize: vit.ImageSize, Patch: vit.Patch, Width: vit.Width, Layers: vit.Layers, Heads: vit.Heads, MLP: vit.MLP,
		Dim: t.Projector.OutputDim, Projector: t.Projector.HiddenDim, PredictorDepth: t.Predictor.Depth,
		PredictorHeads: t.Predictor.Heads, PredictorHeadDim: t.Predictor.HeadDim, PredictorMLP: t.Predictor.MLP,
		Dropout: t.Predictor.Dropout, History: t.Predictor.NumFrames, Smoothed: t.Action.Smoothed}
	c.FrameSkip, c.ActionDim = model.SplitBlock(cmp.Or(t.Action.InputDim, f.Axis("action_encoder.patch_embed.weight", 1)))
	c.complete(f)
	// Fields for unusual widths stay 0 if the tree states the usual ones, so that
	// equal models have equal geometries.
	if t.Predictor.HiddenDim != c.Dim {
		c.PredictorWidth = t.Predictor.HiddenDim
	}
	if t.PredProj.HiddenDim != c.Projector {
		c.PredProjector = t.PredProj.HiddenDim
	}
	if t.Predictor.OutputDim != c.Dim {
		c.PredictorOut = t.Predictor.OutputDim
	}
	if t.Action.MLPScale != 4 {
		c.ActionScale = t.Action.MLPScale
	}
	return c, t.checkWidths(c)
}

// complete sets the fields that are still zero from the shapes of tensors.
func (c *Config) complete(f *tensorfile.File) {
	const embeddings, block = "encoder.embeddings.", "predictor.transformer.layers."
	c.Patch = cmp.Or(c.Patch, f.Axis(embeddings+"patch_embeddings.projection.weight", 2))
	c.ImageSize = cmp.Or(c.ImageSize, c.Patch*int(math.Sqrt(float64(max(0, f.Axis(embeddings+"position_embeddings", 1)-1)))))
	c.Width = cmp.Or(c.Width, f.Axis(embeddings+"cls_token", 2))
	c.Layers = cmp.Or(c.Layers, f.Count("encoder.encoder.layer.%d.output.dense.weight"))
	c.MLP = cmp.Or(c.MLP, f.Axis("encoder.encoder.layer.0.intermediate.dense.weight", 0))
	c.Dim = cmp.Or(c.Dim, f.Axis("projector.net.3.weight", 0), f.Axis("projector.0.weight", 0))
	c.Projector = cmp.Or(c.Projector, f.Axis("projector.net.0.weight", 0))
	c.History = cmp.Or(c.History, f.Axis("predictor.pos_embedding", 1))
	c.PredictorDepth = cmp.Or(c.PredictorDepth, f.Count(block+"%d.attn.to_qkv.weight"))
	c.PredictorMLP = cmp.Or(c.PredictorMLP, f.Axis(block+"0.mlp.net.1.weight", 0))
	c.PredictorHeadDim = cmp.Or(c.PredictorHeadDim, f.Axis(block+"0.attn.to_qkv.weight", 0)/max(1, 3*c.PredictorHeads))
	c.Smoothed = cmp.Or(c.Smoothed, f.Axis("action_encoder.patch_embed.weight", 0))
}

// resolve returns the encoder's arguments, completed with those of its named size.
func (v hydraViT) resolve() (hydraViT, error) {
	if v.Config != nil {
		v = *v.Config
		v.Heads = cmp.Or(v.Heads, 12) // ViTConfig's default
		return v, nil
	}
	if v.Size == "" && strings.HasSuffix(v.Target, "vit_hf") {
		v.Size = "tiny" // its default
	}
	s, ok := sizes[v.Size]
	if !ok && v.Heads == 0 { // the only number that the tensors' shapes do not show
		return v, fmt.Errorf("the encoder's size is %q and it names no num_attention_heads (hint: tiny, small, base, large or huge)", v.Size)
	}
	if !ok {
		return v, nil
	}
	v.Width, v.Layers, v.Heads = cmp.Or(v.Width, s.width), cmp.Or(v.Layers, s.layers), cmp.Or(v.Heads, s.heads)
	v.MLP = cmp.Or(v.MLP, 4*s.width)
	return v, nil
}

// supported returns an error for variants of the reference implementation's modules
// that no published checkpoint uses and that this family does not implement.
func (t *hydra) supported() error {
	e := t.Encoder
	if e.Config != nil {
		e.Bias, e.Eps, e.Act, e.Channels = e.Config.Bias, e.Config.Eps, e.Config.Act, e.Config.Channels
	}
	for _, c := range []struct {
		wrong bool
		what  string
	}{
		{e.Target != "" && !strings.HasSuffix(e.Target, "vit_hf") && !strings.HasSuffix(e.Target, "ViTModel"), "an encoder of kind " + e.Target},
		{e.Bias != nil && !*e.Bias, "an encoder without qkv_bias"},
		{e.Eps != nil && *e.Eps != 1e-12, "an encoder whose layer_norm_eps is not 1e-12"},
		{e.Act != "" && e.Act != "gelu", "an encoder with hidden_act " + e.Act},
		{e.Channels != 0 && e.Channels != 3, "an encoder of other than 3 channels"},
		{t.Projector.unsupportedNorm(), "a projector without BatchNorm1d of eps 1e-5"},
		{t.PredProj.unsupportedNorm(), "a pred_proj without BatchNorm1d of eps 1e-5"},
	} {
		if c.wrong {
			return fmt.Errorf("%s is not supported (hint: this program computes LeWM as published, at any size)", c.what)
		}
	}
	return nil
}

// unsupportedNorm reports whether the config names a norm other than BatchNorm1d with
// the default epsilon, or other modules than flatten knows. A norm that it does not
// name is checked by the names of the tensors.
func (m hydraProjector) unsupportedNorm() bool {
	return len(m.Layers) > 0 || m.Norm.Target != "" && !strings.HasSuffix(m.Norm.Target, "BatchNorm1d") || m.Norm.Eps != nil && *m.Norm.Eps != 1e-5
}

// checkWidths compares widths that the tree states more than once.
func (t *hydra) checkWidths(c Config) error {
	for _, w := range []struct {
		name       string
		says, want int
	}{
		{"projector.input_dim", t.Projector.InputDim, c.Width}, {"predictor.input_dim", t.Predictor.InputDim, c.Dim},
		{"action_encoder.emb_dim", t.Action.EmbDim, c.Dim}, {"pred_proj.input_dim", t.PredProj.InputDim, cmp.Or(c.PredictorOut, c.Dim)},
		{"pred_proj.output_dim", t.PredProj.OutputDim, c.Dim},
	} {
		if w.says != 0 && w.says != w.want {
			return fmt.Errorf("%s is %d where %d is needed (hint: this program computes LeWM as published, at any size)", w.name, w.says, w.want)
		}
	}
	return nil
}

// Hydra implements model.Geometry. The encoder is described as vit_hf's "tiny" with
// the arguments that differ from it. There are no additional tensors.
func (c Config) Hydra() (any, []tensorfile.Tensor) {
	type tree = map[string]any
	const swm = "stable_worldmodel.wm.lewm."
	vit := tree{"_target_": "stable_pretraining.backbone.utils.vit_hf", "size": "tiny", "patch_size": c.Patch,
		"image_size": c.ImageSize, "pretrained": false, "use_mask_token": false}
	if s := sizes["tiny"]; c.Width != s.width || c.Layers != s.layers || c.Heads != s.heads || c.MLP != 4*s.width {
		vit["hidden_size"], vit["num_hidden_layers"], vit["num_attention_heads"], vit["intermediate_size"] = c.Width, c.Layers, c.Heads, c.MLP
	}
	projector := func(in, hidden int) tree {
		if hidden == 0 {
			return tree{"_target_": "torch.nn.Sequential", "_args_": []tree{
				{"_target_": "torch.nn.Linear", "in_features": in, "out_features": c.Dim}, {"_target_": "torch.nn.BatchNorm1d", "num_features": c.Dim}}}
		}
		return tree{"_target_": swm + "module.MLP", "input_dim": in, "hidden_dim": hidden, "output_dim": c.Dim,
			"norm_fn": tree{"_target_": "torch.nn.BatchNorm1d", "_partial_": true}}
	}
	out := cmp.Or(c.PredictorOut, c.Dim)
	return tree{
		"_target_": swm + "LeWM",
		"encoder":  vit,
		"predictor": tree{"_target_": swm + "module.Predictor", "num_frames": c.History, "input_dim": c.Dim, "hidden_dim": cmp.Or(c.PredictorWidth, c.Dim),
			"output_dim": out, "depth": c.PredictorDepth, "heads": c.PredictorHeads, "mlp_dim": c.PredictorMLP,
			"dim_head": c.PredictorHeadDim, "dropout": c.Dropout, "emb_dropout": 0.0},
		"action_encoder": tree{"_target_": swm + "module.Embedder", "input_dim": c.ActionWidth(), "smoothed_dim": c.Smoothed, "emb_dim": c.Dim, "mlp_scale": cmp.Or(c.ActionScale, 4)},
		"projector":      projector(c.Width, c.Projector), "pred_proj": projector(out, cmp.Or(c.PredProjector, c.Projector)),
	}, nil
}
