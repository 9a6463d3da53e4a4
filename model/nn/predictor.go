package nn

import (
	"cmp"
	"fmt"

	"scalewm/model/device"
)

// The two other LayerNorm epsilons of the reference: of the norms that AdaLN
// modulates, and of all the rest.
const (
	adaEps   = 1e-6
	innerEps = 1e-5
)

// PredictorConfig is the geometry of a Predictor.
type PredictorConfig struct {
	Frames, Dim                int // positions, latent width D
	Width                      int // of the blocks; 0 is D; where it is not D, projections lead in
	Out                        int // of the predictions; 0 is D; where it is not Width, a projection leads out
	Depth, Heads, HeadDim, MLP int
	Dropout                    float64
}

// inside is the width of the blocks.
func (c PredictorConfig) inside() int { return cmp.Or(c.Width, c.Dim) }

// Predictor is the causal transformer over latents, conditioned on action
// embeddings by AdaLN-zero (docs/sources.md#predictor).
type Predictor struct {
	cfg    PredictorConfig
	pos    *Param
	blocks []*AdaLNBlock
	norm   *LayerNorm
	// in and cond lead from D to the blocks' width, out to the predictions'; nil where they are equal.
	in, cond, out *Linear

	x, c, silu device.Mat // latents with positions, conditions as wide as the blocks
	raw, y     device.Mat // what cond and out were given
	seqs       Seqs
	token      int
}

// NewPredictor declares the tensors under name.
func NewPredictor(s *Set, name string, c PredictorConfig) *Predictor {
	r := &Predictor{cfg: c, pos: s.Param(name+".pos_embedding", c.Frames, c.Dim, Normal(1), 1, c.Frames, c.Dim)}
	name += ".transformer."
	r.norm = NewLayerNorm(s, name+"norm", c.inside(), innerEps)
	if w := c.inside(); w != c.Dim {
		r.in = NewLinear(s, name+"input_proj", c.Dim, w, FanIn(c.Dim))
		r.cond = NewLinear(s, name+"cond_proj", c.Dim, w, FanIn(c.Dim))
	}
	if w, out := c.inside(), cmp.Or(c.Out, c.Dim); w != out {
		r.out = NewLinear(s, name+"output_proj", w, out, FanIn(w))
	}
	for i := range c.Depth {
		b := newAdaLNBlock(s, fmt.Sprintf("%slayers.%d.", name, i), c)
		b.att.Site, b.mlp.Site = 4*i, 4*i+2
		r.blocks = append(r.blocks, b)
	}
	return r
}

// Forward predicts from latents x under conditions c, both (Count*Len) x D, Len
// at most Frames. x is changed in place. The result, Out wide, has a row a token,
// or one row a sequence with a token other than All.
func (r *Predictor) Forward(p *Pass, x, c device.Mat, s Seqs, token int) device.Mat {
	p.Dev.CopyBlocks(x, s.Len, r.pos.Value, 0, s.Len, true)
	r.x, r.raw, r.seqs, r.token = x, c, s, token
	x, r.c = r.in.through(p, x), r.cond.through(p, c)
	r.silu = p.Mat(r.c.Rows, r.c.Cols)
	p.Dev.Activate(r.silu, r.c, device.SiLU)
	for i, b := range r.blocks {
		keep := All
		if i == len(r.blocks)-1 {
			keep = token
		}
		b.Forward(p, x, r.silu, s, keep)
	}
	r.y = r.norm.Forward(p, s.only(x, token))
	return r.out.through(p, r.y)
}

// Backward adds the parameters' gradients and returns those of x and c.
func (r *Predictor) Backward(p *Pass, dy device.Mat) (dx, dc device.Mat) {
	dx, dc = p.Zero(r.x.Rows, r.cfg.inside()), p.Zero(r.c.Rows, r.c.Cols)
	r.norm.BackwardInto(p, r.seqs.only(dx, r.token), r.out.back(p, dy, r.y), false)
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].Backward(p, dx, dc)
	}
	p.Dev.ActivateGrad(dc, dc, r.c, device.SiLU)
	dx, dc = r.in.back(p, dx, r.x), r.cond.back(p, dc, r.raw)
	if r.pos.Grad.Given() {
		p.Dev.SumTable(r.pos.Grad.RowRange(0, r.seqs.Len), dx)
	}
	return dx, dc
}

