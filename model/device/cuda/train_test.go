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
	"scalewm/model/dinov2"
	"scalewm/model/dinowm"
	"scalewm/model/features"
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

// trainNoise runs a complete training on a machine of the emulated GPU, whose
// overlapping copies arrive as late as possible. It returns the weights, and whether the
// frames were on the device.
func trainNoise(t *testing.T, machine cuda.Machine, method string, m model.Geometry) (weights []byte, resident bool) {
	t.Helper()
	d, err := cuda.New(machine, device.BF16)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data := noise{m.Info().FrameSize}
	o := train.Options{Dev: d, Data: data, Frames: func(context.Context) (dataset.FrameReader, func() error, error) {
		return data, func() error { return nil }, nil
	}, Method: model.MethodOf(method), Seed: 3,
		Protocol: "paper", Out: filepath.Join(t.TempDir(), "run"), Model: m, Task: train.Task{Name: "noise"},
		Config: train.Config{Optimiser: train.Optimiser{Schedule: model.Schedule{Batch: 5, Steps: 3, LR: 1e-3}, Clip: 1}, Weights: model.Weights{model.Prediction: {model.Others: 1}, model.SIGReg: {model.Others: 0.09}, model.Correlation: {model.Others: 0.1}, model.Regression: {model.Others: 0.3}},
			Loss:      train.Loss{Numbers: objective.Numbers{Directions: 16, Pairs: 8, Correlation: "authors", AuxLoss: "authors"}},
			Intervals: train.Intervals{LogEvery: 1, DiagnosticEvery: 4, SaveEvery: 2, EvalEvery: 2, EvalBatches: 1}}}
	if _, none := machine.(noRoom); none { // with room, features are not requested
		o.Features = func(ctx context.Context, frames dataset.FrameReader, w model.World) (train.Features, error) {
			s, _, err := features.Open(ctx, features.Options{Data: data, Frames: frames, Encode: model.NewEncoder(w).Latents, Limit: features.Off,
				Key: features.Key{Patches: m.Info().Patches, Width: m.Info().Dim}})
			return s, err
		}
	}
	if _, err := train.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	run, err := train.ReadClock(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	weights, err = os.ReadFile(filepath.Join(o.Out, "weights.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return weights, run.Resident
}

// Frames that stay on the device and frames that are sent step by step must give the same
// weights.
func TestResidentOrSent(t *testing.T) {
	lib := emulator(t)
	want, resident := trainNoise(t, lib.Machine(1), model.Baseline, small())
	got, sent := trainNoise(t, noRoom{lib.Machine(2)}, model.Baseline, small())
	if !bytes.Equal(got, want) || !resident || sent {
		t.Errorf("frames sent step by step give other weights than frames that stay on the device, or are not sent: %v, %v", resident, sent)
	}
}

// Features of a frozen encoder that each step computes on the device must give the same
// weights as those that pass through the host, as they do on a device without room.
func TestFeaturesOnDevice(t *testing.T) {
	lib := emulator(t)
	m := dinowm.Config{Backbone: dinov2.Config{Width: 16, Layers: 1, Heads: 2, MLP: 24, Patch: 4, Positions: 3, FrameSize: 8}, ActionEmbedding: 3,
		PredictorDepth: 1, PredictorHeads: 2, PredictorHeadDim: 16, PredictorMLP: 24, PositionFrames: 4, History: 3, FrameSkip: 1, ActionDim: 2}.Random()
	got, _ := trainNoise(t, lib.Machine(1), "dinowm-random", m)
	if want, _ := trainNoise(t, noRoom{lib.Machine(2)}, "dinowm-random", m); !bytes.Equal(got, want) {
		t.Error("features computed on the device give other weights than those that pass through the host")
	}
}
