// Package emu runs the GPU's kernels on a processor, for tests on machines without a
// GPU.
//
// The CUDA C sources of package kernels are compiled by g++, with the headers of the
// folder host in place of CUDA. Every thread of a block becomes a fiber, and shared
// memory starts as NaN. A [Library] holds the compiled kernels; its Machine and Hopper
// methods return a [cuda.Machine] for them:
//
//	lib, err := emu.Build(dir)
//	d, err := cuda.New(lib.Hopper(1), device.BF16)
//
// The emulator finds wrong indices, reads of shared memory that nobody wrote, barriers
// and warp exchanges that some threads miss, and missing waits for asynchronous copies,
// wgmma and transfers. Tests run each kernel with the threads in three orders, which
// must give the same bits; this finds most data races.
//
// It says nothing about speed, and it cannot find races between blocks or kernels,
// which it runs one after another. Results of tensor cores differ from a GPU's in the
// last bits (host/emulator.h).
package emu

/*
// The compiled kernels are opened by dlopen, so their functions are called through
// pointers. Device memory is host memory: an address on the device is an address here.

#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *call_launch(void *f, void *k, void *args, int grid, int threads, int shared, int how) {
	return ((const char *(*)(void *, void *, int, int, int, int))f)(k, args, grid, threads, shared, how);
}
static long call_size(void *f) { return ((long (*)(void))f)(); }
static void *call_alloc(void *f, size_t n) { return ((void *(*)(size_t))f)(n); }
static void call_free(void *f, unsigned long long p, size_t n) { ((void (*)(void *, size_t))f)((void *)p, n); }
static void copy_in(unsigned long long dst, const void *src, size_t n) { memcpy((void *)dst, src, n); }
static void copy_out(void *dst, unsigned long long src, size_t n) { memcpy(dst, (const void *)src, n); }
*/
import "C"

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/kernels"
)

//go:embed host
var host embed.FS

// ErrUnavailable is returned where the emulator, or the emulated driver, cannot be
// built. Tests skip on it.
var ErrUnavailable = errors.New("the GPU emulator needs g++ on x86-64 (hint: make setup-cuda)")

// Library is the kernels compiled for the processor. It runs one launch at a time,
// since the emulator's state is global; its machines may be used from several
// goroutines. It stays loaded until the process ends.
type Library struct {
	mu                  sync.Mutex
	handle              unsafe.Pointer
	launch, alloc, free unsafe.Pointer
	kernels             []kernel
}

type kernel struct {
	call    unsafe.Pointer // the function, of the address of its arguments
	size    int            // bytes of its arguments
	threads int            // largest block
}

// Build compiles the kernels in dir, with those of Hopper, and opens the result. dir
// may be removed afterwards.
func Build(dir string) (*Library, error) { return build(dir, kernels.Sources(), cuda.Kernels(hopper)) }

// build is Build for other kernels, with the given names in the order of their indices.
func build(dir string, sources []kernels.Source, names []string) (*Library, error) {
	object, err := compile(dir, sources)
	if err != nil {
		return nil, err
	}
	return open(object, names)
}

// Compile compiles the kernels to a shared library in dir and returns its path. The
// emulated driver (package driver) opens the same library.
func Compile(dir string) (string, error) { return compile(dir, kernels.Sources()) }

// compile compiles without contraction of multiply-adds, so that only the sources' own
// fmaf are fused, whatever the optimizer prefers.
func compile(dir string, sources []kernels.Source) (string, error) {
	if err := writeSources(dir, sources); err != nil {
		return "", err
	}
	object := filepath.Join(dir, "kernels.so")
	return object, Compiler(dir, "-O2", "-march=native", "-fno-strict-aliasing", "-ffp-contract=off", "-Wno-unused-function",
		"-o", object, "all.cpp", "emulator.cpp")
}

// Compiler runs g++ in dir with args to make a shared library. Warnings are errors. It
// returns ErrUnavailable if there is no g++ or the processor is not x86-64, for which
// the fibers are written.
func Compiler(dir string, args ...string) error {
	gcc, err := exec.LookPath("g++")
	if err != nil || runtime.GOARCH != "amd64" {
		return ErrUnavailable
	}
	c := exec.Command(gcc, append([]string{"-std=c++17", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"}, args...)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("emu: compiling for the processor: %w\n%s", err, out)
	}
	return nil
}

// writeSources writes all sources to dir, and all.cpp, which includes them. Each file
// of kernels gets its own namespace, since files define functions of the same names.
func writeSources(dir string, sources []kernels.Source) error {
	var all strings.Builder
	files, err := hostSources()
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".h") {
			fmt.Fprintf(&all, "#include \"%s\"\n", f.Name)
		}
	}
	for _, h := range kernels.Headers() {
		files = append(files, h)
		fmt.Fprintf(&all, "#include \"%s\"\n", h.Name)
	}
	for _, s := range sources {
		files = append(files, s)
		fmt.Fprintf(&all, "namespace file_%s {\n#include \"%s\"\n}\n", strings.TrimSuffix(s.Name, ".cu"), s.Name)
	}
	for _, f := range append(files, kernels.Source{Name: "all.cpp", Text: all.String()}) {
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o644); err != nil {
			return fmt.Errorf("emu: writing the kernels' sources: %w", err)
		}
	}
	return nil
}

