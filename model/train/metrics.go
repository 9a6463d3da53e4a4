package train

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"scalewm/dataset/safefile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
)

// column is where a row of metrics keeps a term's number: prediction and SIGReg
// have columns of their own, what a method has besides shares one.
func column(term string, pred, sigreg, own *float64) *float64 {
	switch term {
	case model.Prediction:
		return pred
	case model.SIGReg:
		return sigreg
	}
	return own
}

// losses are the terms' values among a step's sums.
func (t *trainer) losses(sums []float64) (l metrics.Losses) {
	for i, term := range t.terms {
		v := sums[t.result(i)]
		if term.Scale != 0 {
			v *= term.Scale
		}
		*column(term.name, &l.Pred, &l.SIGReg, &l.Obj) += v
		l.Skipped += sums[t.result(i)+1]
		l.Loss += term.weight * v
	}
	return l
}

// diagnose fills in what the latents and the terms' gradients at them are like.
func (t *trainer) diagnose(d *metrics.Diagnostics, sums []float64, emb device.Mat) {
	for i, term := range t.terms {
		*column(term.name, &d.PredGrad, &d.SIGRegGrad, &d.ObjGrad) += math.Sqrt(sums[t.gradNorm(i)])
	}
	z := make([]float64, emb.Len())
	t.dev.Download64(z, emb)
	if !slices.ContainsFunc(z, func(v float64) bool { return !isFinite(v) }) { // else the losses will say so
		h := objective.Measure(z, emb.Cols)
		d.NormMean, d.NormStd, d.Rank = h.NormMean, h.NormStd, h.EffectiveRank
	}
}

// Clock is what run.json says of the last process that worked on a training.
type Clock struct {
	FromStep    int     `json:"from_step"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`
	MsStep      float64 `json:"ms_step"` // median, without validation and saving
	ClipsPerSec float64 `json:"clips_per_second"`
	LoaderWait  float64 `json:"loader_wait_share"`
	Resident    bool    `json:"frames_on_device"` // all of them, from the second step on
	Started     string  `json:"started"`
}

func newClock(from int, began time.Time, steps []time.Duration, wait time.Duration, batch int) Clock {
	c := Clock{FromStep: from, Steps: len(steps), Seconds: time.Since(began).Seconds(), Started: began.UTC().Format(time.RFC3339)}
	if len(steps) == 0 {
		return c
	}
	var sum time.Duration
	for _, d := range steps {
		sum += d
	}
	sorted := slices.Sorted(slices.Values(steps))
	c.MsStep = float64(sorted[len(sorted)/2].Microseconds()) / 1000
	c.ClipsPerSec = float64(batch*len(steps)) / c.Seconds
	c.LoaderWait = wait.Seconds() / sum.Seconds()
	return c
}

const clockName = "run.json"

// ReadClock reads that of a training's folder, fs.ErrNotExist where there is none.
func ReadClock(folder string) (c Clock, err error) {
	b, err := safefile.Read(filepath.Join(folder, clockName), safefile.MaxRecord)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return Clock{}, fmt.Errorf("reading what a clock measured of the training in %s: %w", folder, err)
	}
	return c, nil
}

// write keeps the clock beside the checkpoint.
func (c Clock) write(out string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing run.json: %w", err)
	}
	return safefile.Write(filepath.Join(out, clockName), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}
