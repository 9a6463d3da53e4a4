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

// Rates are what the GPU does at best: what shares of peak are shares of.
type Rates struct {
	Name       string
	FP32, BF16 float64 // GFLOP/s of one large product of random numbers
	By         string  // whose product it was
	Copy       float64 // GB/s of a copy within the GPU, read and written
}

// Sizes of what is timed: it grows until a run lasts a millisecond.
const (
	firstSize = 64
	lastSize  = 8192
)

// Measure times large products, by cublasLt where that is found, and a copy.
func Measure() (r Rates, err error) {
	opened, err := Open()
	if err != nil {
		return r, err
	}
	m := opened.(*machine)
	defer func() { err = errors.Join(err, m.Close()) }()
	if r.Name, err = m.device.Name(); err != nil {
		return r, m.lost(err)
	}
	if r.Copy, err = m.rate(m.copying); err != nil {
		return r, err
	}
	r.By = "cublasLt"
	if r.FP32, err = m.rate(m.cublas(device.FP32)); err == nil {
		r.BF16, err = m.rate(m.cublas(device.BF16))
	}
	var missing noLibrary
	if errors.As(err, &missing) {
		r.By = "our own product: " + string(missing)
		if r.FP32, err = ownRate(device.FP32); err == nil {
			r.BF16, err = ownRate(device.BF16)
		}
	}
	return r, err
}

// noLibrary is why cublasLt could not be used.
type noLibrary string

func (e noLibrary) Error() string { return string(e) }

// work is something that is timed, so much of it a run.
type work struct {
	run    func() error
	sync   func() error
	amount float64
	free   func()
}

// rate is the amount in 10^9 a second at the size that lasts long enough.
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

// time is that of a run, after some that do not count.
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

// buffers are so many pieces of device memory, to be freed together.
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

func (m *machine) copying(size int) (work, error) {
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

// cublas are products of cublasLt.
func (m *machine) cublas(p device.Precision) func(size int) (work, error) {
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
		words := random(n*n*width/8, p)
		for _, to := range b[:2] {
			err = errors.Join(err, m.Write(to, unsafe.Pointer(unsafe.SliceData(words)), len(words)*8))
		}
		return work{amount: cube(n), sync: m.Sync, run: func() error { return m.multiply(product, b) },
			free: func() { C.product_close(product); free() }}, err
	}
}

// multiply is one product of the library; b are factors, result and work space.
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

// cube is the floating point operations of a product of n x n matrices.
func cube(n int) float64 { return 2 * float64(n) * float64(n) * float64(n) }

// random are numbers of magnitude 1 to 2, packed, since a GPU multiplies zeros faster.
func random(words int, p device.Precision) []uint64 {
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

// ownRate is that of the engine's products.
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
		d.DropoutApply(a, x, device.Dropout{}) // copies and rounds
		d.DropoutApply(b, x, device.Dropout{})
		sync := func() error {
			d.Sync()
			return d.Err()
		}
		return work{amount: cube(n), sync: sync, free: func() { d.Free(x.Buf); d.Free(a.Buf); d.Free(b.Buf) }, run: func() error {
			d.Gemm(device.NT, x, a, b, device.Epilogue{})
			return nil
		}}, d.Err()
	})
	return rate, errors.Join(err, d.Close())
}
