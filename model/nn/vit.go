package nn

import (
	"cmp"
	"fmt"

	"scalewm/model/device"
)

// vitInit is the initialisation of Hugging Face's ViTs: normal with standard
// deviation 0.02, biases zero (docs/sources.md#initial-weights). Their truncation at
// +-2 is 100 standard deviations away and is left out.
var vitInit = Inits{Normal(0.02), Const(0)}

// ViTKind is what differs between the supported kinds of ViT.
type ViTKind struct {
	Eps float64 // epsilon of the LayerNorms
	// MaskToken means that files hold a mask token, which only DINOv2's own training
	// uses.
	MaskToken bool
	names     blockNames
}

// The kinds of ViT, with the tensor names of transformers 4
// (docs/sources.md#tensor-names): PlainViT is LeWM's encoder, DINOv2 the frozen
// encoder of DINO-WM.
var (
	PlainViT = ViTKind{Eps: 1e-12, names: blockNames{in: "intermediate.dense", out: "output.dense", before: "layernorm_before", after: "layernorm_after"}}
	DINOv2   = ViTKind{Eps: 1e-6, MaskToken: true, names: blockNames{in: "mlp.fc1", out: "mlp.fc2", before: "norm1", after: "norm2",
		scale: [2]string{"layer_scale1.lambda1", "layer_scale2.lambda1"}}}
)

// blockNames are the names of a Block's tensors, relative to the block's name.
type blockNames struct {
	in, out, before, after string
	// scale names the factors of LayerScale for the two branches. They are "" without
	// LayerScale.
	scale [2]string
}

// imageMean and imageStd are ImageNet's mean and standard deviation of each channel, of
// pixels in [0, 1] (docs/sources.md#image-normalisation).
var (
	imageMean = [3]float64{0.485, 0.456, 0.406}
	imageStd  = [3]float64{0.229, 0.224, 0.225}
)

// ViTConfig is the geometry of a ViT. ImageSize and Patch are edges in pixels.
type ViTConfig struct {
	ImageSize, Patch, Width, Layers, Heads, MLP int
	// Positions is the edge of the stored position grid in patches, or 0 for that of the
	// frames' own grid.
	Positions int
	Kind      ViTKind
}

// ViT is a pre-norm vision transformer without pooler (docs/sources.md#encoder). Its
// output is the class tokens after the final LayerNorm (Forward), or the patch tokens
// (Features).
type ViT struct {
	cfg      ViTConfig
	cls, pos *Param
	table    device.Mat // replaces pos if given
	patch    *Linear
	blocks   []*Block
	norm     *LayerNorm

	// Saved for Backward: the patch rows, and the residual stream.
	patches, x device.Mat
	seqs       Seqs
}

// NewViT declares the layers' tensors in s, with names that begin with name.
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

// Positions returns the parameter that holds the stored position table.
func (v *ViT) Positions() *Param { return v.pos }

// SetTable sets a position table that replaces the stored one. It has 1 + grid rows:
// the class token's, then the patches'.
func (v *ViT) SetTable(table device.Mat) { v.table = table }

// Patches cuts n normalised frames into patch rows, (n*grid) x (3*patch^2). The
// frames are number first, first+1, ... of px or, if list is not nil, those whose
// indices list holds at these places.
func (v *ViT) Patches(p *Pass, px device.Bytes, list device.Ints, first, n int) device.Mat {
	f := device.Frames{Count: n, Size: v.cfg.ImageSize, Patch: v.cfg.Patch, Mean: imageMean, Std: imageStd, List: list, First: first}
	cols := 3 * f.Patch * f.Patch
	// Rows are padded to a multiple of 8 numbers, so that in bf16 each begins at a
	// multiple of 16 bytes and GEMM kernels can use 16-byte loads.
	m := p.Activations(n*f.Grid(), (cols+7)/8*8).Columns(0, cols)
	p.Dev.Patches(m, px, f)
	return m
}

// Forward returns the class tokens, n x Width, of n frames, given their patch rows.
func (v *ViT) Forward(p *Pass, patches device.Mat) device.Mat {
	v.embed(p, patches)
	for i, b := range v.blocks {
		b.Forward(p, v.x, v.seqs, v.token(i))
	}
	return v.norm.Forward(p, v.x.Every(0, v.seqs.Len))
}

