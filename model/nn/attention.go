package nn

import "scalewm/model/device"

// Attention is a packed q|k|v projection, softmax attention by head and an
// output projection; with Drop > 0 dropout acts on the probabilities (mask
// Site) and on the output (Site+1).
type Attention struct {
	QKV, Out   *Linear
	Heads, Dim int // Dim columns a head
	Block      int // of the mask: 0 none, 1 causal (device.Heads)
	Drop       float64
	Site       int

	x, qkv, att, lse device.Mat
	seqs             Seqs
	token            int
}

func (a *Attention) heads(p *Pass) device.Heads {
	return device.Heads{Seqs: a.seqs.Count, Len: a.seqs.Len, Heads: a.Heads, Dim: a.Dim, Block: a.Block, Drop: p.Dropout(a.Site, a.Drop)}
}

// split sees a packed q|k|v as its three parts.
func (a *Attention) split(m device.Mat) (q, k, v device.Mat) {
	w := a.Heads * a.Dim
	return m.Columns(0, w), m.Columns(w, w), m.Columns(2*w, w)
}

// Into writes (or adds) the result for the tokens x to dst: all of them, or
// only one of every sequence, which then are dst's rows. With dropout it must
// not add.
func (a *Attention) Into(p *Pass, dst, x device.Mat, s Seqs, token int, add bool) {
	a.x, a.seqs, a.token = x, s, token
	a.qkv = a.QKV.Forward(p, x)
	a.att = p.Mat(x.Rows, a.Heads*a.Dim)
	a.lse = p.kept(s.Count*a.Heads, s.Len)
	q, k, v := a.split(a.qkv)
	p.Dev.Attention(a.att, a.lse, q, k, v, a.heads(p))
	a.Out.Into(p, dst, s.only(a.att, token), device.Epilogue{Add: add})
	p.drop(dst, p.Dropout(a.Site+1, a.Drop))
}

// Backward adds the parameters' gradients and returns that of the tokens. dy
// has dst's rows; with dropout it is changed.
func (a *Attention) Backward(p *Pass, dy device.Mat) device.Mat {
	p.drop(dy, p.Dropout(a.Site+1, a.Drop))
	a.Out.Grad(p, dy, a.seqs.only(a.att, a.token))
	datt := p.Mat(a.att.Rows, a.att.Cols)
	if a.token != All {
		p.Dev.Fill(datt, 0)
	}
	a.Out.InputGrad(p, a.seqs.only(datt, a.token), dy, false)
	dqkv := p.Mat(a.qkv.Rows, a.qkv.Cols)
	q, k, v := a.split(a.qkv)
	dq, dk, dv := a.split(dqkv)
	p.Dev.AttentionGrad(dq, dk, dv, datt, a.att, a.lse, q, k, v, a.heads(p))
	return a.QKV.Backward(p, dqkv, a.x)
}
