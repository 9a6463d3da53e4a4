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
		*m = mat{m.p, 1, m.rows * m.cols, m.rows * m.cols, m.half}
	}
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

func (e *engine) CopyBlocks(dst device.Mat, dstBlock int, src device.Mat, srcBlock, rows int, add bool) {
	blocks := device.Blocks(dst, dstBlock, src, srcBlock, rows)
	launch(e, kCopyBlocks, blocks*rows, threads, 0,
		&blocksArgs{view(dst), view(src), int64(dstBlock), int64(srcBlock), int64(rows), flag(add)})
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

func (e *engine) Mul(dst, a, b device.Mat, add bool) {
	e.eachWith(kMul, []mat{view(dst)}, []mat{view(a), view(b)}, eachArgs{add: flag(add)})
}

func (e *engine) GateGrad(dy, dgate, dout, gate, y device.Mat) {
	e.each(kGateGrad, []mat{view(dy), view(dgate)}, []mat{view(dout), view(gate), view(y)})
}

func (e *engine) ModulateGrad(dx, dscale, dshift, dy, x, scale device.Mat) {
	e.each(kModulateGrad, []mat{view(dx), view(dscale), view(dshift)}, []mat{view(dy), view(x), view(scale)})
}

func (e *engine) AddTable(dst, table device.Mat) {
	e.tiled(kAddTable, &eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(table)}})
}

func (e *engine) AddRepeated(dst, a, b device.Mat) {
	e.tiled(kAddRepeated, &eachArgs{out: [3]mat{view(dst)}, in: [5]mat{view(a), view(b)}})
}

func (e *engine) DropoutApply(dst, x device.Mat, d device.Dropout) {
	e.eachWith(kDropout, []mat{view(dst)}, []mat{view(x)}, eachArgs{alpha: float64(d.P), key: d.Key})
}

func (e *engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	launch(e, kAdamW, tiles(1, p.Cols), threads, 0, &adamArgs{
		p: view(p), g: view(g), m: view(m), v: view(v), sumsq: view(sumsq),
		lr: o.LR, beta1: o.Beta1, beta2: o.Beta2, eps: o.Eps, decay: o.Decay, maxNorm: o.MaxNorm,
		correct1: 1 - math.Pow(o.Beta1, float64(o.Step)), correct2: 1 - math.Pow(o.Beta2, float64(o.Step)),
	})
}
