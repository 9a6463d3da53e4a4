package cuda

import (
	"math"

	"scalewm/model/device"
)

// Sizes of kernels/common.cuh.
const (
	threads = 256
	warps   = threads / 32
	tile    = 1024 // columns of a row that a block works on

	// resident is the count of blocks that are on a Hopper at a time at least, 4 on each of 132 multiprocessors: enough
	// for kernels whose blocks go on to the next piece.
	resident = 528
)

func ceil(a, b int) int { return (a + b - 1) / b }

// tiles is the grid of a kernel that works element by element.
func tiles(rows, cols int) int { return rows * ceil(cols, tile) }

// flat is ms as rows of one length each, as few as can be: one where all are dense.
func flat(ms ...*mat) {
	for _, m := range ms {
		if m.p != 0 && m.stride != m.cols && m.rows > 1 {
			return
		}
	}
	for _, m := range ms {
		*m = mat{m.p, 1, m.rows * m.cols, m.rows * m.cols, m.bf16}
	}
}

// at is m from n numbers further on.
func (m mat) at(n int64) mat {
	width := int64(4)
	if m.bf16 != 0 {
		width = 2
	}
	m.p += Pointer(n * width)
	return m
}

// reshape is the same numbers in other rows.
func (m mat) reshape(rows, cols int64) mat {
	m.rows, m.cols, m.stride = rows, cols, cols
	return m
}

// repeated is a row seen as so many.
func repeated(row device.Mat, rows int64) mat {
	m := view(row)
	m.rows, m.stride = rows, 0
	return m
}

// each queues an element-wise kernel on matrices of one shape.
func (e *engine) each(k Kernel, out, in []mat) { e.eachWith(k, out, in, eachArgs{}) }

func (e *engine) eachWith(k Kernel, out, in []mat, args eachArgs) {
	var all [8]*mat
	n := copy(args.out[:], out)
	for i := range n {
		all[i] = &args.out[i]
	}
	for i := range copy(args.in[:], in) {
		all[n] = &args.in[i]
		n++
	}
	flat(all[:n]...)
	e.tiled(k, &args)
}

// tiled queues an element-wise kernel whose matrices keep their shapes.
func (e *engine) tiled(k Kernel, args *eachArgs) {
	launch(e, k, tiles(int(args.out[0].rows), int(args.out[0].cols)), threads, 0, args)
}

func (e *engine) fill(dst mat, v float64) {
	e.eachWith(kFill, []mat{dst}, nil, eachArgs{alpha: v})
}

func (e *engine) Fill(dst device.Mat, v float64) { e.fill(view(dst), v) }
func (e *engine) Copy(dst, src device.Mat)       { e.each(kCopy, []mat{view(dst)}, []mat{view(src)}) }

// CopyBlocks copies a block as one row where rows follow one another, and leaves what it
// gathers rounded as well.
func (e *engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	n := device.Blocks(dst, dstBlock, src, srcBlock, rows)
	to, from := view(dst), view(src)
	to.stride, from.stride = to.stride*int64(dstBlock), from.stride*int64(srcBlock)
	to.rows, from.rows = int64(n), int64(n)
	kernel, args := kCopy, eachArgs{}
	if add {
		kernel, args.alpha = kAxpy, 1
	}
	if dst.Dense() && src.Dense() {
		to.cols, from.cols = to.cols*int64(rows), from.cols*int64(rows)
		if n > 0 && !add && dstBlock == rows && dst.Cols%lanes == 0 && dst.Rows == n*rows {
			args.out[1] = e.next(dst).reshape(to.rows, to.cols)
		}
		rows = 1
	}
	for range rows {
		if n > 0 {
			e.eachWith(kernel, []mat{to, args.out[1]}, []mat{from}, args)
		}
		to, from = to.at(int64(dst.Stride)), from.at(int64(src.Stride))
	}
	if args.out[1].p != 0 {
		e.leftRounded(dst)
	}
}

func (e *engine) Activate(dst, x device.Mat, act device.Act) {
	e.eachWith(kActivate, []mat{view(dst)}, []mat{view(x)}, eachArgs{act: int64(act)})
}

