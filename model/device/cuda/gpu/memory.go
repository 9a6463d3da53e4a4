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

// Alloc allocates device memory. Running out of memory is not a failure of the GPU: the
// engine may release cached memory and try again.
func (m *machine) Alloc(bytes int) (cuda.Pointer, error) {
	release, err := m.enter()
	if err != nil {
		return 0, err
	}
	defer release()
	p, err := cu.MemAlloc(int64(bytes))
	if errors.Is(err, cu.OutOfMemory) {
		free, total, _ := cu.MemInfo()
		return 0, fmt.Errorf("out of device memory: requested %s, %d of the GPU's %d MiB are free "+
			"(hint: a smaller batch or preset; training takes 22 GiB with paper in fp32, 12 in bf16, 2 with small)", sizeText(bytes), free>>20, total>>20)
	}
	if err != nil {
		return 0, m.failed(fmt.Errorf("allocating %d bytes: %w", bytes, err))
	}
	return cuda.Pointer(p.Uintptr()), nil
}

// sizeText formats a size, rounded up below 1 MiB so that it is never 0.
func sizeText(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d kB", (bytes+1023)>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func (m *machine) Free(p cuda.Pointer, _ int) {
	release, err := m.enter()
	if err != nil {
		return // the context is gone, and its memory with it
	}
	defer release()
	_ = cu.MemFree(cu.DevicePtr(p)) // an error here is an earlier kernel's, which Sync reports
}

// stage is the page-locked (pinned) memory through which all ordered transfers pass.
// The GPU reads pinned memory by DMA, so Write can return once it has copied its source
// there. Transfers take consecutive pieces; when the end is reached, the next one waits
// for all transfers and starts again at the beginning.
type stage struct {
	p       unsafe.Pointer
	size    int
	pending int // bytes in use
}

// minStage is the initial size of the stage. It grows to twice the largest transfer, so
// that a second one can be prepared while the first is in progress.
const minStage = 64 << 20

// stageBytes returns n bytes of the stage, growing it if necessary. Pieces are aligned
// to 256 bytes.
func (m *machine) stageBytes(n int) (unsafe.Pointer, error) {
	s := &m.stage
	if s.pending+n > s.size {
		if err := m.result(C.gpu_sync(m.handle()), "waiting for transfers"); err != nil {
			return nil, err
		}
		s.pending = 0
	}
	if n > s.size {
		if err := s.free(); err != nil {
			return nil, m.failed(err)
		}
		room := max(minStage, 2*n)
		if err := m.result(C.gpu_host_alloc(&s.p, C.size_t(room)), "locking memory for transfers"); err != nil {
			return nil, err
		}
		s.size = room
	}
	p := unsafe.Add(s.p, s.pending)
	s.pending += (n + 255) / 256 * 256
	return p, nil
}

// free releases the stage's memory. No transfer may be in progress.
func (s *stage) free() error {
	if s.p == nil {
		return nil
	}
	p := s.p
	*s = stage{}
	return cu.MemFreeHost(p)
}

// Write copies src to the stage and queues the copy to the device; src may change as
// soon as it returns.
func (m *machine) Write(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	p, err := m.stageBytes(bytes)
	if err != nil {
		return err
	}
	parallelCopy(p, src, bytes)
	if err := cu.MemcpyHtoDAsync(cu.DevicePtr(dst), p, int64(bytes), m.stream); err != nil {
		return m.failed(err)
	}
	return nil
}

// Read waits for the kernels before it and for the copy. All earlier transfers have
// finished then, too, so the stage is empty.
func (m *machine) Read(dst unsafe.Pointer, src cuda.Pointer, bytes int) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	p, err := m.stageBytes(bytes)
	if err != nil {
		return err
	}
	if err := cu.MemcpyDtoHAsync(p, cu.DevicePtr(src), int64(bytes), m.stream); err != nil {
		return m.failed(err)
	}
	if err := m.result(C.gpu_sync(m.handle()), "waiting for results"); err != nil {
		return err
	}
	parallelCopy(dst, p, bytes)
	m.stage.pending = 0
	return nil
}

// parallelCopy copies within the host. It splits large transfers, such as a batch of
// frames, over up to 8 cores, since one core copies more slowly than the GPU fetches.
func parallelCopy(dst, src unsafe.Pointer, bytes int) {
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
