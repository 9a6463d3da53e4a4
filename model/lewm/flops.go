package lewm

// The functions below count the floating point operations of matrix multiplications,
// with a multiply-add as two operations. Rates are reported in them. Element-wise
// work is not counted, nor is work that the result does not need: in the encoder's
// last layer everything after the attention for tokens other than the class token,
// and in a rollout the outputs of positions before the last one.

// StepFLOP returns the operations of a training step on batch clips, with SIGReg
// along the given number of directions. The backward pass counts as twice the forward
// pass, since each GEMM has two gradients.
func (c Config) StepFLOP(batch, directions int) float64 {
	n, t := float64(batch*(c.History+1)), float64(c.History)
	p := n * t / (t + 1) // positions with a prediction
	heads := n * 2 * c.projector(c.Width)
	predictor := p * (float64(c.PredictorDepth)*(c.modulation()+c.positionFLOP(t, true)) + 2*c.projector(c.Dim))
	sigreg := n * 2 * float64(c.Dim*directions)
	return 3 * (n*c.encoderFLOP() + heads + predictor + n*2*c.embedding() + sigreg)
}

// PlanFLOP returns the operations of one call of Rollout for the given number of
// candidates of h blocks. The first History blocks add one position to a window with
// cached keys and values. Later windows slide, so that all of their positions are
// computed again.
func (c Config) PlanFLOP(candidates, h int) float64 {
	var f float64
	for step := range h {
		window := min(step+1, c.History)
		f += 2*(c.embedding()+c.projector(c.Dim)) + float64(c.PredictorDepth)*(c.modulation()+c.positionFLOP(float64(window), true))
		if step < c.History {
			continue
		}
		// The earlier positions of a window that slides. In the last layer only their
		// keys and values are needed.
		for keys := 1; keys < window; keys++ {
			f += float64(c.PredictorDepth-1)*c.positionFLOP(float64(keys), true) + c.positionFLOP(0, false)
		}
	}
	return float64(candidates) * f
}

// EncodeFLOP returns the operations of one call of Encode.
func (c Config) EncodeFLOP(frames int) float64 {
	return float64(frames) * (c.encoderFLOP() + 2*c.projector(c.Width))
}

// encoderFLOP returns the operations of the encoder for one frame, up to its class
// token.
func (c Config) encoderFLOP() float64 {
	tokens, w := float64(c.Tokens()), float64(c.Width)
	patches := (tokens - 1) * float64(3*c.Patch*c.Patch) * w
	attention := tokens * (3*w*w + 2*tokens*w)
	after := w*w + 2*w*float64(c.MLP)
	layers := float64(c.Layers)
	return 2 * (patches + layers*attention + ((layers-1)*tokens+1)*after)
}

// positionFLOP returns the operations of one position in one block of the predictor,
// if it attends to the given number of keys. If complete is false, only its key and
// value are computed. A position that attends only to itself needs neither query nor
// softmax.
func (c Config) positionFLOP(keys float64, complete bool) float64 {
	d, inner := float64(c.Dim), float64(c.PredictorHeads*c.PredictorHeadDim)
	f := 2 * 2 * d * inner
	if complete {
		f += 2 * (d*inner + 2*d*float64(c.PredictorMLP))
	}
	if complete && keys > 1 {
		f += 2 * (d*inner + 2*keys*inner)
	}
	return f
}

// modulation returns the operations of the AdaLN layer of one block for one action.
func (c Config) modulation() float64 { d := float64(c.Dim); return 2 * 6 * d * d }

// projector returns the multiply-adds of a projector with in inputs, per row.
func (c Config) projector(in int) float64 {
	if c.Projector == 0 {
		return float64(in * c.Dim)
	}
	return float64(c.Projector) * float64(in+c.Dim)
}

// embedding returns the multiply-adds of the action embedder, per block.
func (c Config) embedding() float64 {
	hidden := float64(c.actionHidden())
	return float64(c.ActionWidth()*c.Smoothed) + hidden*float64(c.Smoothed+c.Dim)
}
