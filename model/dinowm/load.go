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

func init() {
	model.Register(model.Family{Name: model.FamilyDinoWM, Section: "dinowm", New: func() model.Section { return &section{} }, Decode: model.DecodeAs[Config],
		Method: "dinowm", Mark: "predictor.transformer.layers.0.0.to_qkv.weight", Root: "predictor.pos_embedding",
		Rename: spelling, Transformers5: transformers5, Describe: describe})
}

// section is [dinowm] of a preset: the geometry, with the backbone of the arm whose backbone is random, and the family's
// schedule.
type section struct {
	Config
	model.Schedule
}

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

func (s *section) Training() model.Schedule { return s.Schedule }

func (s *section) With(t model.Schedule) model.Section { return &section{s.Config, t} }

// mask matches the buffers of the attentions' masks, which follow from the geometry.
var mask = regexp.MustCompile(`^predictor\.transformer\.layers\.\d+\.0\.bias$`)

// backbone begins the names of the frozen encoder's tensors.
const backbone = "backbone."

// spelling is a tensor's name here, "" for those that say nothing.
func spelling(name string) string {
	if mask.MatchString(name) {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, backbone); ok {
		return backbone + dinov2.Transformers4(strings.TrimPrefix(rest, backbone)) // a wrapper puts it there twice
	}
	return name
}

func transformers5(name string) string {
	if rest, ok := strings.CutPrefix(name, backbone); ok {
		return backbone + dinov2.Transformers5(rest)
	}
	return name
}

// Own implements model.Trainable, with the backbone: a checkpoint needs no other file.
func (m *Model) Own() []*nn.Param {
	return append(m.frozen.Params[:len(m.frozen.Params):len(m.frozen.Params)], m.Base.Own()...)
}

// errProprio is the answer to upstream's variant: data sets of ours bring no
// proprioception to a plan, and zeros in its place would be another model.
var errProprio = errors.New("its tokens hold proprioception, which nothing gives them here: it can be looked at and converted, but not plan or encode (hint: train without, as the paper does)")

// Ready implements model.Trainable.
func (m *Model) Ready() (model.World, error) {
	if m.Cfg.Proprio > 0 {
		return nil, errProprio
	}
	m.backbone.Prepare(m.Dev)
	return m, nil
}
