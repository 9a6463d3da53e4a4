//go:build gpu

// Package gpu is the GPU itself, as the Machine of package cuda: context,
// memory, modules and streams through gorgonia.org/cu, and beside it what that
// lacks - launches with a structure of arguments, graphs, page-locked memory -
// in driver.c. Linking it needs make setup-cuda; running it needs a driver, and
// where there is none Open says so.
package gpu

/*
#include "driver.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"scalewm/model/device/cuda"
)

// Oldest driver (CUDA 12.8, whose PTX the kernels are) and GPU (Ampere).
const (
	oldestDriver = 12080
	oldestGPU    = 8
)

// What kernels are compiled for.
const ampere, hopper = "sm_80", "sm_90a"

// PlainVariable, set to anything, makes kernels start only after the one before
// has ended, for comparing speeds and where a driver's overlapping is in doubt.
const PlainVariable = "SCALEWM_CUDA_PLAIN"

// TargetVariable names the kernels to use instead of the GPU's best: sm_80 leaves out
// what only Hopper has, for comparing speeds and where its instructions are in doubt.
const TargetVariable = "SCALEWM_CUDA_TARGET"

// machine implements cuda.Machine on one GPU.
type machine struct {
	device    cu.Device
	context   cu.CUContext
	stream    cu.Stream
	isa       string
	modules   []cu.Module
	functions []C.CUfunction // by cuda.Kernel
	overlap   C.int          // whether launches do
	stage     stage
	sending   sending
	reduced   error
}

// Reduced is why an opened GPU computes with Ampere's kernels although it has
// better ones, if it does.
func Reduced(m cuda.Machine) error { return m.(*machine).reduced }

// Open starts GPU 0. Hopper's own products are tried first: where they fail, which may
// spoil the context, the GPU is started anew without them.
func Open() (cuda.Machine, error) {
	if err := available(); err != nil {
		return nil, err
	}
	m, err := begin(os.Getenv(TargetVariable))
	if err != nil {
		return nil, err
	}
	if m.isa != hopper {
		return m, nil
	}
	if err = cuda.CheckWarpgroups(m); err == nil {
		return m, nil
	}
	reduced := fmt.Errorf("%w; computing as on %s (hint: update the driver, or report this)", err, ampere)
	_ = m.Close() // the same failure
	if m, err = begin(ampere); err != nil {
		return nil, fmt.Errorf("%w (hint: a failure may last as long as the process; set %s=%s and start again)", err, TargetVariable, ampere)
	}
	m.reduced = reduced
	return m, nil
}

// begin starts the GPU with kernels for a target, or else for its own.
func begin(target string) (*machine, error) {
	m := &machine{isa: target}
	if err := m.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the GPU: %w", err), m.Close())
	}
	return m, nil
}

// available says why there is no GPU to use.
func available() error {
	const hint = "(hint: use --device cpu, or install NVIDIA's driver 570 or later)"
	switch state := C.libcuda_state(); state {
	case 0:
	case -1:
		return errors.New("no NVIDIA driver: libcuda.so.1 is not here (hint: use --device cpu, install NVIDIA's driver 570 or later, start a container with its GPUs (docker run --gpus all), or name the library's folder in LD_LIBRARY_PATH)")
	case C.CUDA_ERROR_NO_DEVICE:
		return errors.New("no NVIDIA GPU is visible (hint: use --device cpu, or look at nvidia-smi and CUDA_VISIBLE_DEVICES)")
	default:
		return fmt.Errorf("NVIDIA's driver does not start: error %d %s", state, hint)
	}
	if v := cu.Version(); v < oldestDriver {
		return fmt.Errorf("NVIDIA's driver is for CUDA %d.%d, 12.8 is needed %s", v/1000, v%1000/10, hint)
	}
	return nil
}

func (m *machine) start() (err error) {
	if m.device, err = cu.GetDevice(0); err != nil {
		return err
	}
	major, minor, err := m.device.ComputeCapability()
	if err != nil {
		return err
	}
	if major < oldestGPU {
		return tooOld(major, minor)
	}
	switch {
	case m.isa != "":
	case major == 9 && minor == 0:
		m.isa = hopper
	default:
		m.isa = ampere
	}
	if m.isa == hopper && os.Getenv(PlainVariable) == "" {
		m.overlap = 1 // whose kernels wait for the one before
	}
	if m.context, err = m.device.RetainPrimaryCtx(); err != nil {
		return err
	}
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	if m.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return err
	}
	if err = m.sending.open(); err != nil {
		return err
	}
	return m.load()
}

// enter makes the context that of this thread; the caller stays on it until release.
func (m *machine) enter() (release func(), err error) {
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(m.context); err != nil {
		runtime.UnlockOSThread()
		return nil, m.lost(err)
	}
	return runtime.UnlockOSThread, nil
}

// load compiles the PTX for this GPU and finds all kernels in it.
func (m *machine) load() error {
	files, err := ptx(m.isa)
	if err != nil {
		return err
	}
	for name, text := range files {
		module, err := cu.LoadData(text)
		if err != nil {
			return fmt.Errorf("loading the kernels of %s: %w (hint: a newer driver)", name, err)
		}
		m.modules = append(m.modules, module)
	}
	for _, name := range cuda.Kernels(m.isa) {
		f, err := m.function(name)
		if err != nil {
			return err
		}
		m.functions = append(m.functions, f)
	}
	return nil
}

func (m *machine) function(name string) (C.CUfunction, error) {
	for _, module := range m.modules {
		f, err := module.Function(name)
		if err != nil {
			continue // of another file
		}
		handle := *(*C.CUfunction)(unsafe.Pointer(&f)) // cu keeps it to itself
		return handle, m.result(C.gpu_prepare(handle, m.overlap), "preparing kernel "+name)
	}
	return nil, fmt.Errorf("kernel %s is in no file of PTX (hint: make cuda)", name)
}

func (m *machine) ISA() string { return m.isa }

// result is a driver's answer as an error.
func (m *machine) result(code C.int, doing string) error {
	if code == 0 {
		return nil
	}
	return m.lost(fmt.Errorf("%s: %s", doing, C.GoString(C.gpu_error(code))))
}

// lost says what a failure while running means.
func (m *machine) lost(err error) error {
	return fmt.Errorf("the GPU failed: %w (hint: what was finished stands; run the same command again, which goes on there)", err)
}

func (m *machine) Sync() error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	if err := m.sending.wait(); err != nil {
		return m.lost(fmt.Errorf("waiting for transfers: %w", err))
	}
	return m.result(C.gpu_sync(m.handle()), "waiting for kernels")
}

// handle is the stream for driver.c.
func (m *machine) handle() C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&m.stream)) }

// Close gives everything back. What failed before does not hinder it.
func (m *machine) Close() error {
	if m.context == (cu.CUContext{}) { // it was never started
		return nil
	}
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	err = errors.Join(m.stage.free(), m.sending.close())
	for _, module := range m.modules {
		err = errors.Join(err, module.Unload())
	}
	m.modules = nil
	if m.handle() != nil {
		err = errors.Join(err, m.stream.Destroy())
	}
	return errors.Join(err, m.device.ReleasePrimaryCtx())
}