// hostSources returns the emulator's files, which replace CUDA.
func hostSources() ([]kernels.Source, error) {
	entries, err := host.ReadDir("host")
	if err != nil {
		return nil, fmt.Errorf("emu: the emulator's own sources: %w", err)
	}
	var list []kernels.Source
	for _, e := range entries {
		text, err := host.ReadFile("host/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("emu: the emulator's own sources: %w", err)
		}
		list = append(list, kernels.Source{Name: e.Name(), Text: string(text)})
	}
	return list, nil
}

// open loads a compiled library and looks up its kernels. It uses RTLD_LOCAL, so
// several libraries can be open at once.
func open(object string, names []string) (*Library, error) {
	path := C.CString(object)
	defer C.free(unsafe.Pointer(path))
	l := &Library{handle: C.dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL)}
	if l.handle == nil {
		return nil, fmt.Errorf("emu: opening the compiled kernels: %s", C.GoString(C.dlerror()))
	}
	l.launch, l.alloc, l.free = l.symbol("emu_launch"), l.symbol("emu_alloc"), l.symbol("emu_free")
	for _, name := range names {
		k := kernel{call: l.symbol(name)}
		if k.call == nil {
			return nil, fmt.Errorf("emu: there is no kernel %q", name)
		}
		k.size = int(C.call_size(l.symbol(name + "_size")))
		k.threads = int(C.call_size(l.symbol(name + "_threads")))
		l.kernels = append(l.kernels, k)
	}
	return l, nil
}

// symbol returns the address of a symbol, or nil.
func (l *Library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(l.handle, s)
}

// machine is a Library as a cuda.Machine. Its launches run synchronously.
type machine struct {
	*Library
	isa     string
	order   int
	sending *sending
}

// Machine returns an emulated GPU of Ampere's kind, on which the threads of a block,
// and the lanes of a warp, run in the given order: 1 forwards, 2 backwards, 3 mixed. In
// order 2 asynchronous operations also complete as early as possible, else as late as
// possible. A kernel whose result depends on the order lacks a barrier.
func (l *Library) Machine(order int) cuda.Machine { return machine{l, "emulated", order, &sending{}} }

// hopper is the ISA of an emulated GPU with wgmma. Its suffix is what package cuda
// looks at.
const hopper = "emulated-sm_90a"

// Hopper is like Machine, but the GPU has wgmma.
func (l *Library) Hopper(order int) cuda.Machine { return machine{l, hopper, order, &sending{}} }

func (m machine) ISA() string { return m.isa }
func (machine) Close() error  { return nil }

// Alloc returns zeroed memory followed by an inaccessible page.
func (m machine) Alloc(bytes int) (cuda.Pointer, error) {
	p := C.call_alloc(m.alloc, C.size_t(bytes))
	if p == nil {
		return 0, fmt.Errorf("no memory for %d bytes", bytes)
	}
	return cuda.Pointer(uintptr(p)), nil
}

func (m machine) Free(p cuda.Pointer, bytes int) {
	C.call_free(m.free, C.ulonglong(p), C.size_t(bytes))
}

func (machine) Write(dst cuda.Pointer, src unsafe.Pointer, bytes int) error {
	C.copy_in(C.ulonglong(dst), src, C.size_t(bytes))
	return nil
}

func (machine) Read(dst unsafe.Pointer, src cuda.Pointer, bytes int) error {
	C.copy_out(dst, C.ulonglong(src), C.size_t(bytes))
	return nil
}

func (m machine) Run(launches []cuda.Launch, args []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range launches {
		if err := m.run(l, args[l.At:l.At+l.Size]); err != nil {
			return fmt.Errorf("kernel %s on %d blocks of %d: %w", l.Kernel, l.Grid, l.Threads, err)
		}
	}
	return nil
}

// Graph copies the arguments, as a CUDA graph does: those that Update does not change
// keep their values.
func (m machine) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	return &graph{m, slices.Clone(launches), slices.Clone(args)}, nil
}

type graph struct {
	machine  machine
	launches []cuda.Launch
	args     []byte
}

func (g *graph) Update(i int, args []byte) error {
	copy(g.args[g.launches[i].At:], args)
	return nil
}

func (g *graph) Start() error { return g.machine.Run(g.launches, g.args) }
func (g *graph) Close() error { return nil }

// run runs one launch.
func (m machine) run(l cuda.Launch, args []byte) error {
	k := m.kernels[l.Kernel]
	if k.size != len(args) || k.threads < int(l.Threads) {
		return fmt.Errorf("launched with %d bytes of arguments and %d threads, but it takes %d bytes and at most %d threads",
			len(args), l.Threads, k.size, k.threads)
	}
	failure := C.call_launch(m.launch, k.call, unsafe.Pointer(unsafe.SliceData(args)), C.int(l.Grid), C.int(l.Threads), C.int(l.Shared), C.int(m.order))
	if failure != nil {
		return errors.New(C.GoString(failure))
	}
	return nil
}
