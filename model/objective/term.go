package objective

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"scalewm/dataset/rng"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// Term is one summand of a training loss. A step calls it in two phases, because
// everything that a step needs must be uploaded before its first kernel: the device
// can then record the kernels of a step and replay them. Prepare draws random numbers
// and uploads, and the Loss that it returns only queues kernels.
type Term struct {
	Prepare func(Batch) Loss
	// Predicts means that the gradient is with respect to the predictions and their
	// targets. Otherwise it is with respect to the latents.
	Predicts bool
	// Scale is the factor from the number that Loss writes to the term's value, or 0
	// for 1. It is for terms whose kernel computes a mean where the value is a sum.
	Scale float64
	// Free releases memory that the term allocated. It is nil if there is none.
	Free func()
}

// Loss computes a term. It writes the unweighted value to the first number of result,
// 1 x 2, and to the second 1 if a guard has set the term to zero. It adds the
// gradient times the term's weight to the matrices of g. A validation needs only the
// value and passes zero Mats in g.
type Loss func(p *nn.Pass, result device.Mat, g Gradients, out model.Output)

// Gradients holds gradients with respect to the matrices of model.Output, in their
// shapes.
type Gradients struct{ Emb, Pred, Target device.Mat }

// Batch is what a term may use of a batch of clips, in addition to the model's
// output.
type Batch struct {
	Episodes []int32    // source episode of each of the B clips
	Q        device.Mat // (B*T) x d_q, standardised; the zero Mat if the method does not use q
	Draw     Draw
}

// Draw identifies the random draws of a step. The split (train or val), the seed of
// the training and the step determine them, together with a purpose that gives each
// kind of draw its own stream. A resumed training therefore draws the same numbers.
type Draw struct {
	Split string
	Seed  int64
	Step  int
}

// Key returns a key for draws on the device.
func (d Draw) Key(purpose string) uint64 { return rng.Key(purpose, d.Split, d.Seed, d.Step) }

// Stream returns a stream for draws on the host.
func (d Draw) Stream(purpose string) *rand.Rand { return rng.Stream(purpose, d.Split, d.Seed, d.Step) }

// Setting holds what a constructor of Terms needs to know of a training.
type Setting struct {
	Numbers
	Dev    device.Device
	Params *nn.Set // for a term's own parameters; it is allocated after all terms exist
	Weight float64
	Frames int // T, frames of a clip
	Dim    int // D, width of a latent
	Q      int // d_q, width of the state q
}

// Numbers are the fields of a preset's [train] table that terms use.
type Numbers struct {
	Directions int `toml:"directions" json:"directions"` // M, SIGReg's random projections per step
	Pairs      int `toml:"pairs" json:"pairs"`           // K, the correlation's frame pairs per step
	// Correlation is "authors" or "paper": whether deviations divide by K-1 or by K.
	Correlation string `toml:"correlation" json:"correlation"`
	// AuxLoss is "authors" or "paper": whether the regression's loss is the mean or
	// the sum over the dimensions of q.
	AuxLoss string `toml:"aux_loss" json:"aux_loss"`
	// The paper's forms of three terms in place of those of its authors' code
	// (docs/protocol.md#paper-code-and-this-program). PredictionSum sums the squared
	// errors of a prediction over the numbers of a latent instead of averaging them,
	// PooledSIGReg compares the latents of all frames of a batch with N(0, I) instead
	// of those of each frame of a clip, and DistinctPairs draws the correlation's pairs
	// without replacement.
	PredictionSum bool `toml:"prediction_sum,omitempty" json:"prediction_sum,omitempty"`
	PooledSIGReg  bool `toml:"pooled_sigreg,omitempty" json:"pooled_sigreg,omitempty"`
	DistinctPairs bool `toml:"distinct_pairs,omitempty" json:"distinct_pairs,omitempty"`
	// AuxHidden is the hidden width of the regression's head, or 0 for the published 256.
	AuxHidden int `toml:"aux_hidden,omitzero" json:"aux_hidden,omitempty"`
}

// Validate returns an error that names the first invalid field.
func (n Numbers) Validate() error {
	switch {
	case n.Directions < 1 || n.Pairs < 1 || n.AuxHidden < 0 || max(n.Directions, n.Pairs, n.AuxHidden) > 1<<20:
		return fmt.Errorf("train: directions %d, pairs %d, aux_hidden %d (hint: see presets/nano.toml; at most %d)", n.Directions, n.Pairs, n.AuxHidden, 1<<20)
	case n.Correlation != "authors" && n.Correlation != "paper":
		return fmt.Errorf("train: correlation is %q (hint: authors or paper)", n.Correlation)
	case n.AuxLoss != "authors" && n.AuxLoss != "paper":
		return fmt.Errorf("train: aux_loss is %q (hint: authors or paper)", n.AuxLoss)
	}
	return nil
}

// Terms maps the names of terms, as in model.Method.Terms, to their constructors. A
// new term needs an entry here and a weight in the presets that train it.
var Terms = map[string]func(Setting) Term{
	model.Prediction: func(s Setting) Term {
		scale := 1.0
		if s.PredictionSum {
			scale = float64(s.Dim)
		}
		return Term{Predicts: true, Scale: scale, Prepare: func(Batch) Loss {
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				p.Dev.MSE(result.Columns(0, 1), g.Pred, g.Target, out.Pred, out.Target, s.Weight*scale)
			}
		}}
	},
	model.SIGReg: func(s Setting) Term {
		if s.PooledSIGReg {
			s.Frames = 1 // each of the B*T frames counts as a clip of one
		}
		return Term{Prepare: func(b Batch) Loss {
			key := b.Draw.Key("sigreg")
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				SIGReg(p, result.Columns(0, 1), g.Emb, out.Emb, Directions(p, s.Dim, s.Directions, key), s.Frames, s.Weight)
			}
		}}
	},
	model.Correlation: correlationTerm,
	model.Regression: func(s Setting) Term {
		aux, scale := NewAux(s.Params, s.Dim, cmp.Or(s.AuxHidden, 256), s.Q), 1.0
		if s.AuxLoss == "paper" {
			scale = float64(s.Q)
		}
		return Term{Scale: scale, Prepare: func(b Batch) Loss {
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				aux.Loss(p, result.Columns(0, 1), g.Emb, out.Emb, b.Q, s.Weight*scale)
			}
		}}
	},
}

// correlationTerm is the constructor of model.Correlation.
func correlationTerm(s Setting) Term {
	form := device.Authors
	if s.Correlation == "paper" {
		form = device.Paper
	}
	// Buffers for pairs by their number, which is K unless a batch has too few
	// episodes. They are reused, since a recorded step refers to fixed memory.
	buffers := map[int]device.Ints{}
	return Term{
		Prepare: func(b Batch) Loss {
			drawn := DrawPairs(b.Draw.Stream("pairs"), b.Episodes, s.Frames, s.Pairs, s.DistinctPairs)
			pairs, ok := buffers[len(drawn)]
			if !ok {
				pairs = s.Dev.AllocInts(len(drawn))
				buffers[len(drawn)] = pairs
			}
			s.Dev.UploadInts(pairs, drawn)
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				Correlation(p, result, g.Emb, out.Emb, b.Q, pairs, form, s.Weight)
			}
		},
		Free: func() {
			for _, p := range buffers {
				s.Dev.Free(p)
			}
		},
	}
}
