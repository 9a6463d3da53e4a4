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
	window
	r *Causal
}

// Unroll begins with n sequences whose predictions see that many frames.
func (r *Causal) Unroll(p *Pass, n, frames int) *CausalUnroll {
	u := &CausalUnroll{r: r, window: window{p: p, n: n, frames: frames, tokens: r.cfg.Patches}}
	for _, b := range r.blocks {
		u.add(b.att)
	}
	return u
}

// Next is the outputs of frame t, (Patches*n) x Dim. tokens writes a frame's tokens to
// dst with their positions, Patches x Dim, added. Steps go up from t = 0.
func (u *CausalUnroll) Next(t int, tokens func(dst, positions device.Mat, frame int)) device.Mat {
	p, patches := u.p, u.r.cfg.Patches
	rows := patches * u.n
	x := u.next(t, func(first, fresh, seen int) device.Mat {
		x := p.Mat(fresh*rows, u.r.cfg.Dim)
		for i := range fresh {
			tokens(x.RowRange(i*rows, rows), u.r.pos.Value.RowRange((seen-fresh+i)*patches, patches), first+i)
		}
		return x
	}, func(i int, x, cache device.Mat, _, queries int) device.Mat {
		return u.r.blocks[i].extend(p, x, cache, u.n, queries)
	})
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
