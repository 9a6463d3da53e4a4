package dinowm

// Floating point operations of the matrix products, a multiply-add counted as two, as
// package lewm counts them: element-wise work and what need not be computed are left
// out, as are the few numbers of a token's action.

// StepFLOP counts a training step on batch clips whose features are made: forward, and
// twice as much backward. The loss has no directions.
func (c Config) StepFLOP(batch, _ int) float64 {
	var f float64
	for frame := range c.History {
		f += float64(c.PredictorDepth) * c.frameFLOP(frame+1)
	}
	return 3 * float64(batch) * f
}

// EncodeFLOP counts one call of Encode.
func (c Config) EncodeFLOP(frames int) float64 { return float64(frames) * c.Backbone.FrameFLOP() }

// PlanFLOP counts one call of Rollout for so many candidates of h blocks. Blocks up to
// History add one frame to windows whose keys and values are kept; later windows slide,
// which shifts positions, and are computed anew. Of the last layer only the last frame
// goes on (docs/sources.md#dino-wm-work).
func (c Config) PlanFLOP(candidates, h int) float64 {
	var f float64
	for step := range h {
		window := min(step+1, c.History)
		first := window
		if step >= c.History {
			first = 1
		}
		for frame := first; frame <= window; frame++ {
			f += float64(c.PredictorDepth-1) * c.frameFLOP(frame)
		}
		f += c.frameFLOP(window) + float64(window-first)*c.keysFLOP()
	}
	return float64(candidates) * f
}

// inner is the columns of all heads.
func (c Config) inner() float64 { return float64(c.PredictorHeads * c.PredictorHeadDim) }

// frameFLOP counts the tokens of the frame-th frame of a window in a layer: they see all
// tokens up to their own.
func (c Config) frameFLOP(frame int) float64 {
	d, patches := float64(c.Token()), float64(c.Backbone.Patches())
	return 2 * patches * (4*d*c.inner() + 2*patches*float64(frame)*c.inner() + 2*d*float64(c.PredictorMLP))
}

// keysFLOP counts the keys and values alone.
func (c Config) keysFLOP() float64 {
	return 2 * float64(c.Backbone.Patches()) * 2 * float64(c.Token()) * c.inner()
}
