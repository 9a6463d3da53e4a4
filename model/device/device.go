// Package device is the contract between the models and the compute backends. It
// declares the operations on matrices in which the models, the objectives, the
// optimiser and the planners are written, so that each of those is written once.
//
// Four kinds of code meet here:
//
//   - callers above (model/nn, model/objective, eval/plan, ...) hold a [Device] and
//     describe data by [Mat] views;
//   - backends implement Device: device/ref in plain Go and float64, device/cpu in C
//     with SIMD, device/cuda on a GPU;
//   - [Checked] wraps a backend and validates the arguments of every call;
//   - device/devicetest runs every backend on the same cases and compares it with ref.
//
// The following rules hold for every kernel:
//
//   - A result does not depend on the number of threads, and an output row does not
//     depend on how many other rows there are. Sums over columns and over the inner
//     dimension of a GEMM use one order for each output element. Sums over rows use
//     a fixed number of chunks, which are added in order.
//   - Destinations must not overlap sources, unless the kernel's comment allows it.
//   - "+=" in a comment means that the kernel accumulates into the destination.
//   - A shape that does not fit is a bug of the caller. It panics with a text that
//     begins with "device:". Failures of the machine (out of memory, a lost GPU) are
//     sticky instead: later kernels do nothing, and Err returns the first failure.
//
// Comments use these letters: B clips, T frames, N = B*T rows, D latent width, K
// pairs, E episodes, C candidates, H horizon in blocks, A action width of a block, P
// patches.
package device

import "fmt"

// Precision is the number format to which matrix products round their inputs. They
// accumulate in fp32 in either case, and all other kernels compute in fp32. The
// reference backend computes everything in float64.
type Precision string

const (
	FP64 Precision = "fp64" // ref only
	FP32 Precision = "fp32"
	BF16 Precision = "bf16"
)

// Kind identifies everything that results can depend on: two devices of equal kind
// produce the same bytes. It is recorded in every cell that is evaluated.
type Kind struct {
	Backend   string    // ref, cpu, cuda
	ISA       string    // plain, avx2, avx512, avx512bf16, amx, sm_90a
	Precision Precision // of the matrix products
}

// String returns "backend/isa/precision".
func (k Kind) String() string { return fmt.Sprintf("%s/%s/%s", k.Backend, k.ISA, k.Precision) }

// Traits are the sizes and the storage format that suit a device. They affect speed
// and memory only, except for Activations, which the Kind determines.
type Traits struct {
	// Activations is the storage format of matrices that only GEMMs and the kernels
	// around them read and write: BFloat16 where the hardware multiplies bf16, else
	// Float32.
	Activations Elem
	// RolloutRows is the number of tokens to carry through a model's layers at a
	// time. It is small enough that the output of one layer stays in the caches until
	// the next layer reads it, and large enough that a kernel takes longer than its
	// launch. No result depends on it.
	RolloutRows int
	// PlanRows is the number of latents, over all candidates of all episodes, to plan
	// at a time, so that every kernel has work for the entire device. Memory grows
	// with it. No result depends on it.
	PlanRows int
}

// Device is a backend. Calls queue kernels in order; on a GPU they return before the
// kernels have run. A Device must be used by one goroutine at a time.
type Device interface {
	Kind() Kind
	Traits() Traits
	// Err returns the first failure of the machine, such as out of memory or a lost
	// GPU. After it, kernels do nothing and the contents of buffers are undefined.
	Err() error
	// Sync waits until all queued kernels have run.
	Sync()
	// Submit starts the kernels queued so far as one sequence, without waiting for
	// them. A GPU captures a sequence that repeats, such as one iteration of a
	// planner, as a graph that starts with a single call.
	Submit()
	// Close frees all memory and threads of the device and returns Err's error, if
	// any.
	Close() error

	Memory
	Gemms
	Pointwise
	Norms
	Attention
	Vision
	Losses
	Optimizer
	Search
}
