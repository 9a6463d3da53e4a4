package nn

import "scalewm/model/device"

// Unroll is a Predictor that predicts block after block for n sequences at
// once, in evaluation mode, with all that can be kept (eval-spec 7.5): what
// actions modulate is computed once an action; while the window grows, keys and
// values of earlier tokens stay and one token a step is new; of the last layer
// only the last position goes on. Once the window slides positions change, and
// it is computed anew. Rows are by token: row = token*n + sequence.
type Unroll struct {
	r    *Predictor
	p    *Pass
	n    int
	mods []device.Mat // of each layer: (h*n) x 6D
	kept []device.Mat // of each layer: keys and values, (Frames*n) x 2*inner
}

// Unroll starts from the actions' embeddings c, (h*n) x D with row t*n + i.
func (r *Predictor) Unroll(p *Pass, c device.Mat, n int) *Unroll {
	u := &Unroll{r: r, p: p, n: n}
	c = r.cond.through(p, c)
	silu := p.Mat(c.Rows, c.Cols)
	p.Dev.Activate(silu, c, device.SiLU)
	for _, b := range r.blocks {
		u.mods = append(u.mods, b.ada.Half(p, silu))
		u.kept = append(u.kept, p.Half(r.cfg.Frames*n, 2*b.att.width()))
	}
	return u
}

// Next is the prediction after block t, n x Out before the output projector, of
// the latents that latent(0..t) copies to n x D rows. Steps go up from t = 0.
func (u *Unroll) Next(t int, latent func(dst device.Mat, t int)) device.Mat {
	frames := u.r.cfg.Frames
	if t < frames {
		return u.run(span{from: t, to: t + 1, window: t + 1}, u.kept, t, latent)
	}
	s := span{to: frames, window: frames}
	var fresh []device.Mat
	for range u.r.blocks {
		fresh = append(fresh, u.kept[0]) // the window that grew is over: its memory will do
	}
	return u.run(s, fresh, t, latent)
}

// span is the positions [from, to) of a window of so many that are computed.
type span struct{ from, to, window int }

// run brings the positions of s through all layers; the last of them is the
// action t's.
func (u *Unroll) run(s span, kv []device.Mat, t int, latent func(dst device.Mat, t int)) device.Mat {
	p, first := u.p, t+1-s.window
	x := p.Mat((s.to-s.from)*u.n, u.r.cfg.Dim)
	for i := s.from; i < s.to; i++ {
		row := x.RowRange((i-s.from)*u.n, u.n)
		latent(row, first+i)
		p.Dev.AddTable(row, u.r.pos.Value.RowRange(i, 1))
	}
	x = u.r.in.through(p, x)
	for i, b := range u.r.blocks {
		asking := s.to - s.from
		if i == len(u.r.blocks)-1 {
			asking = 1
		}
		mark := p.Mark()
		x = b.extend(p, x, u.mods[i].RowRange((first+s.from)*u.n, x.Rows), kv[i], u.n, s, asking)
		p.Release(mark)
	}
	return u.r.out.through(p, u.r.norm.Forward(p, x))
}

// extend is Forward of tokens s of a window whose keys and values are kept in
// kv; only the last `asking` tokens go on, which is what it returns of x.
func (b *Conditional) extend(p *Pass, x, mod, kv device.Mat, n int, s span, asking int) device.Mat {
	shift, scale, _ := b.parts(mod, 0)
	in := b.first.enter(p, x, shift, scale)
	b.att.keys().Into(p, kv.RowRange(s.from*n, x.Rows), in, device.Epilogue{})
	tail := func(m device.Mat) device.Mat { return m.RowRange(m.Rows-asking*n, asking*n) }
	x, in, mod = tail(x), tail(in), tail(mod)

	k, v := split(kv.RowRange(0, s.window*n), b.att.width())
	att := p.Half(x.Rows, b.att.width())
	p.Dev.Attention(att, device.Mat{}, b.att.query().Half(p, in), k, v, device.Heads{Seqs: n, Len: s.window,
		Heads: b.att.Heads, Dim: b.att.Dim, Block: b.att.Block, Queries: asking, ByToken: true})
	_, _, gate := b.parts(mod, 0)
	b.att.Out.Into(p, x, att, b.first.gated(p, x, gate))

	shift, scale, gate = b.parts(mod, 1)
	b.mlp.Into(p, x, b.second.enter(p, x, shift, scale), b.second.gated(p, x, gate))
	return x
}
