package cuda

import (
	"unsafe"

	"scalewm/model/device"
)

// Room counts what the pool would give back as free.
func (e *engine) Room() int {
	if e.err != nil {
		return 0
	}
	free, err := e.machine.Room()
	e.fail(err)
	for size, list := range e.pool.free {
		free += size * len(list)
	}
	return free
}

// AllocHost is memory of Go after a failure, so that callers may go on until they ask for Err.
func (e *engine) AllocHost(n int) []byte {
	if n == 0 || e.err != nil {
		return make([]byte, n)
	}
	p, err := e.machine.AllocHost(n)
	if err != nil {
		e.fail(err)
		return make([]byte, n)
	}
	e.locked[p] = n
	return unsafe.Slice((*byte)(p), n)
}

func (e *engine) FreeHost(b []byte) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if n, ours := e.locked[p]; ours {
		delete(e.locked, p)
		e.fail(e.machine.FreeHost(p, n))
	}
}

func (e *engine) SendBytes(dst device.Bytes, at int, src []byte) {
	e.Submit()
	if len(src) > 0 && e.err == nil {
		e.fail(e.machine.Send(dst.(*bytes).p+Pointer(at), unsafe.Pointer(unsafe.SliceData(src)), len(src)))
	}
}

func (e *engine) AwaitSent() {
	e.Submit()
	if e.err == nil {
		e.fail(e.machine.Await())
	}
}
