// Package device is the kernels' contract: the operations on matrices that the
// models, the objectives, the optimiser and the planners are written in, once.
// device/ref computes them in plain Go and float64 and is the oracle,
// device/cpu in C with SIMD, device/cuda on a GPU; device/devicetest holds
// every backend to the same cases.
//
// Rules of every kernel:
//
//   - A result does not depend on the number of threads, nor an output row on
//     how many other rows there are: sums over columns and over the inner
//     dimension of a product run in one order per output element, sums over
//     rows in a fixed number of chunks that are added in order.
//   - Destinations may not overlap sources, except where a kernel says so.
//   - "+=" in a comment means that the destination is added to.
//   - A shape that does not fit is a bug of the caller and panics with a text
//     that begins "device:"; failures of the machine are kept and returned by Err.
//
// Letters: B clips, T frames, N = B*T, D latent width, K pairs, E episodes,
// C candidates, H horizon in blocks, A action width of a block, P patches.
package device

import "fmt"

// Precision is what matrix products round their inputs to; they accumulate in
// fp32, and everything else computes in fp32 (ref: float64).
type Precision string

const (
	FP64 Precision = "fp64" // ref only
	FP32 Precision = "fp32"
	BF16 Precision = "bf16"
)

// Kind names what results can depend on: equal kinds give equal bytes.
type Kind struct {
	Backend   string    // ref, cpu, cuda
	ISA       string    // plain, avx2, avx512, avx512bf16, amx, sm_90a
	Precision Precision // of the products
}

func (k Kind) String() string { return fmt.Sprintf("%s/%s/%s", k.Backend, k.ISA, k.Precision) }

// Traits are what suits a device.
type Traits struct {
	// Activations is how it stores what only products and the kernels around them
	// touch: BFloat16 where the machine multiplies that, else Float32.
	Activations Elem
	// RolloutRows is how many tokens to carry through a model's layers together:
	// what one layer leaves to the next should stay in the caches, and each kernel
	// should still take longer than its launch.
	RolloutRows int
	// PlanRows is how many latents of all candidates of all episodes to plan side by
	// side, so that every kernel has work for the whole device; memory grows with it.
	PlanRows int // no result depends on it, nor on RolloutRows
}

// Device is a backend. It is used by one goroutine at a time.
type Device interface {
	Kind() Kind
	Traits() Traits
	// Err returns the first failure of the machine (out of memory, a lost GPU).
	Err() error
	// Sync waits until all kernels asked for have run.
	Sync()
	// Submit hands the kernels asked for so far to the device as one sequence,
	// without waiting for them. A GPU captures a sequence that comes again, such as
	// an iteration of a planner, as a graph that starts with one call.
	Submit()
	Close() error

	Memory
	Products
	Pointwise
	Norms
	Attention
	Vision
	Losses
	Optimizer
	Search
}
