package dinov2

import (
	"fmt"
	"regexp"
	"strings"

	"scalewm/model/weights"
)

// The tensors of a layer behind its number, as transformers 4 names them, which is how
// files hold them, as version 5 does in memory, and as the hub's code does. The
// hub's q, k and v are one tensor.
var layerNames = []struct{ four, five, hub string }{
	{"norm1.", "norm1.", "norm1."},
	{"attention.attention.query.", "attention.q_proj.", ""},
	{"attention.attention.key.", "attention.k_proj.", ""},
	{"attention.attention.value.", "attention.v_proj.", ""},
	{"attention.output.dense.", "attention.o_proj.", "attn.proj."},
	{"layer_scale1.lambda1", "layer_scale1.lambda1", "ls1.gamma"},
	{"norm2.", "norm2.", "norm2."},
	{"mlp.fc1.", "mlp.fc1.", "mlp.fc1."},
	{"mlp.fc2.", "mlp.fc2.", "mlp.fc2."},
	{"layer_scale2.lambda1", "layer_scale2.lambda1", "ls2.gamma"},
}

const maskToken = "embeddings.mask_token"

// hubNames are the other tensors of the hub's code.
var hubNames = map[string]string{
	"cls_token": "embeddings.cls_token", "mask_token": maskToken, "pos_embed": "embeddings.position_embeddings",
	"register_tokens":         "embeddings.register_tokens",
	"patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight", "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
	"norm.weight": "layernorm.weight", "norm.bias": "layernorm.bias",
}

var (
	transformersLayer = regexp.MustCompile(`^(.*encoder\.layer\.\d+\.)(.+)$`)
	hubLayer          = regexp.MustCompile(`^blocks\.(\d+)\.(.+)$`)
)

// Transformers5 is the name that version 5 of transformers has in memory for a tensor
// that files call name; other names come back as they are.
func Transformers5(name string) string {
	if m := transformersLayer.FindStringSubmatch(name); m != nil {
		for _, n := range layerNames {
			if rest, ok := strings.CutPrefix(m[2], n.four); ok {
				return m[1] + n.five + rest
			}
		}
	}
	return name
}

// Transformers4 is the name in files, whichever library named the tensor.
func Transformers4(name string) string {
	if n, ok := hubNames[name]; ok {
		return n
	}
	if m := hubLayer.FindStringSubmatch(name); m != nil {
		for _, n := range layerNames {
			if rest, ok := strings.CutPrefix(m[2], n.hub); ok && n.hub != "" {
				return "encoder.layer." + m[1] + "." + n.four + rest
			}
		}
	}
	if m := transformersLayer.FindStringSubmatch(name); m != nil {
		for _, n := range layerNames {
			if rest, ok := strings.CutPrefix(m[2], n.five); ok {
				return m[1] + n.four + rest
			}
		}
	}
	return name
}

// release gives the tensors of a file the names of transformers 4.
func release(f *weights.File) error {
	for _, name := range f.Names() {
		m := hubLayer.FindStringSubmatch(name)
		if m == nil || !strings.HasPrefix(m[2], "attn.qkv.") {
			continue
		}
		kind := strings.TrimPrefix(m[2], "attn.qkv.")
		var parts []string
		for _, q := range []string{"query", "key", "value"} {
			parts = append(parts, fmt.Sprintf("encoder.layer.%s.attention.attention.%s.%s", m[1], q, kind))
		}
		if err := f.Split(name, parts...); err != nil {
			return err
		}
	}
	return f.Rename(Transformers4)
}
