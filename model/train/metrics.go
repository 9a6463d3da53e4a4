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

// column returns the field of a metrics row for a term. Prediction and SIGReg have
// columns of their own. Any other term of a method uses the third one.
func column(term string, pred, sigreg, other *float64) *float64 {
	switch term {
	case model.Prediction:
		return pred
	case model.SIGReg:
		return sigreg
	}
	return other
}

// losses extracts the values of the terms from the downloaded trainer.sums.
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

// diagnose fills d with the gradient norm of each term at the latents, and with the
// health of the latents emb, N x D.
func (t *trainer) diagnose(d *metrics.Diagnostics, sums []float64, emb device.Mat) {
	for i, term := range t.terms {
		*column(term.name, &d.PredGrad, &d.SIGRegGrad, &d.ObjGrad) += math.Sqrt(sums[t.gradNorm(i)])
	}
	z := make([]float64, emb.Len())
	t.dev.Download64(z, emb)
	// The eigenvalues of a matrix with NaN are meaningless. If latents are not finite
	// the losses are not either, and checkFinite reports them.
	if !slices.ContainsFunc(z, func(v float64) bool { return !isFinite(v) }) {
		h := objective.Measure(z, emb.Cols)
		d.NormMean, d.NormStd, d.Rank = h.NormMean, h.NormStd, h.EffectiveRank
	}
}

// Clock holds the times in run.json, of the last process that worked on a run. They
// are separate from the metrics, which must be equal for equal runs.
type Clock struct {
	FromStep    int     `json:"from_step"` // first step of the process
	Steps       int     `json:"steps"`     // steps of the process
	Seconds     float64 `json:"seconds"`   // including validation and saving
	MsStep      float64 `json:"ms_step"`   // median time of a step, without validation and saving
	ClipsPerSec float64 `json:"clips_per_second"`
	// LoaderWait is the share of the steps' time that was spent waiting for the loader.
	LoaderWait float64 `json:"loader_wait_share"`
	// Resident means that all frames were on the device from the second step on.
	Resident bool   `json:"frames_on_device"`
	Started  string `json:"started"` // RFC 3339, UTC
}

// newClock summarises a process that began with step from, took the given times per
// step, and waited for its loaders for wait.
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

// clockName is the file in a run's folder that holds its Clock.
const clockName = "run.json"

// ReadClock reads the Clock of a run's folder. The error wraps fs.ErrNotExist if
// there is none.
func ReadClock(folder string) (c Clock, err error) {
	b, err := safefile.Read(filepath.Join(folder, clockName), safefile.MaxRecord)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return Clock{}, fmt.Errorf("reading the times of the training in %s: %w", folder, err)
	}
	return c, nil
}

// write writes the Clock to the folder out.
func (c Clock) write(out string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing run.json: %w", err)
	}
	return safefile.Write(filepath.Join(out, clockName), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}
