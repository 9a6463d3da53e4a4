package nn

import "scalewm/model/device"

// NewAdaLNBlockForTest returns one block of a predictor with another non-linearity, since
// Gorgonia has no exact GELU.
func NewAdaLNBlockForTest(s *Set, c PredictorConfig, act device.Act) *AdaLNBlock {
	b := newAdaLNBlock(s, "b.", c)
	b.mlp.Act = act
	return b
}
