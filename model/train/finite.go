package train

import (
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/model/train/metrics"
)

// finite explains the first number of a step that is not finite: which term,
// and where what is not finite begins. No resume point is written after it, so
// that the last one holds good weights.
func (t *trainer) finite(step int, b *dataset.Batch, l metrics.Losses, norm float64) error {
	for _, v := range []struct {
		name string
		v    float64
	}{{"prediction loss", l.Pred}, {"SIGReg", l.SIGReg}, {t.method + " term", l.Obj}, {"gradient norm", norm}} {
		if !isFinite(v.v) {
			return fmt.Errorf("training step %d: the %s is %g (prediction %g, SIGReg %g, own term %g, gradient norm %g, lr %.3g); %s "+
				"(hint: the checkpoints before it stand; check the data with `scalewm data check`, or lower lr in a preset of your own)",
				step, v.name, v.v, l.Pred, l.SIGReg, l.Obj, norm, t.rate(step), t.culprit(b))
		}
	}
	return nil
}

// culprit names the first tensor that is not finite, in the order in which a
// step computes them.
func (t *trainer) culprit(b *dataset.Batch) string {
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

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
