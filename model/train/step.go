package train

import (
	"math"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/lewm"
	"scalewm/model/nn"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
)

// trainer is the state of a training on its device.
type trainer struct {
	dev    device.Device
	cfg    Config
	method string
	seed   int64
	total  int     // N, optimiser steps of the whole training
	weight float64 // of the method's own term
	model  *lewm.Model
	aux    *objective.Aux
	arena  *device.Arena
	m, v   device.Mat // Adam's moments, 1 x n
	sums   device.Mat // 1 x slots: the numbers that leave the device
	// Inputs of a step: memory that a largest batch fills.
	actions, q device.Mat
	pairs      map[int]device.Ints // by number of pairs
}

// inputs are a batch on the device.
type inputs struct {
	lewm.Batch
	q     device.Mat  // (B*T) x d_q, of methods that see it
	pairs device.Ints // of SCALE
}

// Slots of trainer.sums.
const (
	slotPred = iota
	slotSIGReg
	slotObj
	slotSkipped // must follow slotObj: Correlation writes both
	slotGrad
	slotPredGrad // squared norms of each term's gradient at the latents
	slotSIGRegGrad
	slotObjGrad
	slots
)

func newTrainer(o Options, total int) (*trainer, error) {
	m, err := lewm.Declare(o.Model)
	if err != nil {
		return nil, err
	}
	t := &trainer{dev: o.Dev, cfg: o.Config, method: o.Method, seed: o.Seed, total: total, weight: o.weight(), model: m,
		pairs: map[int]device.Ints{}}
	if o.Method == "aux" {
		t.aux = objective.NewAux(m.Params(), o.Model.Dim, len(o.Task.Q.Parts), o.Config.AuxLoss == "paper")
	}
	m.Alloc(o.Dev, true)
	m.Init(o.Seed)
	t.arena = device.NewArena(o.Dev)
	n := m.Params().Len()
	t.m, t.v = device.NewMat(o.Dev, 1, n), device.NewMat(o.Dev, 1, n)
	t.sums = device.NewMat(o.Dev, 1, slots)
	frames := o.Config.Batch * t.frames()
	t.actions = device.NewMat(o.Dev, frames, o.Model.ActionWidth())
	if o.usesQ() {
		t.q = device.NewMat(o.Dev, frames, len(o.Task.Q.Parts))
	}
	return t, nil
}

func (t *trainer) free() {
	t.arena.Free()
	for _, m := range []device.Mat{t.m, t.v, t.sums, t.actions, t.q} {
		if m.Given() {
			t.dev.Free(m.Buf)
		}
	}
	for _, p := range t.pairs {
		t.dev.Free(p)
	}
	t.model.Free()
}

// draws are the random choices of one pass.
type draws struct {
	dropout    uint64
	directions func(p *nn.Pass) device.Mat    // SIGReg's, D x M
	pairs      func(b *dataset.Batch) []int32 // SCALE's
}

// draws derives the choices of a step; of is train or val.
func (t *trainer) draws(of string, step int) draws {
	return draws{
		dropout: rng.Key("dropout", of, t.seed, step),
		directions: func(p *nn.Pass) device.Mat {
			return objective.Directions(p, t.model.Config().Dim, t.cfg.Directions, rng.Key("sigreg", of, t.seed, step))
		},
		pairs: func(b *dataset.Batch) []int32 {
			return objective.DrawPairs(rng.Stream("pairs", of, t.seed, step), b.Episode, t.frames(), t.cfg.Pairs)
		},
	}
}

// frames is T, those of a clip.
func (t *trainer) frames() int { return t.model.Config().History + 1 }

// step runs optimiser step n on a batch and returns its losses and, before
// clipping, its gradient norm. Diagnostics are filled on request.
func (t *trainer) step(n int, in inputs, d draws, diag *metrics.Diagnostics) (metrics.Losses, float64) {
	t.arena.Reset()
	params := t.model.Params()
	t.dev.Fill(params.Grad, 0)
	t.dev.Fill(t.sums, 0)
	p := &nn.Pass{Dev: t.dev, Arena: t.arena, Train: true, DropKey: d.dropout}
	out := t.model.Forward(p, in.Batch)

	// Each term's gradient at the latents has its own memory, so that it can be measured.
	rows := out.Emb.Rows
	terms := []device.Mat{p.Zero(rows, out.Emb.Cols), p.Zero(rows, out.Emb.Cols), p.Zero(rows, out.Emb.Cols)}
	t.predictionGrad(p, terms[0], out)
	t.sigreg(p, terms[1], out.Emb, d)
	t.objective(p, terms[2], out.Emb, in)
	demb := p.Zero(rows, out.Emb.Cols)
	for i, g := range terms {
		t.dev.Axpy(demb, 1, g)
		if diag != nil {
			t.dev.SumSquares(t.slot(slotPredGrad+i, 1), g)
		}
	}
	t.model.EncoderGrad(p, demb)

	sumsq := t.slot(slotGrad, 1)
	t.dev.SumSquares(sumsq, params.Grad)
	t.dev.AdamW(params.Value, params.Grad, t.m, t.v, sumsq, device.AdamW{LR: t.rate(n), Beta1: 0.9, Beta2: 0.999,
		Eps: 1e-8, Decay: t.cfg.WeightDecay, MaxNorm: t.cfg.Clip, Step: n + 1})
	l, sums := t.read()
	if diag != nil {
		diagnose(diag, t.dev, out.Emb, sums)
	}
	return l, math.Sqrt(sums[slotGrad])
}

