package nn

import (
	"cmp"
	"fmt"

	"scalewm/model/device"
)

// vitInit is the initialisation of Hugging Face's ViTs: normal with deviation 0.02
// (the cut at +-2 of the original never bites), biases zero (docs/sources.md#initial-weights).
var vitInit = Inits{Normal(0.02), Const(0)}

// ViTKind is what the kinds of ViT differ in.
type ViTKind struct {
	Eps       float64 // of the LayerNorms
	MaskToken bool    // the embeddings have one, which only their own training reads
	names     blockNames
}

// The kinds, with the tensor names of transformers 4 (docs/sources.md#tensor-names).
var (
	PlainViT = ViTKind{Eps: 1e-12, names: blockNames{in: "intermediate.dense", out: "output.dense", before: "layernorm_before", after: "layernorm_after"}}
	DINOv2   = ViTKind{Eps: 1e-6, MaskToken: true, names: blockNames{in: "mlp.fc1", out: "mlp.fc2", before: "norm1", after: "norm2",
		scale: [2]string{"layer_scale1.lambda1", "layer_scale2.lambda1"}}}
)

// blockNames are the tensors of a Block behind its own name.
type blockNames struct {
	in, out, before, after string
	scale                  [2]string // of LayerScale; none: ""
}

// imageMean and imageStd are ImageNet's, by channel (docs/sources.md#image-normalisation).
var (
	imageMean = [3]float64{0.485, 0.456, 0.406}
	imageStd  = [3]float64{0.229, 0.224, 0.225}
)

// ViTConfig is the geometry of a ViT.
type ViTConfig struct {
	ImageSize, Patch, Width, Layers, Heads, MLP int
	Positions                                   int // edge of the stored position table; 0: that of the patches
	Kind                                        ViTKind
}

// ViT is a pre-norm vision transformer without pooler (docs/sources.md#encoder). Its
// output are the class tokens, or those of the patches, after the final LayerNorm.
type ViT struct {
	cfg      ViTConfig
	cls, pos *Param
	table    device.Mat // instead of pos
	patch    *Linear
	blocks   []*Block
	norm     *LayerNorm

	patches, x device.Mat
	seqs       Seqs
}

// NewViT declares the tensors under name.
func NewViT(s *Set, name string, c ViTConfig) *ViT {
	g := c.ImageSize / c.Patch
	rows := 1 + cmp.Or(c.Positions, g)*cmp.Or(c.Positions, g)
	in := 3 * c.Patch * c.Patch
	v := &ViT{cfg: c, seqs: Seqs{Len: g*g + 1}}
	e := name + ".embeddings."
	v.cls = s.Param(e+"cls_token", 1, c.Width, vitInit.Weight, 1, 1, c.Width)
	if c.Kind.MaskToken {
		s.Param(e+"mask_token", 1, c.Width, Const(0))
	}
	v.pos = s.Param(e+"position_embeddings", rows, c.Width, vitInit.Weight, 1, rows, c.Width)
	e += "patch_embeddings.projection."
	v.patch = &Linear{
		W: s.Param(e+"weight", c.Width, in, vitInit.Weight, c.Width, 3, c.Patch, c.Patch),
		B: s.Vector(e+"bias", c.Width, vitInit.Bias),
	}
	for i := range c.Layers {
		v.blocks = append(v.blocks, newBlock(s, fmt.Sprintf("%s.encoder.layer.%d.", name, i), c))
	}
	v.norm = NewLayerNorm(s, name+".layernorm", c.Width, c.Kind.Eps)
	return v
}

// Positions is the parameter that holds the stored position table.
func (v *ViT) Positions() *Param { return v.pos }

// SetTable gives the positions to be used instead of the stored ones, 1 + grid rows.
func (v *ViT) SetTable(table device.Mat) { v.table = table }