func (e *engine) ActivateGrad(dx, dy, pre device.Mat, act device.Act) {
	e.eachWith(kActivateGrad, []mat{view(dx)}, []mat{view(dy), view(pre)}, eachArgs{act: int64(act)})
}

func (e *engine) Axpy(dst device.Mat, alpha float64, x device.Mat) {
	e.eachWith(kAxpy, []mat{view(dst)}, []mat{view(x)}, eachArgs{alpha: alpha})
}

func (e *engine) GateGrad(dy, dgate, dout, gate, y device.Mat) {
	e.each(kGateGrad, []mat{view(dy), view(dgate)}, []mat{view(dout), view(gate), view(y)})
}

func (e *engine) ModulateGrad(dx, dscale, dshift, dy, x, scale device.Mat) {
	e.each(kModulateGrad, []mat{view(dx), view(dscale), view(dshift)}, []mat{view(dy), view(x), view(scale)})
}

// Tokens is one kernel where rows follow one another and are read four numbers at a time.
func (e *engine) Tokens(dst, first, table, rows device.Mat) {
	n, blocks := table.Rows, dst.Rows/table.Rows
	if !dst.Dense() || !table.Dense() || !rows.Dense() || dst.Cols%4 != 0 {
		device.TokensByParts(e, dst, first, table, rows)
		return
	}
	e.tiled(kTokens, &eachArgs{out: [3]mat{view(dst.Reshape(blocks, n*dst.Cols))},
		in: [5]mat{view(table.Reshape(1, table.Len())), view(first), view(rows.Reshape(blocks, (n-1)*dst.Cols))}})
}

func (e *engine) AddRepeated(dst, a, b device.Mat) {
	launch(e, kAddRepeated, ceil(dst.Rows*ceil(dst.Cols, 4), threads), threads, 0,
		&eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(a), view(b)}})
}

// DropoutApply leaves dst rounded as well: it is a gradient on its way to products.
func (e *engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	e.eachWith(kDropout, []mat{view(dst), e.next(dst)}, []mat{view(x)}, eachArgs{alpha: float64(d.P), key: d.Key})
	e.leftRounded(dst)
}

func (e *engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	launch(e, kAdamW, min(resident, tiles(1, p.Cols)), threads, 0, &adamArgs{
		p: view(p), g: view(g), m: view(m), v: view(v), sumsq: view(sumsq),
		lr: o.LR, beta1: o.Beta1, beta2: o.Beta2, eps: o.Eps, decay: o.Decay, maxNorm: o.MaxNorm,
		correct1: 1 - math.Pow(o.Beta1, float64(o.Step)), correct2: 1 - math.Pow(o.Beta2, float64(o.Step)),
	})
	changed(p, true)
}

// tileMost is the shared memory that a block has without giving up neighbours on its multiprocessor.
const tileMost = 48 << 10

func (e *engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	args := patchArgs{dst: view(dst), px: px.(*bytes).p, frames: int64(px.Len() / f.Bytes()), size: int64(f.Size), patch: int64(f.Patch)}
	if f.List == nil {
		args.px += Pointer(f.First * f.Bytes())
		args.frames -= int64(f.First)
	} else {
		args.list, args.fault = e.indices(f.List)+Pointer(4*f.First), e.fault.p
	}
	for ch := range 3 {
		args.scale[ch] = 1 / (255 * f.Std[ch])
		args.shift[ch] = -f.Mean[ch] / f.Std[ch]
	}
	if shared, ok := strips(dst, f); ok {
		launch(e, kPatchesBF16, f.Count*(f.Size/f.Patch), threads, shared, &args)
		return
	}
	launch(e, kPatches, dst.Rows, threads, 0, &args)
}

// strips says whether patches_bf16 can cut the frames, and the shared memory that it wants.
func strips(dst device.Mat, f device.Frames) (shared int, ok bool) {
	shared = f.Size / f.Patch * ceil(dst.Cols, 8) * 16
	return shared, dst.BF16() && f.Patch%2 == 0 && f.Size%4 == 0 && dst.Off%8 == 0 && dst.Stride%8 == 0 && shared <= tileMost
}
