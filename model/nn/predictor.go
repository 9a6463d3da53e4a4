package nn

import (
	"cmp"
	"fmt"

	"scalewm/model/device"
)

// LayerNorm epsilons of the reference implementation, stable-worldmodel: adaEps for the
// norms that AdaLN modulates, innerEps for all others of the predictors.
const (
	adaEps   = 1e-6
	innerEps = 1e-5
)

// PredictorConfig is the geometry of a Predictor.
type PredictorConfig struct {
	// Frames is the number of rows of the position table, and Dim is D.
	Frames, Dim int
	// Width is the width of the blocks, or 0 for D. If it differs from D, linear layers
	// project latents and conditions to it.
	Width int
	// Out is the width of the predictions, or 0 for D. If it differs from Width, a linear
	// layer projects the result to it.
	Out int
	// Depth blocks, Heads heads of HeadDim columns each, MLP hidden columns.
	Depth, Heads, HeadDim, MLP int
	Dropout                    float64
}

// blockWidth returns the width of the blocks.
func (c PredictorConfig) blockWidth() int { return cmp.Or(c.Width, c.Dim) }

// Predictor is the causal transformer over latents of LeWM. AdaLN-zero conditions it
// on action embeddings (docs/sources.md#predictor).
type Predictor struct {
	cfg    PredictorConfig
	pos    *Param
	blocks []*AdaLNBlock
	norm   *LayerNorm
	// in and cond project latents and conditions from D to the blocks' width, and out
	// projects to the width of the predictions. Each is nil if the widths are equal.
	in, cond, out *Linear

	// Saved for Backward: the latents with positions added, the conditions after cond,
	// SiLU of those, the conditions before cond, and the input of out.
	x, c, silu device.Mat
	cIn, y     device.Mat
	seqs       Seqs
	token      int
}

// NewPredictor declares the layers' tensors in s, with names that begin with name.
func NewPredictor(s *Set, name string, c PredictorConfig) *Predictor {
	r := &Predictor{cfg: c, pos: s.Param(name+".pos_embedding", c.Frames, c.Dim, Normal(1), 1, c.Frames, c.Dim)}
	name += ".transformer."
	r.norm = NewLayerNorm(s, name+"norm", c.blockWidth(), innerEps)
	if w := c.blockWidth(); w != c.Dim {
		r.in = NewLinear(s, name+"input_proj", c.Dim, w, FanIn(c.Dim))
		r.cond = NewLinear(s, name+"cond_proj", c.Dim, w, FanIn(c.Dim))
	}
	if w, out := c.blockWidth(), cmp.Or(c.Out, c.Dim); w != out {
		r.out = NewLinear(s, name+"output_proj", w, out, FanIn(w))
	}
	for i := range c.Depth {
		b := newAdaLNBlock(s, fmt.Sprintf("%slayers.%d.", name, i), c)
		// Attention and MLP have two dropout masks each.
		b.att.Site, b.mlp.Site = 4*i, 4*i+2
		r.blocks = append(r.blocks, b)
	}
	return r
}

// Forward predicts from latents x under conditions c, both (Count*Len) x D with Len
// at most Frames. It adds the positions to x in place. The result has Out columns and
// one row per token, or one row per sequence if token is not All.
func (r *Predictor) Forward(p *Pass, x, c device.Mat, s Seqs, token int) device.Mat {
	p.Dev.CopyBlocks(x, s.Len, r.pos.Value, 0, s.Len, true)
	r.x, r.cIn, r.seqs, r.token = x, c, s, token
	x, r.c = r.in.forwardOrIdentity(p, x), r.cond.forwardOrIdentity(p, c)
	r.silu = p.Mat(r.c.Rows, r.c.Cols)
	p.Dev.Activate(r.silu, r.c, device.SiLU)
	for i, b := range r.blocks {
		// The last block's output is read only at token. Earlier blocks need all tokens,
		// because the next block's keys and values come from them.
		keep := All
		if i == len(r.blocks)-1 {
			keep = token
		}
		b.Forward(p, x, r.silu, s, keep)
	}
	r.y = r.norm.Forward(p, s.only(x, token))
	return r.out.forwardOrIdentity(p, r.y)
}

