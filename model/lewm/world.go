package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model is a world model, whose methods below run in evaluation mode, and can be trained.
var (
	_ model.Counted = (*Model)(nil)
	_ model.Learner = (*Model)(nil)
)

// encodeRows is how many tokens are encoded at once. A row's result does not
// depend on it, nor on how many candidates are rolled out at once, since no kernel
// mixes rows of different frames or sequences.
const encodeRows = 16384

// Info is the shape of the models of this geometry.
func (c Config) Info() model.Info {
	return model.Info{Kind: model.FamilyLeWM, Patches: 1, Dim: c.Dim, History: c.History, FrameSize: c.ImageSize, Patch: c.Patch,
		ActionWidth: c.ActionWidth(), FrameSkip: c.FrameSkip}
}

// Encode writes the latents of n frames to dst, n x D.
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

// Rollout writes the latents after h blocks: start is E x D, candidates
// (E*C) x (h*A), dst (E*C) x D (docs/sources.md#rollout with one context frame).
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	if start.Rows == 0 || candidates.Rows%start.Rows != 0 || candidates.Cols != h*m.Cfg.ActionWidth() {
		panic(fmt.Sprintf("lewm: %s candidates of %d blocks of %d from %s starts", candidates, h, m.Cfg.ActionWidth(), start))
	}
	p, each, rows := m.Eval(), candidates.Rows/start.Rows, m.Dev.Traits().RolloutRows
	episodes := max(1, rows/max(1, each))
	for e := 0; e < start.Rows; e += episodes {
		k := min(episodes, start.Rows-e)
		for i := 0; i < k*each; i += rows { // more than once only for one episode
			first, n := e*each+i, min(rows, k*each-i)
			mark := p.Mark()
			m.predictBlocks(p, dst.RowRange(first, n), start.RowRange(e, k), candidates.RowRange(first, n), h)
			p.Release(mark)
		}
	}
}

// predictBlocks is Rollout of so many candidates at once: those of whole
// episodes, or a part of one's. Step t sees the last History latents; positions
// count from 0 in every window, however short.
func (m *Model) predictBlocks(p *nn.Pass, dst, start, candidates device.Mat, h int) {
	n, width := candidates.Rows, m.Cfg.ActionWidth()
	blocks := p.Mat(h*n, width) // by block, as Unroll wants its rows
	for t := range h {
		m.Dev.Copy(blocks.RowRange(t*n, n), candidates.Columns(t*width, width))
	}
	between := p.Mat((h-1)*n, m.Cfg.Dim) // row (t-1)*n + i is after t blocks
	latents := func(from, to int) device.Mat {
		if from == 0 { // alone, since later windows begin later
			return start
		}
		return between.RowRange((from-1)*n, (to-from)*n)
	}
	embed := func(dst, actions device.Mat, ep device.Epilogue) { m.embedder.Into(p, dst, actions, ep) }
	u, project := m.predictor.Unroll(p, embed, blocks, n), m.predProj.Folded(p)
	for t := range h {
		mark, next := p.Mark(), dst
		if t < h-1 {
			next = between.RowRange(t*n, n)
		}
		project.Into(p, next, u.Next(t, latents))
		p.Release(mark)
	}
}
