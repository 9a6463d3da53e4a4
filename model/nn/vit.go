package nn

import (
	"fmt"

	"scalewm/model/device"
)

// vitEps is the LayerNorm epsilon of Hugging Face's ViT.
const vitEps = 1e-12

// vitInit is its initialisation: normal with deviation 0.02 (the cut at +-2 of
// the original never bites), biases zero (docs/sources.md#initial-weights).
var vitInit = Inits{Normal(0.02), Const(0)}

// imageMean and imageStd are ImageNet's, by channel (docs/sources.md#image-normalisation).
var (
	imageMean = [3]float64{0.485, 0.456, 0.406}
	imageStd  = [3]float64{0.229, 0.224, 0.225}
)

// ViTConfig is the geometry of a ViT.
type ViTConfig struct{ ImageSize, Patch, Width, Layers, Heads, MLP int }

// ViT is a pre-norm vision transformer without pooler (docs/sources.md#encoder). Its
// output is the class token after the final LayerNorm.
type ViT struct {
	cfg      ViTConfig
	cls, pos *Param
	patch    *Linear
	blocks   []*Block
	norm     *LayerNorm

	patches, x device.Mat
	seqs       Seqs
}

// NewViT declares the tensors under name in the spelling of transformers 4.
func NewViT(s *Set, name string, c ViTConfig) *ViT {
	g := c.ImageSize / c.Patch
	in := 3 * c.Patch * c.Patch
	v := &ViT{cfg: c, seqs: Seqs{Len: g*g + 1}}
	e := name + ".embeddings."
	v.cls = s.Param(e+"cls_token", 1, c.Width, vitInit.Weight, 1, 1, c.Width)
	v.pos = s.Param(e+"position_embeddings", g*g+1, c.Width, vitInit.Weight, 1, g*g+1, c.Width)
	e += "patch_embeddings.projection."
	v.patch = &Linear{
		W: s.Param(e+"weight", c.Width, in, vitInit.Weight, c.Width, 3, c.Patch, c.Patch),
		B: s.Vector(e+"bias", c.Width, vitInit.Bias),
	}
	for i := range c.Layers {
		v.blocks = append(v.blocks, newBlock(s, fmt.Sprintf("%s.encoder.layer.%d.", name, i), c))
	}
	v.norm = NewLayerNorm(s, name+".layernorm", c.Width, vitEps)
	return v
}

// Patches cuts n frames into patch rows, (n*grid) x (3*patch^2): the first n of px,
// or those that list names.
func (v *ViT) Patches(p *Pass, px device.Bytes, list device.Ints, n int) device.Mat {
	f := device.Frames{Count: n, Size: v.cfg.ImageSize, Patch: v.cfg.Patch, Mean: imageMean, Std: imageStd, List: list}
	cols := 3 * f.Patch * f.Patch
	m := p.Activations(n*f.Grid(), (cols+7)/8*8).Columns(0, cols) // rows begin where products load 16 bytes at once
	p.Dev.Patches(m, px, f)
	return m
}

// Forward returns the class tokens of the frames whose patch rows are given.
func (v *ViT) Forward(p *Pass, patches device.Mat) device.Mat {
	v.patches = patches
	grid := v.seqs.Len - 1
	v.seqs.Count = patches.Rows / grid
	v.x = p.Mat(v.seqs.Count*v.seqs.Len, v.cfg.Width)
	p.Dev.Tokens(v.x, v.cls.Value, v.pos.Value, v.patch.Forward(p, patches))
	for i, b := range v.blocks {
		b.Forward(p, v.x, v.seqs, v.token(i))
	}
	return v.norm.Forward(p, v.x.Every(0, v.seqs.Len))
}

// token is what layer i has to keep: after the last one only the class token is read.
func (v *ViT) token(i int) int {
	if i == len(v.blocks)-1 {
		return 0
	}
	return All
}

// Backward adds the parameters' gradients given those of the class tokens.
func (v *ViT) Backward(p *Pass, dcls device.Mat) {
	dx := p.Zero(v.x.Rows, v.x.Cols)
	v.norm.BackwardInto(p, dx.Every(0, v.seqs.Len), dcls, false)
	for i := len(v.blocks) - 1; i >= 0; i-- {
		v.blocks[i].Backward(p, dx)
	}
	p.Dev.SumTable(v.pos.Grad, dx)
	p.Dev.SumTable(v.cls.Grad, dx.Every(0, v.seqs.Len))
	grid := v.seqs.Len - 1
	dpatch := p.Mat(v.patches.Rows, v.cfg.Width)
	p.Dev.CopyBlocks(dpatch, grid, dx.RowRange(1, dx.Rows-1), v.seqs.Len, grid, false)
	v.patch.Grad(p, dpatch, v.patches)
}

// Block is a pre-norm transformer layer: x += attention(LN(x)); x += MLP(LN(x)).
type Block struct {
	before, after *LayerNorm
	att           *Attention
	mlp           *MLP

	seqs  Seqs
	token int
}

func newBlock(s *Set, name string, c ViTConfig) *Block {
	w, a := c.Width, name+"attention.attention."
	var weights, biases []*Param
	parts := []string{"query", "key", "value"}
	for _, q := range parts {
		weights = append(weights, s.Param(a+q+".weight", w, w, vitInit.Weight))
	}
	for _, q := range parts {
		biases = append(biases, s.Vector(a+q+".bias", w, vitInit.Bias))
	}
	qkv := &Linear{s.Join(3*w, w, weights...), s.Join(1, 3*w, biases...)}
	return &Block{
		att: &Attention{QKV: qkv, Out: NewLinear(s, name+"attention.output.dense", w, w, vitInit), Heads: c.Heads, Dim: w / c.Heads},
		mlp: &MLP{In: NewLinear(s, name+"intermediate.dense", w, c.MLP, vitInit),
			Out: NewLinear(s, name+"output.dense", c.MLP, w, vitInit), Act: device.GELU},
		before: NewLayerNorm(s, name+"layernorm_before", w, vitEps),
		after:  NewLayerNorm(s, name+"layernorm_after", w, vitEps),
	}
}

// Forward changes the residual stream x in place. With a token other than All
// only that one of every sequence is brought up to date: nothing later may read the rest.
func (b *Block) Forward(p *Pass, x device.Mat, s Seqs, token int) {
	b.seqs, b.token = s, token
	mark := p.Mark()
	y := s.only(x, token)
	b.att.Into(p, y, b.before.Forward(p, x), s, token, device.Epilogue{Add: true})
	b.mlp.Into(p, y, b.after.Forward(p, y), device.Epilogue{Add: true})
	if !p.Train {
		p.Release(mark)
	}
}

// Backward changes the gradient dx of the residual stream in place. Its scratch
// is taken back: nothing of a block's backward pass is read later.
func (b *Block) Backward(p *Pass, dx device.Mat) {
	mark := p.Mark()
	dy := b.seqs.only(dx, b.token)
	b.after.BackwardInto(p, dy, b.mlp.Backward(p, b.kept(p, dy)), true)
	b.before.BackwardInto(p, dx, b.att.Backward(p, b.kept(p, dy)), true)
	p.Release(mark)
}

// kept is dy, or a copy of it where dropout would change it on its way into a branch.
func (b *Block) kept(p *Pass, dy device.Mat) device.Mat {
	if b.mlp.Drop == 0 {
		return dy
	}
	c := p.Mat(dy.Rows, dy.Cols)
	p.Dev.Copy(c, dy)
	return c
}
