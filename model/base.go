package model

import (
	"math/rand/v2"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Base is what the models of all families share: their geometry and what learns, on one device.
type Base[G Geometry] struct {
	Cfg   G
	Set   nn.Set // what learns
	Dev   device.Device
	Arena *device.Arena // of calls in evaluation mode

	own int // parameters of the model itself in Set; those of loss terms follow them
}

// Declared is called once the model has declared its parameters in Set.
func (b *Base[G]) Declared() { b.own = len(b.Set.Params) }

func (b *Base[G]) Own() []*nn.Param         { return append(b.Set.Params[:b.own:b.own], b.Set.Buffers...) }
func (b *Base[G]) Counts() []Count          { return nil }
func (b *Base[G]) Params() *nn.Set          { return &b.Set }
func (b *Base[G]) Config() G                { return b.Cfg }
func (b *Base[G]) Geometry() Geometry       { return b.Cfg }
func (b *Base[G]) Info() Info               { return b.Cfg.Info() }
func (b *Base[G]) Device() device.Device    { return b.Dev }
func (b *Base[G]) PredictorCalls(h int) int { return h }

// Alloc makes the memory of Set, with gradients if train.
func (b *Base[G]) Alloc(dev device.Device, train bool) {
	b.Dev, b.Arena = dev, device.NewArena(dev)
	b.Set.Alloc(dev, train)
}

// Init draws the initial values of everything in Set, each from a stream that the seed and its name determine.
func (b *Base[G]) Init(seed int64) {
	b.Set.Init(b.Dev, func(name string) *rand.Rand { return rng.Stream("init", seed, name) })
}

// Free gives the memory back.
func (b *Base[G]) Free() {
	b.Arena.Free()
	b.Set.Free(b.Dev)
}

// Eval begins a call in evaluation mode. The weights of a model that does not train stay.
func (b *Base[G]) Eval() *nn.Pass {
	if !b.Set.Grad.Given() {
		b.Dev.Freeze(b.Set.Value.Buf)
	}
	b.Arena.Reset()
	return &nn.Pass{Dev: b.Dev, Arena: b.Arena}
}
