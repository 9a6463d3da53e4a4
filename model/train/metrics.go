package train

import (
	"math"

	"scalewm/model/device"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
)

// diagnose fills in the numbers of a step that its latents and gradients have.
func diagnose(d *metrics.Diagnostics, dev device.Device, emb device.Mat, sums []float64) {
	d.PredGrad, d.SIGRegGrad, d.ObjGrad = math.Sqrt(sums[slotPredGrad]), math.Sqrt(sums[slotSIGRegGrad]), math.Sqrt(sums[slotObjGrad])
	z := make([]float64, emb.Len())
	dev.Download64(z, emb)
	for _, v := range z {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return // the step's losses will say so
		}
	}
	h := objective.Measure(z, emb.Cols)
	d.NormMean, d.NormStd, d.Rank = h.NormMean, h.NormStd, h.EffectiveRank
}
