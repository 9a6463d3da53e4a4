package cuda_test

import (
	"math"
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
	"scalewm/model/nn"
)

// small is a geometry that exercises every choice of kernels: 17 tokens in heads of 64
// columns, windows of 3, odd widths.
func small() lewm.Config {
	return lewm.Config{ImageSize: 16, Patch: 4, Width: 64, Layers: 2, Heads: 1, MLP: 96, Dim: 25, Projector: 40,
		PredictorDepth: 1, PredictorHeads: 2, PredictorHeadDim: 64, PredictorMLP: 48, Dropout: 0.1,
		History: 3, FrameSkip: 1, Smoothed: 10, ActionDim: 2}
}

// trained returns the parameters after some complete training steps on random frames,
// and the latents of a rollout.
func trained(t *testing.T, d device.Device, steps int) (params, latents []float64) {
	t.Helper()
	defer d.Close()
	const clips = 5
	declared, err := small().Declare()
	if err != nil {
		t.Fatal(err)
	}
	m := declared.(*lewm.Model)
	m.Alloc(d, true)
	m.Init(1)
	c, set, arena := m.Config(), m.Params(), device.NewArena(d)
	frames := clips * (c.History + 1)
	px := d.AllocBytes(frames * c.ImageSize * c.ImageSize * 3)
	bytes := make([]byte, px.Len())
	moment, second, sums := device.NewMat(d, 1, set.Len()), device.NewMat(d, 1, set.Len()), device.NewMat(d, 1, 3)
	for step := range steps {
		for i := range bytes {
			bytes[i] = byte(rng.Philox(uint64(step), uint64(i))[0])
		}
		d.UploadBytes(px, bytes)
		arena.Reset()
		p := &nn.Pass{Dev: d, Arena: arena, Train: true, DropKey: uint64(step)}
		d.Fill(set.Grad, 0)
		actions := p.Mat(frames, c.ActionWidth())
		d.Normal(actions, []uint64{7}, uint64(step))
		out := m.Forward(p, model.Batch{B: clips, Pixels: px, Actions: actions})
		dpred, dtarget := p.Zero(out.Pred.Rows, out.Pred.Cols), p.Zero(out.Pred.Rows, out.Pred.Cols)
		demb, du := p.Zero(out.Emb.Rows, out.Emb.Cols), p.Mat(out.Emb.Rows, out.Emb.Cols)
		d.MSE(sums.Columns(0, 1), dpred, dtarget, out.Pred, out.Target, 1)
		d.SIGReg(sums.Columns(1, 1), du, out.Emb, c.History+1, 0.1)
		d.Axpy(demb, 1, du)
		m.PredictorGrad(p, demb, dpred, dtarget)
		m.EncoderGrad(p, demb)
		d.SumSquares(sums.Columns(2, 1), set.Grad)
		d.AdamW(set.Value, set.Grad, moment, second, sums.Columns(2, 1),
			device.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-3, Decay: 1e-2, MaxNorm: 1, Step: step + 1})
		d.Sync()
	}
	params = make([]float64, set.Len())
	d.Download64(params, set.Value)

	const h, each = 4, 6
	start, cand := device.NewMat(d, 2, c.Dim), device.NewMat(d, 2*each, h*c.ActionWidth())
	end := device.NewMat(d, 2*each, c.Dim)
	d.Normal(start, []uint64{8}, 0)
	d.Normal(cand, []uint64{9, 10}, 0)
	m.Rollout(end, start, cand, h)
	latents = make([]float64, end.Len())
	d.Download64(latents, end)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return params, latents
}

// relativeError returns the largest difference of two lists, relative to the largest
// number of b.
func relativeError(a, b []float64) (difference float64) {
	var size float64
	for i := range a {
		difference, size = max(difference, math.Abs(a[i]-b[i])), max(size, math.Abs(b[i]))
	}
	return difference / size
}

// TestTraining compares complete training steps on the emulated GPU with the reference
// kernels (package ref), and bit by bit with the same steps in another order of
// threads. From the second step on the step runs as a graph with updated arguments.
func TestTraining(t *testing.T) {
	lib := emulator(t)
	on := func(p device.Precision, order int) device.Device {
		d, err := cuda.New(lib.Machine(order), p)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const steps = 3
	params, latents := trained(t, ref.New(), steps)
	// fp32: rounding errors, amplified by three steps; bf16: every GEMM rounds its
	// operands to 8 bits.
	for p, allowed := range map[device.Precision]float64{device.FP32: 1e-5, device.BF16: 2e-2} {
		gotParams, gotLatents := trained(t, on(p, 1), steps)
		if f, l := relativeError(gotParams, params), relativeError(gotLatents, latents); !(f <= allowed) || !(l <= allowed) {
			t.Errorf("%s: parameters are off by %.2g, latents by %.2g; %.2g is allowed", p, f, l, allowed)
		}
		againParams, againLatents := trained(t, on(p, 2), steps)
		if !slices.Equal(againParams, gotParams) || !slices.Equal(againLatents, gotLatents) {
			t.Errorf("%s: another order of threads gives other bits", p)
		}
	}
}
