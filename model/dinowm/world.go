package dinowm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model implements both views of a model. The methods in this file run in evaluation
// mode.
var (
	_ model.Counted   = (*Model)(nil)
	_ model.Trainable = (*Model)(nil)
)

// Eval begins a call in evaluation mode, as Base.Eval does. The device may also cache
// what it derives from the backbone's weights, even during a training.
func (m *Model) Eval() *nn.Pass {
	m.Dev.Freeze(m.frozen.Value.Buf)
	return m.Base.Eval()
}

// Encode implements model.World: it writes the features of n frames to dst,
// (n*P) x D.
func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) {
	m.backbone.Into(m.Eval(), dst, frames, nil, n)
}

// Rollout implements model.World, with one context frame
// (docs/sources.md#dino-wm-rollout): start is (E*P) x D, candidates (E*C) x (h*A),
// dst (E*C*P) x D.
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	patches, c := m.tokensOf(1), m.Cfg
	episodes := start.Rows / patches
	if episodes == 0 || start.Rows%patches != 0 || start.Cols != c.State() || candidates.Rows%episodes != 0 || candidates.Cols != h*c.ActionWidth() {
		panic(fmt.Sprintf("dinowm: %s candidates of %d blocks of %d from %s starts of %d patches", candidates, h, c.ActionWidth(), start, patches))
	}
	p, each := m.Eval(), candidates.Rows/episodes
	// A chunk has about RolloutRows tokens per frame. It bounds the memory, most of
	// which is for keys and values. Results do not depend on it, since no kernel
	// mixes sequences.
	chunk := max(1, m.Dev.Traits().RolloutRows/patches)
	for e := range episodes {
		for i := 0; i < each; i += chunk {
			first, n := e*each+i, min(chunk, each-i)
			mark := p.Mark()
			m.predictBlocks(p, dst.RowRange(first*patches, n*patches), start.RowRange(e*patches, patches), candidates.RowRange(first, n), h)
			p.Release(mark)
		}
	}
}

// predictBlocks is Rollout for n candidates of one episode. Rows of tokens are
// ordered as in nn.CausalUnroll: token*n + candidate.
func (m *Model) predictBlocks(p *nn.Pass, dst, start, candidates device.Mat, h int) {
	d, c, n := m.Dev, m.Cfg, candidates.Rows
	state, patches, rows := c.State(), m.tokensOf(1), m.tokensOf(1)*n
	embed := m.extras[len(m.extras)-1]
	blocks, actions := p.Mat(h*n, c.ActionWidth()), p.Mat(h*n, c.ActionEmbedding) // ordered by block
	for t := range h {
		d.Copy(blocks.RowRange(t*n, n), candidates.Columns(t*c.ActionWidth(), c.ActionWidth()))
	}
	embed.Into(p, actions, blocks, device.Epilogue{})
	intermediate := p.Mat((h-1)*rows, state) // predicted tokens after 1 to h-1 blocks
	none := p.Zero(1, c.ActionEmbedding)
	// tokens writes the tokens of a frame: latents + positions in the first columns,
	// the frame's embedded action + positions in the others. AddRepeated repeats each
	// latent of start for all n candidates.
	tokens := func(dst, positions device.Mat, frame int) {
		latents := start
		if frame > 0 {
			latents = intermediate.RowRange((frame-1)*rows, rows)
		}
		d.AddRepeated(dst.Columns(0, state), latents, positions.Columns(0, state))
		action := dst.Columns(state, c.ActionEmbedding)
		d.AddRepeated(action, none, positions.Columns(state, c.ActionEmbedding))
		d.CopyBlocks(action, n, actions.RowRange(frame*n, n), 0, n, true)
	}
	u := m.predictor.Unroll(p, n, c.History)
	for t := range h {
		mark := p.Mark()
		y := u.Next(t, tokens).Columns(0, state)
		if t < h-1 {
			d.Copy(intermediate.RowRange(t*rows, rows), y)
		} else {
			// dst is ordered by candidate.
			for i := range n {
				d.Copy(dst.RowRange(i*patches, patches), y.Every(i, n))
			}
		}
		p.Release(mark)
	}
}
