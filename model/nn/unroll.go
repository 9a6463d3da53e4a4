package nn

import "scalewm/model/device"

// Unroll is a Predictor that predicts block after block for n sequences at
// once, in evaluation mode, with all that can be kept (docs/sources.md#rollout-work): what
// actions modulate is computed once an action; while the window grows, keys and
// values of earlier tokens stay and one token a step is new; of the last layer
// only the last position goes on. Once the window slides positions change, and
// it is computed anew. Rows are by token: row = token*n + sequence.
type Unroll struct {
	r     *Predictor
	p     *Pass
	n     int
	mods  []device.Mat // of each layer: (h*n) x 6D
	cache []device.Mat // KV cache of each layer: queries, keys and values, (Frames*n) x 3*inner
}

// Unroll starts from the embeddings of actions, row t*n + i of actions for block t
// of sequence i, that embed makes.
func (r *Predictor) Unroll(p *Pass, embed func(dst, actions device.Mat, ep device.Epilogue), actions device.Mat, n int) *Unroll {
	u := &Unroll{r: r, p: p, n: n}
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
		u.cache = append(u.cache, p.Activations(r.cfg.Frames*n, 3*b.att.width()))
	}
	return u
}

// Next is the prediction after block t, n x Out before the output projector, of
// the latents that latents gives: those of blocks [from, to), by token, where a
// row may stand for several sequences that follow one another. Steps go up from t = 0.
func (u *Unroll) Next(t int, latents func(from, to int) device.Mat) device.Mat {
	frames := u.r.cfg.Frames
	if t < frames {
		return u.run(span{fresh: 1, window: t + 1}, u.cache, t, latents(t, t+1))
	}
	var cache []device.Mat
	for range u.r.blocks {
		cache = append(cache, u.cache[0]) // the window that grew is over: its memory will do
	}
	first := t + 1 - frames
	return u.run(span{fresh: frames, window: frames}, cache, first, latents(first, t+1))
}

// span is the last positions of a window, which are computed.
type span struct{ fresh, window int }

// run brings the positions of s through all layers; the first of them is block t's.
func (u *Unroll) run(s span, cache []device.Mat, t int, latents device.Mat) device.Mat {
	p := u.p
	x := p.Mat(s.fresh*u.n, u.r.cfg.Dim)
	p.Dev.AddRepeated(x, latents, u.r.pos.Value.RowRange(s.window-s.fresh, s.fresh))
	x = u.r.in.through(p, x)
	for i, b := range u.r.blocks {
		queries := s.fresh
		if i == len(u.r.blocks)-1 {
			queries = 1
		}
		mark := p.Mark()
		x = b.extend(p, x, u.mods[i].RowRange(t*u.n, x.Rows), cache[i].RowRange(0, s.window*u.n), u.n, queries)
		p.Release(mark)
	}
	return u.r.out.through(p, u.r.norm.Forward(p, x))
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
// are the tokens whose projections are not in window yet.
func (a *Attention) extend(p *Pass, window, x device.Mat, n, queries int) device.Mat {
	q, kv := split(window, a.width())
	k, v := split(kv, a.width())
	q = last(q, queries*n)
	if window.Rows == n { // a token that sees nothing but itself has its own value
		a.keys().Into(p, kv, x, device.Epilogue{})
		return v
	}
	if q.Rows == x.Rows {
		a.QKV.Into(p, last(window, x.Rows), x, device.Epilogue{})
	} else {
		a.keys().Into(p, last(kv, x.Rows), x, device.Epilogue{})
		a.query().Into(p, q, last(x, q.Rows), device.Epilogue{})
	}
	att := p.Activations(q.Rows, a.width())
	p.Dev.Attention(att, device.Mat{}, q, k, v, device.Heads{Seqs: n, Len: window.Rows / n,
		Heads: a.Heads, Dim: a.Dim, Block: a.Block, Queries: queries, ByToken: true})
	return att
}