// Backward adds the gradients of the parameters and returns those of x and c.
func (r *Predictor) Backward(p *Pass, dy device.Mat) (dx, dc device.Mat) {
	dx, dc = p.Zero(r.x.Rows, r.cfg.blockWidth()), p.Zero(r.c.Rows, r.c.Cols)
	r.norm.BackwardInto(p, r.seqs.only(dx, r.token), r.out.backwardOrIdentity(p, dy, r.y), false)
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].Backward(p, dx, dc)
	}
	p.Dev.ActivateGrad(dc, dc, r.c, device.SiLU)
	dx, dc = r.in.backwardOrIdentity(p, dx, r.x), r.cond.backwardOrIdentity(p, dc, r.cIn)
	if r.pos.Grad.IsSet() {
		p.Dev.SumTable(r.pos.Grad.RowRange(0, r.seqs.Len), dx)
	}
	return dx, dc
}

// AdaLNBlock is a transformer block with AdaLN-zero conditioning. A linear layer maps
// SiLU(c) to shift1|scale1|gate1|shift2|scale2|gate2. The first branch is
//
//	x += gate1 * attention(LN(N(x)*(1+scale1) + shift1))
//
// where N is a LayerNorm without affine part and LN one with it. The second branch is
// the same with the MLP. The linear layer starts at zero ("AdaLN-zero"), so that
// initially both gates are 0 and the block is the identity.
type AdaLNBlock struct {
	ada          *Linear
	first        branch
	second       branch
	att          *Attention
	mlp          *MLP
	silu, mod    device.Mat // saved for Backward; mod is the output of ada, rows x 6*width
	seqs         Seqs
	token, width int
}

// branch holds what the two branches of a block have in common: the modulated outer
// norm N, the inner norm LN, and the gated result.
type branch struct {
	outer, inner *LayerNorm
	y            device.Mat // the result before the gate, saved for Backward
}

// newAdaLNBlock declares the tensors of a block in s.
func newAdaLNBlock(s *Set, name string, c PredictorConfig) *AdaLNBlock {
	d := c.blockWidth()
	b := &AdaLNBlock{width: d}
	b.first = branch{outer: &LayerNorm{Eps: adaEps}, inner: NewLayerNorm(s, name+"attn.norm", d, innerEps)}
	b.att = newMaskedAttention(s, name+"attn.", d, c.Heads, c.HeadDim, 1, c.Dropout)
	b.second = branch{outer: &LayerNorm{Eps: adaEps}, inner: NewLayerNorm(s, name+"mlp.net.0", d, innerEps)}
	b.mlp = newFeedForward(s, name+"mlp.net.", d, c.MLP, c.Dropout)
	b.ada = NewLinear(s, name+"adaLN_modulation.1", d, 6*d, Inits{Const(0), Const(0)})
	return b
}

// newMaskedAttention declares the attention of a predictor's block of width d: to_qkv
// without bias, and to_out.0. block is the mask, as in device.Heads.
func newMaskedAttention(s *Set, name string, d, heads, headDim, block int, drop float64) *Attention {
	qkv := NewLinear(s, name+"to_qkv", d, 3*heads*headDim, Inits{Weight: FanIn(d).Weight})
	return withOutput(s, name, d, &Attention{QKV: qkv, Heads: heads, Dim: headDim, Block: block, Drop: drop})
}

// withOutput declares the output projection of a, to_out.0, to d columns. As in the
// reference implementation, a single head as wide as the block has none; an identity
// matrix takes its place.
func withOutput(s *Set, name string, d int, a *Attention) *Attention {
	if a.Heads == 1 && a.Dim == d {
		a.Out = &Linear{W: s.Eye(d)}
	} else {
		a.Out, a.OutDrop = NewLinear(s, name+"to_out.0", a.width(), d, FanIn(a.width())), a.Drop
	}
	return a
}

// newFeedForward declares the MLP of a predictor's block. Its layers are called 1 and
// 4, their indices in the reference implementation's nn.Sequential.
func newFeedForward(s *Set, name string, d, hidden int, drop float64) *MLP {
	return &MLP{In: NewLinear(s, name+"1", d, hidden, FanIn(d)), Out: NewLinear(s, name+"4", hidden, d, FanIn(hidden)), Act: device.GELU, Drop: drop}
}

