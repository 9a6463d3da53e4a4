package emu

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/kernels"
)

// faulty is kernels with the mistakes that the emulator must find, and a correct one.
// Each writes to the number at a.dst.
const faulty = `
#include "args.cuh"
KERNEL(diverges, SumArgs, 64) { if (threadIdx.x < 40 + a.chunks) __syncthreads(); }
KERNEL(alone, SumArgs, 64) { if (lane() < 31) *a.dst.p = warp_sum(1.0f); }
KERNEL(unfilled, SumArgs, 64) {
	__shared__ float s[64];
	if (threadIdx.x > 0) s[threadIdx.x] = 1;
	__syncthreads();
	if (threadIdx.x == 0) *a.dst.p = s[0];
}
KERNEL(races, SumArgs, 64) {
	__shared__ float s;
	if (threadIdx.x == 0) s = 0;
	__syncthreads();
	float v = s; // another thread may have written by now
	s = (float)threadIdx.x;
	if (threadIdx.x == 7) *a.dst.p = v;
}
KERNEL(right, SumArgs, 64) {
	double sum = block_sum((double)threadIdx.x + blockIdx.x * gridDim.x);
	if (threadIdx.x == 0) *a.dst.p += (float)sum;
}
`

func TestMistakesAreFound(t *testing.T) {
	names := []string{"diverges", "alone", "unfilled", "races", "right"}
	lib, err := build(t.TempDir(), []kernels.Source{{Name: "faulty.cu", Text: faulty}}, names)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// run runs a kernel in an order and returns the number that it leaves, and its
	// error.
	run := func(kernel, order int) (string, error) {
		m := lib.Machine(order)
		p, err := m.Alloc(4)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free(p, 4)
		args := make([]byte, lib.kernels[kernel].size)
		*(*cuda.Pointer)(unsafe.Pointer(&args[0])) = p // SumArgs begins with dst, a Mat with its address
		err = m.Run([]cuda.Launch{{Kernel: cuda.Kernel(kernel), Grid: 3, Threads: 64, Size: int32(len(args))}}, args)
		var v float32
		if err == nil {
			err = m.Read(unsafe.Pointer(&v), p, 4)
		}
		return fmt.Sprint(v), err
	}
	for kernel, want := range map[int]string{0: "a barrier that some threads do not reach", 1: "an exchange within a warp that some lanes do not reach"} {
		if _, err := run(kernel, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", names[kernel], err, want)
		}
	}
	if v, err := run(2, 1); v != "NaN" || err != nil {
		t.Errorf("shared memory that no thread wrote: %s, %v", v, err)
	}
	forwards, _ := run(3, 1)
	backwards, _ := run(3, 2)
	if forwards == backwards {
		t.Errorf("a race gives %s in both orders", forwards)
	}
	for order := 1; order <= 3; order++ { // 3 blocks of 0+...+63, and 64*3*(0+1+2)
		if v, err := run(4, order); v != "6624" || err != nil {
			t.Errorf("right, order %d: %s, %v; want 6624", order, v, err)
		}
	}
	args := make([]byte, 8)
	if err := lib.Machine(1).Run([]cuda.Launch{{Kernel: 4, Grid: 1, Threads: 64, Size: 8}}, args); err == nil {
		t.Error("arguments of the wrong size were accepted")
	}
}