// AdaLNBlock is an AdaLN-zero block: with shift1|scale1|gate1|shift2|scale2|gate2
// linear in SiLU(c), x += gate1*attention(N(x)(1+scale1)+shift1), then the same
// with the MLP. Both branches begin with an affine LayerNorm of their own.
type AdaLNBlock struct {
	ada          *Linear
	first        branch
	second       branch
	att          *Attention
	mlp          *MLP
	silu, mod    device.Mat
	seqs         Seqs
	token, width int
}

// branch is what the two branches of a block share: the modulated norm, the inner
// norm, and the gated result.
type branch struct {
	outer, inner *LayerNorm
	y            device.Mat // result before the gate, where Backward follows
}

func newAdaLNBlock(s *Set, name string, c PredictorConfig) *AdaLNBlock {
	d := c.inside()
	b := &AdaLNBlock{width: d}
	b.first = branch{outer: &LayerNorm{Eps: adaEps}, inner: NewLayerNorm(s, name+"attn.norm", d, innerEps)}
	b.att = newMaskedAttention(s, name+"attn.", d, c.Heads, c.HeadDim, 1, c.Dropout)
	b.second = branch{outer: &LayerNorm{Eps: adaEps}, inner: NewLayerNorm(s, name+"mlp.net.0", d, innerEps)}
	b.mlp = newFeedForward(s, name+"mlp.net.", d, c.MLP, c.Dropout)
	b.ada = NewLinear(s, name+"adaLN_modulation.1", d, 6*d, Inits{Const(0), Const(0)})
	return b
}

// newMaskedAttention declares the attention of a predictor's block of width d: to_qkv
// without bias and to_out.0. block is that of its mask (device.Heads). One head as wide as
// the block has no output projection, as in the reference.
func newMaskedAttention(s *Set, name string, d, heads, headDim, block int, drop float64) *Attention {
	inner := heads * headDim
	a := &Attention{QKV: NewLinear(s, name+"to_qkv", d, 3*inner, Inits{Weight: FanIn(d).Weight}), Heads: heads, Dim: headDim, Block: block, Drop: drop}
	if heads == 1 && headDim == d {
		a.Out = &Linear{W: s.Eye(d)}
	} else {
		a.Out, a.OutDrop = NewLinear(s, name+"to_out.0", inner, d, FanIn(inner)), drop
	}
	return a
}

// newFeedForward declares the MLP of a predictor's block: 1 and 4.
func newFeedForward(s *Set, name string, d, hidden int, drop float64) *MLP {
	return &MLP{In: NewLinear(s, name+"1", d, hidden, FanIn(d)), Out: NewLinear(s, name+"4", hidden, d, FanIn(hidden)), Act: device.GELU, Drop: drop}
}

// parts sees branch i of a modulation (or of its gradient) as shift, scale, gate.
func (b *AdaLNBlock) parts(m device.Mat, i int) (shift, scale, gate device.Mat) {
	w := b.width
	return m.Columns(3*i*w, w), m.Columns((3*i+1)*w, w), m.Columns((3*i+2)*w, w)
}

// enter is the way from the residual stream to the inside of a branch.
func (h *branch) enter(p *Pass, x, shift, scale device.Mat) device.Mat {
	h.outer.keep(p, x)
	h.inner.keep(p, x)
	y := p.Activations(x.Rows, x.Cols)
	p.Dev.AdaLN(y, x, device.AdaLN{Scale: scale, Shift: shift, Gamma: h.inner.Gamma.Value, Beta: h.inner.Beta.Value,
		OuterEps: h.outer.Eps, InnerEps: h.inner.Eps,
		Outer: h.outer.xhat, OuterInv: h.outer.rstd, Inner: h.inner.xhat, InnerInv: h.inner.rstd})
	return y
}

// gated is how a branch's result joins the residual stream x.
func (h *branch) gated(p *Pass, x, gate device.Mat) device.Epilogue {
	h.y = p.saved(x.Rows, x.Cols)
	return device.Epilogue{Gate: gate, Ungated: h.y, Add: true}
}

