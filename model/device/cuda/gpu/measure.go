//go:build gpu

package gpu

// #include "cublaslt.h"
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
)

// Rates is the GPU's measured peak rates, the reference for shares of peak.
type Rates struct {
	Name       string
	FP32, BF16 float64 // GFLOP/s of a large GEMM of random numbers
	By         string  // whose GEMM was measured
	Copy       float64 // GB/s of a copy within the GPU, bytes read plus bytes written
}

// The sizes n of what is timed, n x n matrices: n doubles until a run takes a
// millisecond, so that the overhead of launches does not matter.
const (
	firstSize = 64
	lastSize  = 8192
)

// Measure measures large GEMMs, by cublasLt if that is found and else by the engine,
// and a copy. It starts GPU 0 and closes it.
func Measure() (r Rates, err error) {
	opened, err := Open()
	if err != nil {
		return r, err
	}
	m := opened.(*machine)
	defer func() { err = errors.Join(err, m.Close()) }()
	if r.Name, err = m.device.Name(); err != nil {
		return r, m.failed(err)
	}
	if r.Copy, err = m.rate(m.copyWork); err != nil {
		return r, err
	}
	r.By = "cublasLt"
	if r.FP32, err = m.rate(m.cublasWork(device.FP32)); err == nil {
		r.BF16, err = m.rate(m.cublasWork(device.BF16))
	}
	var missing noLibrary
	if errors.As(err, &missing) {
		r.By = "our own GEMM: " + string(missing)
		if r.FP32, err = ownRate(device.FP32); err == nil {
			r.BF16, err = ownRate(device.BF16)
		}
	}
	return r, err
}

// noLibrary is the error that cublasLt cannot be used, with the reason.
type noLibrary string

func (e noLibrary) Error() string { return string(e) }

// work is something to be timed: run queues it once, sync waits for it, and amount is
// how much of it a run does.
type work struct {
	run    func() error
	sync   func() error
	amount float64
	free   func()
}

// rate returns the amount per second, in units of 1e9, at the first size that takes
// long enough.
func (m *machine) rate(start func(size int) (work, error)) (float64, error) {
	for size := firstSize; ; size *= 2 {
		w, err := start(size)
		if err != nil {
			return 0, err
		}
		took, err := w.time()
		w.free()
		if err != nil || took >= time.Millisecond || size == lastSize {
			return w.amount / took.Seconds() / 1e9, err
		}
	}
}

// time returns the average time of a run, after a few that do not count: they load code
// and raise the clocks.
func (w work) time() (time.Duration, error) {
	const warm, counted = 3, 10
	var began time.Time
	for i := range warm + counted {
		if i == warm {
			if err := w.sync(); err != nil {
				return 0, err
			}
			began = time.Now()
		}
		if err := w.run(); err != nil {
			return 0, err
		}
	}
	err := w.sync()
	return max(time.Since(began)/counted, 1), err
}

// buffers allocates n buffers of device memory; free releases them together.
func (m *machine) buffers(n, bytes int) (list []cuda.Pointer, free func(), err error) {
	free = func() {
		for _, p := range list {
			m.Free(p, bytes)
		}
	}
	for range n {
		p, err := m.Alloc(bytes)
		if err != nil {
			free()
			return nil, nil, err
		}
		list = append(list, p)
	}
	return list, free, nil
}

// copyWork copies 32 size^2 bytes within the device.
func (m *machine) copyWork(size int) (work, error) {
	bytes := size * size * 32
	b, free, err := m.buffers(2, bytes)
	return work{amount: 2 * float64(bytes), free: free, sync: m.Sync, run: func() error {
		release, err := m.enter()
		if err != nil {
			return err
		}
		defer release()
		return cu.MemcpyDtoDAsync(cu.DevicePtr(b[0]), cu.DevicePtr(b[1]), int64(bytes), m.stream)
	}}, err
}

// cublasWork returns GEMMs of size n by cublasLt in precision p. The factors are
// random; see randomWords.
func (m *machine) cublasWork(p device.Precision) func(size int) (work, error) {
	width, bf16 := 4, C.int(0)
	if p == device.BF16 {
		width, bf16 = 2, 1
	}
	return func(n int) (work, error) {
		release, err := m.enter()
		if err != nil {
			return work{}, err
		}
		defer release()
		var missing *C.char
		product := C.product_open(C.int(n), bf16, &missing)
		if product == nil {
			return work{}, noLibrary(C.GoString(missing))
		}
		b, free, err := m.buffers(4, max(n*n*width, C.product_work))
		if err != nil {
			C.product_close(product)
			return work{}, err
		}
		words := randomWords(n*n*width/8, p)
		for _, to := range b[:2] {
			err = errors.Join(err, m.Write(to, unsafe.Pointer(unsafe.SliceData(words)), len(words)*8))
		}
		return work{amount: gemmFLOP(n), sync: m.Sync, run: func() error { return m.multiply(product, b) },
			free: func() { C.product_close(product); free() }}, err
	}
}

// multiply queues one GEMM by cublasLt. b holds both factors, the result, and the
// workspace.
func (m *machine) multiply(p *C.Product, b []cuda.Pointer) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	code := C.product_run(p, C.CUdeviceptr(b[2]), C.CUdeviceptr(b[0]), C.CUdeviceptr(b[1]), C.CUdeviceptr(b[3]), m.handle())
	if code != 0 {
		return noLibrary(fmt.Sprintf("cublasLt's product fails with status %d", code))
	}
	return nil
}

// gemmFLOP returns the floating-point operations of a GEMM of n x n matrices.
func gemmFLOP(n int) float64 { return 2 * float64(n) * float64(n) * float64(n) }

// randomWords returns packed numbers of magnitude 1 to 2 and random sign and mantissa.
// With zeros the GPU draws less power, clocks higher, and would seem faster than it is
// on real data.
func randomWords(words int, p device.Precision) []uint64 {
	keep, exponent := uint64(0x807fffff807fffff), uint64(0x3f8000003f800000)
	if p == device.BF16 {
		keep, exponent = 0x807f807f807f807f, 0x3f803f803f803f80
	}
	list, r := make([]uint64, words), rng.Stream("gpu measure", words)
	for i := range list {
		list[i] = r.Uint64()&keep | exponent
	}
	return list
}

// ownRate returns the rate of the engine's own GEMM.
func ownRate(p device.Precision) (float64, error) {
	opened, err := Open()
	if err != nil {
		return 0, err
	}
	d, err := cuda.New(opened, p)
	if err != nil {
		return 0, errors.Join(err, opened.Close())
	}
	rate, err := opened.(*machine).rate(func(n int) (work, error) {
		x, a, b := device.NewMat(d, n, n), device.NewActivations(d, n, n), device.NewActivations(d, n, n)
		d.Normal(x, []uint64{rng.Key("gpu measure", n)}, 0)
		d.DropoutApply(a, x, device.Dropout{}) // without dropout this is a rounding copy
		d.DropoutApply(b, x, device.Dropout{})
		sync := func() error {
			d.Sync()
			return d.Err()
		}
		return work{amount: gemmFLOP(n), sync: sync, free: func() { d.Free(x.Buf); d.Free(a.Buf); d.Free(b.Buf) }, run: func() error {
			d.Gemm(device.NT, x, a, b, device.Epilogue{})
			return nil
		}}, d.Err()
	})
	return rate, errors.Join(err, d.Close())
}
