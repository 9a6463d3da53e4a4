// Package emu runs the GPU's kernels on a processor, for tests: the CUDA C
// sources are compiled as C++ with emulator.h in place of CUDA, every thread
// becomes a fibre, and shared memory starts as NaN. It finds wrong indices,
// missing barriers and divergent exchanges on machines without a GPU. It says
// nothing about speed.
package emu

/*
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

// ErrUnavailable says that this machine cannot run the emulator.
var ErrUnavailable = errors.New("the GPU emulator needs g++ on x86-64 (hint: make setup-cuda)")

// Library is the kernels compiled for the processor. One launch runs at a time.
type Library struct {
	mu                  sync.Mutex
	handle              unsafe.Pointer
	launch, alloc, free unsafe.Pointer
	kernels             []kernel
}

type kernel struct {
	call    unsafe.Pointer
	size    int // bytes of its arguments
	threads int // most of a block
}

// Build compiles and opens the library; its files go to dir.
func Build(dir string) (*Library, error) { return build(dir, kernels.Sources(), cuda.Kernels(hopper)) }

func build(dir string, sources []kernels.Source, names []string) (*Library, error) {
	object, err := compile(dir, sources)
	if err != nil {
		return nil, err
	}
	return open(object, names)
}

// Compile leaves the kernels as a library for processors in dir and returns its
// path. An emulated driver opens it, too.
func Compile(dir string) (string, error) { return compile(dir, kernels.Sources()) }

func compile(dir string, sources []kernels.Source) (string, error) {
	if err := writeSources(dir, sources); err != nil {
		return "", err
	}
	object := filepath.Join(dir, "kernels.so")
	return object, Compiler(dir, "-O2", "-march=native", "-fno-strict-aliasing", "-ffp-contract=off", "-Wno-unused-function",
		"-o", object, "all.cpp", "emulator.cpp")
}

// Compiler runs g++ in dir to make a library for processors; a warning is an error.
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

// writeSources leaves all sources in dir, and all.cpp which includes them, each
// file of kernels in a namespace of its own.
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

// hostSources are the files that stand in for CUDA.
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

func (l *Library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(l.handle, s)
}

// machine is a Library as a cuda.Machine.
type machine struct {
	*Library
	isa     string
	order   int
	sending *sending
}

// Machine is an emulated GPU that runs the threads of a block, and the lanes of
// a warp, in the given order: 1 forwards, 2 backwards, 3 mixed. A kernel whose
// result depends on it lacks a barrier.
func (l *Library) Machine(order int) cuda.Machine { return machine{l, "emulated", order, &sending{}} }

// hopper is the ISA of an emulated GPU with wgmma.
const hopper = "emulated-sm_90a"

// Hopper is Machine with Hopper's own instructions.
func (l *Library) Hopper(order int) cuda.Machine { return machine{l, hopper, order, &sending{}} }

func (m machine) ISA() string { return m.isa }
func (machine) Close() error  { return nil }

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

// Graph keeps copies, as a GPU does: what is not updated stays as it was.
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

func (m machine) run(l cuda.Launch, args []byte) error {
	k := m.kernels[l.Kernel]
	if k.size != len(args) || k.threads < int(l.Threads) {
		return fmt.Errorf("%d bytes of arguments and %d threads, the kernel has %d and %d", len(args), l.Threads, k.size, k.threads)
	}
	trouble := C.call_launch(m.launch, k.call, unsafe.Pointer(unsafe.SliceData(args)), C.int(l.Grid), C.int(l.Threads), C.int(l.Shared), C.int(m.order))
	if trouble != nil {
		return errors.New(C.GoString(trouble))
	}
	return nil
}