// leave is the way back: it adds to dx the gradient that arrived inside, and
// writes those of shift and scale.
func (h *branch) leave(p *Pass, dx, dshift, dscale, din, scale device.Mat) {
	dm := p.Mat(dx.Rows, dx.Cols)
	h.inner.BackwardInto(p, dm, din, false)
	dn := p.Mat(dx.Rows, dx.Cols)
	p.Dev.ModulateGrad(dn, dscale, dshift, dm, h.outer.xhat, scale)
	h.outer.BackwardInto(p, dx, dn, true)
}

// Forward changes the residual stream x in place; silu is SiLU(c). With a token
// other than All only that one of every sequence is brought up to date.
func (b *AdaLNBlock) Forward(p *Pass, x, silu device.Mat, s Seqs, token int) {
	b.silu, b.seqs, b.token = silu, s, token
	mark := p.Mark()
	b.mod = b.ada.Forward(p, silu)
	shift, scale, gate := b.parts(b.mod, 0)
	in := b.first.enter(p, x, shift, scale)
	x = s.only(x, token)
	b.att.Into(p, x, in, s, token, b.first.gated(p, x, s.only(gate, token)))

	shift, scale, gate = b.parts(s.only(b.mod, token), 1)
	in = b.second.enter(p, x, shift, scale)
	b.mlp.Into(p, x, in, b.second.gated(p, x, gate))
	if !p.saves() {
		p.Release(mark)
	}
}

// Backward changes the gradient dx of the residual stream in place and adds
// that of SiLU(c) to dsilu.
func (b *AdaLNBlock) Backward(p *Pass, dx, dsilu device.Mat) {
	mark := p.Mark()
	dmod := p.Mat(b.mod.Rows, b.mod.Cols)
	if b.token != All {
		p.Dev.Fill(dmod, 0)
	}
	dout := b.seqs.only(dx, b.token)
	dy := p.Mat(dout.Rows, dout.Cols)
	_, scale, gate := b.parts(b.seqs.only(b.mod, b.token), 1)
	dshift, dscale, dgate := b.parts(b.seqs.only(dmod, b.token), 1)
	p.Dev.GateGrad(dy, dgate, dout, gate, b.second.y)
	b.second.leave(p, dout, dshift, dscale, b.mlp.Backward(p, dy), scale)

	_, _, gate = b.parts(b.seqs.only(b.mod, b.token), 0)
	_, _, dgate = b.parts(b.seqs.only(dmod, b.token), 0)
	p.Dev.GateGrad(dy, dgate, dout, gate, b.first.y)
	_, scale, _ = b.parts(b.mod, 0)
	dshift, dscale, _ = b.parts(dmod, 0)
	b.first.leave(p, dx, dshift, dscale, b.att.Backward(p, dy), scale)

	b.ada.Grad(p, dmod, b.silu)
	b.ada.InputGrad(p, dsilu, dmod, device.Epilogue{Add: true})
	p.Release(mark)
}

// Unroll is a Predictor that predicts block after block for n sequences at
// once, in evaluation mode, with all that can be kept (docs/sources.md#rollout-work): what
// actions modulate is computed once an action; while the window grows, keys and
// values of earlier tokens stay and one token a step is new; of the last layer
// only the last position goes on. Once the window slides positions change, and
// it is computed anew. Rows are by token: row = token*n + sequence.
type Unroll struct {
	window
	r    *Predictor
	mods []device.Mat // of each layer: (h*n) x 6D
}