// parts returns views of the shift, scale and gate of branch i (0 or 1) in the
// modulation m, or in its gradient.
func (b *AdaLNBlock) parts(m device.Mat, i int) (shift, scale, gate device.Mat) {
	w := b.width
	return m.Columns(3*i*w, w), m.Columns((3*i+1)*w, w), m.Columns((3*i+2)*w, w)
}

// modulate returns the input of a branch's attention or MLP, LN(N(x)*(1+scale) +
// shift), for rows x of the residual stream.
func (h *branch) modulate(p *Pass, x, shift, scale device.Mat) device.Mat {
	h.outer.allocSaved(p, x)
	h.inner.allocSaved(p, x)
	y := p.Activations(x.Rows, x.Cols)
	p.Dev.AdaLN(y, x, device.AdaLN{Scale: scale, Shift: shift, Gamma: h.inner.Gamma.Value, Beta: h.inner.Beta.Value,
		OuterEps: h.outer.Eps, InnerEps: h.inner.Eps,
		Outer: h.outer.xhat, OuterInv: h.outer.rstd, Inner: h.inner.xhat, InnerInv: h.inner.rstd})
	return y
}

// gateEpilogue returns the epilogue that multiplies a branch's result by gate and
// adds it to the residual stream x.
func (h *branch) gateEpilogue(p *Pass, x, gate device.Mat) device.Epilogue {
	h.y = p.saved(x.Rows, x.Cols)
	return device.Epilogue{Gate: gate, Ungated: h.y, Add: true}
}

// modulateGrad is the backward pass of modulate. din is the gradient of its result.
// It adds the gradient of x to dx and writes those of shift and scale.
func (h *branch) modulateGrad(p *Pass, dx, dshift, dscale, din, scale device.Mat) {
	dm := p.Mat(dx.Rows, dx.Cols)
	h.inner.BackwardInto(p, dm, din, false)
	dn := p.Mat(dx.Rows, dx.Cols)
	p.Dev.ModulateGrad(dn, dscale, dshift, dm, h.outer.xhat, scale)
	h.outer.BackwardInto(p, dx, dn, true)
}

// Forward updates the residual stream x, rows x width, in place. silu is SiLU(c),
// shaped as x. If token is not All, only that token of every sequence is updated.
// In a pass without Backward it releases the block's memory.
func (b *AdaLNBlock) Forward(p *Pass, x, silu device.Mat, s Seqs, token int) {
	b.silu, b.seqs, b.token = silu, s, token
	mark := p.Mark()
	b.mod = b.ada.Forward(p, silu)
	shift, scale, gate := b.parts(b.mod, 0)
	in := b.first.modulate(p, x, shift, scale)
	x = s.only(x, token)
	b.att.Into(p, x, in, s, token, b.first.gateEpilogue(p, x, s.only(gate, token)))

	shift, scale, gate = b.parts(s.only(b.mod, token), 1)
	in = b.second.modulate(p, x, shift, scale)
	b.mlp.Into(p, x, in, b.second.gateEpilogue(p, x, gate))
	if !p.saves() {
		p.Release(mark)
	}
}

// Backward turns dx, the gradient of the residual stream after the block, into that
// before it, in place. It adds the gradient of SiLU(c) to dsilu. Branches are visited
// in reverse order.
func (b *AdaLNBlock) Backward(p *Pass, dx, dsilu device.Mat) {
	mark := p.Mark()
	// With a single token the gates and the second branch write only that token's rows of
	// dmod; the others are 0. With all tokens every element is written below.
	dmod := p.Mat(b.mod.Rows, b.mod.Cols)
	if b.token != All {
		p.Dev.Fill(dmod, 0)
	}
	dout := b.seqs.only(dx, b.token)
	dy := p.Mat(dout.Rows, dout.Cols)
	_, scale, gate := b.parts(b.seqs.only(b.mod, b.token), 1)
	dshift, dscale, dgate := b.parts(b.seqs.only(dmod, b.token), 1)
	p.Dev.GateGrad(dy, dgate, dout, gate, b.second.y)
	b.second.modulateGrad(p, dout, dshift, dscale, b.mlp.Backward(p, dy), scale)

	_, _, gate = b.parts(b.seqs.only(b.mod, b.token), 0)
	_, _, dgate = b.parts(b.seqs.only(dmod, b.token), 0)
	p.Dev.GateGrad(dy, dgate, dout, gate, b.first.y)
	_, scale, _ = b.parts(b.mod, 0)
	dshift, dscale, _ = b.parts(dmod, 0)
	b.first.modulateGrad(p, dx, dshift, dscale, b.att.Backward(p, dy), scale)

	b.ada.Grad(p, dmod, b.silu)
	b.ada.InputGrad(p, dsilu, dmod, device.Epilogue{Add: true})
	p.Release(mark)
}

