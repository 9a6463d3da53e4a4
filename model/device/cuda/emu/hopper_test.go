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

// warpgroups is kernels of one warpgroup. Each multiplies 64 x 64 numbers of a.x by a
// unit matrix of 16 x 16, which it builds in shared memory, so that 16 columns of a.x
// come back exactly. slab copies the numbers and builds the unit matrix.
const warpgroups = `
#include "args.cuh"
#include "wgmma.cuh"
enum { UNIT = 8192 };
DEVICE void slab(const SumArgs &a) {
	SHARED(u16, s);
	for (int i = threadIdx.x; i < 512; i += 128) copy16(shared_address(s) + swizzled(i / 8, i % 8), (const char *)a.x.p + 16 * i);
	copy_commit();
	int r = threadIdx.x % 16, j = threadIdx.x / 16;
	for (int i = 0; i < 8; i++) s[(UNIT + swizzled(r, j)) / 2 + i] = r == 8 * j + i ? 0x3f80 : 0;
}
DEVICE void leave(const SumArgs &a, const float (*d)[4]) {
	for (int j = 0; j < 2; j++)
		for (int e = 0; e < 4; e++) {
			int r = threadIdx.x / 32 * 16 + lane() / 4 + e / 2 * 8, c = 8 * j + lane() % 4 * 2 + e % 2;
			a.dst.p[16 * r + c] = d[j][e];
		}
}
// multiply issues the product of 16 inner indices from k on, of the numbers as K-major or MN-major operand.
template <int MN_MAJOR> DEVICE void multiply(float (*d)[4], int k, u32 unit = UNIT) {
	SHARED(u16, s);
	wgmma<16, MN_MAJOR, 0>(d, descriptor<MN_MAJOR>(shared_address(s) + k * (MN_MAJOR ? ROW : 2)), descriptor<false>(shared_address(s) + unit));
	wgmma_commit();
}
KERNEL(rows, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); __syncthreads(); wgmma_fence(); multiply<0>(d, 16); wgmma_wait<0>(); leave(a, d);
}
KERNEL(mnMajor, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); __syncthreads(); wgmma_fence(); multiply<1>(d, 16); wgmma_wait<0>(); leave(a, d);
}
KERNEL(twice, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); group_barrier(0); wgmma_fence(); multiply<0>(d, 16); multiply<0>(d, 16); wgmma_wait<1>(); wgmma_wait<0>(); leave(a, d);
}
KERNEL(hasty, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); __syncthreads(); wgmma_fence(); multiply<0>(d, 16); multiply<0>(d, 16); wgmma_wait<1>(); leave(a, d); wgmma_wait<0>();
}
KERNEL(unseen, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); __syncthreads(); wgmma_fence(); multiply<0>(d, 16); wgmma_wait<0>(); leave(a, d);
}
KERNEL(unfenced, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); __syncthreads(); multiply<0>(d, 16); wgmma_wait<0>(); leave(a, d);
}
KERNEL(apart, SumArgs, 128) {
	float d[2][4] = {};
	slab(a); copy_wait<0>(); proxy_fence(); __syncthreads(); wgmma_fence(); multiply<0>(d, 16 * (lane() / 16)); wgmma_wait<0>(); leave(a, d);
}
KERNEL(unmet, SumArgs, 128) { if ((int)threadIdx.x < 64 + (int)a.chunks) group_barrier(0); }
`

func TestWarpgroups(t *testing.T) {
	names := []string{"rows", "mnMajor", "twice", "hasty", "unseen", "unfenced", "apart", "unmet"}
	lib, err := build(t.TempDir(), []kernels.Source{{Name: "warpgroups.cu", Text: warpgroups}}, names)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const side, columns = 64, 16
	number := func(r, c int) float32 { return float32(r*7%64) + float32(c)*64 } // at most 12 bits, of which bf16 keeps 8: below
	run := func(kernel, order int) (got [side * columns]float32, err error) {
		m := lib.Machine(order)
		src, _ := m.Alloc(2 * side * side)
		dst, _ := m.Alloc(int(unsafe.Sizeof(got)))
		defer m.Free(src, 2*side*side)
		defer m.Free(dst, int(unsafe.Sizeof(got)))
		var numbers [side * side]uint16
		for i := range numbers {
			numbers[i] = uint16(math.Float32bits(number(i/side, i%side)) >> 16)
		}
		m.Write(src, unsafe.Pointer(&numbers), 2*side*side)
		args := make([]byte, lib.kernels[kernel].size)
		*(*cuda.Pointer)(unsafe.Pointer(&args[0])) = dst // SumArgs begins with dst and x, two Mats of 5 words
		*(*cuda.Pointer)(unsafe.Pointer(&args[40])) = src
		err = m.Run([]cuda.Launch{{Kernel: cuda.Kernel(kernel), Grid: 1, Threads: 128, Shared: 8192 + 2048, Size: int32(len(args))}}, args)
		m.Read(unsafe.Pointer(&got), dst, int(unsafe.Sizeof(got)))
		return got, err
	}
	stored := func(r, c int) float32 { return math.Float32frombits(math.Float32bits(number(r, c)) &^ 0xffff) }
	for kernel, want := range [...]func(r, c int) float32{
		func(r, c int) float32 { return stored(r, 16+c) },     // columns 16 to 31
		func(r, c int) float32 { return stored(16+c, r) },     // rows 16 to 31, transposed
		func(r, c int) float32 { return 2 * stored(r, 16+c) }, // the same added to itself
	} {
		for order := 1; order <= 3; order++ {
			got, err := run(kernel, order)
			if err != nil {
				t.Fatalf("%s: %v", names[kernel], err)
			}
			for i, v := range got {
				if w := want(i/columns, i%columns); v != w {
					t.Fatalf("%s, order %d: row %d, column %d is %g, want %g", names[kernel], order, i/columns, i%columns, v, w)
				}
			}
		}
	}
	if got, err := run(3, 1); err != nil || got[0] == got[0] {
		t.Errorf("sums that no wait required: %g, %v", got[0], err)
	}
	for kernel, want := range map[int]string{4: "fence.proxy.async", 5: "without wgmma.fence", 6: "lanes disagree", 7: "a warpgroup's barrier"} {
		if _, err := run(kernel, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", names[kernel], err, want)
		}
	}
}
