package nn

import "scalewm/model/device"

// Attention is a packed q|k|v projection, softmax attention by head and an
// output projection; dropout acts on the probabilities (Drop, mask Site) and on
// the output (OutDrop, Site+1).
type Attention struct {
	QKV, Out   *Linear
	Heads, Dim int // Dim columns a head
	Block      int // of the mask: 0 none, 1 causal (device.Heads)
	Drop       float64
	OutDrop    float64
	Site       int

	x, q, kv, att, lse device.Mat
	seqs               Seqs
	token              int
}

func (a *Attention) heads(p *Pass) device.Heads {
	h := device.Heads{Seqs: a.seqs.Count, Len: a.seqs.Len, Heads: a.Heads, Dim: a.Dim, Block: a.Block, Drop: p.Dropout(a.Site, a.Drop)}
	if a.token != All {
		h.Queries = 1
	}
	return h
}

// width is that of q, of k and of v.
func (a *Attention) width() int { return a.Heads * a.Dim }

// query and keys are the parts of the packed projection.
func (a *Attention) query() *Linear { return a.QKV.rows(0, a.width()) }
func (a *Attention) keys() *Linear  { return a.QKV.rows(a.width(), 2*a.width()) }

// split sees packed columns as parts of a width.
func split(m device.Mat, width int) (first, second device.Mat) {
	return m.Columns(0, width), m.Columns(width, m.Cols-width)
}

// project computes q and k|v: in one product, or q of the queries tokens only.
func (a *Attention) project(p *Pass) {
	if a.token == All {
		a.q, a.kv = split(a.QKV.activations(p, a.x), a.width())
		return
	}
	a.q, a.kv = a.query().activations(p, a.seqs.only(a.x, a.token)), a.keys().activations(p, a.x)
}

// Into computes dst from the tokens x: all of them, or only one of every
// sequence, which then are dst's rows (with a mask it must be the last, which
// the kernel takes the only query for). ep is what happens to the result after its dropout.
func (a *Attention) Into(p *Pass, dst, x device.Mat, s Seqs, token int, ep device.Epilogue) {
	a.x, a.seqs, a.token = x, s, token
	a.project(p)
	a.att = p.Activations(a.q.Rows, a.width())
	a.lse = p.saved(s.Count*a.Heads, a.heads(p).QueryCount())
	k, v := split(a.kv, a.width())
	p.Dev.Attention(a.att, a.lse, a.q, k, v, a.heads(p))
	ep.Drop = p.Dropout(a.Site+1, a.OutDrop)
	a.Out.Into(p, dst, a.att, ep)
}

// Backward adds the parameters' gradients and returns that of the tokens. dy
// has dst's rows; with dropout it is changed.
func (a *Attention) Backward(p *Pass, dy device.Mat) device.Mat {
	p.drop(dy, p.Dropout(a.Site+1, a.OutDrop))
	datt := a.Out.Backward(p, dy, a.att)
	if a.token == All {
		dqkv := p.Activations(a.x.Rows, 3*a.width())
		dq, dkv := split(dqkv, a.width())
		a.grad(p, dq, dkv, datt)
		return a.QKV.Backward(p, dqkv, a.x)
	}
	dq, dkv := p.Activations(a.q.Rows, a.width()), p.Activations(a.x.Rows, 2*a.width())
	a.grad(p, dq, dkv, datt)
	a.keys().Grad(p, dkv, a.x)
	a.query().Grad(p, dq, a.seqs.only(a.x, a.token))
	dx := p.Mat(a.x.Rows, a.x.Cols)
	a.keys().InputGrad(p, dx, dkv, device.Epilogue{})
	a.query().InputGrad(p, a.seqs.only(dx, a.token), dq, device.Epilogue{Add: true})
	return dx
}

// grad is the way back through the softmax.
func (a *Attention) grad(p *Pass, dq, dkv, datt device.Mat) {
	k, v := split(a.kv, a.width())
	dk, dv := split(dkv, a.width())
	p.Dev.AttentionGrad(dq, dk, dv, datt, a.att, a.lse, a.q, k, v, a.heads(p))
}