// Unroll runs a Predictor block by block for n sequences at once, in evaluation mode.
// It avoids all work that does not change the result (docs/sources.md#rollout-work):
//
//   - The modulations depend on the actions only and are computed once, for all
//     steps.
//   - While the window grows, keys and values of earlier tokens are cached, so that a
//     step computes one new token.
//   - After the last layer's attention only the last token is needed.
//
// Once the window slides, every token has another position and hence other values, so
// that all tokens of the window are computed again. Rows are ordered by token: row =
// token*n + sequence.
type Unroll struct {
	window
	r    *Predictor
	mods []device.Mat // modulations of each layer, (h*n) x 6*width
}

// Unroll begins an unroll of n sequences over all blocks in actions, (H*n) x A: row
// t*n+i is block t of sequence i. embed writes the embeddings of actions to dst with
// an epilogue.
func (r *Predictor) Unroll(p *Pass, embed func(dst, actions device.Mat, ep device.Epilogue), actions device.Mat, n int) *Unroll {
	u := &Unroll{r: r, window: window{p: p, n: n, frames: r.cfg.Frames, tokens: 1}}
	// The epilogue of the last layer before the blocks applies SiLU.
	silu, act := p.Activations(actions.Rows, r.cfg.blockWidth()), device.Epilogue{Act: device.SiLU}
	if r.cond == nil {
		embed(silu, actions, act)
	} else {
		c := p.Activations(actions.Rows, r.cfg.Dim)
		embed(c, actions, device.Epilogue{})
		r.cond.Into(p, silu, c, act)
	}
	for _, b := range r.blocks {
		u.mods = append(u.mods, b.ada.activations(p, silu))
		u.add(b.att)
	}
	return u
}

// Next returns the prediction after block t, n x Out, before the output projector.
// latents returns the latents of blocks [from, to), ordered by token. It may return
// fewer rows, each then standing for equally many consecutive sequences: at t = 0 the
// candidates of an episode share their context. Next must be called for t = 0, 1, 2,
// ... in order.
func (u *Unroll) Next(t int, latents func(from, to int) device.Mat) device.Mat {
	p := u.p
	x := u.next(t, func(first, fresh, seen int) device.Mat {
		x := p.Mat(fresh*u.n, u.r.cfg.Dim)
		p.Dev.AddRepeated(x, latents(first, t+1), u.r.pos.Value.RowRange(seen-fresh, fresh))
		return u.r.in.forwardOrIdentity(p, x)
	}, func(i int, x, cache device.Mat, first, queries int) device.Mat {
		return u.r.blocks[i].extend(p, x, u.mods[i].RowRange(first*u.n, x.Rows), cache, u.n, queries)
	})
	return u.r.out.forwardOrIdentity(p, u.r.norm.Forward(p, x))
}

// window is the part of an unroll that Unroll and CausalUnroll share: the frames that
// a prediction sees. It grows by a frame per step up to its maximum, then slides.
// While it grows, a step computes only the new frame and reads keys and values of
// earlier ones from the cache. Once it slides, a step computes all frames again,
// since their positions change.
type window struct {
	p              *Pass
	n              int // sequences
	frames, tokens int // maximum number of frames, and tokens per frame
	// cache holds queries, keys and values of each layer,
	// (frames*tokens*n) x 3*inner with inner = heads x columns per head.
	cache []device.Mat
}

