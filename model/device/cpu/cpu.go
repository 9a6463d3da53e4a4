// Package cpu computes the kernels in C with SIMD, in float32, on a few threads.
// One set of kernel sources (k_*.h) is compiled once for each instruction set;
// the best one the machine has is chosen at run time. Products may round their
// inputs to bf16: where the machine multiplies bf16 fast they are stored so, else
// rounded and multiplied as floats, so that bf16 can be tried everywhere.
//
// The package knows kernels only: no layers, no models.
package cpu

/*
#cgo CFLAGS: -std=c11 -O3
#cgo LDFLAGS: -lm -lpthread
#cgo noescape engine_call
#cgo nocallback engine_call
#include "engine.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	xcpu "golang.org/x/sys/cpu"

	"scalewm/model/device"
)

// Options of a device.
type Options struct {
	Precision device.Precision // of the products: FP32 (also "") or BF16
	Threads   int              // 0: GOMAXPROCS
}

// PathVariable is the environment variable that forces an instruction set.
const PathVariable = "SCALEWM_CPU"

// paths are the instruction sets' names, in engine.h's order: best first.
var paths = []string{C.ISA_AMX: "amx", C.ISA_AVX512BF16: "avx512bf16", C.ISA_AVX512: "avx512", C.ISA_AVX2: "avx2",
	C.ISA_PLAIN: "plain", C.ISA_AMX_EMULATED: Emulated}

// Emulated is the path that does what "amx" does with the tiles imitated, bit
// for bit and slowly, on any machine that has avx512bf16. Only PathVariable
// chooses it.
const Emulated = "amx-emulated"

// Paths are the instruction sets that this machine runs, best first, and last
// the emulated one where it can be asked for.
func Paths() []string {
	var have []string
	for isa, name := range paths {
		if C.engine_has(C.int(isa)) != 0 {
			have = append(have, name)
		}
	}
	return have
}

// native says whether an instruction set multiplies bf16.
func native(isa int) bool {
	return isa == C.ISA_AMX || isa == C.ISA_AVX512BF16 || isa == C.ISA_AMX_EMULATED
}

// HasBF16 says whether this machine multiplies bf16.
func HasBF16() bool { return slices.Contains(Paths(), "avx512bf16") }

// Features are the processor's features that matter here, for reports.
func Features() []string {
	x := &xcpu.X86
	var have []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", x.HasAVX2}, {"fma", x.HasFMA}, {"avx512f", x.HasAVX512F}, {"avx512bw", x.HasAVX512BW},
		{"avx512dq", x.HasAVX512DQ}, {"avx512vl", x.HasAVX512VL}, {"avx512bf16", x.HasAVX512BF16},
		{"amx_tile", x.HasAMXTile}, {"amx_bf16", x.HasAMXBF16},
	} {
		if f.has {
			have = append(have, f.name)
		}
	}
	return have
}

// choose is the instruction sets that may be used for a precision, best first:
// the forced one alone, or all. For fp32 products those that multiply bf16 have
// nothing to add, and the plainer name lets results of more machines be compared.
func choose(p device.Precision, forced string) ([]int, error) {
	have := Paths()
	if forced != "" {
		if !slices.Contains(have, forced) {
			return nil, fmt.Errorf("cpu: %s=%q is not an instruction set of this machine (hint: it has %s)",
				PathVariable, forced, strings.Join(have, ", "))
		}
		return []int{slices.Index(paths, forced)}, nil
	}
	var list []int
	for _, name := range have {
		isa := slices.Index(paths, name)
		if name != Emulated && (p == device.BF16 || !native(isa)) {
			list = append(list, isa)
		}
	}
	return list, nil
}

// engine implements device.Device.
type engine struct {
	pool  *C.Pool
	isa   int
	prec  device.Precision
	err   error
	owned map[unsafe.Pointer]struct{} // memory to give back
	keys  *buffer                     // Normal's keys, on the C side
	times *Times                      // nil: nothing is timed
}

// New starts a device with its threads; Close ends them and frees its memory.
func New(opt Options) (device.Device, error) {
	e, err := start(opt)
	if err != nil {
		return nil, err
	}
	return device.Checked(e), nil
}

func start(opt Options) (*engine, error) { return startOn(os.Getenv(PathVariable), opt) }

// startOn is start with a forced path, or "" for the best of those that verify finds sound.
func startOn(forced string, opt Options) (*engine, error) {
	if opt.Precision == "" {
		opt.Precision = device.FP32
	}
	if opt.Precision != device.FP32 && opt.Precision != device.BF16 {
		return nil, fmt.Errorf("cpu: precision %q (hint: fp32 or bf16)", opt.Precision)
	}
	list, err := choose(opt.Precision, forced)
	if err != nil {
		return nil, err
	}
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	pool := C.pool_new(C.int(opt.Threads))
	if pool == nil {
		return nil, fmt.Errorf("cpu: cannot start %d threads (hint: ask for fewer)", opt.Threads)
	}
	e := &engine{pool: pool, prec: opt.Precision, owned: map[unsafe.Pointer]struct{}{}}
	for _, e.isa = range list {
		if e.isa == C.ISA_AVX512BF16 {
			e.comparePairs()
		}
		if err = e.verify(); err == nil {
			return e, nil
		}
	}
	e.Close()
	return nil, err
}

func (e *engine) Kind() device.Kind {
	return device.Kind{Backend: "cpu", ISA: paths[e.isa], Precision: e.prec}
}

func (e *engine) Traits() device.Traits {
	t := device.Traits{RolloutRows: 1024, PlanRows: 4096}
	if e.prec == device.BF16 && native(e.isa) {
		t.Activations = device.BFloat16
	}
	return t
}

func (e *engine) Err() error { return e.err }
func (e *engine) Sync()      {}
func (e *engine) Submit()    {}

func (e *engine) Close() error {
	for p := range e.owned {
		C.engine_free(p)
	}
	clear(e.owned)
	if e.pool != nil {
		C.pool_free(e.pool)
		e.pool = nil
	}
	if e.err == nil {
		e.err = errors.New("cpu: the device is closed")
		return nil
	}
	return e.err
}

func (e *engine) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// call runs a kernel. After a failure nothing runs: buffers may be missing.
func call[T any](e *engine, kernel int, args *T) {
	if e.err != nil {
		return
	}
	var began time.Time
	if e.times != nil {
		began = time.Now()
	}
	switch C.engine_call(e.pool, C.int(e.isa), C.int(kernel), unsafe.Pointer(args)) {
	case C.NO_MEMORY:
		e.fail("no memory for a kernel's scratch (hint: a smaller batch)")
	case C.BAD_INDEX:
		panic("device: an index in device memory is out of range")
	}
	if e.times != nil {
		spent, copied := time.Since(began), *args // copied, so that arguments are on the stack where nothing is timed
		e.times.add(&copied, spent)
	}
}
