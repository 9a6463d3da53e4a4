//go:build gpu

package gpu

// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda"
)

// sending is a second stream, on which frames arrive while kernels run on the first.
type sending struct {
	stream *cu.Stream // nil: not open
	ran    cu.Event   // kernels before a copy
	sent   cu.Event   // copies before kernels
}

func (s *sending) open() error {
	stream, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return err
	}
	s.stream = &stream
	if s.ran, err = cu.MakeEvent(cu.DisableTiming); err != nil {
		return err
	}
	s.sent, err = cu.MakeEvent(cu.DisableTiming)
	return err
}

func (s *sending) wait() error { return s.stream.Synchronize() }

func (s *sending) close() error {
	if s.stream == nil {
		return nil
	}
	var err error
	for _, e := range []*cu.Event{&s.ran, &s.sent} {
		if *e != (cu.Event{}) {
			err = errors.Join(err, cu.DestroyEvent(e))
		}
	}
	return errors.Join(err, s.stream.Destroy())
}

func (m *machine) Room() (int, error) {
	release, err := m.enter()
	if err != nil {
		return 0, err
	}
	defer release()
	free, _, err := cu.MemInfo()
	if err != nil {
		return 0, m.lost(fmt.Errorf("queries for free memory: %w", err))
	}
	return int(free), nil
}

func (m *machine) AllocHost(bytes int) (p unsafe.Pointer, err error) {
	release, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer release()
	code := C.gpu_host_alloc(&p, C.size_t(bytes))
	if code == C.CUDA_ERROR_OUT_OF_MEMORY {
		return nil, fmt.Errorf("the host locks no further %d MiB of memory for transfers (hint: a smaller batch, or a machine with more memory)", bytes>>20)
	}
	return p, m.result(code, "locking memory for frames")
}

func (m *machine) FreeHost(p unsafe.Pointer, _ int) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	return cu.MemFreeHost(p)
}

func (m *machine) Send(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	return m.between("sending frames", func() error {
		if err := errors.Join(m.sending.ran.Record(m.stream), m.sending.stream.Wait(m.sending.ran, 0)); err != nil {
			return err
		}
		return cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(bytes), *m.sending.stream)
	})
}

func (m *machine) Await() error {
	return m.between("awaiting frames", func() error {
		return errors.Join(m.sending.sent.Record(*m.sending.stream), m.stream.Wait(m.sending.sent, 0))
	})
}

// between does what concerns both streams.
func (m *machine) between(doing string, f func() error) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	if err := f(); err != nil {
		return m.lost(fmt.Errorf("%s: %w", doing, err))
	}
	return nil
}
