// Package driver builds a libcuda.so.1 whose GPU is the emulator of package emu, so
// that package gpu, and the program as a whole, can be tested on machines without a
// GPU. A process that starts with the library's folder in LD_LIBRARY_PATH uses it like
// the real driver.
//
// The emulated driver is strict. It performs work as late as the real one may, memory
// starts as NaN, and mistakes that a real driver may or may not punish (asynchronous
// copies of pageable memory, accesses beyond an allocation, objects that are not
// released) are errors or messages on stderr. Functions of the driver that are not
// emulated print their name and fail. It says nothing about speed.
//
// The library reads the environment variable SCALEWM_EMULATED_GPU ([Variable]), a list
// such as "memory=64,launch=300":
//
//	devices, version                        number of GPUs; CUDA version of the driver, 12080 for 12.8
//	capability, multiprocessors, memory     of the GPU: 90 for 9.0; SMs; MiB
//	order                                   in which a block's threads run, 1 to 3 (package emu)
//	overlap=0                               programmatic dependent launches are rejected
//	alloc=N, launch=N, copy=N, code=CODE    the N-th of these fails, launches and copies with CODE
//	close=1                                 releasing objects and the context fails
//	kill=N                                  the N-th launch kills the process
//
// A TestMain calls [RunTests], and tests get a device from [Device].
package driver

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/emu"
	thirdparty "scalewm/third_party"
)

//go:embed host
var host embed.FS

// Variable is the environment variable that the library reads its settings from.
const Variable = "SCALEWM_EMULATED_GPU"

// Build builds libcuda.so.1 and kernels.so in dir. It returns [emu.ErrUnavailable] if
// there is no g++ or no cuda.h.
func Build(dir string) error {
	include, err := headers()
	if err != nil {
		return err
	}
	if _, err := emu.Compile(dir); err != nil {
		return err
	}
	sources, err := write(dir, include)
	if err != nil {
		return fmt.Errorf("emulated driver: writing its sources: %w", err)
	}
	args := []string{"-O1", "-I" + include, "-Wno-unused-parameter", "-o", filepath.Join(dir, "libcuda.so.1")}
	return emu.Compiler(dir, append(append(args, sources...), "-ldl")...)
}

// SharedVariable is the environment variable that names a folder in which all test programs of
// one run share the libraries; the first one builds them. If it is unset, each program
// builds its own.
const SharedVariable = "SCALEWM_EMULATED_DRIVER"

// BuildShared returns a folder with the libraries, built if necessary, and a function that
// removes it unless it is shared. A file lock keeps test programs that run at the same
// time from building it twice.
func BuildShared() (dir string, release func(), err error) {
	if dir = os.Getenv(SharedVariable); dir == "" {
		if dir, err = os.MkdirTemp("", "scalewm-driver"); err != nil {
			return "", nil, err
		}
		return dir, func() { os.RemoveAll(dir) }, Build(dir)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	defer lock.Close() // closing the file releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "libcuda.so.1")); err != nil {
		return dir, func() {}, Build(dir)
	}
	return dir, func() {}, nil
}

// RunTests runs the tests of a TestMain and exits. If none, the reason why there is no GPU,
// is nil, they run on the real one. Otherwise they run in a child process with the
// emulated one, with more as additional arguments; a child is needed because the loader
// reads LD_LIBRARY_PATH at the start of a process.
func RunTests(m *testing.M, none error, more ...string) {
	if none == nil || os.Getenv(Variable) != "" {
		os.Exit(m.Run())
	}
	dir, release, err := BuildShared()
	if errors.Is(err, emu.ErrUnavailable) {
		os.Exit(m.Run()) // tests that need a GPU skip themselves
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulating a GPU:", err)
	} else {
		code = RunChild(dir, "order=1", append(os.Args[1:], more...), os.Stdout)
	}
	if release != nil {
		release()
	}
	os.Exit(code)
}

// SkipOrFail ends a test whose GPU does not start: as failed if the GPU is emulated, since
// that one must start, else as skipped.
func SkipOrFail(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Device returns a device on the GPU that open starts, and closes it at the end of the
// test.
func Device(t testing.TB, open func() (cuda.Machine, error), p device.Precision) device.Device {
	t.Helper()
	m, err := open()
	if err != nil {
		SkipOrFail(t, err)
	}
	d, err := cuda.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// RunChild runs this program again with the given arguments and an emulated GPU with the
// given settings. It returns 0 if the program succeeded, else 1.
func RunChild(dir, settings string, args []string, out io.Writer) (code int) {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir+":"+os.Getenv("LD_LIBRARY_PATH"), Variable+"="+settings)
	c.Stdout, c.Stderr = out, os.Stderr
	if err := c.Run(); err != nil {
		return 1
	}
	return 0
}

// headers returns the folder of cuda.h.
func headers() (string, error) {
	for _, p := range thirdparty.Places("", "nvidia_cuda_runtime_cu12", "include") {
		if _, err := os.Stat(filepath.Join(p, "cuda.h")); err == nil {
			return p, nil
		}
	}
	return "", emu.ErrUnavailable
}

// write writes the sources to dir and returns the names of those to compile.
func write(dir, include string) ([]string, error) {
	entries, err := host.ReadDir("host")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		text, err := host.ReadFile("host/" + e.Name())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), text, 0o644); err != nil {
			return nil, err
		}
		if strings.HasSuffix(e.Name(), ".cpp") {
			names = append(names, e.Name())
		}
	}
	rest, err := stubs(include)
	if err != nil {
		return nil, err
	}
	return append(names, "stubs.cpp"), os.WriteFile(filepath.Join(dir, "stubs.cpp"), []byte(rest), 0o644)
}

// function matches the declaration of a driver function.
var function = regexp.MustCompile(`\bcu[A-Z]\w*\s*\(`)

// stubs returns a source with a weak definition of every function that cuda.h declares,
// which prints that the function is not emulated and fails. The functions of host/*.cpp
// override it.
func stubs(include string) (string, error) {
	c := exec.Command("g++", "-E", "-P", "-I", include, "-x", "c++", "-")
	c.Stdin = strings.NewReader("#include <cuda.h>\n")
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("reading cuda.h: %w", err)
	}
	found := function.FindAllString(string(text), -1)
	slices.Sort(found)
	var b strings.Builder
	b.WriteString("#include <stdio.h>\nenum { NOT_SUPPORTED = 801 };\n#define OTHER(name) extern \"C\" __attribute__((weak)) int name() { \\\n" +
		"\tfprintf(stderr, \"emulated driver: %s is not emulated\\n\", #name); \\\n\treturn NOT_SUPPORTED; \\\n}\n")
	for _, name := range slices.Compact(found) {
		fmt.Fprintf(&b, "OTHER(%s)\n", strings.TrimSpace(strings.TrimSuffix(name, "(")))
	}
	return b.String(), nil
}
