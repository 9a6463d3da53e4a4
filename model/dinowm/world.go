package dinowm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model is a world model, whose methods below run in evaluation mode, and can be trained.
var (
	_ model.Counted   = (*Model)(nil)
	_ model.Trainable = (*Model)(nil)
)

// Eval begins a call in evaluation mode.
func (m *Model) Eval() *nn.Pass {
	m.Dev.Freeze(m.frozen.Value.Buf)
	return m.Base.Eval()
}

// Encode writes the features of n frames to dst, (n*P) x D.
func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) {
	m.backbone.Into(m.Eval(), dst, frames, nil, n)
}

// Rollout writes the features after h blocks: start is (E*P) x D, candidates
// (E*C) x (h*A), dst (E*C*P) x D (docs/sources.md#dino-wm-rollout with one context frame).
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	patches, c := m.tokensOf(1), m.Cfg
	episodes := start.Rows / patches
	if episodes == 0 || start.Rows%patches != 0 || start.Cols != c.State() || candidates.Rows%episodes != 0 || candidates.Cols != h*c.ActionWidth() {
		panic(fmt.Sprintf("dinowm: %s candidates of %d blocks of %d from %s starts of %d patches", candidates, h, c.ActionWidth(), start, patches))
	}
	p, each := m.Eval(), candidates.Rows/episodes
	// As many tokens as suit the device bound the memory, most of which are keys and
	// values. A row's result does not depend on them, since no kernel mixes sequences.
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

// predictBlocks is Rollout of n candidates of one episode. Rows of tokens are
// token*n + candidate, as CausalUnroll has them.
func (m *Model) predictBlocks(p *nn.Pass, dst, start, candidates device.Mat, h int) {
	d, c, n := m.Dev, m.Cfg, candidates.Rows
	state, patches, rows := c.State(), m.tokensOf(1), m.tokensOf(1)*n
	embed := m.extras[len(m.extras)-1]
	blocks, actions := p.Mat(h*n, c.ActionWidth()), p.Mat(h*n, c.ActionEmbedding) // by block
	for t := range h {
		d.Copy(blocks.RowRange(t*n, n), candidates.Columns(t*c.ActionWidth(), c.ActionWidth()))
	}
	embed.Into(p, actions, blocks, device.Epilogue{})
	between := p.Mat((h-1)*rows, state) // of the frames after 1 to h-1 blocks
	none := p.Zero(1, c.ActionEmbedding)
	tokens := func(dst, positions device.Mat, frame int) {
		latents := start
		if frame > 0 {
			latents = between.RowRange((frame-1)*rows, rows)
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
			d.Copy(between.RowRange(t*rows, rows), y)
		} else {
			for i := range n {
				d.Copy(dst.RowRange(i*patches, patches), y.Every(i, n))
			}
		}
		p.Release(mark)
	}
}
