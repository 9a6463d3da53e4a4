package nn

import "scalewm/model/device"

// Attention is multi-head softmax attention: a packed q|k|v projection, attention per
// head, and an output projection. Dropout acts on the attention probabilities (rate
// Drop, mask Site) and on the output (rate OutDrop, mask Site+1).
//
// Rows are tokens, grouped by sequence as Seqs says. The packed columns are all heads
// of q, then of k, then of v.
type Attention struct {
	QKV, Out   *Linear
	Heads, Dim int // number of heads, and columns per head
	Block      int // mask, as in device.Heads: 0 none, 1 causal, n block-causal
	Drop       float64
	OutDrop    float64
	Site       int

	// What the last Into saved for Backward: the tokens x, their projections q and kv
	// (k|v), the output of the attention before Out, and the log-sum-exp of each
	// query's scores.
	x, q, kv, att, lse device.Mat
	seqs               Seqs
	token              int
}

// heads returns the shape of the attention kernel's call. With a single token per
// sequence the kernel gets one query per sequence.
func (a *Attention) heads(p *Pass) device.Heads {
	h := device.Heads{Seqs: a.seqs.Count, Len: a.seqs.Len, Heads: a.Heads, Dim: a.Dim, Block: a.Block, Drop: p.Dropout(a.Site, a.Drop)}
	if a.token != All {
		h.Queries = 1
	}
	return h
}

// width returns the number of columns of q, which is also that of k and of v.
func (a *Attention) width() int { return a.Heads * a.Dim }

// query and keys are views of the layer QKV that compute only q, or only k|v.
func (a *Attention) query() *Linear { return a.QKV.rows(0, a.width()) }
func (a *Attention) keys() *Linear  { return a.QKV.rows(a.width(), 2*a.width()) }

// split returns views of the first width columns of m and of the remaining ones.
func split(m device.Mat, width int) (first, second device.Mat) {
	return m.Columns(0, width), m.Columns(width, m.Cols-width)
}

// project computes q and k|v. If all tokens are queries, one GEMM computes the packed
// columns. Otherwise keys and values are still needed for every token, but q only for
// the one token of each sequence.
func (a *Attention) project(p *Pass) {
	if a.token == All {
		a.q, a.kv = split(a.QKV.activations(p, a.x), a.width())
		return
	}
	a.q, a.kv = a.query().activations(p, a.seqs.only(a.x, a.token)), a.keys().activations(p, a.x)
}

// Into computes dst from the tokens x, (Count*Len) x D. If token is All, dst has one
// row per token. Otherwise only that token of each sequence attends, and dst has
// Count rows. With a mask the token must be the last one, because the kernel takes
// its queries to be the last of a sequence. ep is the epilogue of the output
// projection, applied after the output's dropout.
func (a *Attention) Into(p *Pass, dst, x device.Mat, s Seqs, token int, ep device.Epilogue) {
	a.x, a.seqs, a.token = x, s, token
	a.project(p)
	a.attend(p, dst, ep)
}

// attend is Into for queries, keys and values that have been computed.
func (a *Attention) attend(p *Pass, dst device.Mat, ep device.Epilogue) {
	a.att = p.Activations(a.q.Rows, a.width())
	a.lse = p.saved(a.seqs.Count*a.Heads, a.heads(p).QueryCount())
	k, v := split(a.kv, a.width())
	p.Dev.Attention(a.att, a.lse, a.q, k, v, a.heads(p))
	ep.Drop = p.Dropout(a.Site+1, a.OutDrop)
	a.Out.Into(p, dst, a.att, ep)
}

// Backward adds the gradients of the parameters and returns that of the tokens,
// shaped as x. dy has the shape of dst. With dropout, Backward overwrites dy.
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
	// Keys and values came from every token and the query from one token of each
	// sequence: the first product writes all rows of dx, the second adds to the rows
	// of that token.
	a.keys().Grad(p, dkv, a.x)
	a.query().Grad(p, dq, a.seqs.only(a.x, a.token))
	dx := p.Mat(a.x.Rows, a.x.Cols)
	a.keys().InputGrad(p, dx, dkv, device.Epilogue{})
	a.query().InputGrad(p, a.seqs.only(dx, a.token), dq, device.Epilogue{Add: true})
	return dx
}

// grad backpropagates datt through the softmax and writes dq and dkv.
func (a *Attention) grad(p *Pass, dq, dkv, datt device.Mat) {
	k, v := split(a.kv, a.width())
	dk, dv := split(dkv, a.width())
	p.Dev.AttentionGrad(dq, dk, dv, datt, a.lse, a.q, k, v, a.heads(p))
}
