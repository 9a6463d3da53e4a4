package cuda_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/objective"
	"scalewm/model/train"
)

// noise is a data set of random frames and actions, two episodes of 16 rows.
type noise struct{ size int }

const noiseRows = 32

func (noise) Rows() int { return noiseRows }
func (noise) Episodes() (list []dataset.Episode) {
	for at := 0; at < noiseRows; at += 16 {
		list = append(list, dataset.Episode{Offset: at, Len: 16})
	}
	return list
}
func (noise) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: "float32", Width: 2}}
}
func (noise) Read(_ string, from, to int) (v []float64, err error) {
	for i := 2 * from; i < 2*to; i++ {
		v = append(v, float64(rng.Philox(3, uint64(i))[0])/(1<<32))
	}
	return v, nil
}
func (noise) FrameSize() int               { return envs.FrameSize }
func (n noise) Size() int                  { return n.size }
func (noise) Attr(string) (string, bool)   { return "", false }
func (noise) Fingerprint() (string, error) { return "0123456789abcdef", nil }
func (noise) Close() error                 { return nil }
func (noise) Frame(row int, dst []byte) error {
	for i := range dst {
		dst[i] = byte(rng.Philox(uint64(row), uint64(i))[0])
	}
	return nil
}

// noRoom is a machine that reports no room for frames, so little that the pool's free
// memory does not help.
type noRoom struct{ cuda.Machine }

func (noRoom) FreeBytes() (int, error) { return -1 << 40, nil }

// TestResidentOrSent runs complete trainings on the emulated GPU, whose overlapping
// copies arrive as late as possible. Frames that stay on the device and frames that are
// sent step by step must give the same weights.
func TestResidentOrSent(t *testing.T) {
	lib, data := emulator(t), noise{small().ImageSize}
	weights := func(m cuda.Machine) []byte {
		d, err := cuda.New(m, device.BF16)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		o := train.Options{Dev: d, Data: data, Frames: func(context.Context) (dataset.FrameReader, func() error, error) {
			return data, func() error { return nil }, nil
		}, Method: model.MethodOf(model.Baseline), Seed: 3,
			Protocol: "paper", Out: filepath.Join(t.TempDir(), "run"), Model: small(), Task: train.Task{Name: "noise"},
			Config: train.Config{Optimiser: train.Optimiser{Schedule: model.Schedule{Batch: 5, Steps: 3, LR: 1e-3}, Clip: 1}, Weights: model.Weights{model.Prediction: {model.Others: 1}, model.SIGReg: {model.Others: 0.09}, model.Correlation: {model.Others: 0.1}, model.Regression: {model.Others: 0.3}},
				Loss:      train.Loss{Numbers: objective.Numbers{Directions: 16, Pairs: 8, Correlation: "authors", AuxLoss: "authors"}},
				Intervals: train.Intervals{LogEvery: 1, DiagnosticEvery: 4, SaveEvery: 2, EvalEvery: 2, EvalBatches: 1}}}
		if _, err := train.Run(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		run, err := os.ReadFile(filepath.Join(o.Out, "run.json"))
		_, sent := m.(noRoom)
		if err != nil || bytes.Contains(run, []byte(`"frames_on_device": true`)) == sent {
			t.Errorf("%v, run.json %s", err, run)
		}
		b, err := os.ReadFile(filepath.Join(o.Out, "weights.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := weights(lib.Machine(1))
	if !bytes.Equal(weights(noRoom{lib.Machine(2)}), want) {
		t.Error("frames sent step by step give other weights than frames that stay on the device")
	}
}
