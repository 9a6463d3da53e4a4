//go:build gpu

package gpu

// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda"
)

func (m *machine) Alloc(bytes int) (cuda.Pointer, error) {
	release, err := m.enter()
	if err != nil {
		return 0, err
	}
	defer release()
	p, err := cu.MemAlloc(int64(bytes))
	if errors.Is(err, cu.OutOfMemory) {
		free, total, _ := cu.MemInfo()
		return 0, fmt.Errorf("out of device memory: asked for %s, %d of the GPU's %d MiB are free "+
			"(hint: a smaller batch or preset; training takes 22 GiB with paper in fp32, 12 in bf16, 2 with small)", size(bytes), free>>20, total>>20)
	}
	if err != nil {
		return 0, m.lost(fmt.Errorf("allocating %d bytes: %w", bytes, err))
	}
	return cuda.Pointer(p.Uintptr()), nil
}

func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d kB", (bytes+1023)>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func (m *machine) Free(p cuda.Pointer, _ int) {
	release, err := m.enter()
	if err != nil {
		return // the context is gone and its memory with it
	}
	defer release()
	_ = cu.MemFree(cu.DevicePtr(p)) // a failure here is an earlier kernel's, which Sync reports
}

// stage is page-locked memory through which all transfers go: the GPU fetches
// from it while the program goes on. Pieces are taken one after another; at its
// end all transfers are waited for.
type stage struct {
	p       unsafe.Pointer
	size    int
	pending int // bytes in use
}

// smallest is where a stage begins to be made; it has room for two of the largest transfers.
const smallest = 64 << 20

// take is n bytes of page-locked memory.
func (m *machine) take(n int) (unsafe.Pointer, error) {
	s := &m.stage
	if s.pending+n > s.size {
		if err := m.result(C.gpu_sync(m.handle()), "waiting for transfers"); err != nil {
			return nil, err
		}
		s.pending = 0
	}
	if n > s.size {
		if err := s.free(); err != nil {
			return nil, m.lost(err)
		}
		room := max(smallest, 2*n)
		if err := m.result(C.gpu_host_alloc(&s.p, C.size_t(room)), "locking memory for transfers"); err != nil {
			return nil, err
		}
		s.size = room
	}
	p := unsafe.Add(s.p, s.pending)
	s.pending += (n + 255) / 256 * 256
	return p, nil
}

func (s *stage) free() error {
	if s.p == nil {
		return nil
	}
	p := s.p
	*s = stage{}
	return cu.MemFreeHost(p)
}

func (m *machine) Write(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	p, err := m.take(bytes)
	if err != nil {
		return err
	}
	transfer(p, src, bytes)
	if err := cu.MemcpyHtoDAsync(cu.DevicePtr(dst), p, int64(bytes), m.stream); err != nil {
		return m.lost(err)
	}
	return nil
}

func (m *machine) Read(dst unsafe.Pointer, src cuda.Pointer, bytes int) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	p, err := m.take(bytes)
	if err != nil {
		return err
	}
	if err := cu.MemcpyDtoHAsync(p, cu.DevicePtr(src), int64(bytes), m.stream); err != nil {
		return m.lost(err)
	}
	if err := m.result(C.gpu_sync(m.handle()), "waiting for results"); err != nil {
		return err
	}
	transfer(dst, p, bytes)
	m.stage.pending = 0
	return nil
}

// transfer copies within the host: a batch of frames on a few cores, since one
// copies slower than the GPU fetches.
func transfer(dst, src unsafe.Pointer, bytes int) {
	const piece = 4 << 20
	to, from := unsafe.Slice((*byte)(dst), bytes), unsafe.Slice((*byte)(src), bytes)
	if bytes <= piece {
		copy(to, from)
		return
	}
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), 8)
	each := (bytes + workers - 1) / workers
	for at := 0; at < bytes; at += each {
		wg.Go(func() { copy(to[at:min(at+each, bytes)], from[at:]) })
	}
	wg.Wait()
}
