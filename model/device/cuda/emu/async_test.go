package emu

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/kernels"
)

// asynchronous is kernels of one warp with 4 KiB of shared memory. Each copies 64 rows
// of 8 16-bit numbers, which count from 0, from a.x to shared memory, in two groups; of
// the second group's rows only 10 bytes. It then leaves the 4 words of each lane's
// fragment at a.dst.
const asynchronous = `
#include "args.cuh"
#include "async.cuh"
DEVICE u32 copied(const SumArgs &a) {
	SHARED(u16, s);
	u32 to = shared_address(s) + 16 * threadIdx.x;
	copy16(to, (const char *)a.x.p + 16 * threadIdx.x);
	copy_commit();
	copy16(to + 512, (const char *)a.x.p + 512 + 16 * threadIdx.x, 10);
	copy_commit();
	return to;
}
DEVICE void leave(const SumArgs &a, const u32 *r) { UNROLL for (int i = 0; i < 4; i++) ((u32 *)a.dst.p)[4 * threadIdx.x + i] = r[i]; }
KERNEL(rows, SumArgs, 32) { u32 r[4], to = copied(a); copy_wait<1>(); __syncthreads(); ldmatrix4(r, to); leave(a, r); }
KERNEL(transposed, SumArgs, 32) { u32 r[4], to = copied(a); copy_wait<1>(); __syncthreads(); ldmatrix4_trans(r, to); leave(a, r); }
KERNEL(cut, SumArgs, 32) { u32 r[4], to = copied(a); copy_wait<0>(); __syncthreads(); ldmatrix4(r, to + 512); leave(a, r); }
KERNEL(hasty, SumArgs, 32) { u32 r[4], to = copied(a); copy_wait<1>(); __syncthreads(); ldmatrix4(r, to + 512); leave(a, r); }
KERNEL(misaligned, SumArgs, 32) { u32 r[4], to = copied(a); copy_wait<0>(); __syncthreads(); ldmatrix4(r, to + 2); leave(a, r); }
`

func TestAsynchronousCopies(t *testing.T) {
	names := []string{"rows", "transposed", "cut", "hasty", "misaligned"}
	lib, err := build(t.TempDir(), []kernels.Source{{Name: "asynchronous.cu", Text: asynchronous}}, names)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const rows, words = 64, 4
	// run returns the 16-bit numbers that a kernel leaves, 8 for each lane.
	run := func(kernel int) (got [32 * 2 * words]uint16, err error) {
		m := lib.Machine(1)
		src, _ := m.Alloc(16 * rows)
		dst, _ := m.Alloc(int(unsafe.Sizeof(got)))
		defer m.Free(src, 16*rows)
		defer m.Free(dst, int(unsafe.Sizeof(got)))
		var numbers [8 * rows]uint16
		for i := range numbers {
			numbers[i] = uint16(i)
		}
		m.Write(src, unsafe.Pointer(&numbers), 16*rows)
		args := make([]byte, lib.kernels[kernel].size)
		*(*cuda.Pointer)(unsafe.Pointer(&args[0])) = dst // SumArgs begins with dst and x, two Mats of 5 words
		*(*cuda.Pointer)(unsafe.Pointer(&args[40])) = src
		err = m.Run([]cuda.Launch{{Kernel: cuda.Kernel(kernel), Grid: 1, Threads: 32, Shared: 4096, Size: int32(len(args))}}, args)
		m.Read(unsafe.Pointer(&got), dst, int(unsafe.Sizeof(got)))
		return got, err
	}
	// The PTX manual's figures of ldmatrix: row l/4, columns 2(l%4), +1 of 8 x 8; with
	// .trans the other way around.
	for kernel, place := range [...]func(matrix, lane, half int) int{
		func(m, l, h int) int { return 8*(8*m+l/4) + 2*(l%4) + h },
		func(m, l, h int) int { return 8*(8*m+2*(l%4)+h) + l/4 },
	} {
		got, err := run(kernel)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if want := place(i/2%words, i/2/words, i%2); int(v) != want {
				t.Fatalf("%s: number %d is %d, want %d", names[kernel], i, v, want)
			}
		}
	}
	got, err := run(2)
	if err != nil {
		t.Fatal(err)
	}
	for l := range 32 { // 10 bytes of each row came, the rest are zeros
		want := uint16(8*(32+l/4) + 2*(l%4))
		if l%4 > 2 {
			want = 0
		}
		if got[8*l] != want {
			t.Errorf("cut: lane %d has %d, want %d", l, got[8*l], want)
		}
	}
	if got, _ := run(3); got[0] != math.MaxUint16 {
		t.Errorf("a group that no wait required has arrived: %d", got[0])
	}
	if _, err := run(4); err == nil || !strings.Contains(err.Error(), "multiple of its width") {
		t.Errorf("a misaligned address: %v", err)
	}
}
