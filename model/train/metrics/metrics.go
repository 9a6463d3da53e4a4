// Package metrics is the curve of a training: the rows of its metrics.jsonl,
// which the training writes and reports read. It knows nothing of how the
// numbers come about.
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

// FileName is the file in a training's folder: one Row a line.
const FileName = "metrics.jsonl"

// The two values of Row.Split.
const (
	Train = "train"
	Val   = "val"
)

// Row is a line of the file: a training step, or the validation after it. It holds
// nothing that was measured by a clock, so that equal trainings write equal files.
type Row struct {
	Step  int    `json:"step"` // 0-based optimiser step
	Split string `json:"split"`
	Losses
	LR       float64 `json:"lr,omitempty"`
	GradNorm float64 `json:"grad_norm,omitempty"` // before clipping
	*Diagnostics
}

// Losses are the values of the terms of one step's loss.
type Losses struct {
	Loss   float64 `json:"loss"`
	Pred   float64 `json:"pred"`
	SIGReg float64 `json:"sigreg"`
	// Obj is the method's own term beside these two, unweighted; 0 where it has none.
	Obj float64 `json:"obj"`
	// Skipped is 1 when that term's guard set it to zero.
	Skipped float64 `json:"skipped,omitempty"`
}

// Diagnostics are the numbers that the SCALE authors log every 200 steps.
type Diagnostics struct {
	// Norms of each term's gradient at the latents, its weight included.
	PredGrad   float64 `json:"pred_grad"`
	SIGRegGrad float64 `json:"sigreg_grad"`
	ObjGrad    float64 `json:"obj_grad"`
	NormMean   float64 `json:"z_norm"`
	NormStd    float64 `json:"z_norm_std"`
	Rank       float64 `json:"effective_rank"`
}

// Read reads the rows in the folder of a training. A torn last line, which a
// killed training leaves and its resumption cuts off, is no row.
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

// FinalLoss is the loss of the last training step in a folder; 0 where its metrics are gone.
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

// Log appends rows to the file of a training that can be cut back to a resume point.
type Log struct {
	f *os.File
	n int64 // bytes of all rows
}

// Open opens the file in a folder for appending, cut back to its first n bytes.
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

// Flush brings the rows so far to the disk and returns their bytes, which a
// resume point then counts on.
func (l *Log) Flush() (int64, error) { return l.n, l.f.Sync() }

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }
