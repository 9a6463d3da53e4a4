package lewm

import (
	"fmt"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

var _ model.Differentiable = (*Model)(nil)

// gradRows is the number of candidates whose activations are held in memory at a
// time. The results do not depend on it.
const gradRows = 256

// CostGrad implements model.Differentiable. cost is E x C, candidates and grad are
// (E*C) x (h*A), and start and goal are E x D. It splits the candidates into chunks
// of gradRows and processes each one forward and backward.
func (m *Model) CostGrad(cost, grad, start, goal, candidates device.Mat, h int, metric model.EndCost) {
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
		r.backward(costs.RowRange(i, n), grad.RowRange(i, n), goals.RowRange(i, n), metric)
		p.Release(mark)
	}
	m.Dev.Copy(cost, costs.Reshape(cost.Rows, cost.Cols))
}

// repeated returns a matrix with the given number of rows, in which each row of x is
// repeated equally often: one row per episode becomes one row per candidate.
func (m *Model) repeated(p *nn.Pass, x device.Mat, rows int) device.Mat {
	dst, each := p.Mat(rows, x.Cols), rows/x.Rows
	for e := range x.Rows {
		m.Dev.CopyBlocks(dst.RowRange(e*each, each), 1, x.RowRange(e, 1), 0, 1, false)
	}
	return dst
}

// rollout holds n candidates of h blocks during CostGrad. The forward pass stores
// only the latents. The backward pass computes the activations of each step again
// (gradient checkpointing), so that memory does not grow with h.
type rollout struct {
	m    *Model
	p    *nn.Pass
	n, h int
	z    device.Mat // (n*(h+1)) x D: row i*(h+1)+t is candidate i's latent after t blocks
	act  device.Mat // (n*h) x D: the embedded blocks
}

// forward embeds the candidates, n x (h*A), and fills z.
func (r *rollout) forward(candidates device.Mat) {
	r.act = r.m.embedder.Forward(r.p, candidates.Reshape(r.n*r.h, r.m.Cfg.ActionWidth()))
	for t := range r.h {
		mark := r.p.Mark()
		r.step(t)
		r.p.Release(mark)
	}
}

// window returns the first frame and the number of frames that step t sees.
func (r *rollout) window(t int) (first, frames int) {
	frames = min(t+1, r.m.Cfg.History)
	return t + 1 - frames, frames
}

// step predicts latent t+1 of all candidates. It computes what predictBlocks
// computes, without cached keys and values, since it needs all activations of the
// window for the backward pass.
func (r *rollout) step(t int) {
	m, p := r.m, r.p
	lo, w := r.window(t)
	x, c := p.Mat(r.n*w, m.Cfg.Dim), p.Mat(r.n*w, m.Cfg.Dim)
	m.Dev.CopyBlocks(x, w, r.z.RowRange(lo, r.z.Rows-lo), r.h+1, w, false)
	m.Dev.CopyBlocks(c, w, r.act.RowRange(lo, r.act.Rows-lo), r.h, w, false)
	last := m.predictor.Forward(p, x, c, nn.Seqs{Count: r.n, Len: w}, w-1)
	m.predProj.Into(p, r.z.Every(t+1, r.h+1), last)
}

// backward writes the costs, n x 1, and their gradients with respect to the
// candidates, n x (h*A). Without a metric the cost is the squared distance between the last
// latent and the goal, whose gradient is 2*(end - goal).
func (r *rollout) backward(costs, grad, goals device.Mat, metric model.EndCost) {
	m, p, d := r.m, r.p, r.m.Dev
	end := r.z.Every(r.h, r.h+1)
	dz, dact := p.Zero(r.z.Rows, r.z.Cols), p.Zero(r.act.Rows, r.act.Cols)
	dend := dz.Every(r.h, r.h+1)
	if metric != nil {
		z, grad := p.Mat(r.n, m.Cfg.Dim), p.Mat(r.n, m.Cfg.Dim)
		d.Copy(z, end)
		metric(costs, grad, z, goals)
		d.Copy(dend, grad)
	} else {
		d.LatentCost(costs, end, goals, false)
		d.Axpy(dend, 2, end)
		d.Axpy(dend, -2, goals)
	}
	for t := r.h - 1; t >= 0; t-- {
		mark := p.Mark()
		lo, w := r.window(t)
		r.step(t)
		dout := p.Mat(r.n, m.Cfg.Dim)
		// dz of latent t+1 is complete: all later steps have added to it.
		d.Copy(dout, dz.Every(t+1, r.h+1))
		dx, dc := m.predictor.Backward(p, m.predProj.Backward(p, dout))
		d.CopyBlocks(dz.RowRange(lo, dz.Rows-lo), r.h+1, dx, w, w, true)
		d.CopyBlocks(dact.RowRange(lo, dact.Rows-lo), r.h, dc, w, w, true)
		p.Release(mark)
	}
	m.embedder.BackwardInto(p, grad.Reshape(r.n*r.h, m.Cfg.ActionWidth()), dact)
}
