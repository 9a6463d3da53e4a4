package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Model is a world model: its methods below run in evaluation mode.
var _ model.World = (*Model)(nil)

// Bounds of the memory of an evaluation. A row's result does not depend on
// them, since no kernel mixes rows of different frames or sequences.
const (
	encodeRows  = 16384 // tokens encoded at once
	rolloutRows = 1024  // candidates rolled out at once
)

// Info describes the model to planners and runners.
func (m *Model) Info() model.Info {
	return model.Info{Kind: Kind, Patches: 1, Dim: m.cfg.Dim, History: m.cfg.History, FrameSize: m.cfg.ImageSize,
		ActionWidth: m.cfg.ActionWidth(), FrameSkip: m.cfg.FrameSkip}
}

// Device is where the model lives.
func (m *Model) Device() device.Device { return m.dev }

// Forwards is one predictor call a block.
func (m *Model) Forwards(h int) int { return h }

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
// (E*C) x (h*A), dst (E*C) x D (lewm-spec 5.2 with one context frame).
func (m *Model) Rollout(dst, start, candidates device.Mat, h int) {
	p := m.evalPass()
	m.unroll(p, start, candidates, h, func(i, n int) (device.Mat, func()) {
		z := p.Mat(n*(h+1), m.cfg.Dim)
		return z, func() { m.dev.Copy(dst.RowRange(i, n), z.Every(h, h+1)) }
	})
}

// Trajectory is Rollout with every step kept: dst is (E*C*(h+1)) x D, the start
// and the latents after 1..h blocks of each candidate.
func (m *Model) Trajectory(dst, start, candidates device.Mat, h int) {
	m.unroll(m.evalPass(), start, candidates, h, func(i, n int) (device.Mat, func()) {
		return dst.RowRange(i*(h+1), n*(h+1)), func() {}
	})
}

// unroll cuts the candidates into chunks; open says where the (n*(h+1)) x D
// latents of candidates [i, i+n) are computed, and what to do with them then.
func (m *Model) unroll(p *nn.Pass, start, candidates device.Mat, h int, open func(i, n int) (device.Mat, func())) {
	if start.Rows == 0 || candidates.Rows%start.Rows != 0 || candidates.Cols != h*m.cfg.ActionWidth() {
		panic(fmt.Sprintf("lewm: %s candidates of %d blocks of %d from %s starts", candidates, h, m.cfg.ActionWidth(), start))
	}
	each := candidates.Rows / start.Rows
	starts := p.Mat(candidates.Rows, m.cfg.Dim)
	for e := range start.Rows {
		m.dev.CopyBlocks(starts.RowRange(e*each, each), 1, start.RowRange(e, 1), 0, 1, false)
	}
	for i := 0; i < candidates.Rows; i += rolloutRows {
		n := min(rolloutRows, candidates.Rows-i)
		mark := p.Mark()
		z, done := open(i, n)
		m.dev.Copy(z.Every(0, h+1), starts.RowRange(i, n))
		m.predictBlocks(p, z, candidates.RowRange(i, n), h)
		done()
		p.Release(mark)
	}
}

// predictBlocks fills rows 1..h of every sequence of z. Step t sees the last
// History latents; positions count from 0 in every window, however short.
func (m *Model) predictBlocks(p *nn.Pass, z, candidates device.Mat, h int) {
	n, width := candidates.Rows, m.cfg.ActionWidth()
	blocks := p.Mat(h*n, width) // by block, as Unroll wants its rows
	for t := range h {
		m.dev.Copy(blocks.RowRange(t*n, n), candidates.Columns(t*width, width))
	}
	u := m.predictor.Unroll(p, m.embedder.Forward(p, blocks), n)
	for t := range h {
		mark := p.Mark()
		last := u.Next(t, func(dst device.Mat, t int) { m.dev.Copy(dst, z.Every(t, h+1)) })
		m.predProj.Into(p, z.Every(t+1, h+1), last)
		p.Release(mark)
	}
}
