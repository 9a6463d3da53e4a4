package cpu

// #include "engine.h"
import "C"

import (
	"unsafe"

	"scalewm/model/device"
)

func (e *engine) Color(dst, noise, taps device.Mat) {
	args := each(mats{dst}, mats{noise, taps})
	e.call(C.K_COLOR, unsafe.Pointer(&args))
}

func (e *engine) Clip(dst, low, high device.Mat) {
	args := each(mats{dst}, mats{low, high})
	e.call(C.K_CLIP, unsafe.Pointer(&args))
}

func (e *engine) Lerp(dst, x device.Mat, keep float64) {
	args := each(mats{dst}, mats{x})
	args.alpha, args.p, args.add = C.float(keep), C.float(1-keep), 1
	e.call(C.K_LERP, unsafe.Pointer(&args))
}

// chosen is what kernels of the k best candidates of each episode begin with.
func chosen(idx device.Ints, k int) C.ChosenArgs {
	return C.ChosenArgs{idx: (*C.int32_t)(idx.(*ints).p), k: C.i64(k), episodes: C.i64(idx.Len() / k)}
}

func (e *engine) Softmin(weights, costs device.Mat, idx device.Ints, temperature float64) {
	args := chosen(idx, weights.Cols)
	args.weights, args.costs, args.temperature = mat(weights), mat(costs), C.float(temperature)
	e.call(C.K_SOFTMIN, unsafe.Pointer(&args))
}

func (e *engine) WeightedMean(mean, cand, weights device.Mat, idx device.Ints) {
	args := chosen(idx, weights.Cols)
	args.dst, args.cand, args.weights = mat(mean), mat(cand), mat(weights)
	e.call(C.K_WEIGHTED_MEAN, unsafe.Pointer(&args))
}

func (e *engine) Gather(dst, cand device.Mat, idx device.Ints, k int) {
	args := chosen(idx, k)
	args.dst, args.cand = mat(dst), mat(cand)
	e.call(C.K_GATHER, unsafe.Pointer(&args))
}
