package dinov2

import (
	"fmt"

	"scalewm/model/device"
	"scalewm/model/nn"
)

// Encoder computes the patch features of frames.
type Encoder struct {
	cfg    Config
	name   string
	vit    *nn.ViT
	params []*nn.Param // the encoder's parameters within the set
	table  device.Mat  // position table, if the stored one does not fit the frames
}

// New declares a backbone's tensors in s. Their names begin with name and are those
// of transformers' Dinov2Model in files. The initial values are those of that class.
func New(s *nn.Set, name string, c Config) *Encoder {
	first := len(s.Params)
	e := &Encoder{cfg: c, name: name, vit: nn.NewViT(s, name, c.vit())}
	e.params = s.Params[first:len(s.Params):len(s.Params)]
	return e
}

// Config returns the backbone's geometry.
func (e *Encoder) Config() Config { return e.cfg }

// Prepare computes the position table for the frames from the stored one. It must be
// called after the parameters have been set or changed.
func (e *Encoder) Prepare(dev device.Device) {
	c := e.cfg
	if c.side() == c.Positions {
		return // both rules leave a table of the right size unchanged
	}
	stored := make([]float32, (1+c.Positions*c.Positions)*c.Width)
	dev.Download(stored, e.vit.Positions().Value)
	if !e.table.IsSet() {
		e.table = device.NewMat(dev, 1+c.Patches(), c.Width)
		e.vit.SetTable(e.table)
	}
	dev.Upload(e.table, c.table(stored))
}

// Free releases what Prepare allocated.
func (e *Encoder) Free(dev device.Device) {
	if e.table.IsSet() {
		dev.Free(e.table.Buf)
		e.table = device.Mat{}
		e.vit.SetTable(e.table)
	}
}

// tokensAtOnce bounds the number of tokens that Into processes at once, and with it
// the scratch memory. No kernel mixes rows of different frames, so that features do
// not depend on it.
const tokensAtOnce = 16384

// Into writes the patch features of n frames to dst, (n*P) x Width. The frames are
// the first n of px or, if list is not nil, those whose indices it holds. The patches
// of a frame are in row-major order.
func (e *Encoder) Into(p *nn.Pass, dst device.Mat, px device.Bytes, list device.Ints, n int) {
	grid := e.cfg.Patches()
	if dst.Rows != n*grid || dst.Cols != e.cfg.Width {
		panic(fmt.Sprintf("dinov2: %s for the %d x %d features of %d frames", dst, n*grid, e.cfg.Width, n))
	}
	chunk := max(1, tokensAtOnce/(grid+1))
	for i := 0; i < n; i += chunk {
		k := min(chunk, n-i)
		mark := p.Mark()
		e.vit.Features(p, dst.RowRange(i*grid, k*grid), e.vit.Patches(p, px, list, i, k))
		p.Release(mark)
	}
}
