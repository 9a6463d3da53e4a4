package dinowm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
)

// hydra is the config.json of a published checkpoint, a tree from which Hydra
// constructs the modules (docs/sources.md#dino-wm-names). Absent keys are zero.
type hydra struct {
	Target    string       `json:"_target_"`
	History   int          `json:"history_size"`
	Encoder   hydraEncoder `json:"encoder"`
	Predictor struct {
		Patches int     `json:"num_patches"`
		Frames  int     `json:"num_frames"`
		Depth   int     `json:"depth"`
		Heads   int     `json:"heads"`
		MLP     int     `json:"mlp_dim"`
		HeadDim int     `json:"dim_head"`
		Dropout float64 `json:"dropout"`
	} `json:"predictor"`
	Extras struct {
		Modules ordered `json:"modules"`
	} `json:"extra_encoders"`
}

// ordered holds the keys of a JSON object in the order of the text. The order of the
// extra encoders is that of their columns in a token.
type ordered []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		*o = append(*o, fmt.Sprint(key))
	}
	return nil
}

// hydraEncoder describes the backbone: the name of a published model, whose numbers
// follow from the tensors, or a config of transformers' Dinov2Model.
type hydraEncoder struct {
	Heads    int           `json:"num_attention_heads"`
	Config   *hydraEncoder `json:"config"`
	Backbone *hydraEncoder `json:"backbone"` // within stable_pretraining's EvalOnly
}

// hydraHint is appended to errors about a config.json.
const hydraHint = "(hint: give the config.json that was published with these weights)"

// headWidth is the number of columns per head in every published DINOv2.
const headWidth = 64

// heads returns the number of the backbone's heads, or 0 if the tree does not state
// it.
func (e *hydraEncoder) heads() int {
	if e == nil {
		return 0
	}
	return cmp.Or(e.Heads, e.Config.heads(), e.Backbone.heads())
}

// describe returns the geometry of a published checkpoint. It takes each number from
// the config or, if the config omits it, from the shapes of the tensors.
func describe(config []byte, f *tensorfile.File) (model.Geometry, error) {
	var t hydra
	if err := json.Unmarshal(config, &t); err != nil {
		return nil, fmt.Errorf("%v %s", err, hydraHint)
	}
	if !strings.HasSuffix(t.Target, "PreJEPA") {
		return nil, fmt.Errorf("it describes a %q, but the tensors are those of a PreJEPA %s", t.Target, hydraHint)
	}
	if names := strings.Join(t.Extras.Modules, ", "); names != "" && names != "action" && names != "proprio, action" {
		return nil, fmt.Errorf("tokens with %s are not supported (hint: action, or proprio, action in this order)", names)
	}
	return t.geometry(f), nil
}

// geometry combines the tree's numbers with those that only the tensors' shapes show.
func (t *hydra) geometry(f *tensorfile.File) Config {
	const embeddings, layer, block = "backbone.embeddings.", "backbone.encoder.layer.", "predictor.transformer.layers."
	c := Config{History: t.History, PositionFrames: t.Predictor.Frames, PredictorDepth: cmp.Or(t.Predictor.Depth, f.Count(block+"%d.0.to_qkv.weight")),
		PredictorHeads: t.Predictor.Heads, PredictorMLP: cmp.Or(t.Predictor.MLP, f.Axis(block+"0.1.net.1.weight", 0)), Dropout: t.Predictor.Dropout}
	c.PredictorHeadDim = cmp.Or(t.Predictor.HeadDim, f.Axis(block+"0.0.to_qkv.weight", 0)/max(1, 3*c.PredictorHeads))
	c.ActionEmbedding, c.Proprio = f.Axis("extra_encoders.action.patch_embed.weight", 0), f.Axis("extra_encoders.proprio.patch_embed.weight", 1)
	c.ProprioEmbedding = f.Axis("extra_encoders.proprio.patch_embed.weight", 0)
	c.FrameSkip, c.ActionDim = model.SplitBlock(f.Axis("extra_encoders.action.patch_embed.weight", 1))

	b := &c.Backbone
	b.Patch, b.Width = f.Axis(embeddings+"patch_embeddings.projection.weight", 2), f.Axis(embeddings+"cls_token", 2)
	b.Layers, b.MLP = f.Count(layer+"%d.mlp.fc1.weight"), f.Axis(layer+"0.mlp.fc1.weight", 0)
	b.Heads = cmp.Or(t.Encoder.heads(), b.Width/headWidth)
	b.Positions = edge(f.Axis(embeddings+"position_embeddings", 1) - 1)
	b.FrameSize = b.Patch * edge(cmp.Or(t.Predictor.Patches, f.Axis("predictor.pos_embedding", 1)/max(1, c.PositionFrames)))
	return c
}

