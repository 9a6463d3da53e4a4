//go:build gpu

// Package gpu runs kernels on an NVIDIA GPU: it implements [cuda.Machine] with the CUDA
// driver API. It is compiled only with the build tag gpu.
//
// [Open] starts GPU 0. Contexts, memory, modules, streams and events go through
// gorgonia.org/cu; driver.c adds what that package lacks: launches with a structure of
// arguments, graphs, programmatic dependent launch, and page-locked memory. [Measure]
// measures the GPU's peak rates, and [OpenTimed] returns a machine that times every
// kernel; both are for the verb bench.
//
// The kernels are embedded as PTX, which `make cuda` generates. The driver compiles
// them when a GPU is first used and caches the result. Building needs the headers that
// `make setup-cuda` fetches, but no GPU. The binary also starts without a driver, since
// it is linked with a libcuda.a that opens the driver's library at run time; Open then
// returns an error that says what is missing.
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

// The oldest driver, that of CUDA 12.8, whose NVRTC generates the PTX; and the oldest
// GPU, by major compute capability: Ampere.
const (
	oldestDriver = 12080
	oldestGPU    = 8
)

// The targets of the embedded PTX.
const ampere, hopper = "sm_80", "sm_90a"

// PlainVariable is an environment variable that, if set to anything, disables
// programmatic dependent launch: a kernel then starts only after its predecessor has
// ended. It is for measuring the effect, and for drivers whose overlap is in doubt.
const PlainVariable = "SCALEWM_CUDA_PLAIN"

// TargetVariable is an environment variable that names the kernels to use instead of
// the best for the GPU. sm_80 leaves out what only Hopper has; it is for measuring the
// effect, and for when Hopper's instructions are in doubt.
const TargetVariable = "SCALEWM_CUDA_TARGET"

// machine implements cuda.Machine on one GPU.
//
// CUDA's current context belongs to an operating system thread, while goroutines move
// between threads. Every method therefore calls enter, which locks the goroutine to its
// thread and makes the context current there.
type machine struct {
	device    cu.Device
	context   cu.CUContext
	stream    cu.Stream // of kernels, and of transfers that they are ordered with
	isa       string
	modules   []cu.Module
	functions []C.CUfunction // by cuda.Kernel
	overlap   C.int          // 1 if kernels are launched with programmatic dependencies
	stage     stage
	sending   sending
	reduced   error // what FallbackReason returns
}

// FallbackReason returns the reason why an opened Hopper GPU runs Ampere's kernels, or nil if
// it runs the best ones. m must come from Open.
func FallbackReason(m cuda.Machine) error { return m.(*machine).reduced }

// Open starts GPU 0. On a Hopper GPU it first checks the wgmma kernels against those of
// mma.sync. If they fail, which may leave the context unusable, it restarts the GPU
// with Ampere's kernels; [FallbackReason] then returns the reason.
func Open() (cuda.Machine, error) {
	if err := available(); err != nil {
		return nil, err
	}
	m, err := startFor(os.Getenv(TargetVariable))
	if err != nil {
		return nil, err
	}
	if m.isa != hopper {
		return m, nil
	}
	if err = cuda.CheckWarpgroups(m); err == nil {
		return m, nil
	}
	reduced := fmt.Errorf("%w; using the kernels for %s (hint: update the driver, or report this)", err, ampere)
	_ = m.Close() // it reports the same failure again
	if m, err = startFor(ampere); err != nil {
		return nil, fmt.Errorf("%w (hint: the failure may persist for as long as the process; set %s=%s and start again)", err, TargetVariable, ampere)
	}
	m.reduced = reduced
	return m, nil
}

// startFor starts the GPU with the kernels of a target or, if that is empty, with the
// best for the GPU.
func startFor(target string) (*machine, error) {
	m := &machine{isa: target}
	if err := m.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the GPU: %w", err), m.Close())
	}
	return m, nil
}

