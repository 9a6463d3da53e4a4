package cuda

import "unsafe"

// Machine is what runs kernels: a GPU (package gpu, tag gpu) or the emulator
// that tests run them on (package emu). All calls come from one goroutine at a time.
type Machine interface {
	// ISA is what the kernels were compiled for, for example sm_90a.
	ISA() string
	// Alloc gets device memory with any contents; an error names bytes and hint.
	Alloc(bytes int) (Pointer, error)
	Free(p Pointer, bytes int)
	// Write and Read copy between host and device after all launches before.
	Write(dst Pointer, src unsafe.Pointer, bytes int) error
	Read(dst unsafe.Pointer, src Pointer, bytes int) error
	// Room is how many bytes Alloc still has.
	Room() (int, error)
	// AllocHost gets memory of the host that Send reads while kernels run.
	AllocHost(bytes int) (unsafe.Pointer, error)
	FreeHost(p unsafe.Pointer, bytes int) error
	// Send copies to the device after all launches before and beside those after,
	// which Await makes wait. Until then src stays as it is.
	Send(dst Pointer, src unsafe.Pointer, bytes int) error
	Await() error
	// Run runs kernels one after another; it may return before they have run.
	// The arguments of a launch lie at args[Launch.At:].
	Run(launches []Launch, args []byte) error
	// Graph keeps the launches ready to be started again.
	Graph(launches []Launch, args []byte) (Graph, error)
	// Sync waits for all launches and copies and returns what went wrong in them.
	Sync() error
	Close() error
}

// Pointer is an address in device memory; 0 is none.
type Pointer uint64

// Launch is one kernel on a one-dimensional grid.
type Launch struct {
	Kernel        Kernel
	Grid, Threads int32
	Shared        int32 // bytes of dynamic shared memory
	At, Size      int32 // its arguments, in bytes
}

// Kernel is a kernel's index in Kernels.
type Kernel int32