// evaluate is the losses of a batch without dropout, by BatchNorm's running
// statistics.
func (t *trainer) evaluate(in inputs, d draws) metrics.Losses {
	t.arena.Reset()
	t.dev.Fill(t.sums, 0)
	p := &nn.Pass{Dev: t.dev, Arena: t.arena}
	out := t.model.Forward(p, in.Batch)
	t.dev.MSE(t.slot(slotPred, 1), device.Mat{}, device.Mat{}, out.Pred, out.Target, 0)
	t.sigreg(p, device.Mat{}, out.Emb, d)
	t.objective(p, device.Mat{}, out.Emb, in)
	l, _ := t.read()
	return l
}

func (t *trainer) rate(step int) float64 { return rate(t.cfg.LR, t.cfg.WarmUp, step, t.total) }

func (t *trainer) slot(i, n int) device.Mat { return t.sums.Columns(i, n) }

// inputs uploads what belongs to a batch beside its frames. All of it goes before
// the first kernel, so that the kernels of a step are one sequence.
func (t *trainer) inputs(b *dataset.Batch, frames lewm.Batch, d draws) inputs {
	in, rows := inputs{Batch: frames}, len(b.Clips)*t.frames()
	in.Actions = t.actions.RowRange(0, rows)
	t.dev.Upload(in.Actions, b.Actions)
	if t.q.Given() {
		in.q = t.q.RowRange(0, rows)
		t.dev.Upload(in.q, b.Q)
	}
	if t.method == "scale" {
		in.pairs = t.ints(d.pairs(b))
	}
	return in
}

// predictionGrad writes the prediction error, runs the predictor's backward
// pass and adds the term's gradient at the latents to g.
func (t *trainer) predictionGrad(p *nn.Pass, g device.Mat, out lewm.Output) {
	dpred, dtarget := p.Zero(out.Pred.Rows, out.Pred.Cols), p.Zero(out.Pred.Rows, out.Pred.Cols)
	t.dev.MSE(t.slot(slotPred, 1), dpred, dtarget, out.Pred, out.Target, 1)
	t.model.PredictorGrad(p, g, dpred, dtarget)
}

// sigreg adds the term's gradient to g, or is its value only without g.
func (t *trainer) sigreg(p *nn.Pass, g, emb device.Mat, d draws) {
	objective.SIGReg(p, t.slot(slotSIGReg, 1), g, emb, d.directions(p), t.frames(), t.cfg.SIGReg)
}

// objective is the method's own term; g as in sigreg.
func (t *trainer) objective(p *nn.Pass, g, emb device.Mat, in inputs) {
	if t.method == "lewm" {
		return
	}
	if t.method == "aux" {
		t.aux.Loss(p, t.slot(slotObj, 1), g, emb, in.q, t.weight)
		return
	}
	form := device.Authors
	if t.cfg.Correlation == "paper" {
		form = device.Paper
	}
	objective.Correlation(p, t.slot(slotObj, 2), g, emb, in.q, in.pairs, form, t.weight)
}

// ints uploads pairs; there is one buffer for each length, in practice one.
func (t *trainer) ints(v []int32) device.Ints {
	b, ok := t.pairs[len(v)]
	if !ok {
		b = t.dev.AllocInts(len(v))
		t.pairs[len(v)] = b
	}
	t.dev.UploadInts(b, v)
	return b
}

// read fetches the step's numbers.
func (t *trainer) read() (metrics.Losses, []float64) {
	s := make([]float64, slots)
	t.dev.Download64(s, t.sums)
	l := metrics.Losses{Pred: s[slotPred], SIGReg: s[slotSIGReg], Obj: s[slotObj], Skipped: s[slotSkipped]}
	if t.aux != nil {
		l.Obj *= t.aux.Scale()
	}
	l.Loss = l.Pred + t.cfg.SIGReg*l.SIGReg + t.weight*l.Obj
	return l, s
}
