package dinov2

import (
	"fmt"
	"regexp"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model/weights"
)

// Names of the tensors of a layer in transformers 4, which are those in its files, in
// transformers 5, which has them in memory only, and in the hub's code. There q, k
// and v are a single tensor, which useTransformers4 splits.
var (
	four = weights.Spelling{Layer: regexp.MustCompile(`^(.*)encoder\.layer\.(\d+)\.(.+)$`), Format: "%sencoder.layer.%s.", Parts: []string{
		"attention.attention.query.", "attention.attention.key.", "attention.attention.value.", "attention.output.dense.", "layer_scale1.lambda1", "layer_scale2.lambda1",
		"norm1.", "norm2.", "mlp.fc1.", "mlp.fc2."}}
	five = weights.Spelling{Layer: four.Layer, Format: four.Format, Parts: append([]string{
		"attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj."}, four.Parts[4:]...)}
	hub = weights.Spelling{Layer: regexp.MustCompile(`^()blocks\.(\d+)\.(.+)$`), Parts: append([]string{
		"", "", "", "attn.proj.", "ls1.gamma", "ls2.gamma"}, four.Parts[6:]...)}
)

// maskToken is a tensor that only the training of DINOv2 uses.
const maskToken = "embeddings.mask_token"

// hubNames maps the names of tensors outside the layers in the hub's code to those of
// transformers.
var hubNames = map[string]string{
	"cls_token": "embeddings.cls_token", "mask_token": maskToken, "pos_embed": "embeddings.position_embeddings",
	"register_tokens":         "embeddings.register_tokens",
	"patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight", "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
	"norm.weight": "layernorm.weight", "norm.bias": "layernorm.bias",
}

// Transformers5 converts the name of a tensor in files to its name in memory in
// version 5 of transformers. It returns other names unchanged.
func Transformers5(name string) string { name, _ = four.To(five, name); return name }

// Transformers4 converts the name of a tensor in the hub's code or in version 5 of
// transformers to that in files of transformers. It returns other names unchanged.
func Transformers4(name string) string {
	if n, ok := hubNames[name]; ok {
		return n
	}
	if n, ok := hub.To(four, name); ok {
		return n
	}
	name, _ = five.To(four, name)
	return name
}

// useTransformers4 renames the tensors of a file to the names of transformers 4. It
// first splits the hub's packed q, k and v.
func useTransformers4(f *tensorfile.File) error {
	for _, name := range f.Names() {
		m := hub.Layer.FindStringSubmatch(name)
		if m == nil || !strings.HasPrefix(m[3], "attn.qkv.") {
			continue
		}
		var parts []string
		for _, part := range four.Parts[:3] {
			parts = append(parts, fmt.Sprintf(four.Format, "", m[2])+part+strings.TrimPrefix(m[3], "attn.qkv."))
		}
		if err := f.Split(name, parts...); err != nil {
			return err
		}
	}
	return f.Rename(Transformers4)
}
