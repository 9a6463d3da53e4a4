package cpu

// #include "engine.h"
import "C"

import (
	"math"
	"unsafe"

	"scalewm/model/device"
)

func (e *engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	args := C.PatchArgs{
		dst: mat(dst), px: (*C.uint8_t)(px.(*bytes).p), frames: C.i64(px.Len() / f.Bytes()), size: C.i64(f.Size), patch: C.i64(f.Patch),
	}
	if f.List != nil {
		args.list = (*C.int32_t)(f.List.(*ints).p)
	}
	for ch := range 3 {
		args.scale[ch] = C.float(1 / (255 * f.Std[ch]))
		args.shift[ch] = C.float(-f.Mean[ch] / f.Std[ch])
	}
	e.call(C.K_PATCHES, unsafe.Pointer(&args))
}

func (e *engine) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	args := C.MSEArgs{
		loss: mat(loss), dpred: mat(dpred), dtarget: mat(dtarget), pred: mat(pred), target: mat(target),
		weight: C.double(weight),
	}
	e.call(C.K_MSE, unsafe.Pointer(&args))
}

func (e *engine) SIGReg(loss, du, u device.Mat, t int, weight float64) {
	args := C.SIGRegArgs{loss: mat(loss), du: mat(du), u: mat(u), frames: C.i64(t), weight: C.double(weight)}
	e.call(C.K_SIGREG, unsafe.Pointer(&args))
}

func distance(dst, ddist, z device.Mat, pairs device.Ints) C.DistanceArgs {
	return C.DistanceArgs{
		dst: mat(dst), ddist: mat(ddist), z: mat(z),
		pairs: (*C.int32_t)(pairs.(*ints).p), count: C.i64(pairs.Len() / 2),
	}
}

func (e *engine) PairDistance(dst, z device.Mat, pairs device.Ints) {
	args := distance(dst, device.Mat{}, z, pairs)
	e.call(C.K_DISTANCE, unsafe.Pointer(&args))
}

func (e *engine) PairDistanceGrad(dz, ddist, z device.Mat, pairs device.Ints) {
	args := distance(dz, ddist, z, pairs)
	e.call(C.K_DISTANCE_GRAD, unsafe.Pointer(&args))
}

func (e *engine) Correlation(result, dx, x, y device.Mat, form device.CorrelationForm, weight float64) {
	args := C.CorrelationArgs{
		result: mat(result), dx: mat(dx), x: mat(x), y: mat(y),
		paper: flag(form == device.Paper), weight: C.double(weight),
	}
	e.call(C.K_CORRELATION, unsafe.Pointer(&args))
}

func (e *engine) LatentCost(dst, pred, goal device.Mat, mean bool) {
	args := C.CostArgs{dst: mat(dst), pred: mat(pred), goal: mat(goal), mean: flag(mean)}
	e.call(C.K_COST, unsafe.Pointer(&args))
}

func (e *engine) SumSquares(dst, x device.Mat) {
	args := C.PairArgs{dst: mat(dst), x: mat(x)}
	e.call(C.K_SUM_SQUARES, unsafe.Pointer(&args))
}

func (e *engine) AdamW(p, g, m, v, sumsq device.Mat, o device.AdamW) {
	args := C.AdamArgs{
		p: mat(p), g: mat(g), m: mat(m), v: mat(v), sumsq: mat(sumsq),
		lr: C.double(o.LR), beta1: C.double(o.Beta1), beta2: C.double(o.Beta2), eps: C.double(o.Eps),
		decay: C.double(o.Decay), max_norm: C.double(o.MaxNorm),
		correct1: C.double(1 - math.Pow(o.Beta1, float64(o.Step))),
		correct2: C.double(1 - math.Pow(o.Beta2, float64(o.Step))),
	}
	e.call(C.K_ADAMW, unsafe.Pointer(&args))
}

func (e *engine) Normal(dst device.Mat, keys []uint64, offset uint64) {
	if e.keys == nil || e.keys.n < 2*len(keys) {
		if e.keys != nil {
			e.Free(e.keys)
		}
		e.keys = &buffer{block: e.alloc(2*len(keys), 4)} // a key is two floats long
	}
	if e.err != nil {
		return
	}
	copy(unsafe.Slice((*uint64)(e.keys.p), len(keys)), keys)
	args := C.NormalArgs{
		dst: mat(dst), keys: (*C.uint64_t)(e.keys.p), groups: C.i64(len(keys)), offset: C.uint64_t(offset),
	}
	e.call(C.K_NORMAL, unsafe.Pointer(&args))
}

func (e *engine) Candidates(dst, mean, std, noise device.Mat) {
	args := each(mats{dst}, mats{mean, std, noise})
	e.call(C.K_CANDIDATES, unsafe.Pointer(&args))
}

func (e *engine) NaNToInf(x, count device.Mat) {
	args := C.PairArgs{dst: mat(count), x: mat(x)}
	e.call(C.K_NAN_TO_INF, unsafe.Pointer(&args))
}

func (e *engine) SmallestK(idx device.Ints, costs device.Mat, k int) {
	args := C.EliteArgs{cand: mat(costs), idx: (*C.int32_t)(idx.(*ints).p), k: C.i64(k)}
	e.call(C.K_SMALLEST_K, unsafe.Pointer(&args))
}

func (e *engine) Moments(mean, std, cand device.Mat, idx device.Ints, k int) {
	args := C.EliteArgs{
		mean: mat(mean), std: mat(std), cand: mat(cand), idx: (*C.int32_t)(idx.(*ints).p),
		k: C.i64(k),
	}
	e.call(C.K_MOMENTS, unsafe.Pointer(&args))
}
