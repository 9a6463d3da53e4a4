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

// sending is the second stream, on which frames are copied to the device while kernels
// run on the first, and the events that order the two streams where necessary.
type sending struct {
	stream *cu.Stream // nil until open
	ran    cu.Event   // recorded on the kernels' stream: a copy waits for it
	sent   cu.Event   // recorded on the copies' stream: kernels wait for it
}

// open creates the stream and the events, which need no timing and are cheaper without.
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

// wait blocks until all copies have finished.
func (s *sending) wait() error { return s.stream.Synchronize() }

// close releases what open has created, also after an error in open.
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

// FreeBytes returns the free device memory in bytes, as the driver reports it.
func (m *machine) FreeBytes() (int, error) {
	release, err := m.enter()
	if err != nil {
		return 0, err
	}
	defer release()
	free, _, err := cu.MemInfo()
	if err != nil {
		return 0, m.failed(fmt.Errorf("querying free memory: %w", err))
	}
	return int(free), nil
}

// AllocHost allocates page-locked memory, which asynchronous copies require.
func (m *machine) AllocHost(bytes int) (p unsafe.Pointer, err error) {
	release, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer release()
	code := C.gpu_host_alloc(&p, C.size_t(bytes))
	if code == C.CUDA_ERROR_OUT_OF_MEMORY {
		return nil, fmt.Errorf("the host cannot lock %d MiB more of memory for transfers (hint: a smaller batch, or a machine with more memory)", bytes>>20)
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

// Send queues a copy on the second stream, after the kernels launched so far: they may
// still read dst.
func (m *machine) Send(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	return m.onBothStreams("sending frames", func() error {
		if err := errors.Join(m.sending.ran.Record(m.stream), m.sending.stream.Wait(m.sending.ran, 0)); err != nil {
			return err
		}
		return cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(bytes), *m.sending.stream)
	})
}

// Await makes the kernels launched from now on wait for the copies sent so far. It does
// not block the host.
func (m *machine) Await() error {
	return m.onBothStreams("awaiting frames", func() error {
		return errors.Join(m.sending.sent.Record(*m.sending.stream), m.stream.Wait(m.sending.sent, 0))
	})
}

// onBothStreams calls f with the context current.
func (m *machine) onBothStreams(doing string, f func() error) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	if err := f(); err != nil {
		return m.failed(fmt.Errorf("%s: %w", doing, err))
	}
	return nil
}
