package train

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"scalewm/model/device"
	"scalewm/model/objective"
)

// MetricsName is the file of a training's curve: one Row a line.
const MetricsName = "metrics.jsonl"

// Row is a line of metrics: a training step, or a validation after it. It holds
// nothing that was measured by a clock, so that equal trainings write equal files.
type Row struct {
	Step  int    `json:"step"`  // 0-based optimiser step
	Split string `json:"split"` // train or val
	Losses
	LR       float64 `json:"lr,omitempty"`
	GradNorm float64 `json:"grad_norm,omitempty"` // before clipping
	*Diagnostics
}

// Diagnostics are the numbers the SCALE authors log every 200 steps.
type Diagnostics struct {
	// Norms of each term's gradient at the latents, its weight included.
	PredGrad   float64 `json:"pred_grad"`
	SIGRegGrad float64 `json:"sigreg_grad"`
	ObjGrad    float64 `json:"obj_grad"`
	NormMean   float64 `json:"z_norm"`
	NormStd    float64 `json:"z_norm_std"`
	Rank       float64 `json:"effective_rank"`
}

func (d *Diagnostics) fill(dev device.Device, emb device.Mat, sums []float64) {
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

// metrics appends rows to a file that a resume point can cut back.
type metrics struct {
	f *os.File
	n int64
}

// openMetrics opens the metrics of out, cut back to their first n bytes.
func openMetrics(out string, n int64) (*metrics, error) {
	path := filepath.Join(out, MetricsName)
	if err := os.MkdirAll(out, 0o777); err != nil {
		return nil, fmt.Errorf("opening metrics: %w (hint: choose another --out)", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("opening metrics: %w (hint: choose another --out)", err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() < n {
		err = fmt.Errorf("%s has %d bytes, the resume point was written after %d (hint: delete the folder and train again)", path, st.Size(), n)
	}
	if err == nil {
		err = f.Truncate(n)
	}
	if err == nil {
		_, err = f.Seek(n, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("opening metrics: %w", err)
	}
	return &metrics{f, n}, nil
}

func (m *metrics) write(r Row) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing metrics of step %d: %w", r.Step, err)
	}
	n, err := m.f.Write(append(b, '\n'))
	m.n += int64(n)
	if err != nil {
		return fmt.Errorf("writing metrics: %w (hint: is the disk full?)", err)
	}
	return nil
}

// flush makes the rows so far safe before a resume point counts on them.
func (m *metrics) flush() (int64, error) { return m.n, m.f.Sync() }

func (m *metrics) close() error { return m.f.Close() }

// ReadMetrics reads the curve of a training's folder.
func ReadMetrics(out string) ([]Row, error) {
	f, err := os.Open(filepath.Join(out, MetricsName))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w (hint: give the folder that train --out wrote)", err)
	}
	defer f.Close()
	return parseMetrics(f)
}

func parseMetrics(r io.Reader) ([]Row, error) {
	var rows []Row
	d := json.NewDecoder(r)
	for {
		var row Row
		if err := d.Decode(&row); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading metrics, row %d: %w (hint: resume the training, which cuts a torn row off)", len(rows), err)
		}
		rows = append(rows, row)
	}
}
