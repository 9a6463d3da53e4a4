package cpu

// #include "engine.h"
import "C"

import (
	"sync"
	"time"

	"scalewm/model/device"
)

// Rates are what the machine does at best on all threads together, measured in
// short loops. Other programs on the same host can halve them for seconds, so that
// they belong beside each benchmark.
type Rates struct {
	FMA      float64 // GFLOP/s of fp32 multiply-adds
	Products float64 // GFLOP/s of what products of the precision use: tiles, dot products of pairs, or FMA
	Read     float64 // GB/s from the cache that cores share, 8 MiB a thread
}

// Measure is Rates on so many threads (0: GOMAXPROCS), in a tenth of a second.
func Measure(p device.Precision, threads int) (Rates, error) {
	e, err := start(Options{Precision: p, Threads: threads})
	if err != nil {
		return Rates{}, err
	}
	defer e.Close()
	r := e.rates(25, C.PEAK_FMA, C.PEAK_READ, C.PEAK_PAIRS)
	rates := Rates{FMA: r[0], Read: r[1], Products: r[0]}
	if p == device.BF16 && native(e.isa) && (e.isa != C.ISA_AVX512BF16 || Pairs()) {
		rates.Products = r[2]
	}
	return rates, e.err
}

// rates is the best of a few short loops of each kind, in turns, so that one of them is undisturbed, in units of 1e9/s.
func (e *engine) rates(rounds int, kinds ...C.int) []float64 {
	best := make([]float64, len(kinds))
	for range rounds {
		for i, what := range kinds {
			args := C.PeakArgs{what: what}
			begin := time.Now()
			call(e, C.K_PEAK, &args)
			best[i] = max(best[i], float64(args.work)/float64(time.Since(begin).Nanoseconds()))
		}
	}
	return best
}

// comparePairs finds out whether dot products of pairs of bf16 are worth it: on Zen 4 and 5 they do twice as much as
// multiply-adds, on Intel's fourth and fifth generation, where they are there beside AMX, half as much. Both give the
// same bits: dot products flush denormals, as the pool's threads do.
var comparePairs sync.Once

func (e *engine) comparePairs() {
	comparePairs.Do(func() {
		r := e.rates(5, C.PEAK_FMA, C.PEAK_PAIRS)
		usePairs(r[1] > r[0])
	})
}

func usePairs(fast bool) { C.pairs_are_fast = flag(fast) }

// Pairs says whether products on the path avx512bf16 are dot products of pairs of bf16, rather than multiply-adds of their
// numbers. It is decided when the first device of that path starts.
func Pairs() bool { return C.pairs_are_fast != 0 }