// add allocates the cache of the next layer, whose attention is a.
func (w *window) add(a *Attention) {
	w.cache = append(w.cache, w.p.Activations(w.frames*w.tokens*w.n, 3*a.width()))
}

// next runs the new frames of step t through all layers. enter returns the rows of
// frames first to first+fresh-1, which are the last of the `seen` frames in the
// window. extend runs layer i and returns the rows of the last `queries` tokens.
func (w *window) next(t int, enter func(first, fresh, seen int) device.Mat, extend func(i int, x, cache device.Mat, first, queries int) device.Mat) device.Mat {
	first, fresh, seen := t, 1, t+1
	slides := t >= w.frames
	if slides {
		first, fresh, seen = t+1-w.frames, w.frames, w.frames
	}
	x := enter(first, fresh, seen)
	for i, cache := range w.cache {
		if slides {
			// The cached keys and values of earlier frames are no longer valid, and each
			// layer needs its own only until the next layer: they share memory.
			cache = w.cache[0]
		}
		if i == len(w.cache)-1 {
			fresh = 1 // of the last layer only the newest frame is read
		}
		mark := w.p.Mark()
		x = extend(i, x, cache.RowRange(0, seen*w.tokens*w.n), first, fresh*w.tokens)
		w.p.Release(mark)
	}
	return x
}

// lastRows returns the view of the last n rows.
func lastRows(m device.Mat, n int) device.Mat { return m.RowRange(m.Rows-n, n) }

// extend runs the block for the newest tokens of a window, x, in evaluation mode. mod
// are their modulations. It stores their queries, keys and values in the last rows of
// window, which already holds those of earlier tokens. Only the last `queries` tokens
// of each of the n sequences are updated, and extend returns the view of their rows.
func (b *AdaLNBlock) extend(p *Pass, x, mod, window device.Mat, n, queries int) device.Mat {
	shift, scale, _ := b.parts(mod, 0)
	in := b.first.modulate(p, x, shift, scale)
	x, mod = lastRows(x, queries*n), lastRows(mod, queries*n)
	att := b.att.extend(p, window, in, n, queries)
	_, _, gate := b.parts(mod, 0)
	b.att.Out.Into(p, x, att, b.first.gateEpilogue(p, x, gate))

	shift, scale, gate = b.parts(mod, 1)
	b.mlp.Into(p, x, b.second.modulate(p, x, shift, scale), b.second.gateEpilogue(p, x, gate))
	return x
}

// extend returns the attention's result, before Out, for the last `queries` tokens of
// each sequence of a window. x are the tokens whose projections are not in window
// yet. extend computes them and stores them there.
//
// Under a causal mask the first token of a window attends only to itself: its result
// is its own value vector, and its query is not needed. Leaving out that query costs
// two extra kernel launches (a separate GEMM for its keys and values, and a copy), so
// this is done only for enough rows, or if the window has no other token.
func (a *Attention) extend(p *Pass, window, x device.Mat, n, queries int) device.Mat {
	_, kv := split(window, a.width())
	k, v := split(kv, a.width())
	// rows is the number of rows of the result, and first that of its rows that
	// belong to the first token and are copied from v. Rows of x before the last
	// `queried` need only k and v.
	rows, first := queries*n, 0
	if alone := window.Rows == n; a.Block == 1 && rows == window.Rows && (alone || 4*n >= p.Dev.Traits().RolloutRows) {
		first = n
	}
	queried := rows - first
	if rest := x.Rows - queried; rest > 0 {
		a.keys().Into(p, lastRows(kv, x.Rows).RowRange(0, rest), x.RowRange(0, rest), device.Epilogue{})
	}
	if queried == 0 {
		return v
	}
	a.QKV.Into(p, lastRows(window, queried), lastRows(x, queried), device.Epilogue{})
	att := p.Activations(rows, a.width())
	if first > 0 {
		p.Dev.Copy(att.RowRange(0, first), v.RowRange(0, first))
	}
	q, _ := split(lastRows(window, queried), a.width())
	p.Dev.Attention(lastRows(att, queried), device.Mat{}, q, k, v, device.Heads{Seqs: n, Len: window.Rows / n,
		Heads: a.Heads, Dim: a.Dim, Block: a.Block, Queries: queried / n, ByToken: true})
	return att
}
