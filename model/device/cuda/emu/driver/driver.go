// Package driver makes a libcuda.so.1 whose GPU is the emulator, so that package
// gpu and the whole program run, for tests, on machines without a GPU. Work is
// done as late as the real driver may do it, memory begins as NaN, what a real
// driver only may punish is an error, and a function that is not emulated says
// its name. It says nothing about speed, and knows nothing of what it runs.
//
// The library reads SCALEWM_EMULATED_GPU, a list such as "memory=64,launch=300":
// the numbers of devices, version, capability, multiprocessors, memory (MiB),
// order (of threads, 1 to 3), overlap (whether launches may); and what shall fail: the n-th alloc, launch or copy
// with a driver's code, all that is given back (close=1), or the process itself at
// the n-th launch (kill).
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

// Variable is what the library reads its settings from.
const Variable = "SCALEWM_EMULATED_GPU"

// Build leaves libcuda.so.1, and the kernels that it runs, in dir. A program
// that starts with dir in LD_LIBRARY_PATH finds it.
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

// Shared names a folder that test programs of one run build in, the first one
// for all of them; unset, each builds its own.
const Shared = "SCALEWM_EMULATED_DRIVER"

// Folder is a folder with the libraries for a test program, which release gives back.
func Folder() (dir string, release func(), err error) {
	if dir = os.Getenv(Shared); dir == "" {
		if dir, err = os.MkdirTemp("", "scalewm-driver"); err != nil {
			return "", nil, err
		}
		return dir, func() { os.RemoveAll(dir) }, Build(dir)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "libcuda.so.1")); err != nil {
		return dir, func() {}, Build(dir)
	}
	return dir, func() {}, nil
}

// Main is for a TestMain: where there is no GPU, and none says why, the tests run
// in a second process that finds the emulated one, with more arguments.
func Main(m *testing.M, none error, more ...string) {
	if none == nil || os.Getenv(Variable) != "" {
		os.Exit(m.Run())
	}
	dir, release, err := Folder()
	if errors.Is(err, emu.ErrUnavailable) {
		os.Exit(m.Run()) // tests skip what wants a GPU
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulating a GPU:", err)
	} else {
		code = Again(dir, "order=1", append(os.Args[1:], more...), os.Stdout)
	}
	if release != nil {
		release()
	}
	os.Exit(code)
}

// Missing ends a test whose GPU does not start: where it is emulated that is a failure.
func Missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Device is the GPU that open starts, until the test has ended.
func Device(t testing.TB, open func() (cuda.Machine, error), p device.Precision) device.Device {
	t.Helper()
	m, err := open()
	if err != nil {
		Missing(t, err)
	}
	d, err := cuda.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Again runs this program once more, with an emulated GPU of such settings.
func Again(dir, settings string, args []string, out io.Writer) (code int) {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir+":"+os.Getenv("LD_LIBRARY_PATH"), Variable+"="+settings)
	c.Stdout, c.Stderr = out, os.Stderr
	if err := c.Run(); err != nil {
		return 1
	}
	return 0
}

// headers is the folder of cuda.h.
func headers() (string, error) {
	for _, p := range thirdparty.Places("", "nvidia_cuda_runtime_cu12", "include") {
		if _, err := os.Stat(filepath.Join(p, "cuda.h")); err == nil {
			return p, nil
		}
	}
	return "", emu.ErrUnavailable
}

// write leaves the sources in dir and returns the names of those to compile.
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
	rest, err := others(include)
	if err != nil {
		return nil, err
	}
	return append(names, "others.cpp"), os.WriteFile(filepath.Join(dir, "others.cpp"), []byte(rest), 0o644)
}

var function = regexp.MustCompile(`\bcu[A-Z]\w*\s*\(`)

// others is a source that defines every function of cuda.h, weakly: it says that
// it is not emulated.
func others(include string) (string, error) {
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
