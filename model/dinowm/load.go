package dinowm

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

// init registers the family.
func init() {
	model.Register(model.Family{Name: model.FamilyDinoWM, Section: "dinowm", New: func() model.Section { return &section{} }, Decode: model.DecodeAs[Config],
		Method: "dinowm", Mark: "predictor.transformer.layers.0.0.to_qkv.weight", Root: "predictor.pos_embedding",
		Rename: ourName, Transformers5: transformers5, Describe: describe})
}

// section is the [dinowm] table of a preset: the geometry, whose backbone applies to
// the method with a random one, and the family's schedule.
type section struct {
	Config
	model.Schedule
}

// Geometry implements model.Section. A method with a pretrained backbone takes the
// backbone's geometry from its file.
func (s *section) Geometry(m model.Method, actionDim int, backbone any) (model.Geometry, error) {
	c := s.Config
	c.ActionDim = actionDim
	if !m.Pretrained {
		return c.Random(), nil
	}
	f, _ := backbone.(*dinov2.File)
	if f == nil {
		return nil, fmt.Errorf("%s needs the weights of DINOv2: --backbone FILE (hint: facebook/dinov2-small's model.safetensors; dinowm-random has a backbone of random weights)", m.Name)
	}
	return c.With(f), nil
}

// Training implements model.Section.
func (s *section) Training() model.Schedule { return s.Schedule }

// With implements model.Section.
func (s *section) With(t model.Schedule) model.Section { return &section{s.Config, t} }

// mask matches the names of the attentions' masks, which the geometry determines.
var mask = regexp.MustCompile(`^predictor\.transformer\.layers\.\d+\.0\.bias$`)

// backbone is the prefix of the names of the frozen encoder's tensors.
const backbone = "backbone."

// ourName implements model.Family.Rename. It drops the masks.
func ourName(name string) string {
	if mask.MatchString(name) {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, backbone); ok {
		return backbone + dinov2.Transformers4(strings.TrimPrefix(rest, backbone)) // stable-worldmodel's training wraps the backbone, which repeats the prefix
	}
	return name
}

// transformers5 implements model.Family.Transformers5.
func transformers5(name string) string {
	if rest, ok := strings.CutPrefix(name, backbone); ok {
		return backbone + dinov2.Transformers5(rest)
	}
	return name
}

// Saved implements model.Trainable. It includes the backbone, so that a checkpoint is
// complete without other files.
func (m *Model) Saved() []*nn.Param {
	return append(m.frozen.Params[:len(m.frozen.Params):len(m.frozen.Params)], m.Base.Saved()...)
}

// errProprio is returned for models of stable-worldmodel's variant. Data sets provide
// no proprioception for planning, and zeros in its place would change the model's
// results.
var errProprio = errors.New("its tokens include proprioception, which data sets do not provide: the checkpoint can be inspected and converted, but it cannot plan or encode (hint: train without proprioception, as the paper does)")

// Usable returns an error if models of this geometry can be read but have no World.
func (c Config) Usable() error {
	if c.Proprio > 0 {
		return errProprio
	}
	return nil
}

// World implements model.Trainable.
func (m *Model) World() (model.World, error) {
	if err := m.Cfg.Usable(); err != nil {
		return nil, err
	}
	m.backbone.Prepare(m.Dev)
	return m, nil
}
