package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model implements both views of a model. The methods in this file run in evaluation
// mode.
var (
	_ model.Counted = (*Model)(nil)
	_ model.Learner = (*Model)(nil)
)

// encodeRows bounds the number of tokens that Encode processes at once. No kernel
// mixes rows of different frames or sequences, so that results do not depend on it,
// nor on the chunks of Rollout.
const encodeRows = 16384

// Info implements model.Geometry.
func (c Config) Info() model.Info {
	return model.Info{Kind: model.FamilyLeWM, Patches: 1, Dim: c.Dim, History: c.History, FrameSize: c.ImageSize, Patch: c.Patch,
		ActionWidth: c.ActionWidth(), FrameSkip: c.FrameSkip}
}

// Encode implements model.World: it writes the latents of n frames to dst, n x D.
func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) {
	p := m.Eval()
	chunk := max(1, encodeRows/m.Cfg.Tokens())
	for i := 0; i < n; i += chunk {
		k := min(chunk, n-i)
		mark := p.Mark()
		m.projector.Into(p, dst.RowRange(i, k), m.encoder.Forward(p, m.encoder.Patches(p, frames, nil, i, k)))
		p.Release(mark)
	}
}

// Rollout implements model.World, with one context frame (docs/sources.md#rollout):
// start is E x D, candidates (E*C) x (h*A), dst (E*C) x D. A chunk has about
// RolloutRows candidates, either all candidates of several episodes or a part of
// those of one.
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	if start.Rows == 0 || candidates.Rows%start.Rows != 0 || candidates.Cols != h*m.Cfg.ActionWidth() {
		panic(fmt.Sprintf("lewm: %s candidates of %d blocks of %d from %s starts", candidates, h, m.Cfg.ActionWidth(), start))
	}
	p, each, rows := m.Eval(), candidates.Rows/start.Rows, m.Dev.Traits().RolloutRows
	episodes := max(1, rows/max(1, each))
	for e := 0; e < start.Rows; e += episodes {
		k := min(episodes, start.Rows-e)
		for i := 0; i < k*each; i += rows { // several iterations only if k is 1
			first, n := e*each+i, min(rows, k*each-i)
			mark := p.Mark()
			m.predictBlocks(p, dst.RowRange(first, n), start.RowRange(e, k), candidates.RowRange(first, n), h)
			p.Release(mark)
		}
	}
}

// predictBlocks is Rollout for one chunk. start has one row per episode. Step t sees
// the last History latents, and positions count from 0 in every window, also in
// shorter ones at the beginning.
func (m *Model) predictBlocks(p *nn.Pass, dst, start, candidates device.Mat, h int) {
	n, width := candidates.Rows, m.Cfg.ActionWidth()
	blocks := p.Mat(h*n, width) // ordered by block, as Unroll expects them
	for t := range h {
		m.Dev.Copy(blocks.RowRange(t*n, n), candidates.Columns(t*width, width))
	}
	intermediate := p.Mat((h-1)*n, m.Cfg.Dim) // row (t-1)*n + i is candidate i after t blocks
	latents := func(from, to int) device.Mat {
		// Frame 0 is only requested by itself, in step 0, where one row of start
		// serves all candidates of its episode. Later windows reuse its cached keys
		// and values or begin later.
		if from == 0 {
			return start
		}
		return intermediate.RowRange((from-1)*n, (to-from)*n)
	}
	embed := func(dst, actions device.Mat, ep device.Epilogue) { m.embedder.Into(p, dst, actions, ep) }
	u, project := m.predictor.Unroll(p, embed, blocks, n), m.predProj.Folded(p)
	for t := range h {
		mark, next := p.Mark(), dst
		if t < h-1 {
			next = intermediate.RowRange(t*n, n)
		}
		project.Into(p, next, u.Next(t, latents))
		p.Release(mark)
	}
}
