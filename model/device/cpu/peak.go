package cpu

// #include "engine.h"
import "C"

import (
	"sync"
	"time"

	"scalewm/model/device"
)

// Rates are peak rates of the machine on all threads together, measured by short
// loops. Other programs on the host can halve them for seconds, so that benchmarks
// measure them at the time of each measurement and report both.
type Rates struct {
	FMA      float64 // GFLOP/s of fp32 multiply-adds
	Products float64 // GFLOP/s of the instructions that GEMMs of the precision use: tiles, bf16 dot products or FMA
	Read     float64 // GB/s from the cache that cores share, 8 MiB per thread
}

// Measure returns the rates for a precision on the given number of threads (0:
// GOMAXPROCS). It takes about a tenth of a second.
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

// rates returns the best of several short loops of each kind, in units of 1e9/s. The
// kinds alternate, so that a disturbance of a few milliseconds does not hit all loops
// of one kind.
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

// comparePairs guards the decision, once per process, whether the path avx512bf16
// uses dot products of bf16 pairs. On Zen 4 and 5 they do twice as many operations as
// fp32 multiply-adds; on Intel's fourth and fifth generation, which have them in
// addition to AMX, half as many. Both ways give the same bits: the instruction adds
// the products of a pair one after the other and flushes denormals, as the pool's
// threads do.
//
// The decision is global since packed factors (of any device) depend on it.
var comparePairs sync.Once

func (e *engine) comparePairs() {
	comparePairs.Do(func() {
		r := e.rates(5, C.PEAK_FMA, C.PEAK_PAIRS)
		usePairs(r[1] > r[0])
	})
}

// usePairs sets the flag that layout_of in k_micro.h reads.
func usePairs(fast bool) { C.pairs_are_fast = flag(fast) }

// Pairs reports whether GEMMs on the path avx512bf16 use dot products of bf16 pairs,
// rather than multiply-adds of the rounded numbers. The first device on that path
// decides it.
func Pairs() bool { return C.pairs_are_fast != 0 }
