package lewm

import (
	"scalewm/model"
	"scalewm/model/weights"
)

func init() {
	model.Register(model.Family{Name: model.FamilyLeWM, Section: "model", New: func() model.Section { return &Config{} }, Decode: model.DecodeAs[Config],
		Method: model.Baseline, Mark: "projector.net.0.weight", Root: "encoder.embeddings.cls_token",
		Rename: spelling, Transformers5: weights.Transformers5, Describe: describe})
}

// Geometry implements model.Section.
func (c *Config) Geometry(_ model.Method, actionDim int, _ any) (model.Geometry, error) {
	g := *c
	g.ActionDim = actionDim
	return g, nil
}

// Training implements model.Section: the family trains as [train] says.
func (c *Config) Training() (none model.Schedule) { return none }

// With implements model.Section.
func (c *Config) With(model.Schedule) model.Section { return c }

// maskToken is a tensor that an encoder may have and never reads here.
const maskToken = "encoder.embeddings.mask_token"

func spelling(name string) string {
	if name == maskToken {
		return ""
	}
	return weights.Transformers4(name)
}

// Counts implements model.Trainable: the training steps that the BatchNorms count.
func (m *Model) Counts() []model.Count {
	return []model.Count{{Name: "projector.net.1.num_batches_tracked", N: &m.projector.Batches}, {Name: "pred_proj.net.1.num_batches_tracked", N: &m.predProj.Batches}}
}

// Ready implements model.Trainable.
func (m *Model) Ready() (model.World, error) { return m, nil }
