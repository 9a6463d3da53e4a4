package cpu

// #include "engine.h"
import "C"

import (
	"time"

	"scalewm/model/device"
)

// Peak measures the multiply-adds of the machine in GFLOP/s: the best of a few
// short loops in registers on all threads at once (0: GOMAXPROCS), with the
// products that precision p would use.
func Peak(p device.Precision, threads int) (float64, error) {
	r, err := Measure(p, threads)
	if p == device.BF16 {
		return r.Products, err
	}
	return r.FMA, err
}

// Rates are what the machine does at best on all threads together, measured in
// short loops. Other programs on the same host can halve them for seconds, so that
// they belong beside each benchmark.
type Rates struct {
	FMA      float64 // GFLOP/s of fp32 multiply-adds
	Products float64 // GFLOP/s of what products of the precision use: tiles, bf16 pairs, or FMA
	Read     float64 // GB/s from the cache that cores share, 8 MiB a thread
}

// Measure is Rates on so many threads (0: GOMAXPROCS), in a tenth of a second.
func Measure(p device.Precision, threads int) (Rates, error) {
	e, err := start(Options{Precision: p, Threads: threads})
	if err != nil {
		return Rates{}, err
	}
	defer e.Close()
	r := Rates{FMA: e.rate(C.PEAK_FMA), Read: e.rate(C.PEAK_READ)}
	r.Products = r.FMA
	if p == device.BF16 {
		r.Products = e.rate(C.PEAK_BF16)
	}
	return r, e.err
}

// rate is the best of a few short loops, so that one of them is undisturbed, in units of 1e9/s.
func (e *engine) rate(what C.int) float64 {
	var best float64
	for range 25 {
		args := C.PeakArgs{what: what}
		begin := time.Now()
		call(e, C.K_PEAK, &args)
		best = max(best, float64(args.work)/float64(time.Since(begin).Nanoseconds()))
	}
	return best
}
