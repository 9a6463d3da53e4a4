package lewm

// Floating point operations of the matrix products, a multiply-add counted as
// two: what a rate is measured in. Element-wise work is left out. What need not
// be computed is not counted: of the encoder's last layer everything behind the
// attention for all tokens but the class token, and of a rollout what the
// positions before the last one would give.

// StepFLOP counts a training step on batch clips with SIGReg along so many
// directions: forward, and twice as much backward.
func (c Config) StepFLOP(batch, directions int) float64 {
	n, t := float64(batch*(c.History+1)), float64(c.History)
	p := n * t / (t + 1) // positions that predict
	heads := n * 2 * c.projector(c.Width)
	predictor := p * (float64(c.PredictorDepth)*(c.modulation()+c.positionFLOP(t, true)) + 2*c.projector(c.Dim))
	sigreg := n * 2 * float64(c.Dim*directions)
	return 3 * (n*c.encoderFLOP() + heads + predictor + n*2*c.embedding() + sigreg)
}

// PlanFLOP counts one call of Rollout for so many candidates of h blocks.
// Blocks up to History add one position to windows whose keys and values are
// kept; later windows slide, which shifts positions, and are computed anew.
func (c Config) PlanFLOP(candidates, h int) float64 {
	var f float64
	for step := range h {
		window := min(step+1, c.History)
		f += 2*(c.embedding()+c.projector(c.Dim)) + float64(c.PredictorDepth)*(c.modulation()+c.positionFLOP(float64(window), true))
		if step < c.History {
			continue
		}
		for keys := 1; keys < window; keys++ {
			f += float64(c.PredictorDepth-1)*c.positionFLOP(float64(keys), true) + c.positionFLOP(0, false)
		}
	}
	return float64(candidates) * f
}

// EncodeFLOP counts one call of Encode.
func (c Config) EncodeFLOP(frames int) float64 {
	return float64(frames) * (c.encoderFLOP() + 2*c.projector(c.Width))
}

// encoderFLOP counts a frame up to its class token.
func (c Config) encoderFLOP() float64 {
	tokens, w := float64(c.Tokens()), float64(c.Width)
	patches := (tokens - 1) * float64(3*c.Patch*c.Patch) * w
	attention := tokens * (3*w*w + 2*tokens*w)
	after := w*w + 2*w*float64(c.MLP)
	layers := float64(c.Layers)
	return 2 * (patches + layers*attention + ((layers-1)*tokens+1)*after)
}

// positionFLOP counts a position in a block of the predictor that sees keys
// positions: all of it, or its key and value only. One that sees itself alone needs
// neither query nor softmax.
func (c Config) positionFLOP(keys float64, whole bool) float64 {
	d, inner := float64(c.Dim), float64(c.PredictorHeads*c.PredictorHeadDim)
	f := 2 * 2 * d * inner
	if whole {
		f += 2 * (d*inner + 2*d*float64(c.PredictorMLP))
	}
	if whole && keys > 1 {
		f += 2 * (d*inner + 2*keys*inner)
	}
	return f
}

// modulation counts an action's scales, shifts and gates in a block.
func (c Config) modulation() float64 { d := float64(c.Dim); return 2 * 6 * d * d }

// projector and embedding count multiply-adds a row.
func (c Config) projector(in int) float64 { return float64(c.Projector) * float64(in+c.Dim) }

func (c Config) embedding() float64 {
	hidden := float64(c.actionHidden())
	return float64(c.ActionWidth()*c.Smoothed) + hidden*float64(c.Smoothed+c.Dim)
}
