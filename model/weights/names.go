package weights

import (
	"regexp"
	"strings"
)

// Transformers renamed the tensors of a ViT's layers with its version 5
// (docs/sources.md#tensor-names); everything else kept its name. Files with either naming
// exist, so that a tensor is always called by its name of version 4 here.
var spellings = []struct{ four, five string }{
	{"attention.attention.query.", "attention.q_proj."},
	{"attention.attention.key.", "attention.k_proj."},
	{"attention.attention.value.", "attention.v_proj."},
	{"attention.output.dense.", "attention.o_proj."},
	{"intermediate.dense.", "mlp.fc1."},
	{"output.dense.", "mlp.fc2."},
	{"layernorm_before.", "layernorm_before."},
	{"layernorm_after.", "layernorm_after."},
}

var (
	layerFour = regexp.MustCompile(`^(.*)encoder\.encoder\.layer\.(\d+)\.(.+\.)(weight|bias)$`)
	layerFive = regexp.MustCompile(`^(.*)encoder\.layers\.(\d+)\.(.+\.)(weight|bias)$`)
)

// Transformers4 is the released name of a ViT's tensor, whichever generation
// named it; other names come back as they are.
func Transformers4(name string) string {
	m := layerFive.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	for _, s := range spellings {
		if m[3] == s.five {
			return m[1] + "encoder.encoder.layer." + m[2] + "." + s.four + m[4]
		}
	}
	return name
}

// Transformers5 is the other way round.
func Transformers5(name string) string {
	m := layerFour.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	for _, s := range spellings {
		if m[3] == s.four {
			return m[1] + "encoder.layers." + m[2] + "." + s.five + m[4]
		}
	}
	return name
}

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