// available returns an error that says why there is no usable GPU, or nil. It creates
// no context.
func available() error {
	const hint = "(hint: use --device cpu, or install NVIDIA's driver 570 or later)"
	switch state := C.libcuda_state(); state {
	case 0:
	case -1: // there is no library of a driver
		return errors.New("no NVIDIA driver: libcuda.so.1 was not found (hint: use --device cpu, install NVIDIA's driver 570 or later, start the container with GPUs (docker run --gpus all), or name the library's folder in LD_LIBRARY_PATH)")
	case C.CUDA_ERROR_NO_DEVICE:
		return errors.New("no NVIDIA GPU is visible (hint: use --device cpu, or look at nvidia-smi and CUDA_VISIBLE_DEVICES)")
	default:
		return fmt.Errorf("NVIDIA's driver fails to initialize: error %d %s", state, hint)
	}
	if v := cu.Version(); v < oldestDriver {
		return fmt.Errorf("NVIDIA's driver supports CUDA %d.%d, but 12.8 is required %s", v/1000, v%1000/10, hint)
	}
	return nil
}

// start chooses the target, creates the context and the streams, and loads the kernels.
// After an error the caller closes m, which releases what was created.
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
	// Only kernels compiled for Hopper contain the wait that overlapping launches rely
	// on (common.cuh).
	if m.isa == hopper && os.Getenv(PlainVariable) == "" {
		m.overlap = 1
	}
	if m.context, err = m.device.RetainPrimaryCtx(); err != nil {
		return err
	}
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	// A non-blocking stream does not synchronize with the default stream.
	if m.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return err
	}
	if err = m.sending.open(); err != nil {
		return err
	}
	return m.load()
}

// enter locks the calling goroutine to its thread and makes the context current there.
// The caller must call release.
func (m *machine) enter() (release func(), err error) {
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(m.context); err != nil {
		runtime.UnlockOSThread()
		return nil, m.failed(err)
	}
	return runtime.UnlockOSThread, nil
}

// load compiles the embedded PTX for this GPU and looks up all kernels in it.
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

// function finds a kernel in the modules, of which each holds one file, and prepares it
// for launches.
func (m *machine) function(name string) (C.CUfunction, error) {
	for _, module := range m.modules {
		f, err := module.Function(name)
		if err != nil {
			continue // it is in another file
		}
		handle := *(*C.CUfunction)(unsafe.Pointer(&f)) // package cu does not export the handle
		return handle, m.result(C.gpu_prepare(handle, m.overlap), "preparing kernel "+name)
	}
	return nil, fmt.Errorf("kernel %s is not in the embedded PTX (hint: make cuda)", name)
}

func (m *machine) ISA() string { return m.isa }

// result turns an error code of the driver into an error.
func (m *machine) result(code C.int, doing string) error {
	if code == 0 {
		return nil
	}
	return m.failed(fmt.Errorf("%s: %s", doing, C.GoString(C.gpu_error(code))))
}

// failed adds to an error of the GPU while it runs what the user can do. Errors of
// kernels are sticky: the context, and often the process, cannot recover.
func (m *machine) failed(err error) error {
	return fmt.Errorf("the GPU failed: %w (hint: finished work is saved; run the same command again to resume)", err)
}

// Sync waits for both streams. Errors of kernels, which run asynchronously, appear here
// at the latest.
func (m *machine) Sync() error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	if err := m.sending.wait(); err != nil {
		return m.failed(fmt.Errorf("waiting for transfers: %w", err))
	}
	return m.result(C.gpu_sync(m.handle()), "waiting for kernels")
}

// handle returns the stream for driver.c.
func (m *machine) handle() C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&m.stream)) }

// Close releases everything, also after a failure, and returns all errors joined. The
// primary context is shared within the process, so it is released, not destroyed.
func (m *machine) Close() error {
	if m.context == (cu.CUContext{}) { // the context was never created
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
