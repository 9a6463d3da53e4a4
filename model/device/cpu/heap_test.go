package cpu

import (
	"slices"
	"testing"
	"unsafe"
)

// TestHeap takes blocks of several sizes, fills them, and frees some: blocks never overlap, are
// zeroed and aligned to cache lines, and freed ones are used again, so that memory does not grow.
func TestHeap(t *testing.T) {
	h := newHeap()
	defer h.free()
	sizes := []int{0, 1, 64, 1000, 4096, 300_000, 1 << 20, 3 << 20}
	type taken struct {
		p    unsafe.Pointer
		size int
	}
	var live []taken
	round := func() {
		for _, size := range sizes {
			p := h.take(size)
			b := unsafe.Slice((*byte)(p), size)
			if uintptr(p)%64 != 0 || slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) {
				t.Fatalf("a block of %d bytes at %p is not aligned and zero", size, p)
			}
			for _, other := range live {
				if uintptr(p) < uintptr(other.p)+uintptr(max(other.size, 1)) && uintptr(other.p) < uintptr(p)+uintptr(max(size, 1)) {
					t.Fatalf("blocks of %d and %d bytes overlap", size, other.size)
				}
			}
			for i := range b {
				b[i] = 0xff
			}
			live = append(live, taken{p, size})
		}
	}
	for range 20 {
		round()
	}
	total := 0
	for i := range 30 {
		if i == 10 { // by then large blocks are cut from slabs, too
			total = h.total
		}
		for _, b := range live[:len(sizes)] {
			h.release(b.p)
		}
		live = live[len(sizes):]
		round()
	}
	if h.total != total {
		t.Errorf("freed blocks were not used again: %d bytes, then %d", total, h.total)
	}
	h.release(nil)
}
