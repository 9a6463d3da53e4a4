package nn

import "scalewm/model/device"

// NewConditionalForTest is one block of a predictor with another non-linearity,
// since other engines have no exact GELU.
func NewConditionalForTest(s *Set, c PredictorConfig, act device.Act) *Conditional {
	b := newConditional(s, "b.", c)
	b.mlp.Act = act
	return b
}
