package train

import (
	"math"
	"slices"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/dinov2"
	"scalewm/model/dinowm"
	"scalewm/model/objective"
)

// dinoCase holds data that model/dinowm/testdata/prejepa_small.py wrote: ten steps of
// PyTorch's AdamW on a tiny DINO-WM, whose config.json has this geometry.
const dinoCase = "../dinowm/testdata/reference/prejepa_small_tiny/reference.h5"

var dinoTiny = dinowm.Config{Backbone: dinov2.Config{Width: 12, Layers: 2, Heads: 3, MLP: 24, Patch: 7, Positions: 3, FrameSize: 14},
	ActionEmbedding: 3, PredictorDepth: 2, PredictorHeads: 2, PredictorHeadDim: 5, PredictorMLP: 9, PositionFrames: 4, History: 3, FrameSkip: 5, ActionDim: 2}

// TestDinoWMSteps compares training steps with PyTorch's, on the features of the
// recorded model.
func TestDinoWMSteps(t *testing.T) {
	tree := hdf5test.Open(t, dinoCase)
	single, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	for _, c := range []struct {
		dev         device.Device
		loss, final float64
	}{{ref.New(), 1e-7, 2e-6}, {single, 5e-6, 1e-5}} {
		t.Run(c.dev.Kind().String(), func(t *testing.T) { dinoSteps(t, tree, c.dev, c.loss, c.final) })
	}
}

// A trial's step encodes frames, and its step on features gives the same losses and
// gradients. Neither changes the weights, since the rate of step 0 is 0.
func TestTrialOfFrozenEncoder(t *testing.T) {
	o := Options{Dev: ref.New(), Method: model.MethodOf("dinowm-random"), Model: dinoTiny, Task: Task{Name: "dot"}, Seed: 1,
		Config: Config{Optimiser: Optimiser{Schedule: model.Schedule{Batch: 3, LR: 1e-3}, Clip: 1}, Weights: lossWeights}}
	trial, err := NewTrial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Free()
	var sums [2][]float64
	for i, step := range []func() error{trial.Step, trial.StepOnFeatures} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		sums[i] = trial.t.read()
	}
	if !slices.Equal(sums[0], sums[1]) || !(sums[0][0] > 0) {
		t.Errorf("%v, on features %v", sums[0], sums[1])
	}
}

func dinoSteps(t *testing.T, tree *hdf5test.Tree, dev device.Device, lossBound, finalBound float64) {
	read := func(name string) ([]float64, []int) {
		t.Helper()
		v, shape, err := tree.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return v, shape
	}
	tr, err := newTrainer(Options{Dev: dev, Method: model.MethodOf("dinowm-random"), Model: dinoTiny, Task: Task{Name: "dot"}, Seed: 1,
		Config: Config{Optimiser: Optimiser{Schedule: model.Schedule{Batch: 3, LR: 1e-3}, WeightDecay: 1e-3, WarmUp: .01, Clip: 1}, Weights: lossWeights}}, 400)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.free()
	m := tr.model.(*dinowm.Model)
	for _, p := range m.Params().Params {
		v, _ := read("action_only/weights/" + p.Name)
		dev.Upload64(p.Value, v)
	}
	features, shape := read("action_only/f64/features") // steps, B, T, P, D
	actions, _ := read("input/action")
	losses, _ := read("action_only/f64/by_step/loss")
	rates, _ := read("action_only/f64/by_step/lr")
	norms, _ := read("action_only/f64/by_step/grad_norm")
	rows, width := shape[1]*shape[2], shape[4]
	z, a := device.NewMat(dev, rows*shape[3], width), device.NewMat(dev, rows, 10)
	for n := range losses {
		dev.Upload64(z, features[n*z.Len():][:z.Len()])
		block := slices.Clone(actions[n*a.Len():][:a.Len()])
		for i, v := range block {
			if math.IsNaN(v) {
				block[i] = 0
			}
		}
		dev.Upload64(a, block)
		in := inputs{Batch: model.Batch{B: shape[1], Features: z, Actions: a}}
		for _, term := range tr.terms {
			in.losses = append(in.losses, term.Prepare(objective.Batch{}))
		}
		if got := tr.rate(n); math.Abs(got-rates[n]) > 1e-12 {
			t.Errorf("step %d: rate %g, want %g", n, got, rates[n])
		}
		l, norm := tr.step(n, in, nil)
		for _, v := range []struct {
			name      string
			got, want float64
		}{{"loss", l.Loss, losses[n]}, {"gradient norm", norm, norms[n]}} {
			if math.Abs(v.got-v.want) > 20*lossBound*v.want {
				t.Errorf("step %d: %s %.10g, want %.10g", n, v.name, v.got, v.want)
			}
		}
	}
	for _, p := range m.Params().Params {
		want, _ := read("action_only/f64/final/" + p.Name)
		got := make([]float64, p.Len())
		dev.Download64(got, p.Value)
		for i := range got {
			if math.Abs(got[i]-want[i]) > finalBound {
				t.Errorf("%s[%d] after the steps: %.9g, want %.9g", p.Name, i, got[i], want[i])
				break
			}
		}
	}
}
