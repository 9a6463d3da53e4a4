package lewm_test

import (
	"fmt"

	"scalewm/model/lewm"
)

// The published geometry on a task with actions of two components: one latent of 192
// numbers per frame, blocks of 5 actions, and the number of parameters.
func ExampleConfig_Declare() {
	c := lewm.Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048,
		PredictorDepth: 6, PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: .1, History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
	m, err := c.Declare()
	if err != nil {
		fmt.Println(err)
		return
	}
	i := c.Info()
	fmt.Println(i.Kind, i.Dim, i.ActionWidth, m.Params().Len())
	// Output: lewm 192 10 18034478
}
