package model

import (
	"math/rand/v2"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Base is embedded by the models of all families. It holds a model's geometry, its
// parameters and buffers, and their memory on one device, and implements the methods
// of Trainable and World that do not depend on the architecture.
type Base[G Geometry] struct {
	Cfg G
	// Set holds the parameters that the optimiser updates and the buffers. Loss terms
	// with parameters (the head of Regression) append theirs during a training.
	Set nn.Set
	Dev device.Device
	// Arena is the scratch memory of calls in evaluation mode. Eval resets it. Training
	// steps use a different arena.
	Arena *device.Arena

	// own is the number of parameters in Set that belong to the model itself. The
	// parameters of loss terms follow them and are not written to checkpoints.
	own int
}

// MarkDeclared marks the end of the model's own parameters. A family's constructor calls
// it once it has declared all of them in Set, before a loss term can add more.
func (b *Base[G]) MarkDeclared() { b.own = len(b.Set.Params) }

// Saved returns the model's own parameters followed by its buffers: the order of the
// tensors in a checkpoint. The slice expression limits the capacity to own, so that
// append copies instead of overwriting the parameters of loss terms.
func (b *Base[G]) Saved() []*nn.Param { return append(b.Set.Params[:b.own:b.own], b.Set.Buffers...) }

// Counts returns nil: a model without BatchNorm has no counters.
func (b *Base[G]) Counts() []Count { return nil }

// Params returns the model's parameters and buffers.
func (b *Base[G]) Params() *nn.Set { return &b.Set }

// Config returns the geometry in the family's own type.
func (b *Base[G]) Config() G { return b.Cfg }

// Geometry returns the geometry that the model was declared with.
func (b *Base[G]) Geometry() Geometry { return b.Cfg }

// Info returns the shape of the model.
func (b *Base[G]) Info() Info { return b.Cfg.Info() }

// Device returns the device that holds the model.
func (b *Base[G]) Device() device.Device { return b.Dev }

// PredictorCalls returns h: an autoregressive model calls its predictor once per block.
func (b *Base[G]) PredictorCalls(h int) int { return h }

// Alloc allocates the arena and the memory of Set on dev, including gradients if
// train is true.
func (b *Base[G]) Alloc(dev device.Device, train bool) {
	b.Dev, b.Arena = dev, device.NewArena(dev)
	b.Set.Alloc(dev, train)
}

// Init draws the initial values of all parameters and buffers in Set. Each tensor is
// drawn from its own stream, determined by the seed and the tensor's name, so that
// adding or reordering tensors does not change the values of the others.
func (b *Base[G]) Init(seed int64) {
	b.Set.Init(b.Dev, func(name string) *rand.Rand { return rng.Stream("init", seed, name) })
}

// Free releases the model's memory on its device.
func (b *Base[G]) Free() {
	b.Arena.Free()
	b.Set.Free(b.Dev)
}

// Eval begins a call in evaluation mode and returns its Pass. It resets Arena, which
// invalidates all matrices allocated by earlier calls. If the model has no gradients
// its weights cannot change, so Eval lets the device cache what it derives from them,
// such as packed panels or bf16 copies.
func (b *Base[G]) Eval() *nn.Pass {
	if !b.Set.Grad.IsSet() {
		b.Dev.Freeze(b.Set.Value.Buf)
	}
	b.Arena.Reset()
	return &nn.Pass{Dev: b.Dev, Arena: b.Arena}
}
