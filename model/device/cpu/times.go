package cpu

// #include "engine.h"
import "C"

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"scalewm/model/device"
)

// KernelTime sums up all calls of a kernel. GEMMs of each shape count as separate
// kernels.
type KernelTime struct {
	Kernel  string // the method of device.Device, for example "LayerNorm"; GEMMs as "Gemm NT 4352x384x96" (M, N, K)
	Calls   int
	Seconds float64
	Bytes   float64 // size of all matrix arguments, as if each were read or written once
	FLOP    float64 // floating-point operations of matrix products; 0 for other kernels
}

// Times records the time of each kernel of a device. Like the device, it is used by
// one goroutine at a time.
type Times struct{ kernels map[string]*KernelTime }

// NewTimed is New for a device that times its kernels.
func NewTimed(opt Options) (device.Device, *Times, error) {
	e, err := start(opt)
	if err != nil {
		return nil, nil, err
	}
	e.times = &Times{}
	e.times.Reset()
	return device.Checked(e), e.times, nil
}

// Reset drops all recorded times.
func (t *Times) Reset() { t.kernels = map[string]*KernelTime{} }

// List returns the kernels in descending order of time, ties by name.
func (t *Times) List() (list []KernelTime) {
	for _, k := range t.kernels {
		list = append(list, *k)
	}
	slices.SortFunc(list, func(a, b KernelTime) int { return strings.Compare(a.Kernel, b.Kernel) })
	slices.SortStableFunc(list, func(a, b KernelTime) int { return int(b.Seconds*1e9) - int(a.Seconds*1e9) })
	return list
}

// add records a call. args points to the kernel's argument struct. The kernel's name
// is that of the calling method, which saves every method from passing it.
func (t *Times) add(args any, spent time.Duration) {
	pc, _, _, _ := runtime.Caller(2) // skips add and call
	method := runtime.FuncForPC(pc).Name()
	name, flop, bytes := method[strings.LastIndexByte(method, '.')+1:], 0.0, traffic(reflect.ValueOf(args).Elem())
	switch a := args.(type) {
	case *C.GemmArgs:
		inner := a.a.cols
		if a.op == C.TN {
			inner = a.a.rows
		}
		name = fmt.Sprintf("%s %s %dx%dx%d", name, [...]string{C.NN: "NN", C.NT: "NT", C.TN: "TN"}[a.op], a.dst.rows, a.dst.cols, inner)
		flop = 2 * float64(a.dst.rows) * float64(a.dst.cols) * float64(inner)
	case *C.AttentionArgs:
		product := 2 * float64(a.seqs*a.queries*a.len*a.heads*a.dim)
		flop = 2 * product // scores and weighted values
		if a.dout.p != nil {
			flop = 5 * product // recomputed scores, dp, dq, dk and dv
		}
	case *C.PatchArgs:
		bytes += float64(3 * a.frames * a.size * a.size)
	}
	k := t.kernels[name]
	if k == nil {
		k = &KernelTime{Kernel: name}
		t.kernels[name] = k
	}
	k.Calls++
	k.Seconds += spent.Seconds()
	k.Bytes += bytes
	k.FLOP += flop
}

// traffic returns the total size of the matrices in a kernel's arguments. It uses
// reflection to find them, so that new kernels need no entry here.
func traffic(v reflect.Value) (bytes float64) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[C.Mat]() {
			m := (*C.Mat)(v.Addr().UnsafePointer())
			if m.p == nil {
				return 0
			}
			size := 4
			if m.bf16 != 0 {
				size = 2
			}
			return float64(m.rows) * float64(m.cols) * float64(size)
		}
		for i := range v.NumField() {
			bytes += traffic(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			bytes += traffic(v.Index(i))
		}
	}
	return bytes
}
