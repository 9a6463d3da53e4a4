package weights

import "testing"

// The names are those in the state dicts of Hugging Face's ViT in transformers 4.57.6
// and 5.23.0, after the encoder's name.
func TestTransformersNames(t *testing.T) {
	for four, five := range map[string]string{
		"encoder.encoder.layer.11.attention.attention.query.weight": "encoder.layers.11.attention.q_proj.weight",
		"encoder.encoder.layer.0.attention.attention.key.bias":      "encoder.layers.0.attention.k_proj.bias",
		"encoder.encoder.layer.0.attention.attention.value.weight":  "encoder.layers.0.attention.v_proj.weight",
		"encoder.encoder.layer.3.attention.output.dense.weight":     "encoder.layers.3.attention.o_proj.weight",
		"encoder.encoder.layer.0.intermediate.dense.bias":           "encoder.layers.0.mlp.fc1.bias",
		"encoder.encoder.layer.0.output.dense.weight":               "encoder.layers.0.mlp.fc2.weight",
		"encoder.encoder.layer.0.layernorm_before.weight":           "encoder.layers.0.layernorm_before.weight",
		"encoder.encoder.layer.0.layernorm_after.bias":              "encoder.layers.0.layernorm_after.bias",
		// Names that neither version has, and names that both share, do not change.
		"encoder.layernorm.weight":                      "encoder.layernorm.weight",
		"encoder.embeddings.cls_token":                  "encoder.embeddings.cls_token",
		"predictor.transformer.layers.0.mlp.net.1.bias": "predictor.transformer.layers.0.mlp.net.1.bias",
		"encoder.encoder.layer.0.strange.weight":        "encoder.encoder.layer.0.strange.weight",
	} {
		if got := Transformers5(four); got != five {
			t.Errorf("%s in 5: %s, want %s", four, got, five)
		}
		for _, name := range []string{four, five} {
			if got := Transformers4(name); got != four {
				t.Errorf("%s in 4: %s, want %s", name, got, four)
			}
		}
	}
}

// The attributes are those of OptimizedModule, DataParallel, CheckpointWrapper and
// FullyShardedDataParallel in torch 2.15.
func TestUnwrapped(t *testing.T) {
	for name, want := range map[string]string{
		"_orig_mod.encoder.weight":                            "encoder.weight",
		"module._orig_mod.encoder._orig_mod.weight":           "encoder.weight",
		"_orig_mod._orig_mod.encoder.module.module.weight":    "encoder.weight",
		"encoder._checkpoint_wrapped_module.layer.0.weight":   "encoder.layer.0.weight",
		"_fsdp_wrapped_module.encoder._fsdp_wrapped_module.w": "encoder.w",
		// Only whole parts of a name are removed.
		"my_orig_mod.modules.submodule.weight": "my_orig_mod.modules.submodule.weight",
		"encoder.weight":                       "encoder.weight",
	} {
		if got := Unwrapped(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
