package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/weights"
)

// init registers the family. The Mark is of the action embedder, whose name does not
// depend on the geometry.
func init() {
	model.Register(model.Family{Name: model.FamilyLeWM, Section: "model", New: func() model.Section { return &Config{} }, Decode: model.DecodeAs[Config],
		Method: model.Baseline, Mark: "action_encoder.patch_embed.weight", Root: "encoder.embeddings.cls_token",
		Rename: ourName, Transformers5: weights.Transformers5, Describe: describe})
}

// Geometry implements model.Section.
func (c *Config) Geometry(_ model.Method, actionDim int, _ any) (model.Geometry, error) {
	g := *c
	g.ActionDim = actionDim
	if g.Projector < 1 {
		return nil, fmt.Errorf("model: projector is %d (hint: the published one is 2048; linear_projector = true leaves its hidden layer out)", g.Projector)
	}
	if g.LinearProjector {
		g.Projector, g.LinearProjector = 0, false
	}
	return g, nil
}

// Training implements model.Section. The family uses the [train] table unchanged.
func (c *Config) Training() (none model.Schedule) { return none }

// With implements model.Section. The family does not override the Schedule.
func (c *Config) With(model.Schedule) model.Section { return c }

// maskToken is a tensor that published encoders may have. Only the encoder's own
// pre-training uses it.
const maskToken = "encoder.embeddings.mask_token"

// ourName implements model.Family.Rename.
func ourName(name string) string {
	if name == maskToken {
		return ""
	}
	return weights.Transformers4(name)
}

// Counts implements model.Trainable: the numbers of training steps that the two
// BatchNorms count.
func (m *Model) Counts() []model.Count {
	return []model.Count{{Name: m.projector.Counter(), N: &m.projector.Batches}, {Name: m.predProj.Counter(), N: &m.predProj.Batches}}
}

// Ready implements model.Trainable. The model needs no preparation.
func (m *Model) World() (model.World, error) { return m, nil }
