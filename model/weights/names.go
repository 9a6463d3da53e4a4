package weights

import (
	"fmt"
	"regexp"
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

// wrappers are prefixes that trainers add to the names of the model they contain:
// Lightning's module, data parallelism, torch.compile.
var wrappers = []string{"model.", "module.", "_orig_mod."}

// Unwrap removes the wrappers' prefix from every name. mark is a tensor that every
// model of the family has: the prefix is what precedes it, if that consists of
// wrappers only. Tensors without the prefix belong to the trainer (in the reference
// implementation, SIGReg's knots) and are dropped.
func (f *File) Unwrap(mark string) error {
	prefix := ""
	for _, n := range f.Names() {
		if p, ok := strings.CutSuffix(n, mark); ok && onlyWrappers(p) {
			prefix = p
		}
	}
	if prefix == "" {
		return nil
	}
	return f.Rename(func(n string) string {
		if !strings.HasPrefix(n, prefix) {
			return ""
		}
		return n[len(prefix):]
	})
}

// onlyWrappers reports whether p is a sequence of wrappers.
func onlyWrappers(p string) bool {
	for again := true; again; {
		again = false
		for _, w := range wrappers {
			if rest, ok := strings.CutPrefix(p, w); ok {
				p, again = rest, true
			}
		}
	}
	return p == ""
}
