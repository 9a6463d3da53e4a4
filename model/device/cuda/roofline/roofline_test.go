package roofline_test

import (
	"math"
	"strings"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/roofline"
	"scalewm/model/lewm"
	"scalewm/model/nn"
	"scalewm/model/objective"
)

func open(t *testing.T) (*roofline.Machine, device.Device) {
	t.Helper()
	m := roofline.New(roofline.H200)
	d, err := cuda.New(m, device.BF16)
	if err != nil {
		t.Fatal(err)
	}
	d.Sync()
	m.Reset()
	return m, d
}

// TestCounts compares bytes and operations with numbers counted by hand from the
// shapes.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name          string
		run           func(d device.Device)
		read, written int64
		flop          float64
	}{
		{"product", func(d device.Device) { // 3x8 by 7x8, bf16 in, float out
			d.Gemm(device.NT, device.NewMat(d, 3, 7), device.NewActivations(d, 3, 8), device.NewActivations(d, 7, 8), device.Epilogue{})
		}, 2 * (3*8 + 7*8), 4 * 3 * 7, 2 * 3 * 7 * 8},
		{"product of floats", func(d device.Device) { // rounded by two copies first
			d.Gemm(device.NT, device.NewMat(d, 3, 7), device.NewMat(d, 3, 8), device.NewMat(d, 7, 8), device.Epilogue{})
		}, (4 + 2) * (3*8 + 7*8), 4*3*7 + 2*(3*8+7*8), 2 * 3 * 7 * 8},
		{"product with all around it", func(d device.Device) { // bias, Pre and a gate as floats; dst is added to
			d.Gemm(device.NT, device.NewMat(d, 3, 7), device.NewActivations(d, 3, 8), device.NewActivations(d, 7, 8), device.Epilogue{
				Bias: device.NewMat(d, 1, 7), Pre: device.NewMat(d, 3, 7), Gate: device.NewMat(d, 3, 7), Add: true})
		}, 2*(3*8+7*8) + 4*(7+3*7+3*7), 4 * (3*7 + 3*7), 2 * 3 * 7 * 8},
		{"layer norm", func(d device.Device) { // x as floats; y and xhat bf16
			d.LayerNorm(device.NewActivations(d, 10, 6), device.NewActivations(d, 10, 6), device.NewMat(d, 10, 1), device.NewMat(d, 10, 6),
				device.NewMat(d, 1, 6), device.NewMat(d, 1, 6), 1e-5)
		}, 4 * (10*6 + 2*6), 2*2*10*6 + 4*10, 0},
		{"sum onto", func(d device.Device) { d.Axpy(device.NewMat(d, 9, 11), 2, device.NewMat(d, 9, 11)) }, 2 * 4 * 99, 4 * 99, 0},
		{"attention", func(d device.Device) { // 2 sequences of 17 tokens, 3 heads of 64: two products
			m := func() device.Mat { return device.NewActivations(d, 2*17, 3*64) }
			d.Attention(m(), device.Mat{}, m(), m(), m(), device.Heads{Seqs: 2, Len: 17, Heads: 3, Dim: 64})
		}, 3 * 2 * 34 * 192, 2 * 34 * 192, 2 * 2 * 2 * 3 * 17 * 17 * 64},
	} {
		m, d := open(t)
		c.run(d)
		d.Sync()
		var got cuda.Traffic
		for _, e := range m.Entries() {
			if e.Kernel == "fill" { // new memory
				continue
			}
			got.Read, got.Written, got.FLOP = got.Read+e.Read, got.Written+e.Written, got.FLOP+e.FLOP
		}
		if want := (cuda.Traffic{Read: c.read, Written: c.written, FLOP: c.flop}); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

// TestFloor checks that a launch takes as long as the slower of memory and tensor
// cores.
func TestFloor(t *testing.T) {
	card := roofline.Card{Bandwidth: 100, FLOPS: 10}
	for _, c := range []struct {
		t    cuda.Traffic
		want float64
	}{{cuda.Traffic{Read: 150, Written: 50, FLOP: 5}, 2}, {cuda.Traffic{Read: 50, Written: 50, FLOP: 30}, 3}} {
		if got := card.Seconds(c.t); got != c.want {
			t.Errorf("%+v takes %g s, want %g", c.t, got, c.want)
		}
	}
}

// paper is the published geometry on Two-Room.
func paper() lewm.Config {
	return lewm.Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048,
		PredictorDepth: 6, PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1,
		History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
}

const directions = 1024 // of SIGReg

// step returns a training step of LeWM, as model/train runs it, on a number of clips.
func step(t *testing.T, d device.Device, clips int) func() {
	declared, err := paper().Declare()
	if err != nil {
		t.Fatal(err)
	}
	m := declared.(*lewm.Model)
	m.Alloc(d, true)
	c, set, arena := m.Config(), m.Params(), device.NewArena(d)
	frames := clips * (c.History + 1)
	px, actions := d.AllocBytes(frames*c.ImageSize*c.ImageSize*3), device.NewMat(d, frames, c.ActionWidth())
	first, second, sums := device.NewMat(d, 1, set.Len()), device.NewMat(d, 1, set.Len()), device.NewMat(d, 1, 3)
	return func() {
		arena.Reset()
		p := &nn.Pass{Dev: d, Arena: arena, Train: true}
		d.Fill(set.Grad, 0)
		out := m.Forward(p, model.Batch{B: clips, Pixels: px, Actions: actions})
		demb := p.Zero(out.Emb.Rows, out.Emb.Cols)
		dpred, dtarget := p.Zero(out.Pred.Rows, out.Pred.Cols), p.Zero(out.Pred.Rows, out.Pred.Cols)
		d.MSE(sums.Columns(0, 1), dpred, dtarget, out.Pred, out.Target, 1)
		m.PredictorGrad(p, demb, dpred, dtarget)
		objective.SIGReg(p, sums.Columns(1, 1), demb, out.Emb, objective.Directions(p, c.Dim, directions, 1), c.History+1, 0.09)
		m.EncoderGrad(p, demb)
		d.SumSquares(sums.Columns(2, 1), set.Grad)
		d.AdamW(set.Value, set.Grad, first, second, sums.Columns(2, 1), device.AdamW{Step: 1})
		d.Sync()
	}
}

// plan returns a plan by CEM of tier T1 for a number of episodes at once.
func plan(t *testing.T, d device.Device, episodes int) func() {
	const iterations, candidates, blocks, elites = 30, 300, 5, 30
	m, err := lewm.New(d, paper(), 1)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Config()
	mat := func(rows, cols int) device.Mat { return device.NewMat(d, rows, cols) }
	width, keys := blocks*c.ActionWidth(), make([]uint64, episodes)
	start, goal, mean, std := mat(episodes, c.Dim), mat(episodes, c.Dim), mat(episodes, width), mat(episodes, width)
	cand, end, cost, nans := mat(episodes*candidates, width), mat(episodes*candidates, c.Dim), mat(episodes, candidates), mat(episodes, 1)
	chosen := d.AllocInts(episodes * elites)
	return func() {
		for i := range iterations {
			d.Normal(cand, keys, uint64(i*candidates*width))
			d.Candidates(cand, mean, std, cand)
			m.Rollout(end, start, cand, blocks)
			d.LatentCost(cost, end, goal, false)
			d.NaNToInf(cost, nans)
			d.SmallestK(chosen, cost, elites)
			d.Moments(mean, std, cand, chosen, elites)
		}
		d.Sync()
	}
}

// TestRoofline logs the table of the published model (shown by -v), and compares the
// operations with the model's own count.
func TestRoofline(t *testing.T) {
	for _, c := range []struct {
		name string
		flop float64 // 0: not counted elsewhere
		make func(d device.Device) func()
	}{
		{"a training step on 128 clips", paper().StepFLOP(128, directions), func(d device.Device) func() { return step(t, d, 128) }},
		{"a plan", 30 * paper().PlanFLOP(300, 5), func(d device.Device) func() { return plan(t, d, 1) }},
		{"100 plans side by side", 30 * paper().PlanFLOP(100*300, 5), func(d device.Device) func() { return plan(t, d, 100) }},
	} {
		m, d := open(t)
		run := c.make(d)
		run() // allocates scratch memory and rounds frozen weights
		d.Sync()
		m.Reset()
		run()
		t.Logf("%s:\n%s", c.name, m.Table())
		var flop float64
		for _, e := range m.Entries() {
			flop += e.FLOP
			if strings.HasPrefix(e.Kernel, "attention_mma_grad") {
				flop -= e.FLOP * 5 / 9 // of nine products, the model counts dp, dq, dk and dv once each
			}
			if e.Unknown {
				t.Errorf("%s: kernel %s is not counted (hint: traffic.go of package cuda says what kernels move)", c.name, e.Kernel)
			}
		}
		// SIGReg's directions have no gradient: allow a twentieth.
		if math.Abs(flop/c.flop-1) > 0.05 {
			t.Errorf("%s: %.4g operations, the model counts %.4g", c.name, flop, c.flop)
		}
	}
}