// Unroll starts from the embeddings of actions, row t*n + i of actions for block t
// of sequence i, that embed makes.
func (r *Predictor) Unroll(p *Pass, embed func(dst, actions device.Mat, ep device.Epilogue), actions device.Mat, n int) *Unroll {
	u := &Unroll{r: r, window: window{p: p, n: n, frames: r.cfg.Frames, tokens: 1}}
	silu, act := p.Activations(actions.Rows, r.cfg.inside()), device.Epilogue{Act: device.SiLU}
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

// Next is the prediction after block t, n x Out before the output projector, of
// the latents that latents gives: those of blocks [from, to), by token, where a
// row may stand for several sequences that follow one another. Steps go up from t = 0.
func (u *Unroll) Next(t int, latents func(from, to int) device.Mat) device.Mat {
	p := u.p
	x := u.next(t, func(first, fresh, seen int) device.Mat {
		x := p.Mat(fresh*u.n, u.r.cfg.Dim)
		p.Dev.AddRepeated(x, latents(first, t+1), u.r.pos.Value.RowRange(seen-fresh, fresh))
		return u.r.in.through(p, x)
	}, func(i int, x, cache device.Mat, first, queries int) device.Mat {
		return u.r.blocks[i].extend(p, x, u.mods[i].RowRange(first*u.n, x.Rows), cache, u.n, queries)
	})
	return u.r.out.through(p, u.r.norm.Forward(p, x))
}

// window is the frames that predictions of n sequences see, one more each step and then the last ones. While it grows,
// one frame a step is new and the keys and values of earlier ones stay; once it slides, positions change and all of it
// is computed again.
type window struct {
	p              *Pass
	n              int          // sequences
	frames, tokens int          // most frames; tokens of a frame
	cache          []device.Mat // of each layer: queries, keys and values, (frames*tokens*n) x 3*inner
}

// add makes the cache of a layer.
func (w *window) add(a *Attention) {
	w.cache = append(w.cache, w.p.Activations(w.frames*w.tokens*w.n, 3*a.width()))
}

// next brings the new frames of step t through all layers. enter gives their rows: of frames first to first+fresh-1,
// the last ones of those that are seen. extend is a layer, after which only the last queries tokens matter.
func (w *window) next(t int, enter func(first, fresh, seen int) device.Mat, extend func(i int, x, cache device.Mat, first, queries int) device.Mat) device.Mat {
	first, fresh, seen := t, 1, t+1
	slides := t >= w.frames
	if slides {
		first, fresh, seen = t+1-w.frames, w.frames, w.frames
	}
	x := enter(first, fresh, seen)
	for i, cache := range w.cache {
		if slides {
			cache = w.cache[0] // the window that grew is over: its memory will do
		}
		if i == len(w.cache)-1 {
			fresh = 1
		}
		mark := w.p.Mark()
		x = extend(i, x, cache.RowRange(0, seen*w.tokens*w.n), first, fresh*w.tokens)
		w.p.Release(mark)
	}
	return x
}

// last is the view of the last n rows.
func last(m device.Mat, n int) device.Mat { return m.RowRange(m.Rows-n, n) }

// extend is Forward of the last tokens of a window, rows x, whose queries, keys
// and values join those of earlier tokens in window; only the last `queries`
// tokens go on, which is what it returns of x.
func (b *AdaLNBlock) extend(p *Pass, x, mod, window device.Mat, n, queries int) device.Mat {
	shift, scale, _ := b.parts(mod, 0)
	in := b.first.enter(p, x, shift, scale)
	x, mod = last(x, queries*n), last(mod, queries*n)
	att := b.att.extend(p, window, in, n, queries)
	_, _, gate := b.parts(mod, 0)
	b.att.Out.Into(p, x, att, b.first.gated(p, x, gate))

	shift, scale, gate = b.parts(mod, 1)
	b.mlp.Into(p, x, b.second.enter(p, x, shift, scale), b.second.gated(p, x, gate))
	return x
}

// extend is the attention of the last `queries` tokens of a window, before Out. x
// are the tokens whose projections are not in window yet. A causal window's first token
// sees nothing but itself: the result is its own value, whatever its query, which is not
// computed where rows are so many that this is worth two kernels more.
func (a *Attention) extend(p *Pass, window, x device.Mat, n, queries int) device.Mat {
	_, kv := split(window, a.width())
	k, v := split(kv, a.width())
	rows, first := queries*n, 0 // of the result, and of those the first token's
	if alone := window.Rows == n; a.Block == 1 && rows == window.Rows && (alone || 4*n >= p.Dev.Traits().RolloutRows) {
		first = n
	}
	queried := rows - first
	if rest := x.Rows - queried; rest > 0 {
		a.keys().Into(p, last(kv, x.Rows).RowRange(0, rest), x.RowRange(0, rest), device.Epilogue{})
	}
	if queried == 0 {
		return v
	}
	a.QKV.Into(p, last(window, queried), last(x, queried), device.Epilogue{})
	att := p.Activations(rows, a.width())
	if first > 0 {
		p.Dev.Copy(att.RowRange(0, first), v.RowRange(0, first))
	}
	q, _ := split(last(window, queried), a.width())
	p.Dev.Attention(last(att, queried), device.Mat{}, q, k, v, device.Heads{Seqs: n, Len: window.Rows / n,
		Heads: a.Heads, Dim: a.Dim, Block: a.Block, Queries: queried / n, ByToken: true})
	return att
}
