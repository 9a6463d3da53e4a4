package weights

import (
	"fmt"
	"regexp"
	"strings"
)

// Spelling is one spelling of the names of tensors in a transformer's layers: its regexp finds what is before the
// layer's number, the number and what follows, which begins with one of the parts. "" is a part that it has not.
type Spelling struct {
	Layer  *regexp.Regexp
	Format string // of what is before and the number
	Parts  []string
}

// To is a tensor's name in another spelling, whose parts are in the same order, and false where s did not spell it.
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

// Transformers renamed the tensors of a ViT's layers with its version 5 (docs/sources.md#tensor-names); everything else
// kept its name. Files with either naming exist. A tensor is always called by its name of version 4 here.
var (
	four = Spelling{regexp.MustCompile(`^(.*)encoder\.encoder\.layer\.(\d+)\.(.+)$`), "%sencoder.encoder.layer.%s.",
		[]string{"attention.attention.query.", "attention.attention.key.", "attention.attention.value.", "attention.output.dense.",
			"intermediate.dense.", "output.dense.", "layernorm_before.", "layernorm_after."}}
	five = Spelling{regexp.MustCompile(`^(.*)encoder\.layers\.(\d+)\.(.+)$`), "%sencoder.layers.%s.",
		[]string{"attention.q_proj.", "attention.k_proj.", "attention.v_proj.", "attention.o_proj.",
			"mlp.fc1.", "mlp.fc2.", "layernorm_before.", "layernorm_after."}}
)

// Transformers4 is the released name of a ViT's tensor, whichever generation
// named it; other names come back as they are.
func Transformers4(name string) string { name, _ = five.To(four, name); return name }

// Transformers5 is the other way round.
func Transformers5(name string) string { name, _ = four.To(five, name); return name }

// wrappers are what trainers put before the names of the model they hold:
// Lightning's module, data parallelism, torch.compile.
var wrappers = []string{"model.", "module.", "_orig_mod."}

// Unwrap drops the wrappers before every tensor of f, where mark, a tensor that
// every model of the kind has, stands behind them. Tensors beside the wrapped
// model are the trainer's (SIGReg's knots in the reference) and go.
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
