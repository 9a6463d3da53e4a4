package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// A Model has gradients of its planning cost.
var _ model.Differentiable = (*Model)(nil)

// gradRows bounds the candidates whose activations are kept at once; a row's
// result does not depend on it.
const gradRows = 256

// CostGrad implements model.Differentiable: cost is E x C, grad and candidates
// (E*C) x (h*A), start and goal E x D.
func (m *Model) CostGrad(cost, grad, start, goal, candidates device.Mat, h int) {
	if start.Rows == 0 || candidates.Rows%start.Rows != 0 || candidates.Cols != h*m.Cfg.ActionWidth() || goal.Rows != start.Rows {
		panic(fmt.Sprintf("lewm: gradients of %s candidates of %d blocks of %d from %s starts to %s goals",
			candidates, h, m.Cfg.ActionWidth(), start, goal))
	}
	m.Arena.Reset()
	p := &nn.Pass{Dev: m.Dev, Arena: m.Arena, InputGrad: true}
	starts, goals := m.repeated(p, start, candidates.Rows), m.repeated(p, goal, candidates.Rows)
	costs := p.Mat(candidates.Rows, 1)
	for i := 0; i < candidates.Rows; i += gradRows {
		n := min(gradRows, candidates.Rows-i)
		mark := p.Mark()
		r := &rollout{m: m, p: p, n: n, h: h, z: p.Mat(n*(h+1), m.Cfg.Dim)}
		m.Dev.Copy(r.z.Every(0, h+1), starts.RowRange(i, n))
		r.forward(candidates.RowRange(i, n))
		r.backward(costs.RowRange(i, n), grad.RowRange(i, n), goals.RowRange(i, n))
		p.Release(mark)
	}
	m.Dev.Copy(cost, costs.Reshape(cost.Rows, cost.Cols))
}

// repeated is each row of x as often as rows of all rows have it, one after the other.
func (m *Model) repeated(p *nn.Pass, x device.Mat, rows int) device.Mat {
	dst, each := p.Mat(rows, x.Cols), rows/x.Rows
	for e := range x.Rows {
		m.Dev.CopyBlocks(dst.RowRange(e*each, each), 1, x.RowRange(e, 1), 0, 1, false)
	}
	return dst
}

// rollout is n candidates on their way through h blocks. Only the latents are
// kept: on the way back every step is computed again, so that memory does not
// grow with h.
type rollout struct {
	m    *Model
	p    *nn.Pass
	n, h int
	z    device.Mat // n*(h+1) x D: start and the latents after 1..h blocks
	act  device.Mat // n*h x D: embedded blocks
}

func (r *rollout) forward(candidates device.Mat) {
	r.act = r.m.embedder.Forward(r.p, candidates.Reshape(r.n*r.h, r.m.Cfg.ActionWidth()))
	for t := range r.h {
		mark := r.p.Mark()
		r.step(t)
		r.p.Release(mark)
	}
}

// window is the first frame and the number of frames that step t sees.
func (r *rollout) window(t int) (first, frames int) {
	frames = min(t+1, r.m.Cfg.History)
	return t + 1 - frames, frames
}

// step predicts latent t+1, as predictBlocks does.
func (r *rollout) step(t int) {
	m, p := r.m, r.p
	lo, w := r.window(t)
	x, c := p.Mat(r.n*w, m.Cfg.Dim), p.Mat(r.n*w, m.Cfg.Dim)
	m.Dev.CopyBlocks(x, w, r.z.RowRange(lo, r.z.Rows-lo), r.h+1, w, false)
	m.Dev.CopyBlocks(c, w, r.act.RowRange(lo, r.act.Rows-lo), r.h, w, false)
	last := m.predictor.Forward(p, x, c, nn.Seqs{Count: r.n, Len: w}, w-1)
	m.predProj.Into(p, r.z.Every(t+1, r.h+1), last)
}

// backward writes the costs, n x 1, and their gradients in the candidates.
func (r *rollout) backward(costs, grad, goals device.Mat) {
	m, p, d := r.m, r.p, r.m.Dev
	end := r.z.Every(r.h, r.h+1)
	d.LatentCost(costs, end, goals, false)
	dz, dact := p.Zero(r.z.Rows, r.z.Cols), p.Zero(r.act.Rows, r.act.Cols)
	dend := dz.Every(r.h, r.h+1)
	d.Axpy(dend, 2, end)
	d.Axpy(dend, -2, goals)
	for t := r.h - 1; t >= 0; t-- {
		mark := p.Mark()
		lo, w := r.window(t)
		r.step(t)
		dout := p.Mat(r.n, m.Cfg.Dim)
		d.Copy(dout, dz.Every(t+1, r.h+1))
		dx, dc := m.predictor.Backward(p, m.predProj.Backward(p, dout))
		d.CopyBlocks(dz.RowRange(lo, dz.Rows-lo), r.h+1, dx, w, w, true)
		d.CopyBlocks(dact.RowRange(lo, dact.Rows-lo), r.h, dc, w, w, true)
		p.Release(mark)
	}
	m.embedder.BackwardInto(p, grad.Reshape(r.n*r.h, m.Cfg.ActionWidth()), dact)
}
