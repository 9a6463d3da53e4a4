package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model is a world model: its methods below run in evaluation mode.
var _ model.World = (*Model)(nil)

// encodeRows is how many tokens are encoded at once. A row's result does not
// depend on it, nor on how many candidates are rolled out at once, since no kernel
// mixes rows of different frames or sequences.
const encodeRows = 16384

// Info describes the model to planners and runners.
func (m *Model) Info() model.Info {
	return model.Info{Kind: Kind, Patches: 1, Dim: m.cfg.Dim, History: m.cfg.History, FrameSize: m.cfg.ImageSize,
		ActionWidth: m.cfg.ActionWidth(), FrameSkip: m.cfg.FrameSkip}
}

// Device is where the model lives.
func (m *Model) Device() device.Device { return m.dev }

// PredictorCalls is one call a block.
func (m *Model) PredictorCalls(h int) int { return h }

// evalPass begins a call. The weights of a model that does not train stay.
func (m *Model) evalPass() *nn.Pass {
	if !m.set.Grad.Given() {
		m.dev.Freeze(m.set.Value.Buf)
	}
	m.arena.Reset()
	return &nn.Pass{Dev: m.dev, Arena: m.arena}
}

// Encode writes the latents of n frames to dst, n x D.
func (m *Model) Encode(dst device.Mat, frames device.Bytes, n int) {
	p := m.evalPass()
	patches := m.encoder.Patches(p, frames, nil, n)
	grid := m.cfg.Tokens() - 1
	chunk := max(1, encodeRows/m.cfg.Tokens())
	for i := 0; i < n; i += chunk {
		k := min(chunk, n-i)
		mark := p.Mark()
		m.projector.Into(p, dst.RowRange(i, k), m.encoder.Forward(p, patches.RowRange(i*grid, k*grid)))
		p.Release(mark)
	}
}

// Rollout writes the latents after h blocks: start is E x D, candidates
// (E*C) x (h*A), dst (E*C) x D (docs/sources.md#rollout with one context frame).
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	m.chunks(start, candidates, h, func(p *nn.Pass, c chunk) {
		m.predictBlocks(p, dst.RowRange(c.first, c.candidates.Rows), c, h)
	})
}

// Trajectory is Rollout with every step kept: dst is (E*C*(h+1)) x D, the start
// and the latents after 1..h blocks of each candidate.
func (m *Model) Trajectory(dst, start, candidates device.Mat, h int) {
	m.chunks(start, candidates, h, func(p *nn.Pass, c chunk) {
		n, each := c.candidates.Rows, c.candidates.Rows/c.start.Rows
		path := dst.RowRange(c.first*(h+1), n*(h+1))
		for e := range c.start.Rows {
			m.dev.CopyBlocks(path.Every(0, h+1).RowRange(e*each, each), 1, c.start.RowRange(e, 1), 0, 1, false)
		}
		between := m.predictBlocks(p, path.Every(h, h+1), c, h)
		for t := 1; t < h; t++ {
			m.dev.Copy(path.Every(t, h+1), between.RowRange((t-1)*n, n))
		}
	})
}

// chunk is candidates that are rolled out at once: those of whole episodes, or a
// part of one's.
type chunk struct {
	first             int // row of all candidates
	start, candidates device.Mat
}

// chunks cuts the candidates into chunks and gives each to roll.
func (m *Model) chunks(start, candidates device.Mat, h int, roll func(*nn.Pass, chunk)) {
	if start.Rows == 0 || candidates.Rows%start.Rows != 0 || candidates.Cols != h*m.cfg.ActionWidth() {
		panic(fmt.Sprintf("lewm: %s candidates of %d blocks of %d from %s starts", candidates, h, m.cfg.ActionWidth(), start))
	}
	p, each, rows := m.evalPass(), candidates.Rows/start.Rows, m.dev.Traits().RolloutRows
	episodes := max(1, rows/max(1, each))
	for e := 0; e < start.Rows; e += episodes {
		k := min(episodes, start.Rows-e)
		for i := 0; i < k*each; i += rows { // more than once only for one episode
			c := chunk{e*each + i, start.RowRange(e, k), candidates.RowRange(e*each+i, min(rows, k*each-i))}
			mark := p.Mark()
			roll(p, c)
			p.Release(mark)
		}
	}
}

// predictBlocks writes the latents after the last block to dst and returns those
// between, by block: row (t-1)*n + i is after t blocks. Step t sees the last
// History latents; positions count from 0 in every window, however short.
func (m *Model) predictBlocks(p *nn.Pass, dst device.Mat, c chunk, h int) device.Mat {
	n, width := c.candidates.Rows, m.cfg.ActionWidth()
	blocks := p.Mat(h*n, width) // by block, as Unroll wants its rows
	for t := range h {
		m.dev.Copy(blocks.RowRange(t*n, n), c.candidates.Columns(t*width, width))
	}
	between := p.Mat((h-1)*n, m.cfg.Dim)
	latents := func(from, to int) device.Mat {
		if from == 0 { // alone, since later windows begin later
			return c.start
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
	return between
}
