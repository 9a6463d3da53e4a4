// Package cpu implements device.Device in C with SIMD, in float32, on a pool of
// threads.
//
// The kernels are written once, in headers named k_*.h, on a small set of vector
// operations. Each isa_*.c compiles all of them for one instruction set: plain, AVX2,
// AVX-512, AVX-512 with bf16 dot products, and AMX tiles. New picks the best one that
// the machine has at run time; the environment variable SCALEWM_CPU ([ISAVariable])
// forces one.
//
// Options.Precision concerns GEMMs only. With bf16 their inputs are rounded to bf16
// and accumulated in fp32. Where the hardware multiplies bf16, activations are stored
// as bf16 too; elsewhere the rounded numbers are multiplied as floats, so that bf16
// results can be studied on any machine.
//
// Results depend on the instruction set and the precision (device.Kind), not on the
// number of threads: tasks run on any thread in any order, but the split into tasks
// does not change the order of additions within an output element.
//
// Files: engine.h declares what Go and C share, dispatch.c selects the kernels,
// pool.c runs tasks on threads, vec_*.h are the vector operations of each instruction
// set, vecmath.h builds elementary functions on them, and kernels.go converts Go
// arguments to C. [NewTimed] times every kernel call and [Measure] gives the peak
// rates to compare them with. The package knows kernels only, neither layers nor
// models.
package cpu

/*
#cgo CFLAGS: -std=c11 -O3 -g1
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

// Options configures a device.
type Options struct {
	Precision device.Precision // of the products: FP32 (also "") or BF16
	Threads   int              // including the caller's; 0: GOMAXPROCS
}

// ISAVariable is the environment variable that forces an instruction set, by a name
// that Paths returns. An unknown name makes New fail.
const ISAVariable = "SCALEWM_CPU"

// paths are the names of the instruction sets, indexed by the constants of engine.h,
// best first.
var paths = []string{C.ISA_AMX: "amx", C.ISA_AVX512BF16: "avx512bf16", C.ISA_AVX512: "avx512", C.ISA_AVX2: "avx2",
	C.ISA_PLAIN: "plain", C.ISA_AMX_EMULATED: Emulated}

// Emulated is a path that computes what "amx" computes, bit for bit, with the tile
// instructions replaced by vector code. It is slow, and runs on any machine with
// avx512bf16. It is chosen only by ISAVariable.
const Emulated = "amx-emulated"

// Paths returns the instruction sets that this machine can run, best first; the
// emulated one, if possible, comes last.
func Paths() []string {
	var have []string
	for isa, name := range paths {
		if C.engine_has(C.int(isa)) != 0 {
			have = append(have, name)
		}
	}
	return have
}

// native reports whether an instruction set multiplies bf16 in hardware (or emulates
// that).
func native(isa int) bool {
	return isa == C.ISA_AMX || isa == C.ISA_AVX512BF16 || isa == C.ISA_AMX_EMULATED
}

// HasBF16 reports whether this machine multiplies bf16 in hardware.
func HasBF16() bool { return slices.Contains(Paths(), "avx512bf16") }

// Features returns the processor's features that matter to the kernels, for reports.
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

// choose returns the instruction sets to try for a precision, best first: the forced
// one alone, or all that apply. For fp32 it skips those that only add bf16: their
// fp32 kernels are the same, and the common name makes results of more machines
// comparable.
func choose(p device.Precision, forced string) ([]int, error) {
	have := Paths()
	if forced != "" {
		if !slices.Contains(have, forced) {
			return nil, fmt.Errorf("cpu: %s=%q is not an instruction set of this machine (hint: it has %s)",
				ISAVariable, forced, strings.Join(have, ", "))
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

// engine implements device.Device. Kernels run synchronously: a call returns when all
// threads have finished it.
type engine struct {
	pool  *C.Pool
	isa   int
	prec  device.Precision
	err   error   // the first failure; no kernel runs after it
	heap  heap    // of all buffers
	keys  *buffer // C memory for Normal's keys, reused between calls
	times *Times  // nil: calls are not timed
}

// New starts a device and its threads. Close ends them and frees its memory.
func New(opt Options) (device.Device, error) {
	e, err := start(opt)
	if err != nil {
		return nil, err
	}
	return device.Checked(e), nil
}

// start is New without argument validation around the device.
func start(opt Options) (*engine, error) { return startOn(os.Getenv(ISAVariable), opt) }

// startOn is start with a forced path, or "" for the best path that verify accepts.
// If verify rejects one, for instance because an emulator or a hypervisor handles
// tiles incorrectly, the next best is tried.
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
		return nil, fmt.Errorf("cpu: cannot start %d threads (hint: use fewer)", opt.Threads)
	}
	e := &engine{pool: pool, prec: opt.Precision, heap: newHeap()}
	for _, e.isa = range list {
		// Decide before verify, whose GEMMs pack in the layout that depends on it.
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
	e.heap.free()
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

// fail records the first failure of the machine.
func (e *engine) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// call runs a kernel. After a failure nothing runs, since buffers may be missing. It
// is generic in the argument type so that a kernel call does not allocate: args stays
// on the caller's stack.
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
		// add takes an interface, which would move args to the heap in all calls. Passing
		// a copy confines the allocation to timed devices.
		spent, copied := time.Since(began), *args
		e.times.add(&copied, spent)
	}
}
