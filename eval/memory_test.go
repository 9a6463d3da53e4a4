package eval

import (
	"context"
	"errors"
	"testing"

	"scalewm/eval/results"
	"scalewm/model/device"
	"scalewm/model/lewm"
)

// counting is a device that counts its allocated blocks, and whose Err calls disturb
// from the at-th call on.
type counting struct {
	device.Device
	live      map[device.Block]bool
	asked, at int
	disturb   func() error
}

var errLost = errors.New("the device is lost")

func (c *counting) Alloc(n int, e device.Elem) device.Buffer { return taken(c, c.Device.Alloc(n, e)) }
func (c *counting) AllocInts(n int) device.Ints              { return taken(c, c.Device.AllocInts(n)) }
func (c *counting) AllocBytes(n int) device.Bytes            { return taken(c, c.Device.AllocBytes(n)) }

func taken[B device.Block](c *counting, b B) B {
	c.live[b] = true
	return b
}

func (c *counting) Free(b device.Block) {
	if !c.live[b] {
		panic("freed twice, or never taken")
	}
	delete(c.live, b)
	c.Device.Free(b)
}

func (c *counting) Err() error {
	if c.asked++; c.at > 0 && c.asked >= c.at {
		return c.disturb()
	}
	return c.Device.Err()
}

// An evaluation frees all device memory that it allocated, including the model's
// scratch: after success, and after a device error or a cancellation at any of its
// calls of Err.
func TestRunFreesItsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, solver := range Solvers() {
		j := testJob(t, "T5", 3, "s101", "s102")
		j.Solver, j.Temperature, j.Batch = solver, 64, 4
		tier, err := j.Tier.For(solver)
		must(t, err)
		j.Tier = tier
		engine := j.World.Device()
		attempt := func(at int, want error) (asked int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := &counting{Device: engine, live: map[device.Block]bool{}, at: at}
			w, err := lewm.New(d, lewm.Config{ImageSize: 16, Patch: 8, Width: 8, Layers: 1, Heads: 2, MLP: 12, Dim: 5, Projector: 10, PredictorDepth: 1,
				PredictorHeads: 2, PredictorHeadDim: 4, PredictorMLP: 9, History: 3, FrameSkip: results.UsualBlock, Smoothed: 10, ActionDim: 2}, 1)
			must(t, err)
			d.asked, d.disturb = 0, func() error { return want }
			if want == context.Canceled {
				d.disturb = func() error { cancel(); return nil }
			}
			j.World = w
			_, err = Run(ctx, j.Job, j.Agent)
			w.Free()
			if !errors.Is(err, want) || len(d.live) > 0 {
				t.Errorf("%s, look %d: %d blocks are taken still; it ends in %v, want %v", solver, at, len(d.live), err, want)
			}
			return d.asked
		}
		looks := attempt(0, nil)
		for at := 1; at <= looks; at++ {
			attempt(at, errLost)
			attempt(at, context.Canceled)
		}
	}
}
