package cuda

import "unsafe"

// Machine runs kernels: a GPU (package gpu), the emulator (package emu), or a counter
// (package roofline).
//
// Launches, transfers and frees behave as if they were executed in the order of the
// calls; only Send overlaps. All calls come from one goroutine at a time. Sizes are in
// bytes. Errors carry a hint for the user.
type Machine interface {
	// ISA returns the target that the kernels were compiled for, for example sm_90a. It
	// determines which kernels the engine uses.
	ISA() string
	// Alloc allocates device memory with undefined contents, aligned to 16 bytes at least.
	Alloc(bytes int) (Pointer, error)
	// Free frees memory of Alloc; bytes must be the size passed to it.
	Free(p Pointer, bytes int)
	// Write copies from the host to the device; src may change when it returns. Read
	// copies from the device to the host and waits for the copy.
	Write(dst Pointer, src unsafe.Pointer, bytes int) error
	Read(dst unsafe.Pointer, src Pointer, bytes int) error
	// FreeBytes returns how many bytes Alloc still has.
	FreeBytes() (int, error)
	// AllocHost allocates page-locked memory of the host, which Send requires.
	AllocHost(bytes int) (unsafe.Pointer, error)
	FreeHost(p unsafe.Pointer, bytes int) error
	// Send starts a copy to the device that follows all launches so far and overlaps
	// with later ones. Await makes launches from now on wait for all copies that were
	// sent. src must not change before the copy has finished.
	Send(dst Pointer, src unsafe.Pointer, bytes int) error
	Await() error
	// Run runs kernels one after another. It may return before they have run, but
	// copies the arguments: those of a launch are the Size bytes at args[Launch.At].
	Run(launches []Launch, args []byte) error
	// Graph prepares a sequence of launches that can be started many times.
	Graph(launches []Launch, args []byte) (Graph, error)
	// Sync waits for all launches and copies and returns their first error.
	Sync() error
	// Close releases the machine. The caller has freed its memory before.
	Close() error
}

// Pointer is an address in device memory; 0 is no address.
type Pointer uint64

// Launch is one launch of a kernel on a one-dimensional grid of Grid blocks of Threads
// threads.
type Launch struct {
	Kernel        Kernel
	Grid, Threads int32
	Shared        int32 // bytes of dynamic shared memory
	At, Size      int32 // position and size of its arguments, in bytes
}

// Kernel is the index of a kernel in [Kernels].
type Kernel int32