// edge returns the edge of a square of n patches.
func edge(n int) int { return int(math.Round(math.Sqrt(float64(max(0, n))))) }

// Describe implements model.Geometry.
func (c Config) Describe() (encoder, latents, predictor string) {
	b := c.Backbone
	extra := fmt.Sprintf("action %d", c.ActionEmbedding)
	if c.Proprio > 0 {
		extra = fmt.Sprintf("proprioception %d, %s", c.ProprioEmbedding, extra)
	}
	return fmt.Sprintf("DINOv2, frozen: %d px, patch %d, %d layers of %d, %d heads", b.FrameSize, b.Patch, b.Layers, b.Width, b.Heads),
		fmt.Sprintf("%d patches of %d", b.Patches(), b.Width),
		fmt.Sprintf("%d frames of tokens of %d (%s), positions for %d, %d blocks, %d heads of %d", c.History, c.Token(), extra, c.PositionFrames,
			c.PredictorDepth, c.PredictorHeads, c.PredictorHeadDim)
}

// mask returns the buffer with an attention's mask: 1 if a token (row) attends to
// another (column), which must be in the same or an earlier frame.
func (c Config) mask(name string) tensorfile.Tensor {
	patches := c.Backbone.Patches()
	n := c.PositionFrames * patches
	t := tensorfile.Tensor{Name: name, Shape: []int{1, 1, n, n}, F32: make([]float32, n*n)}
	for i := range n {
		for j := range (i/patches + 1) * patches {
			t.F32[i*n+j] = 1
		}
	}
	return t
}

// Hydra implements model.Geometry. The additional tensors are the attentions' masks,
// buffers of the reference implementation.
func (c Config) Hydra() (any, []tensorfile.Tensor) {
	type tree = map[string]any
	var masks []tensorfile.Tensor
	for i := range c.PredictorDepth {
		masks = append(masks, c.mask("predictor.transformer.layers."+strconv.Itoa(i)+".0.bias"))
	}
	const swm = "stable_worldmodel.wm.prejepa."
	b := c.Backbone
	embedder := func(in, out int) tree {
		return tree{"_target_": swm + "module.Embedder", "in_chans": in, "emb_dim": out}
	}
	extras := struct { // in the order of the tokens
		Proprio tree `json:"proprio,omitempty"`
		Action  tree `json:"action"`
	}{Action: embedder(c.ActionWidth(), c.ActionEmbedding)}
	if c.Proprio > 0 {
		extras.Proprio = embedder(c.Proprio, c.ProprioEmbedding)
	}
	return tree{
		"_target_": swm + "prejepa.PreJEPA", "history_size": c.History, "num_pred": 1,
		"encoder": tree{"_target_": "transformers.Dinov2Model", "config": tree{"_target_": "transformers.Dinov2Config", "hidden_size": b.Width,
			"num_hidden_layers": b.Layers, "num_attention_heads": b.Heads, "mlp_ratio": float64(b.MLP) / float64(b.Width), "image_size": b.Positions * b.Patch, "patch_size": b.Patch}},
		"predictor": tree{"_target_": swm + "module.CausalPredictor", "num_patches": b.Patches(), "num_frames": c.PositionFrames, "dim": c.Token(),
			"depth": c.PredictorDepth, "heads": c.PredictorHeads, "mlp_dim": c.PredictorMLP, "dim_head": c.PredictorHeadDim, "dropout": c.Dropout, "emb_dropout": 0.0},
		"extra_encoders": tree{"_target_": "torch.nn.ModuleDict", "modules": extras},
	}, masks
}
