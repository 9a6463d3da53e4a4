package nn

import "scalewm/model/device"

// Pass is one run through a model: the device, the memory of the step, and
// whether the run is a training step (BatchNorm by batch, dropout, everything
// kept that Backward needs).
type Pass struct {
	Dev device.Device
	*device.Arena
	Train bool
	// InputGrad is evaluation that keeps what Backward needs: running statistics, no
	// dropout. The parameters of such a model have no gradients; its inputs do.
	InputGrad bool
	// DropKey names the dropout masks of this step; every site derives its own.
	DropKey uint64
}

// Dropout is the mask of a site, counted from 0 over the model.
func (p *Pass) Dropout(site int, prob float64) device.Dropout {
	if !p.Train || prob == 0 {
		return device.Dropout{}
	}
	// An odd multiplier keeps the sites' keys apart for any step's key.
	return device.Dropout{P: float32(prob), Key: p.DropKey + uint64(site+1)*0x9E3779B97F4A7C15}
}

// saves says whether Backward will follow.
func (p *Pass) saves() bool { return p.Train || p.InputGrad }

// saved is scratch that only Backward needs: the zero Mat otherwise.
func (p *Pass) saved(rows, cols int) device.Mat {
	if !p.saves() {
		return device.Mat{}
	}
	return p.Mat(rows, cols)
}

// drop applies a mask in place.
func (p *Pass) drop(x device.Mat, d device.Dropout) {
	if d.P > 0 {
		p.Dev.DropoutApply(x, x, d)
	}
}

// Seqs is the shape of token rows: Count sequences of Len tokens, row = seq*Len + token.
type Seqs struct{ Count, Len int }

// All keeps every token of a sequence; see Block.
const All = -1

// only is the view of one token of every sequence, or m itself.
func (s Seqs) only(m device.Mat, token int) device.Mat {
	if token == All {
		return m
	}
	return m.Every(token, s.Len)
}
