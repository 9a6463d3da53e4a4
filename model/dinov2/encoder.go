package dinov2

import (
	"fmt"

	"scalewm/model/device"
	"scalewm/model/nn"
)

// Encoder turns frames into the tokens of their patches.
type Encoder struct {
	cfg    Config
	name   string
	vit    *nn.ViT
	params []*nn.Param // the encoder's own, of the set
	table  device.Mat  // of positions, where the stored one does not fit
}

// New declares a backbone's tensors in s under name, as transformers' Dinov2Model
// names them in files, with the initial values of that class.
func New(s *nn.Set, name string, c Config) *Encoder {
	first := len(s.Params)
	e := &Encoder{cfg: c, name: name, vit: nn.NewViT(s, name, c.vit())}
	e.params = s.Params[first:len(s.Params):len(s.Params)]
	return e
}

// Config is the backbone's geometry.
func (e *Encoder) Config() Config { return e.cfg }

// Prepare makes what follows from the values in the set, once they are there: the
// position table of the frames.
func (e *Encoder) Prepare(dev device.Device) {
	c := e.cfg
	if c.side() == c.Positions {
		return // both rules leave it as it is
	}
	stored := make([]float32, (1+c.Positions*c.Positions)*c.Width)
	dev.Download(stored, e.vit.Positions().Value)
	if !e.table.Given() {
		e.table = device.NewMat(dev, 1+c.Patches(), c.Width)
		e.vit.SetTable(e.table)
	}
	dev.Upload(e.table, c.table(stored))
}

// Free gives back what Prepare allocated.
func (e *Encoder) Free(dev device.Device) {
	if e.table.Given() {
		dev.Free(e.table.Buf)
		e.table = device.Mat{}
		e.vit.SetTable(e.table)
	}
}

// tokensAtOnce bounds the scratch memory. No frame's features depend on it, since no
// kernel mixes rows of different frames.
const tokensAtOnce = 16384

// Into writes the patch features of n frames, the first of px or those that list
// names: dst is (n*P) x Width, a frame's patches one after another, line by line.
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
