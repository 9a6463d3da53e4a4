package nn

import (
	"fmt"

	"scalewm/model/device"
)

// CausalConfig is the geometry of a Causal.
type CausalConfig struct {
	Frames, Patches                 int // of the position table
	Dim, Depth, Heads, HeadDim, MLP int
	Dropout                         float64
}

// Causal is the transformer of DINO-WM (docs/sources.md#dino-wm): pre-norm blocks over
// the patches of a few frames, each of which sees its own frame and those before it.
type Causal struct {
	cfg    CausalConfig
	pos    *Param
	blocks []*Block
	norm   *LayerNorm

	seqs Seqs
}

// NewCausal declares the tensors under name.
func NewCausal(s *Set, name string, c CausalConfig) *Causal {
	n := c.Frames * c.Patches
	r := &Causal{cfg: c, pos: s.Param(name+".pos_embedding", n, c.Dim, Normal(1), 1, n, c.Dim)}
	name += ".transformer."
	r.norm = NewLayerNorm(s, name+"norm", c.Dim, innerEps)
	for i := range c.Depth {
		att, mlp := fmt.Sprintf("%slayers.%d.0.", name, i), fmt.Sprintf("%slayers.%d.1.net.", name, i)
		b := &Block{before: NewLayerNorm(s, att+"norm", c.Dim, innerEps)}
		b.att = newMaskedAttention(s, att, c.Dim, c.Heads, c.HeadDim, c.Patches, c.Dropout)
		b.after = NewLayerNorm(s, mlp+"0", c.Dim, innerEps)
		b.mlp = newFeedForward(s, mlp, c.Dim, c.MLP, c.Dropout)
		b.att.Site, b.mlp.Site = 4*i, 4*i+2
		r.blocks = append(r.blocks, b)
	}
	return r
}

// Forward is the outputs of the tokens x, (Count*Len) x Dim with Len a whole number of
// frames, at most Frames of them. x is changed in place.
func (r *Causal) Forward(p *Pass, x device.Mat, s Seqs) device.Mat {
	r.seqs = s
	p.Dev.CopyBlocks(x, s.Len, r.pos.Value, 0, s.Len, true)
	for _, b := range r.blocks {
		b.Forward(p, x, s, All)
	}
	y := p.Mat(x.Rows, x.Cols)
	r.norm.Into(p, y, x)
	return y
}

// Backward adds the parameters' gradients and returns that of the tokens.
func (r *Causal) Backward(p *Pass, dy device.Mat) device.Mat {
	dx := p.Mat(dy.Rows, dy.Cols)
	r.norm.BackwardInto(p, dx, dy, false)
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].Backward(p, dx)
	}
	p.Dev.SumTable(r.pos.Grad.RowRange(0, r.seqs.Len), dx)
	return dx
}

// CausalUnroll is a Causal that predicts frame after frame for n sequences at once, in
// evaluation mode, with all that can be kept: while the window grows, keys and values of
// earlier frames stay and one frame a step is new; of the last layer only the last frame
// goes on. Once the window slides positions change, and it is computed anew. Rows are by
// token: row = token*n + sequence, tokens counted frame*Patches + patch.
type CausalUnroll struct {
	r         *Causal
	p         *Pass
	n, window int
	cache     []device.Mat // of each layer: queries, keys and values, (window*Patches*n) x 3*inner
}

// Unroll begins with n sequences whose predictions see the last `window` frames.
func (r *Causal) Unroll(p *Pass, n, window int) *CausalUnroll {
	u := &CausalUnroll{r: r, p: p, n: n, window: window}
	for _, b := range r.blocks {
		u.cache = append(u.cache, p.Activations(window*r.cfg.Patches*n, 3*b.att.width()))
	}
	return u
}

// Next is the outputs of frame t, (Patches*n) x Dim. tokens writes a frame's tokens to
// dst with their positions, Patches x Dim, added. Steps go up from t = 0.
func (u *CausalUnroll) Next(t int, tokens func(dst, positions device.Mat, frame int)) device.Mat {
	if t < u.window {
		return u.run(span{fresh: 1, window: t + 1}, u.cache, t, tokens)
	}
	var cache []device.Mat
	for range u.r.blocks {
		cache = append(cache, u.cache[0]) // the window that grew is over: its memory will do
	}
	return u.run(span{fresh: u.window, window: u.window}, cache, t+1-u.window, tokens)
}

// run brings the frames of s through all layers; the first of them is frame t.
func (u *CausalUnroll) run(s span, cache []device.Mat, t int, tokens func(dst, positions device.Mat, frame int)) device.Mat {
	p, patches := u.p, u.r.cfg.Patches
	rows := patches * u.n
	x := p.Mat(s.fresh*rows, u.r.cfg.Dim)
	for i := range s.fresh {
		tokens(x.RowRange(i*rows, rows), u.r.pos.Value.RowRange((s.window-s.fresh+i)*patches, patches), t+i)
	}
	for i, b := range u.r.blocks {
		queries := s.fresh
		if i == len(u.r.blocks)-1 {
			queries = 1
		}
		mark := p.Mark()
		x = b.extend(p, x, cache[i].RowRange(0, s.window*rows), u.n, queries*patches)
		p.Release(mark)
	}
	y := p.Mat(x.Rows, x.Cols)
	u.r.norm.Into(p, y, x)
	return y
}

// extend is Forward of the last tokens of a window, rows x, whose queries, keys and
// values join those of earlier tokens in window; only the last `queries` tokens go on,
// which is what it returns of x.
func (b *Block) extend(p *Pass, x, window device.Mat, n, queries int) device.Mat {
	in := b.before.Forward(p, x)
	x = last(x, queries*n)
	b.att.Out.Into(p, x, b.att.extend(p, window, in, n, queries), device.Epilogue{Add: true})
	b.mlp.Into(p, x, b.after.Forward(p, x), device.Epilogue{Add: true})
	return x
}
