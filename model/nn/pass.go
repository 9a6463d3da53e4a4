package nn

import "scalewm/model/device"

// Pass is one run through a model: the device, the arena for activations, and the
// mode. In a training step (Train) BatchNorm uses the statistics of the batch,
// dropout is active, and layers save what Backward needs. Otherwise the run is in
// evaluation mode.
type Pass struct {
	Dev device.Device
	*device.Arena
	Train bool
	// InputGrad selects evaluation mode with a backward pass to the inputs: BatchNorm
	// uses running statistics, dropout is off, and layers save what Backward needs.
	// The model's parameters have no gradients.
	InputGrad bool
	// DropKey is the key from which the dropout masks of this step are derived, one
	// per site.
	DropKey uint64
}

// Dropout returns the dropout mask of a site, or no dropout outside training. Sites
// are numbered from 0 over the entire model. A mask is a function of its key and the
// element's index, so that the backward pass recomputes it instead of storing it.
func (p *Pass) Dropout(site int, prob float64) device.Dropout {
	if !p.Train || prob == 0 {
		return device.Dropout{}
	}
	// Multiplication by an odd constant is a bijection modulo 2^64: two sites of a step
	// never have the same key.
	return device.Dropout{P: float32(prob), Key: p.DropKey + uint64(site+1)*0x9E3779B97F4A7C15}
}

// saves reports whether a backward pass will follow.
func (p *Pass) saves() bool { return p.Train || p.InputGrad }

// saved returns memory for something that only Backward needs, or the zero Mat in a
// pass without one.
func (p *Pass) saved(rows, cols int) device.Mat {
	if !p.saves() {
		return device.Mat{}
	}
	return p.Mat(rows, cols)
}

// drop applies a dropout mask to x in place. A dropout's gradient is the same
// operation.
func (p *Pass) drop(x device.Mat, d device.Dropout) {
	if d.P > 0 {
		p.Dev.DropoutApply(x, x, d)
	}
}

// Seqs is the shape of token rows: Count sequences of Len tokens, row = seq*Len +
// token.
type Seqs struct{ Count, Len int }

// All selects every token of a sequence, where a layer takes the index of a single
// one.
const All = -1

// only returns the view of one token of every sequence, Count rows, or m itself if
// token is All.
func (s Seqs) only(m device.Mat, token int) device.Mat {
	if token == All {
		return m
	}
	return m.Every(token, s.Len)
}
