// Package metrics defines the learning curve of a run, the file metrics.jsonl in its
// folder: a training writes it with a Log, and reports read it with Read. WriteEvents
// converts it for TensorBoard. The package does not depend on how the numbers are
// computed.
package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"scalewm/dataset/safefile"
)

// FileName is the name of the file in a run's folder. It has one Row per line, in
// JSON.
const FileName = "metrics.jsonl"

// The values of Row.Split.
const (
	Train = "train"
	Val   = "val"
)

// Row is a line of the file: a training step, or the validation after it. It contains
// no times, so that equal runs write equal files.
type Row struct {
	Step  int    `json:"step"` // 0-based optimiser step
	Split string `json:"split"`
	Losses
	LR       float64 `json:"lr,omitempty"`
	GradNorm float64 `json:"grad_norm,omitempty"` // of all parameters, before clipping
	*Diagnostics
}

// Losses holds the values of the terms of one step's loss. Loss is their weighted
// sum, the other values are unweighted.
type Losses struct {
	Loss   float64 `json:"loss"`
	Pred   float64 `json:"pred"`
	SIGReg float64 `json:"sigreg"`
	// Obj is the value of the method's term other than Pred and SIGReg, or 0 if it
	// has none.
	Obj float64 `json:"obj"`
	// Skipped is 1 if the guard of that term set it to zero, and the share of such
	// batches in a validation.
	Skipped float64 `json:"skipped,omitempty"`
}

// Diagnostics are the quantities that the authors of SCALE log every 200 steps
// (docs/sources.md#latent-health).
type Diagnostics struct {
	// L2 norms of each term's gradient with respect to the latents, including its weight.
	PredGrad   float64 `json:"pred_grad"`
	SIGRegGrad float64 `json:"sigreg_grad"`
	ObjGrad    float64 `json:"obj_grad"`
	// Mean and standard deviation of the latents' norms, and their effective rank
	// (objective.Health).
	NormMean float64 `json:"z_norm"`
	NormStd  float64 `json:"z_norm_std"`
	Rank     float64 `json:"effective_rank"`
}

// Read returns the rows in the folder of a run. It ignores an incomplete last line,
// which a killed process may leave.
func Read(folder string) ([]Row, error) {
	f, err := safefile.Open(filepath.Join(folder, FileName), safefile.MaxMetrics)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w (hint: give the folder that train --out wrote)", err)
	}
	defer f.Close()
	rows, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("reading metrics of %s: %w (hint: the file was changed; train again)", folder, err)
	}
	return rows, nil
}

// FinalLoss returns the loss of the last training step in a run's metrics, or 0 if
// they cannot be read.
func FinalLoss(folder string) (loss float64) {
	rows, err := Read(folder)
	if err != nil {
		return 0
	}
	for _, r := range rows {
		if r.Split == Train {
			loss = r.Loss
		}
	}
	return loss
}

// parse reads rows up to the last complete line.
func parse(r io.Reader) (rows []Row, err error) {
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return rows, nil
		}
		var row Row
		if err == nil && len(bytes.TrimSpace(text)) > 0 {
			if err = json.Unmarshal(text, &row); err == nil {
				rows = append(rows, row)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// Log appends rows to the metrics file of a run. Open can truncate the file to the
// length that a resume point recorded.
type Log struct {
	f *os.File
	n int64 // length of the file in bytes
}

// Open opens the file in a folder for appending, after truncating it to its first n
// bytes. Rows beyond that were written after the resume point, and the resumed
// training writes them again.
func Open(folder string, n int64) (*Log, error) {
	path := filepath.Join(folder, FileName)
	if err := safefile.MakeFolder(folder); err != nil {
		return nil, fmt.Errorf("opening metrics: %w", err)
	}
	f, err := safefile.OpenOurs(path, os.O_CREATE)
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
	return &Log{f, n}, nil
}

// Write appends a row.
func (l *Log) Write(r Row) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing metrics of step %d: %w", r.Step, err)
	}
	n, err := l.f.Write(append(b, '\n'))
	l.n += int64(n)
	if err != nil {
		return fmt.Errorf("writing metrics: %w (hint: is the disk full?)", err)
	}
	return nil
}

// Flush syncs the file to disk and returns its length, which a resume point records.
func (l *Log) Flush() (int64, error) { return l.n, l.f.Sync() }

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }
