package weights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Spelling is one convention for the names of tensors in a transformer's layers.
// Layer matches a name and has three groups: what precedes the layer's number, the
// number, and the rest, which begins with one of Parts. A part is "" if this
// convention does not have it.
type Spelling struct {
	Layer  *regexp.Regexp
	Format string // combines the first two groups into the beginning of a name
	Parts  []string
}

// To converts a tensor's name from s to another Spelling, whose parts are in the same
// order. It returns the name unchanged and false if the name does not follow s.
func (s Spelling) To(other Spelling, name string) (string, bool) {
	if m := s.Layer.FindStringSubmatch(name); m != nil {
		for i, part := range s.Parts {
			if rest, ok := strings.CutPrefix(m[3], part); ok && part != "" {
				return fmt.Sprintf(other.Format, m[1], m[2]) + other.Parts[i] + rest, true
			}
		}
	}
	return name, false
}

// Version 5 of the transformers library renamed the tensors of a ViT's layers
// (docs/sources.md#tensor-names), and files with either names exist. Within this
// program a tensor always has its name of version 4.
var (
	four = Spelling{regexp.MustCompile(`^(.*)encoder\.encoder\.layer\.(\d+)\.(.+)$`), "%sencoder.encoder.layer.%s.",
		[]string{"attention.attention.query.", "attention.attention.key.", "attention.attention.value.", "attention.output.dense.",
			"intermediate.dense.", "output.dense.", "layernorm_before.", "layernorm_after."}}
	five = Spelling{regexp.MustCompile(`^(.*)encoder\.layers\.(\d+)\.(.+)$`), "%sencoder.layers.%s.",
		[]string{"attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj.",
			"mlp.fc1.", "mlp.fc2.", "layernorm_before.", "layernorm_after."}}
)

// Transformers4 converts the name of a ViT's tensor from version 5 of transformers to
// version 4. It returns all other names unchanged.
func Transformers4(name string) string { name, _ = five.To(four, name); return name }

// Transformers5 is the inverse of Transformers4.
func Transformers5(name string) string { name, _ = four.To(five, name); return name }

// wrappers are the attributes in which modules that wrap another one hold it: those of
// torch.compile, of data parallelism, of activation checkpoints and of FSDP. Any module
// of a model may be wrapped, so that they can be anywhere in a name.
var wrappers = []string{"_orig_mod", "module", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}

// Unwrapped returns a tensor's name without the names of wrappers.
func Unwrapped(name string) string {
	parts := strings.Split(name, ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return slices.Contains(wrappers, p) }), ".")
}
