package cuda

import (
	"math"

	"scalewm/model/device"
)

// Sizes of kernels/common.cuh, and of the grid of kernels whose blocks loop.
const (
	threads = 256
	warps   = threads / 32
	tile    = 1024 // columns of a row that a block processes

	// resident is the number of blocks of 256 threads that an H100 holds at once at
	// least, 4 on each of 132 SMs. Kernels whose blocks loop over their work need no
	// more.
	resident = 528
)

// ceil returns a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// tiles returns the grid of an element-wise kernel.
func tiles(rows, cols int) int { return rows * ceil(cols, tile) }

// flat presents matrices of one shape as a single row each if all of them are
// contiguous. Blocks of 1,024 columns then fill the GPU whatever the shape.
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

// at returns m shifted by n elements.
func (m mat) at(n int64) mat {
	width := int64(4)
	if m.bf16 != 0 {
		width = 2
	}
	m.p += Pointer(n * width)
	return m
}

// reshape returns the same contiguous elements as rows x cols.
func (m mat) reshape(rows, cols int64) mat {
	m.rows, m.cols, m.stride = rows, cols, cols
	return m
}

// repeated presents a row as a matrix of `rows` equal rows, by a stride of 0.
func repeated(row device.Mat, rows int64) mat {
	m := view(row)
	m.rows, m.stride = rows, 0
	return m
}

// each queues an element-wise kernel on matrices of one shape; eachWith does so with
// further arguments.
func (e *engine) each(k Kernel, out, in []mat) { e.eachWith(k, out, in, eachArgs{}) }

func (e *engine) eachWith(k Kernel, out, in []mat, args eachArgs) {
	// All matrices must be flattened together or not at all.
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

// tiled queues an element-wise kernel without flattening its matrices.
func (e *engine) tiled(k Kernel, args *eachArgs) {
	launch(e, k, tiles(int(args.out[0].rows), int(args.out[0].cols)), threads, 0, args)
}

// fill sets all elements of dst.
func (e *engine) fill(dst mat, v float64) {
	e.eachWith(kFill, []mat{dst}, nil, eachArgs{alpha: v})
}

func (e *engine) Fill(dst device.Mat, v float64) { e.fill(view(dst), v) }
func (e *engine) Copy(dst, src device.Mat)       { e.each(kCopy, []mat{view(dst)}, []mat{view(src)}) }

// CopyBlocks copies one row of each block per launch or, if rows are contiguous, all of
// a block as one long row. If it gathers rows into a contiguous matrix, it stores a
// bf16 copy for the next GEMM as well.
func (e *engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	n := device.Blocks(dst, dstBlock, src, srcBlock, rows)
	// A view with the first row of every block; the loop below moves it from row to row.
	to, from := view(dst), view(src)
	to.stride, from.stride = to.stride*int64(dstBlock), from.stride*int64(srcBlock)
	to.rows, from.rows = int64(n), int64(n)
	kernel, args := kCopy, eachArgs{}
	if add {
		kernel, args.alpha = kAxpy, 1
	}
	if dst.Dense() && src.Dense() {
		to.cols, from.cols = to.cols*int64(rows), from.cols*int64(rows)
		if n > 0 && !add && dstBlock == rows && dst.Cols%vectorBF16 == 0 && dst.Rows == n*rows {
			args.out[1] = e.roundedOutput(dst).reshape(to.rows, to.cols)
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
		e.markRounded(dst)
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

// Tokens uses a single kernel if rows are contiguous and can be read four elements at a
// time.
func (e *engine) Tokens(dst, first, table, rows device.Mat) {
	n, blocks := table.Rows, dst.Rows/table.Rows
	if !dst.Dense() || !table.Dense() || !rows.Dense() || dst.Cols%4 != 0 {
		device.TokensByCopy(e, dst, first, table, rows)
		return
	}
	e.tiled(kTokens, &eachArgs{out: [3]mat{view(dst.Reshape(blocks, n*dst.Cols))},
		in: [5]mat{view(table.Reshape(1, table.Len())), view(first), view(rows.Reshape(blocks, (n-1)*dst.Cols))}})
}

func (e *engine) AddRepeated(dst, a, b device.Mat) {
	launch(e, kAddRepeated, ceil(dst.Rows*ceil(dst.Cols, 4), threads), threads, 0,
		&eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(a), view(b)}})
}

// DropoutApply stores a bf16 copy of dst as well: a GEMM usually reads it next.
func (e *engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	e.eachWith(kDropout, []mat{view(dst), e.roundedOutput(dst)}, []mat{view(x)}, eachArgs{alpha: float64(d.P), key: d.Key})
	e.markRounded(dst)
}

// AdamW computes the bias corrections on the host. It marks cached bf16 copies of the
// parameters as out of date.
func (e *engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	launch(e, kAdamW, min(resident, tiles(1, p.Cols)), threads, 0, &adamArgs{
		p: view(p), g: view(g), m: view(m), v: view(v), sumsq: view(sumsq),
		lr: o.LR, beta1: o.Beta1, beta2: o.Beta2, eps: o.Eps, decay: o.Decay, maxNorm: o.MaxNorm,
		correct1: 1 - math.Pow(o.Beta1, float64(o.Step)), correct2: 1 - math.Pow(o.Beta2, float64(o.Step)),
	})
	changed(p, true)
}

// maxTileShared is the most shared memory of a block of patches_bf16 in bytes: what a
// block may use without opting in, and little enough for several blocks per SM.
const maxTileShared = 48 << 10

// Patches folds the normalization into one scale and shift per channel: (px/255 -
// Mean)/Std = px*scale + shift.
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

// strips reports whether patches_bf16 supports the frames, and the shared memory that
// it needs.
func strips(dst device.Mat, f device.Frames) (shared int, ok bool) {
	shared = f.Size / f.Patch * ceil(dst.Cols, 8) * 16
	return shared, dst.BF16() && f.Patch%2 == 0 && f.Size%4 == 0 && dst.Off%8 == 0 && dst.Stride%8 == 0 && shared <= maxTileShared
}
