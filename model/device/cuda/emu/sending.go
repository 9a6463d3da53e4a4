package emu

// #include <string.h>
import "C"

import (
	"fmt"
	"unsafe"

	"scalewm/model/device/cuda"
)

// sending is copies beside the kernels. They happen as late as allowed, and until
// then their destination holds garbage: who does not wait sees it.
type sending struct{ late []transfer }

type transfer struct {
	dst   cuda.Pointer
	src   unsafe.Pointer
	bytes int
}

// address is p as a pointer.
func address(p cuda.Pointer) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Room is that of a card of 1 GiB of which nothing is used.
func (machine) Room() (int, error) { return 1 << 30, nil }

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