// Patches cuts n frames into patch rows, (n*grid) x (3*patch^2): from number first on
// of px, or of those that list names.
func (v *ViT) Patches(p *Pass, px device.Bytes, list device.Ints, first, n int) device.Mat {
	f := device.Frames{Count: n, Size: v.cfg.ImageSize, Patch: v.cfg.Patch, Mean: imageMean, Std: imageStd, List: list, First: first}
	cols := 3 * f.Patch * f.Patch
	m := p.Activations(n*f.Grid(), (cols+7)/8*8).Columns(0, cols) // rows begin where products load 16 bytes at once
	p.Dev.Patches(m, px, f)
	return m
}

// Forward returns the class tokens of the frames whose patch rows are given.
func (v *ViT) Forward(p *Pass, patches device.Mat) device.Mat {
	v.embed(p, patches)
	for i, b := range v.blocks {
		b.Forward(p, v.x, v.seqs, v.token(i))
	}
	return v.norm.Forward(p, v.x.Every(0, v.seqs.Len))
}

// Features writes the tokens of the patches whose rows are given, row for row.
func (v *ViT) Features(p *Pass, dst, patches device.Mat) {
	v.embed(p, patches)
	for _, b := range v.blocks {
		b.Forward(p, v.x, v.seqs, All)
	}
	grid := v.seqs.Len - 1
	p.Dev.CopyBlocks(dst, grid, v.x.RowRange(1, v.x.Rows-1), v.seqs.Len, grid, false)
	v.norm.Into(p, dst, dst)
}

// embed makes the tokens of the frames whose patch rows are given.
func (v *ViT) embed(p *Pass, patches device.Mat) {
	table := v.pos.Value
	if v.table.Given() {
		table = v.table
	}
	v.patches = patches
	v.seqs.Count = patches.Rows / (v.seqs.Len - 1)
	v.x = p.Mat(v.seqs.Count*v.seqs.Len, v.cfg.Width)
	p.Dev.Tokens(v.x, v.cls.Value, table, v.patch.Forward(p, patches))
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

// Block is a pre-norm transformer layer: x += attention(LN(x)); x += MLP(LN(x)). With
// LayerScale each addend is multiplied by a factor a column; there is no way back then.
type Block struct {
	before, after *LayerNorm
	att           *Attention
	mlp           *MLP
	scale         [2]*Param // of LayerScale, or nil

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
	n, b := c.Kind.names, &Block{}
	scaled := func(i int) {
		if n.scale[i] != "" {
			b.scale[i] = s.Vector(name+n.scale[i], w, Const(1))
		}
	}
	b.att = &Attention{QKV: qkv, Out: NewLinear(s, name+"attention.output.dense", w, w, vitInit), Heads: c.Heads, Dim: w / c.Heads}
	scaled(0)
	b.mlp = &MLP{In: NewLinear(s, name+n.in, w, c.MLP, vitInit), Out: NewLinear(s, name+n.out, c.MLP, w, vitInit), Act: device.GELU}
	scaled(1)
	b.before = NewLayerNorm(s, name+n.before, w, c.Kind.Eps)
	b.after = NewLayerNorm(s, name+n.after, w, c.Kind.Eps)
	return b
}

// onto is how addend i gets to so many rows of the residual stream.
func (b *Block) onto(i, rows int) device.Epilogue {
	ep := device.Epilogue{Add: true}
	if b.scale[i] != nil {
		ep.Gate = b.scale[i].Value.Repeated(rows)
	}
	return ep
}

// Forward changes the residual stream x in place. With a token other than All
// only that one of every sequence is brought up to date: nothing later may read the rest.
func (b *Block) Forward(p *Pass, x device.Mat, s Seqs, token int) {
	b.seqs, b.token = s, token
	mark := p.Mark()
	y := s.only(x, token)
	b.att.Into(p, y, b.before.Forward(p, x), s, token, b.onto(0, y.Rows))
	b.mlp.Into(p, y, b.after.Forward(p, y), b.onto(1, y.Rows))
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
