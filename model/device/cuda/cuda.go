// Package cuda computes the kernels on an NVIDIA GPU: it turns each call of the
// contract into launches of the CUDA C kernels of package kernels, and hands
// those to a Machine. It is plain Go: the GPU itself, through gorgonia.org/cu,
// is package gpu (tag gpu); package emu runs the same kernels on a processor,
// for tests; the program compile makes PTX of them.
//
// Launches are queued and handed over when somebody wants numbers. The sequence
// between two transfers - a step of training, an iteration of a planner - so
// reaches the machine in one piece, which it can keep as a graph.
//
// The package knows kernels only: no layers, no models.
package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"scalewm/model/device"
)

// engine implements device.Device on a Machine.
type engine struct {
	machine Machine
	prec    device.Precision
	blocks  int // of a product that keep the GPU busy
	err     error

	launches []Launch
	args     []byte
	graphs   *graphs

	pool        pool
	locked      map[unsafe.Pointer]int // bytes of AllocHost
	work        block                  // scratch
	left, right rounding               // factors of products
	fault       block                  // a kernel sets it to 1 where an index is out of range
	index       bool                   // whether kernels that do so ran since it was looked at
	stage       []float32              // host side of transfers that convert
}

// New is a device on a machine, which it closes. p is what products round their
// inputs to: FP32 (also "") or BF16.
func New(m Machine, p device.Precision) (device.Device, error) { return newEngine(m, p, hopper) }

func newEngine(m Machine, p device.Precision, blocks int) (device.Device, error) {
	if p == "" {
		p = device.FP32
	}
	if p != device.FP32 && p != device.BF16 {
		return nil, fmt.Errorf("cuda: products in %s are not offered (hint: fp32 or bf16)", p)
	}
	e := &engine{machine: m, prec: p, blocks: blocks, graphs: newGraphs(m), pool: pool{free: map[int][]Pointer{}, all: map[Pointer]int{}},
		locked: map[unsafe.Pointer]int{}}
	e.fault = e.alloc(1, 4)
	if e.err != nil {
		return nil, e.err
	}
	return device.Checked(e), nil
}

func (e *engine) Kind() device.Kind {
	return device.Kind{Backend: "cuda", ISA: e.machine.ISA(), Precision: e.prec}
}

func (e *engine) Traits() device.Traits {
	t := device.Traits{RolloutRows: 4096, PlanRows: 32768}
	if e.prec == device.BF16 {
		t.Activations = device.BFloat16
	}
	return t
}

func (e *engine) Err() error { return e.err }

func (e *engine) fail(err error) {
	if e.err == nil && err != nil {
		e.err = fmt.Errorf("cuda: %w", err)
	}
}

// Close frees all memory. The first failure of the machine is its error.
func (e *engine) Close() error {
	e.Sync()
	failure := e.err
	for p, size := range e.pool.all {
		e.machine.Free(p, size)
	}
	clear(e.pool.all)
	clear(e.pool.free)
	var locked error
	for p, size := range e.locked {
		locked = errors.Join(locked, e.machine.FreeHost(p, size))
	}
	clear(e.locked)
	closing := errors.Join(locked, e.graphs.close(), e.machine.Close())
	if e.err == nil {
		e.err = errors.New("cuda: the device is closed")
	}
	return errors.Join(failure, closing)
}

// longest is the count of launches that may wait: enough for a step of training.
const longest = 4096

// launch queues a kernel with its arguments; grid blocks of so many threads.
func launch[Args any](e *engine, k Kernel, grid, threads, shared int, args *Args) {
	if e.err != nil || grid == 0 {
		return
	}
	size := int(unsafe.Sizeof(*args))
	at := len(e.args)
	e.args = append(e.args, unsafe.Slice((*byte)(unsafe.Pointer(args)), size)...)
	e.launches = append(e.launches, Launch{k, int32(grid), int32(threads), int32(shared), int32(at), int32(size)})
	if len(e.launches) == longest {
		e.Submit()
	}
}

// Submit hands the queue to the machine.
func (e *engine) Submit() {
	if len(e.launches) == 0 || e.err != nil {
		return
	}
	e.fail(e.graphs.run(e.launches, e.args))
	e.launches, e.args, e.left.queued = e.launches[:0], e.args[:0], 0
}

func (e *engine) Sync() {
	e.Submit()
	if e.err == nil {
		e.fail(e.machine.Sync())
	}
	e.checkIndices()
}

// indices are those of i, for a kernel that sets fault.
func (e *engine) indices(i device.Ints) Pointer {
	e.index = true
	return i.(*ints).p
}

// checkIndices panics if an index was out of range in a kernel that has run.
func (e *engine) checkIndices() {
	if !e.index || e.err != nil {
		return
	}
	e.index = false
	var fault int32
	e.fail(e.machine.Read(unsafe.Pointer(&fault), e.fault.p, 4))
	if fault != 0 {
		e.fill(mat{p: e.fault.p, rows: 1, cols: 1, stride: 1}, 0)
		panic("device: an index in device memory is out of range")
	}
}

func (e *engine) write(dst Pointer, src unsafe.Pointer, n int) {
	e.Submit()
	if n > 0 && e.err == nil {
		e.fail(e.machine.Write(dst, src, n))
	}
}

func (e *engine) read(dst unsafe.Pointer, src Pointer, n int) {
	e.Submit()
	if n > 0 && e.err == nil {
		e.fail(e.machine.Read(dst, src, n))
	}
	e.checkIndices()
}
