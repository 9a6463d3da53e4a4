package dinowm

// The functions below count the floating point operations of matrix multiplications,
// as those of package lewm do: without element-wise work and work that the result
// does not need. They also leave out the embedding of actions, which is small.

// StepFLOP returns the operations of a training step that encodes all frames of batch
// clips, as the authors' does. The predictor's backward pass counts as twice its forward
// pass; the frozen backbone has none. The number of SIGReg's directions is ignored,
// since the family's loss does not have that term.
func (c Config) StepFLOP(batch, _ int) float64 {
	var f float64
	for frame := range c.History {
		f += float64(c.PredictorDepth) * c.frameFLOP(frame+1)
	}
	return 3*float64(batch)*f + c.EncodeFLOP(batch*c.Info().ClipFrames())
}

// EncodeFLOP returns the operations of one call of Encode.
func (c Config) EncodeFLOP(frames int) float64 { return float64(frames) * c.Backbone.FrameFLOP() }

// PlanFLOP returns the operations of one call of Rollout for the given number of
// candidates of h blocks. The first History blocks add one frame to a window with
// cached keys and values. Later windows slide, so that all of their frames are
// computed again. After the last layer's attention only the last frame is needed
// (docs/sources.md#dino-wm-work).
func (c Config) PlanFLOP(candidates, h int) float64 {
	var f float64
	for step := range h {
		window := min(step+1, c.History)
		first := window // first frame of the window, counted from 1, that is computed
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

// inner returns the number of columns of all heads.
func (c Config) inner() float64 { return float64(c.PredictorHeads * c.PredictorHeadDim) }

// frameFLOP returns the operations of one layer for the tokens of a frame. frame is
// its position in the window, counted from 1: its tokens attend to those of that many
// frames.
func (c Config) frameFLOP(frame int) float64 {
	d, patches := float64(c.Token()), float64(c.Backbone.Patches())
	return 2 * patches * (4*d*c.inner() + 2*patches*float64(frame)*c.inner() + 2*d*float64(c.PredictorMLP))
}

// keysFLOP returns the operations for the keys and values of one frame in one layer.
func (c Config) keysFLOP() float64 {
	return 2 * float64(c.Backbone.Patches()) * 2 * float64(c.Token()) * c.inner()
}