// Features writes the patch tokens of n frames after the final LayerNorm to dst,
// (n*grid) x Width, given their patch rows. Row i of dst is patch row i.
func (v *ViT) Features(p *Pass, dst, patches device.Mat) {
	v.embed(p, patches)
	for _, b := range v.blocks {
		b.Forward(p, v.x, v.seqs, All)
	}
	grid := v.seqs.Len - 1
	p.Dev.CopyBlocks(dst, grid, v.x.RowRange(1, v.x.Rows-1), v.seqs.Len, grid, false)
	v.norm.Into(p, dst, dst)
}

// embed computes the input tokens, (n*(grid+1)) x Width: the class token and the
// embedded patches of each frame, with positions added.
func (v *ViT) embed(p *Pass, patches device.Mat) {
	table := v.pos.Value
	if v.table.IsSet() {
		table = v.table
	}
	v.patches = patches
	v.seqs.Count = patches.Rows / (v.seqs.Len - 1)
	v.x = p.Mat(v.seqs.Count*v.seqs.Len, v.cfg.Width)
	p.Dev.Tokens(v.x, v.cls.Value, table, v.patch.Forward(p, patches))
}

// token returns the token that layer i must update. Only the class token of the last
// layer's output is read.
func (v *ViT) token(i int) int {
	if i == len(v.blocks)-1 {
		return 0
	}
	return All
}

// Backward adds the gradients of the parameters, given that of the class tokens,
// n x Width. The gradient of the frames is not computed.
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

// Block is a pre-norm transformer layer: x += attention(LN(x)), then x += MLP(LN(x)).
// With LayerScale each addend is multiplied column by column by a parameter. Backward
// does not support LayerScale, which only the frozen DINOv2 has.
type Block struct {
	before, after *LayerNorm
	att           *Attention
	mlp           *MLP
	scale         [2]*Param // LayerScale of the two branches, or nil

	seqs  Seqs
	token int
}

// newBlock declares the tensors of a block, in the order of files.
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

// residual returns the epilogue that adds the result of branch i, after its
// LayerScale, to the given number of rows of the residual stream.
func (b *Block) residual(i, rows int) device.Epilogue {
	ep := device.Epilogue{Add: true}
	if b.scale[i] != nil {
		ep.Gate = b.scale[i].Value.Repeated(rows)
	}
	return ep
}

// Forward updates the residual stream x in place. If token is not All, only that
// token of every sequence is updated, and nothing may read the other tokens
// afterwards.
func (b *Block) Forward(p *Pass, x device.Mat, s Seqs, token int) {
	b.seqs, b.token = s, token
	mark := p.Mark()
	y := s.only(x, token)
	b.att.Into(p, y, b.before.Forward(p, x), s, token, b.residual(0, y.Rows))
	b.feed(p, y)
	if !p.Train {
		p.Release(mark)
	}
}

// Backward turns dx, the gradient of the residual stream after the block, into that
// before it, in place. It releases its scratch memory, since nothing reads it later.
func (b *Block) Backward(p *Pass, dx device.Mat) {
	mark := p.Mark()
	dy := b.seqs.only(dx, b.token)
	b.feedGrad(p, dy)
	b.before.BackwardInto(p, dx, b.att.Backward(p, b.copyForBranch(p, dy)), true)
	p.Release(mark)
}

// feed adds the second branch, MLP(LN(x)), to x, and feedGrad is its backward pass.
func (b *Block) feed(p *Pass, x device.Mat) {
	b.mlp.Into(p, x, b.after.Forward(p, x), b.residual(1, x.Rows))
}

func (b *Block) feedGrad(p *Pass, dx device.Mat) {
	b.after.BackwardInto(p, dx, b.mlp.Backward(p, b.copyForBranch(p, dx)), true)
}

// copyForBranch returns dy, or a copy of it if the backward pass of a branch would
// overwrite it with its dropout mask. The residual stream still needs the unmasked
// gradient.
func (b *Block) copyForBranch(p *Pass, dy device.Mat) device.Mat {
	if b.mlp.Drop == 0 {
		return dy
	}
	c := p.Mat(dy.Rows, dy.Cols)
	p.Dev.Copy(c, dy)
	return c
}
