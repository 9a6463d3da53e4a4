package emu

// #include <string.h>
import "C"

import (
	"fmt"
	"unsafe"

	"scalewm/model/device/cuda"
)

// sending is the transfers that overlap with kernels (Machine.Send). They are performed
// as late as a GPU may, in Await. Until then their destination holds garbage, so that a
// kernel that does not wait gives wrong results.
type sending struct{ late []transfer }

type transfer struct {
	dst   cuda.Pointer
	src   unsafe.Pointer
	bytes int
}

// address returns p as a Go pointer. It goes through memory because go vet rejects
// converting a uintptr.
func address(p cuda.Pointer) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// FreeBytes reports 1 GiB: the emulator does not count memory.
func (machine) FreeBytes() (int, error) { return 1 << 30, nil }

func (m machine) AllocHost(bytes int) (unsafe.Pointer, error) {
	p, err := m.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("on the host: %w", err)
	}
	return address(p), nil
}

func (m machine) FreeHost(p unsafe.Pointer, bytes int) error {
	m.Free(cuda.Pointer(uintptr(p)), bytes)
	return nil
}

func (m machine) Send(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	C.memset(address(dst), 0xa5, C.size_t(bytes))
	m.sending.late = append(m.sending.late, transfer{dst, src, bytes})
	return nil
}

func (m machine) Await() error {
	for _, t := range m.sending.late {
		C.memcpy(address(t.dst), t.src, C.size_t(t.bytes))
	}
	m.sending.late = nil
	return nil
}

func (m machine) Sync() error { return m.Await() }
