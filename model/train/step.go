package train

import (
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
)

// trainer is the state of a training on its device, and runs its steps.
type trainer struct {
	dev    device.Device
	cfg    Config
	method string
	seed   int64
	total  int // optimiser steps of the entire run, for the learning rate schedule
	model  model.Trainable
	info   model.Info
	terms  []term
	arena  *device.Arena // activations and gradients of a step
	m, v   device.Mat    // Adam's moments, 1 x number of parameters
	// sums, 1 x 3*terms+1, collects all numbers that a step reports, so that one
	// download at its end fetches them. result, gradNorm and norm are its layout.
	sums device.Mat
	// Inputs of a step, (B*T) x A, (B*T) x d_q and B x 1, at fixed addresses for recorded
	// steps.
	actions, q, left device.Mat
}

// term is a loss term of this training, with its name and weight.
type term struct {
	objective.Term
	name   string
	weight float64
}

// newTrainer declares the model and its loss terms, allocates them and draws the
// initial weights. total is the number of steps of the run.
func newTrainer(o Options, total int) (*trainer, error) {
	m, err := o.Model.Declare()
	if err != nil {
		return nil, err
	}
	t := &trainer{dev: o.Dev, cfg: o.Config, method: o.Method.Name, seed: o.Seed, total: total, model: m, info: o.Model.Info()}
	for _, of := range o.Method.Terms {
		w, _ := o.Config.Weights.On(of.Name, o.Task.Name)
		t.terms = append(t.terms, term{name: of.Name, weight: w, Term: objective.Terms[of.Name](objective.Setting{Numbers: o.Config.Numbers,
			Dev: o.Dev, Params: m.Params(), Weight: w, Frames: t.info.ClipFrames(), Dim: t.info.Dim, Q: len(o.Task.Q.Parts)})})
	}
	m.Alloc(o.Dev, true)
	m.Init(o.Seed)
	t.arena = device.NewArena(o.Dev)
	n := m.Params().Len()
	t.m, t.v = device.NewMat(o.Dev, 1, n), device.NewMat(o.Dev, 1, n)
	t.sums = device.NewMat(o.Dev, 1, t.norm()+1)
	frames := o.Config.Batch * t.info.ClipFrames()
	t.actions = device.NewMat(o.Dev, frames, t.info.ActionWidth)
	if o.Method.UsesQ() {
		t.q = device.NewMat(o.Dev, frames, len(o.Task.Q.Parts))
	}
	if t.info.Goals {
		t.left = device.NewMat(o.Dev, o.Config.Batch, 1)
	}
	return t, nil
}

// free releases all memory on the device.
func (t *trainer) free() {
	t.arena.Free()
	for _, m := range []device.Mat{t.m, t.v, t.sums, t.actions, t.q, t.left} {
		if m.IsSet() {
			t.dev.Free(m.Buf)
		}
	}
	for _, term := range t.terms {
		if term.Free != nil {
			term.Free()
		}
	}
	t.model.Free()
}

// Columns of trainer.sums: first two numbers per term i (value, skipped), then per
// term the squared norm of its gradient at the latents, and last that of the gradient
// of all parameters.
func (t *trainer) result(i int) int   { return 2 * i }
func (t *trainer) gradNorm(i int) int { return 2*len(t.terms) + i }
func (t *trainer) norm() int          { return 3 * len(t.terms) }

// sum returns one column of sums as a 1 x 1 Mat.
func (t *trainer) sum(at int) device.Mat { return t.sums.Columns(at, 1) }

// inputs holds a batch on the device, ready for a step.
type inputs struct {
	model.Batch
	losses  []objective.Loss // one per term
	dropout uint64           // key of the dropout masks
}

// inputs uploads the remaining data of a batch, actions, q and left, and makes all random
// draws of step n of a split. All uploads precede the first kernel of the step, so
// that a device can record the kernels of a step and replay them.
func (t *trainer) inputs(b *dataset.Batch, frames model.Batch, split string, n int) inputs {
	draw := objective.Draw{Split: split, Seed: t.seed, Step: n}
	in, rows := inputs{Batch: frames, dropout: draw.Key("dropout")}, len(b.Clips)*t.info.ClipFrames()
	in.Actions = t.actions.RowRange(0, rows)
	t.dev.Upload(in.Actions, b.Actions)
	seen := objective.Batch{Episodes: b.Episode, Draw: draw}
	if t.q.IsSet() {
		seen.Q = t.q.RowRange(0, rows)
		t.dev.Upload(seen.Q, b.Q)
	}
	if t.left.IsSet() {
		in.Left = t.left.RowRange(0, len(b.Clips))
		t.dev.Upload(in.Left, b.Left)
	}
	for _, term := range t.terms {
		in.losses = append(in.losses, term.Prepare(seen))
	}
	return in
}

