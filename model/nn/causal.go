package nn

import (
	"fmt"

	"scalewm/model/device"
)

// CausalConfig is the geometry of a Causal: Dim columns per token, Depth layers,
// Heads heads of HeadDim columns, MLP hidden columns.
type CausalConfig struct {
	// Frames x Patches is the number of rows of the position table.
	Frames, Patches                 int
	Dim, Depth, Heads, HeadDim, MLP int
	Dropout                         float64
}

// Causal is the transformer of DINO-WM (docs/sources.md#dino-wm): pre-norm blocks
// over the patches of up to Frames frames. Every patch attends to all patches of its
// own frame and of earlier frames.
type Causal struct {
	cfg    CausalConfig
	pos    *Param
	blocks []*Block
	norm   *LayerNorm

	// seqs is the shape of the last Forward, for Backward.
	seqs Seqs
}

// NewCausal declares the layers' tensors in s, with names that begin with name.
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
		// Attention and MLP have two dropout masks each.
		b.att.Site, b.mlp.Site = 4*i, 4*i+2
		r.blocks = append(r.blocks, b)
	}
	return r
}

// Forward returns the outputs for the tokens x, (Count*Len) x Dim. Len is a multiple
// of Patches, at most Frames*Patches. Forward overwrites x, which serves as the
// residual stream.
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

// Backward adds the gradients of the parameters and returns that of the tokens.
func (r *Causal) Backward(p *Pass, dy device.Mat) device.Mat {
	dx := p.Mat(dy.Rows, dy.Cols)
	r.norm.BackwardInto(p, dx, dy, false)
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].Backward(p, dx)
	}
	p.Dev.SumTable(r.pos.Grad.RowRange(0, r.seqs.Len), dx)
	return dx
}

// CausalUnroll runs a Causal frame by frame for n sequences at once, in evaluation
// mode. It avoids all work that does not change the result
// (docs/sources.md#dino-wm-work):
//
//   - While the window of frames grows, it caches keys and values of earlier frames,
//     so that a step computes one new frame.
//   - After the last layer's attention only the last frame is needed, so that the
//     rest of that layer runs on its rows alone.
//
// Once the window slides, every frame has another position in the window and hence
// other values, so that all frames are computed again.
//
// Rows are ordered by token: row = token*n + sequence, with token = frame*Patches +
// patch. A new frame then appends rows to the cache, instead of inserting some into
// each sequence.
type CausalUnroll struct {
	window
	r *Causal
}

// Unroll returns a CausalUnroll for n sequences with a window of the given number of
// frames.
func (r *Causal) Unroll(p *Pass, n, frames int) *CausalUnroll {
	u := &CausalUnroll{r: r, window: window{p: p, n: n, frames: frames, tokens: r.cfg.Patches}}
	for _, b := range r.blocks {
		u.add(b.att)
	}
	return u
}

// Next returns the outputs for frame t, (Patches*n) x Dim. tokens must write the
// tokens of the given frame to dst, (Patches*n) x Dim, with positions, Patches x Dim,
// added. Next must be called for t = 0, 1, 2, ... in order.
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

// extend runs the block for the newest tokens of a window, x, in evaluation mode. It
// stores their queries, keys and values in the last rows of window, which already
// holds those of earlier tokens. Only the last `queries` tokens of each of the n
// sequences are updated, and extend returns the view of their rows.
func (b *Block) extend(p *Pass, x, window device.Mat, n, queries int) device.Mat {
	in := b.before.Forward(p, x)
	x = lastRows(x, queries*n)
	b.att.Out.Into(p, x, b.att.extend(p, window, in, n, queries), device.Epilogue{Add: true})
	b.mlp.Into(p, x, b.after.Forward(p, x), device.Epilogue{Add: true})
	return x
}
