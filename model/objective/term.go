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

// Term is one summand of the loss of a training. Its value and gradient go through
// two phases, since a step sends all that it needs to the device before its first
// kernel: Prepare draws and uploads, the Loss that it returns computes.
type Term struct {
	Prepare func(Batch) Loss
	// Predicts: the gradient is at the predictions and their targets. A term
	// without it has its gradient at the latents.
	Predicts bool
	// Scale is what the number that Loss writes is multiplied with to be the term's
	// value, for terms whose kernel averages where the value is a sum; 0: nothing.
	Scale float64
	// Free gives memory of the term's own back; nil where it has none.
	Free func()
}

// Loss writes the term's value, unweighted, to the first of two numbers, result
// (1 x 2), and 1 to the second if a guard has set the term to zero. It adds the
// gradient, times the term's weight, to the matrices of g; those are not given
// where only the value is asked for.
type Loss func(p *nn.Pass, result device.Mat, g Gradients, out model.Output)

// Gradients are shaped as the matrices of model.Output.
type Gradients struct{ Emb, Pred, Target device.Mat }

// Batch is what a term may use of the clips of a pass beside what the model makes of them.
type Batch struct {
	Episodes []int32    // the source episode of each clip
	Q        device.Mat // (B*T) x d_q, standardised; of methods that see it
	Draw     Draw
}

// Draw is the source of the random choices of a pass: each purpose has a stream of
// its own, which the split (train or val), the training's seed and the step determine.
type Draw struct {
	Split string
	Seed  int64
	Step  int
}

// Key is a key for draws on the device.
func (d Draw) Key(purpose string) uint64 { return rng.Key(purpose, d.Split, d.Seed, d.Step) }

// Stream is for draws on the host.
func (d Draw) Stream(purpose string) *rand.Rand { return rng.Stream(purpose, d.Split, d.Seed, d.Step) }

// Setting is what a term is made for.
type Setting struct {
	Numbers
	Dev    device.Device
	Params *nn.Set // where a term declares parameters of its own, without memory yet
	Weight float64
	Frames int // T, frames of a clip
	Dim    int // D, width of a latent
	Q      int // d_q, width of the state q
}

// Numbers are those of a preset that terms read.
type Numbers struct {
	Directions  int    `toml:"directions" json:"directions"` // M random projections a step, of SIGReg
	Pairs       int    `toml:"pairs" json:"pairs"`           // K frame pairs a step, of the correlation
	Correlation string `toml:"correlation" json:"correlation"`
	AuxLoss     string `toml:"aux_loss" json:"aux_loss"` // authors (mean over dims) or paper (sum)
	// AuxHidden is the hidden width of the regression's head; 0: 256, as published.
	AuxHidden int `toml:"aux_hidden,omitzero" json:"aux_hidden,omitempty"`
}

// Validate names the first field that cannot work.
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

// Terms makes the terms that a method's list may name.
var Terms = map[string]func(Setting) Term{
	model.Prediction: func(s Setting) Term {
		return Term{Predicts: true, Prepare: func(Batch) Loss {
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				p.Dev.MSE(result.Columns(0, 1), g.Pred, g.Target, out.Pred, out.Target, s.Weight)
			}
		}}
	},
	model.SIGReg: func(s Setting) Term {
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

func correlationTerm(s Setting) Term {
	form := device.Authors
	if s.Correlation == "paper" {
		form = device.Paper
	}
	sent := map[int]device.Ints{} // by number of pairs, in practice one
	return Term{
		Prepare: func(b Batch) Loss {
			drawn := DrawPairs(b.Draw.Stream("pairs"), b.Episodes, s.Frames, s.Pairs)
			pairs, ok := sent[len(drawn)]
			if !ok {
				pairs = s.Dev.AllocInts(len(drawn))
				sent[len(drawn)] = pairs
			}
			s.Dev.UploadInts(pairs, drawn)
			return func(p *nn.Pass, result device.Mat, g Gradients, out model.Output) {
				Correlation(p, result, g.Emb, out.Emb, b.Q, pairs, form, s.Weight)
			}
		},
		Free: func() {
			for _, p := range sent {
				s.Dev.Free(p)
			}
		},
	}
}