// step runs optimiser step n on a batch. It returns the losses and the norm of the
// gradient before clipping. If diag is not nil, step fills it.
//
// The phases are: forward; each loss term with its gradient, backpropagated to the
// latents; the sum of these gradients, backpropagated through the encoder; gradient
// norm and update; download of the reported numbers.
func (t *trainer) step(n int, in inputs, diag *metrics.Diagnostics) (metrics.Losses, float64) {
	t.arena.Reset()
	params := t.model.Params()
	t.dev.Fill(params.Grad, 0)
	t.dev.Fill(t.sums, 0)
	p := &nn.Pass{Dev: t.dev, Arena: t.arena, Train: true, DropKey: in.dropout}
	out := t.model.Forward(p, in.Batch)

	learner, learns := t.model.(model.Learner)
	// gradient returns a zeroed gradient at latents. Those of a frozen encoder have none.
	gradient := func(like device.Mat) device.Mat {
		if !learns {
			return device.Mat{}
		}
		return p.Zero(like.Rows, like.Cols)
	}
	demb := gradient(out.Emb)
	for i, loss := range in.losses {
		// Each term has its own gradient at the latents, so that its norm can be
		// reported.
		g := objective.Gradients{Emb: gradient(out.Emb)}
		if t.terms[i].Predicts {
			g.Pred, g.Target = p.Zero(out.Pred.Rows, out.Pred.Cols), gradient(out.Target)
		}
		loss(p, t.sums.Columns(t.result(i), 2), g, out)
		if t.terms[i].Predicts {
			t.model.PredictorGrad(p, g.Emb, g.Pred, g.Target)
		}
		if learns {
			t.dev.Axpy(demb, 1, g.Emb)
		}
		if learns && diag != nil {
			t.dev.SumSquares(t.sum(t.gradNorm(i)), g.Emb)
		}
	}
	if learns {
		learner.EncoderGrad(p, demb)
	}

	update := device.AdamW{LR: t.rate(n), Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: t.cfg.WeightDecay, MaxNorm: t.cfg.Clip, Step: n + 1}
	if t.cfg.Adam {
		t.dev.Axpy(params.Grad, update.Decay, params.Value)
		update.Decay = 0
	}
	t.dev.SumSquares(t.sum(t.norm()), params.Grad)
	t.dev.AdamW(params.Value, params.Grad, t.m, t.v, t.sum(t.norm()), update)
	sums := t.read()
	if diag != nil {
		t.diagnose(diag, sums, out.Emb)
	}
	return t.losses(sums), math.Sqrt(sums[t.norm()])
}

// evaluate returns the losses of a batch in evaluation mode: without dropout, and
// with the running statistics of BatchNorm.
func (t *trainer) evaluate(in inputs) metrics.Losses {
	t.arena.Reset()
	t.dev.Fill(t.sums, 0)
	p := &nn.Pass{Dev: t.dev, Arena: t.arena}
	out := t.model.Forward(p, in.Batch)
	for i, loss := range in.losses {
		loss(p, t.sums.Columns(t.result(i), 2), objective.Gradients{}, out)
	}
	return t.losses(t.read())
}

// read downloads sums, which waits for the end of the step.
func (t *trainer) read() []float64 {
	s := make([]float64, t.sums.Cols)
	t.dev.Download64(s, t.sums)
	return s
}

// rate returns the learning rate of a 0-based step.
func (t *trainer) rate(step int) float64 {
	switch {
	case t.cfg.Adam:
		return t.cfg.LR
	case t.cfg.Final > 0:
		return t.cfg.final(step, t.total)
	}
	return rate(t.cfg.LR, t.cfg.WarmUp, step, t.total)
}

// rate returns the learning rate of the 0-based step n of total
// (docs/sources.md#optimiser). It rises linearly from 0 over the first max(1,
// floor(warmUp*total)) steps, then follows a cosine to 0. The first update therefore
// has rate 0, as in the reference implementation, stable-worldmodel.
func rate(base, warmUp float64, n, total int) float64 {
	w := max(1, int(warmUp*float64(total)))
	if n < w {
		return base * float64(n) / float64(w)
	}
	return base / 2 * (1 + math.Cos(math.Pi*float64(n-w)/float64(total-w)))
}

// final returns the learning rate of the 0-based step n of total: a cosine from LR to
// Final*LR. It is constant within an epoch if Epochs is set, as that of GC-IDM
// (docs/sources.md#policy-training).
func (c Config) final(n, total int) float64 {
	if c.Epochs > 0 {
		n, total = n*c.Epochs/total, c.Epochs
	}
	low := c.LR * c.Final
	return low + (c.LR-low)/2*(1+math.Cos(math.Pi*float64(n)/float64(total)))
}

// checkFinite returns an error if a loss or the gradient norm of a step is not
// finite. The error names the term, and the tensor in which the problem begins. No
// resume point is written after such a step, so that the last one has finite weights.
func (t *trainer) checkFinite(step int, b *dataset.Batch, l metrics.Losses, norm float64) error {
	for _, v := range []struct {
		name string
		v    float64
	}{{"prediction loss", l.Pred}, {"SIGReg", l.SIGReg}, {t.method + " term", l.Obj}, {"gradient norm", norm}} {
		if !isFinite(v.v) {
			return fmt.Errorf("training step %d: the %s is %g (prediction %g, SIGReg %g, own term %g, gradient norm %g, lr %.3g); %s "+
				"(hint: earlier checkpoints are intact; check the data with `scalewm data check`, or lower lr in your own preset)",
				step, v.name, v.v, l.Pred, l.SIGReg, l.Obj, norm, t.rate(step), t.firstNonFinite(b))
		}
	}
	return nil
}

// firstNonFinite describes the first input, or else the first parameter's gradient in
// declaration order, that is not finite.
func (t *trainer) firstNonFinite(b *dataset.Batch) string {
	for _, in := range []struct {
		name string
		v    []float32
	}{{"actions", b.Actions}, {"q", b.Q}} {
		if i := slices.IndexFunc(in.v, func(x float32) bool { return !isFinite(float64(x)) }); i >= 0 {
			clip := b.Clips[i*len(b.Clips)/len(in.v)]
			return fmt.Sprintf("the batch's %s have %g in the clip at row %d of episode %d", in.name, in.v[i], clip.Row, clip.Episode)
		}
	}
	for _, p := range t.model.Params().Params {
		v := make([]float64, p.Len())
		t.dev.Download64(v, p.Grad)
		if slices.ContainsFunc(v, func(x float64) bool { return !isFinite(x) }) {
			return "first such gradient in the model's order: " + p.Name
		}
	}
	return "all inputs and gradients are finite"
}

// isFinite reports whether x is neither NaN nor infinite.
func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
