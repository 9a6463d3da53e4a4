// Package cuda implements device.Device on an NVIDIA GPU: it turns each call of the
// contract into launches of the CUDA C kernels of package kernels.
//
// The package is plain Go and contains no code of CUDA. It talks to a [Machine], of
// which there are several: package gpu drives a GPU through NVIDIA's driver (build tag
// gpu), package emu runs the same kernels on a processor, for tests, and package
// roofline only counts bytes and operations. [New] returns a device on any of them.
//
// Launches are queued and submitted when the host reads or writes device memory, or
// calls Submit or Sync. The sequence between two transfers, such as a step of training
// or an iteration of a planner, thus reaches the machine at once. A sequence that comes
// again is kept as a CUDA graph (graphs.go), whose start costs as much as a single
// launch.
//
// Results are deterministic, to the bit. No kernel uses atomics, and the order in which
// a row's results are summed does not depend on how many other rows are computed with
// it: planning a hundred episodes at once gives the same plans as planning them one by
// one.
//
// The package knows kernels only: no layers and no models.
package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"scalewm/model/device"
)

// engine implements device.Device on a Machine. After a failure it ignores all calls;
// Err returns the failure.
type engine struct {
	machine Machine
	prec    device.Precision
	blocks  int   // the number of blocks of a GEMM that keep the GPU busy
	err     error // the first failure; sticky

	launches []Launch // queued
	args     []byte   // arguments of all queued launches
	graphs   *graphs

	pool        pool
	pinned      map[unsafe.Pointer]int // memory of AllocHost, with its size in bytes
	work        block                  // scratch memory
	left, right roundedCopy            // bf16 copies of GEMM operands
	fault       block                  // an int32 that kernels set to 1 if an index is out of range
	checkFault  bool                   // whether kernels that may do so ran since the last check
	stage       []float32              // host memory of transfers that convert
}

// New returns a device on a machine, which it closes. p is the precision to which GEMM
// rounds its operands, FP32 (also "") or BF16.
func New(m Machine, p device.Precision) (device.Device, error) { return newEngine(m, p, hopperSMs) }

// newEngine is New for a GPU that `blocks` blocks of a GEMM keep busy.
func newEngine(m Machine, p device.Precision, blocks int) (device.Device, error) {
	if p == "" {
		p = device.FP32
	}
	if p != device.FP32 && p != device.BF16 {
		return nil, fmt.Errorf("cuda: precision %s is not supported (hint: fp32 or bf16)", p)
	}
	e := &engine{machine: m, prec: p, blocks: blocks, graphs: newGraphs(m), pool: pool{free: map[int][]Pointer{}, all: map[Pointer]int{}},
		pinned: map[unsafe.Pointer]int{}}
	e.fault = e.alloc(1, 4)
	if e.err != nil {
		return nil, e.err
	}
	return device.Checked(e), nil
}

func (e *engine) Kind() device.Kind {
	return device.Kind{Backend: "cuda", ISA: e.machine.ISA(), Precision: e.prec}
}

// Traits requests large batches, which a GPU needs to be busy, and bf16 activations
// where GEMM rounds to bf16 anyway.
func (e *engine) Traits() device.Traits {
	t := device.Traits{RolloutRows: 4096, PlanRows: 32768}
	if e.prec == device.BF16 {
		t.Activations = device.BFloat16
	}
	return t
}

func (e *engine) Err() error { return e.err }

// fail records the first failure.
func (e *engine) fail(err error) {
	if e.err == nil && err != nil {
		e.err = fmt.Errorf("cuda: %w", err)
	}
}

// Close frees all memory and closes the machine. It returns the first failure of the
// device joined with the errors of closing.
func (e *engine) Close() error {
	e.Sync()
	failure := e.err
	for p, size := range e.pool.all {
		e.machine.Free(p, size)
	}
	clear(e.pool.all)
	clear(e.pool.free)
	var unpinning error
	for p, size := range e.pinned {
		unpinning = errors.Join(unpinning, e.machine.FreeHost(p, size))
	}
	clear(e.pinned)
	closing := errors.Join(unpinning, e.graphs.close(), e.machine.Close())
	if e.err == nil { // so that later calls do nothing
		e.err = errors.New("cuda: the device is closed")
	}
	return errors.Join(failure, closing)
}

// maxQueued is the number of queued launches at which the queue is submitted. A step of
// training fits.
const maxQueued = 4096

// launch queues a kernel with a copy of its arguments, on a grid of `grid` blocks of
// `threads` threads with `shared` bytes of dynamic shared memory. An empty grid is
// nothing to do; CUDA rejects it.
func launch[Args any](e *engine, k Kernel, grid, threads, shared int, args *Args) {
	if e.err != nil || grid == 0 {
		return
	}
	size := int(unsafe.Sizeof(*args))
	at := len(e.args)
	e.args = append(e.args, unsafe.Slice((*byte)(unsafe.Pointer(args)), size)...)
	e.launches = append(e.launches, Launch{k, int32(grid), int32(threads), int32(shared), int32(at), int32(size)})
	if len(e.launches) == maxQueued {
		e.Submit()
	}
}

// Submit runs the queued launches, without waiting for them. A bf16 copy of a GEMM
// operand counts as valid only within one queue, hence e.left is reset.
func (e *engine) Submit() {
	if len(e.launches) == 0 || e.err != nil {
		return
	}
	e.fail(e.graphs.run(e.launches, e.args))
	e.launches, e.args, e.left.queued = e.launches[:0], e.args[:0], 0
}

// Sync submits the queue and waits for all launches and transfers.
func (e *engine) Sync() {
	e.Submit()
	if e.err == nil {
		e.fail(e.machine.Sync())
	}
	e.checkIndices()
}

// indices returns the address of i, for a kernel that may set fault.
func (e *engine) indices(i device.Ints) Pointer {
	e.checkFault = true
	return i.(*ints).p
}

// checkIndices panics if a kernel that has run found an index out of range. Kernels
// cannot panic, and a transfer per launch would be slow, so the flag is read only when
// the host waits for the device anyway.
func (e *engine) checkIndices() {
	if !e.checkFault || e.err != nil {
		return
	}
	e.checkFault = false
	var fault int32
	e.fail(e.machine.Read(unsafe.Pointer(&fault), e.fault.p, 4))
	if fault != 0 {
		e.fill(mat{p: e.fault.p, rows: 1, cols: 1, stride: 1}, 0)
		panic("device: an index in device memory is out of range")
	}
}

// write and read submit the queue and transfer n bytes, ordered after all launches so far.
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
