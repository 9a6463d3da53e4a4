package dinov2

import (
	"fmt"
	"regexp"
	"strings"

	"scalewm/model/weights"
)

// Names of the tensors of a layer: as transformers 4 has them, which is how files hold them, as version 5 has them in
// memory, and as the hub's code has them. The hub's q, k and v are one tensor.
var (
	four = weights.Spelling{Layer: regexp.MustCompile(`^(.*)encoder\.layer\.(\d+)\.(.+)$`), Format: "%sencoder.layer.%s.", Parts: []string{
		"attention.attention.query.", "attention.attention.key.", "attention.attention.value.", "attention.output.dense.", "layer_scale1.lambda1", "layer_scale2.lambda1",
		"norm1.", "norm2.", "mlp.fc1.", "mlp.fc2."}}
	five = weights.Spelling{Layer: four.Layer, Format: four.Format, Parts: append([]string{
		"attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj."}, four.Parts[4:]...)}
	hub = weights.Spelling{Layer: regexp.MustCompile(`^()blocks\.(\d+)\.(.+)$`), Parts: append([]string{
		"", "", "", "attn.proj.", "ls1.gamma", "ls2.gamma"}, four.Parts[6:]...)}
)

const maskToken = "embeddings.mask_token"

// hubNames are the other tensors of the hub's code.
var hubNames = map[string]string{
	"cls_token": "embeddings.cls_token", "mask_token": maskToken, "pos_embed": "embeddings.position_embeddings",
	"register_tokens":         "embeddings.register_tokens",
	"patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight", "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
	"norm.weight": "layernorm.weight", "norm.bias": "layernorm.bias",
}

// Transformers5 is the name that version 5 of transformers has in memory for a tensor
// that files call name; other names come back as they are.
func Transformers5(name string) string { name, _ = four.To(five, name); return name }

// Transformers4 is the name in files, whichever library named the tensor.
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

// release gives the tensors of a file the names of transformers 4.
func release(f *weights.File) error {
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
