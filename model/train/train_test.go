package train

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/dataset/tensorfile"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// world is a data set in memory: actions move a dot on a torus, drawn on frames of
// 8 x 8 pixels.
type world struct {
	episodes []dataset.Episode
	pos, act []float64 // (rows, 2)
	nan      int       // row whose action is NaN, or -1
}

const (
	frameSize = 8
	episodes  = 12
	length    = 24
)

func newWorld() *world {
	w := &world{nan: length - 1}
	r := rng.Stream("test-world")
	for e := range episodes {
		w.episodes = append(w.episodes, dataset.Episode{Offset: e * length, Len: length})
		x, y := r.Float64()*frameSize, r.Float64()*frameSize
		for range length {
			ax, ay := r.NormFloat64(), r.NormFloat64()
			w.pos, w.act = append(w.pos, x, y), append(w.act, ax, ay)
			x, y = math.Mod(x+0.3*ax+frameSize, frameSize), math.Mod(y+0.3*ay+frameSize, frameSize)
		}
	}
	return w
}

func (w *world) Rows() int                   { return episodes * length }
func (w *world) Episodes() []dataset.Episode { return w.episodes }
func (w *world) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: "float32", Width: 2}, {Name: "pos", DType: "float64", Width: 2}}
}
func (w *world) Read(column string, from, to int) ([]float64, error) {
	if column == "pos" {
		return w.pos[2*from : 2*to], nil
	}
	v := append([]float64(nil), w.act...)
	if w.nan >= 0 {
		v[2*w.nan] = math.NaN()
	}
	return v[2*from : 2*to], nil
}
func (w *world) FrameSize() int               { return envs.FrameSize }
func (w *world) Size() int                    { return frameSize }
func (w *world) Attr(string) (string, bool)   { return "", false }
func (w *world) Fingerprint() (string, error) { return "0123456789abcdef", nil }
func (w *world) Close() error                 { return nil }
func (w *world) Frame(row int, b []byte) error {
	for i := range b {
		px := i / 3
		dx, dy := float64(px%frameSize)-w.pos[2*row], float64(px/frameSize)-w.pos[2*row+1]
		b[i] = byte(255 * math.Exp(-(dx*dx+dy*dy)/2))
	}
	return nil
}

// lossWeights are the published weights for Push-T (docs/sources.md#loss-weights).
var lossWeights = model.Weights{model.Prediction: {model.Others: 1}, model.SIGReg: {model.Others: 0.09}, model.Correlation: {model.Others: 0.1}, model.Regression: {model.Others: 0.3}}

func options(t *testing.T, method string) Options {
	w := newWorld()
	return Options{
		Dev: ref.New(), Data: w, Frames: func(context.Context) (dataset.FrameReader, func() error, error) {
			return w, func() error { return nil }, nil
		}, Method: model.MethodOf(method), Seed: 3, Protocol: "paper", Out: filepath.Join(t.TempDir(), "run"), Workers: 2,
		Task: Task{Name: "dot", Q: envs.Q{Name: "full", Columns: []string{"pos"}, Parts: []string{"x", "y"},
			Of: func(row envs.Row, dst []float64) { copy(dst, row["pos"]) }}},
		Model: tiny(func(*lewm.Config) {}),
		Config: Config{Optimiser: Optimiser{Schedule: model.Schedule{Batch: 6, Steps: 9, LR: 1e-2}, WeightDecay: 1e-3, WarmUp: 0.01, Clip: 1}, Weights: lossWeights,
			Loss:      Loss{Numbers: objective.Numbers{Directions: 16, Pairs: 32, Correlation: "authors", AuxLoss: "authors"}, Q: "full"},
			Intervals: Intervals{LogEvery: 2, DiagnosticEvery: 4, SaveEvery: 3, EvalEvery: 4, EvalBatches: 2}},
	}
}

// printed is options as in the paper's text (docs/protocol.md#paper-code-and-this-program).
func printed(t *testing.T, method string) Options {
	o := options(t, method)
	o.Model = tiny(func(c *lewm.Config) { c.Projector = 0 })
	o.Config.Adam = true
	o.Config.Numbers = objective.Numbers{Directions: 16, Pairs: 32, Correlation: "paper", AuxLoss: "paper", PredictionSum: true, PooledSIGReg: true, DistinctPairs: true}
	return o
}

// tiny returns the tests' model, modified by change.
func tiny(change func(*lewm.Config)) lewm.Config {
	c := lewm.Config{ImageSize: frameSize, Patch: 4, Width: 8, Layers: 2, Heads: 2, MLP: 12, Dim: 4, Projector: 10, PredictorDepth: 1,
		PredictorHeads: 2, PredictorHeadDim: 3, PredictorMLP: 8, Dropout: 0.1, History: 3, FrameSkip: 2, Smoothed: 3, ActionDim: 2}
	change(&c)
	return c
}

// files returns the files that must be equal for equal trainings.
func files(t *testing.T, out string) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for _, n := range []string{weights.FileName, weights.SidecarName, metrics.FileName} {
		b, err := os.ReadFile(filepath.Join(out, n))
		if err != nil {
			t.Fatal(err)
		}
		m[n] = b
	}
	return m
}

func mustRun(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two equal trainings with different numbers of workers give the same bytes. Another
// seed or method gives different ones.
func TestSameBytes(t *testing.T) {
	first := options(t, "scale")
	mustRun(t, first)
	second := options(t, "scale")
	second.Workers = 1
	mustRun(t, second)
	want := files(t, first.Out)
	for name, b := range files(t, second.Out) {
		if !bytes.Equal(b, want[name]) {
			t.Errorf("%s differs between equal trainings", name)
		}
	}
	other := options(t, "scale")
	other.Seed = 4
	mustRun(t, other)
	if bytes.Equal(files(t, other.Out)[weights.FileName], want[weights.FileName]) {
		t.Error("another seed gave the same weights")
	}
	if _, err := os.Stat(filepath.Join(first.Out, resumeName)); err == nil {
		t.Error("a finished training keeps its resume point")
	}
}

// learners are the methods with a trained encoder.
var learners = model.MethodNames(func(m model.Method) bool { return m.Trained() && m.Family == model.FamilyLeWM })

// A training that is interrupted after any step and resumed ends with the same bytes.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Run("authors", func(t *testing.T) { checkResume(t, options) })
	t.Run("paper", func(t *testing.T) { checkResume(t, printed) })
}

func checkResume(t *testing.T, options func(t *testing.T, method string) Options) {
	for _, method := range learners {
		whole := options(t, method)
		mustRun(t, whole)
		want := files(t, whole.Out)
		for stop := range int64(whole.Config.Steps) {
			o := options(t, method)
			ctx, cancel := context.WithCancel(context.Background())
			o.Progress = func(done, _ int64, _ string) {
				if done > stop {
					cancel()
				}
			}
			_, err := Run(ctx, o)
			cancel()
			if stop < int64(o.Config.Steps)-1 && !errors.Is(err, context.Canceled) {
				t.Fatalf("%s stopped after step %d: %v", method, stop, err)
			}
			o.Progress = nil
			o.Resume = err != nil
			if r := mustRun(t, o); r.Skipped != (err == nil) {
				t.Errorf("%s stopped after step %d: skipped is %t", method, stop, r.Skipped)
			}
			for name, b := range files(t, o.Out) {
				if !bytes.Equal(b, want[name]) {
					t.Errorf("%s stopped after step %d: %s differs", method, stop, name)
				}
			}
		}
	}
}

// On the CPU, in float32 and in bf16, neither the number of threads nor an
// interruption, whose resume point holds float32, changes a byte.
func TestSameBytesOnCPU(t *testing.T) {
	for _, precision := range []device.Precision{device.FP32, device.BF16} {
		run := func(threads int, interrupted bool) map[string][]byte {
			dev, err := cpu.New(cpu.Options{Precision: precision, Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			o := options(t, "aux")
			o.Dev = dev
			if interrupted {
				ctx, cancel := context.WithCancel(context.Background())
				o.Progress = func(done, _ int64, _ string) {
					if done == 5 {
						cancel()
					}
				}
				if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				o.Progress = nil
			}
			mustRun(t, o)
			return files(t, o.Out)
		}
		want := run(1, false)
		for what, got := range map[string]map[string][]byte{"three threads": run(3, false), "an interruption": run(2, true)} {
			for name, b := range got {
				if !bytes.Equal(b, want[name]) {
					t.Errorf("%s: %s differs after %s", precision, name, what)
				}
			}
		}
	}
}

// A killed training leaves metrics beyond its resume point. A resumption truncates them.
func TestResumeAfterKill(t *testing.T) {
	whole := options(t, "lewm")
	mustRun(t, whole)
	o := options(t, "lewm")
	// Simulates a kill: the callback of the sixth step panics, after the save of step 3.
	o.Progress = func(done, _ int64, _ string) {
		if done == 6 {
			panic("killed")
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = Run(context.Background(), o)
	}()
	f, err := tensorfile.Open(filepath.Join(o.Out, resumeName))
	if err != nil || f.Meta["step"] != "3" {
		t.Fatalf("resume point: %v, %v", f, err)
	}
	o.Progress = nil
	mustRun(t, o)
	want := files(t, whole.Out)
	for name, b := range files(t, o.Out) {
		if !bytes.Equal(b, want[name]) {
			t.Errorf("%s differs after a kill", name)
		}
	}
}

// The checkpoint loads and encodes like the trainer's model, and the loss has decreased.
func TestLearnsAndLoads(t *testing.T) {
	o := options(t, "lewm")
	o.Config.Steps, o.Config.EvalEvery, o.Config.LogEvery = 60, 30, 1
	mustRun(t, o)
	rows, err := metrics.Read(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	first, last := rows[0], rows[len(rows)-1]
	if last.Split != "val" || last.Step != 59 || first.LR != 0 {
		t.Errorf("first row %+v, last row %+v", first, last)
	}
	if last.Loss > 0.7*first.Loss {
		t.Errorf("loss went from %g to %g only", first.Loss, last.Loss)
	}
	if first.Diagnostics == nil || first.PredGrad <= 0 || first.SIGRegGrad <= 0 || first.Rank < 1 || first.Rank > 4 {
		t.Errorf("diagnostics of the first row: %+v", first.Diagnostics)
	}
	dev := ref.New()
	m, side, err := model.Load(dev, o.Out, "")
	if err != nil {
		t.Fatal(err)
	}
	if side.Method != "lewm" || side.Step != 60 || len(side.ActionMean) != 2 || !strings.HasPrefix(side.Split, "paper: ") {
		t.Errorf("sidecar %+v", side)
	}
	px := make([]byte, frameSize*frameSize*3)
	frames := dev.AllocBytes(len(px))
	z := device.NewMat(dev, 1, 4)
	m.Encode(z, frames, 1)
	v := make([]float64, 4)
	dev.Download64(v, z)
	for _, x := range v {
		if math.IsNaN(x) || x == 0 {
			t.Errorf("latent %v", v)
		}
	}
}

func TestUntrained(t *testing.T) {
	o := options(t, model.Untrained)
	mustRun(t, o)
	_, side, err := model.Load(ref.New(), o.Out, "")
	if err != nil || side.Step != 0 || side.Method != model.Untrained {
		t.Errorf("sidecar %+v, %v", side, err)
	}
	if r := mustRun(t, o); !r.Skipped {
		t.Error("written twice")
	}
}

func TestRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(o *Options)
		want   string
	}{
		"method":        {func(o *Options) { o.Method = model.MethodOf("dqn") }, `family "dqn"`},
		"no q":          {func(o *Options) { o.Task.Q = envs.Q{} }, "no state q"},
		"no weight":     {func(o *Options) { o.Config.Weights = lossWeights.With(model.Correlation, "dot", 0) }, "weight of scale's correlation for task dot is 0"},
		"too few clips": {func(o *Options) { o.Config.Batch = 5000 }, "training clips"},
		"wrong task":    {func(o *Options) { o.Model = tiny(func(c *lewm.Config) { c.ActionDim = 5 }) }, "actions have"},
		"geometry":      {func(o *Options) { o.Model = tiny(func(c *lewm.Config) { c.Patch = 300 }) }, "larger than image_size"},
		"protocol":      {func(o *Options) { o.Protocol = "loose" }, "no split named"},
		"resume":        {func(o *Options) { o.Resume = true }, "no resume point"},
		"correlation":   {func(o *Options) { o.Config.Correlation = "kendall" }, "correlation"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			o := options(t, "scale")
			c.change(&o)
			_, err := Run(context.Background(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
		})
	}
}

// Run does not resume or overwrite a different run in the folder.
func TestOtherTraining(t *testing.T) {
	o := options(t, "lewm")
	mustRun(t, o)
	o.Seed++
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "another --out") {
		t.Errorf("got %v", err)
	}
}

// Invalid options are an error, and no folder is created.
func TestRefusedLeavesNothing(t *testing.T) {
	o := options(t, "lewm")
	o.Resume = true
	if _, err := Run(context.Background(), o); err == nil {
		t.Fatal("there was nothing to resume")
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused training left its folder: %v", err)
	}
}

// A learning rate so high that the loss overflows.
func TestNotFinite(t *testing.T) {
	o := options(t, "lewm")
	o.Config.LR, o.Config.Clip, o.Config.Steps = 1e30, 0, 30
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "training step") || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, weights.FileName)); err == nil {
		t.Error("a diverged training left weights")
	}
}

// The expected rates are those of docs/sources.md#optimiser: warm-up from 0 over
// max(1, floor(0.01 N)) steps, then a cosine to 0, and the values of the 100-epoch
// schedule on Push-T.
func TestRate(t *testing.T) {
	const epoch, total = 13933, 1393300
	for _, c := range []struct {
		n    int
		want float64
	}{{0, 0}, {epoch, 5e-5}, {5 * epoch, 4.98e-5}, {10 * epoch, 4.90e-5}} {
		if got := rate(5e-5, 0.01, c.n, total); math.Abs(got-c.want) > 5e-8 {
			t.Errorf("step %d: %g, want %g", c.n, got, c.want)
		}
	}
	if got := rate(5e-5, 0.01, 1, 50); math.Abs(got-5e-5) > 1e-9 {
		t.Errorf("a short training warms up in one step: %g", got)
	}
	if got := rate(1, 0.01, 999, 1000); got > 1e-5 {
		t.Errorf("the last step's rate is %g", got)
	}
}

// The expected rates are those of PyTorch 2.15's CosineAnnealingLR with T_max 4 and eta_min
// 1e-5, stepped once per epoch. With a number of steps instead, each is an epoch.
func TestFinalRate(t *testing.T) {
	want := []float64{0.001, 0.000855017856687341, 0.000505, 0.000154982143312659}
	tr := trainer{cfg: Config{Optimiser: Optimiser{Schedule: model.Schedule{LR: 1e-3, Final: .01}, WarmUp: .1}}}
	for epochs, steps := range map[int]int{4: 12, 0: 4} {
		tr.cfg.Epochs, tr.total = epochs, steps
		for n := range steps {
			if got := tr.rate(n); math.Abs(got-want[4*n/steps]) > 1e-15 {
				t.Errorf("step %d of %d: %g, want %g", n, steps, got, want[4*n/steps])
			}
		}
	}
}

// Adam at a constant rate, as in the paper (docs/sources.md#optimiser). In step 1 the
// moments are the gradient g and its square, both corrected, so that a parameter moves
// by lr*g/(|g|+eps). The decay is part of g. AdamW's first step, at rate 0, has the
// gradient without it.
func TestAdam(t *testing.T) {
	o := options(t, "scale")
	o.Config.Clip, o.Config.WeightDecay = 0, 0.25
	step := func(adam bool) (before, after, grad []float64) {
		o.Config.Adam = adam
		trial, err := NewTrial(o)
		if err != nil {
			t.Fatal(err)
		}
		defer trial.Free()
		params := trial.t.model.Params()
		before, after, grad = make([]float64, params.Len()), make([]float64, params.Len()), make([]float64, params.Len())
		o.Dev.Download64(before, params.Value)
		if err := trial.Step(); err != nil {
			t.Fatal(err)
		}
		o.Dev.Download64(after, params.Value)
		o.Dev.Download64(grad, params.Grad)
		for _, n := range []int{0, 1, 500, 999} {
			if r := trial.t.rate(n); adam && r != o.Config.LR {
				t.Errorf("rate %g in step %d", r, n)
			}
		}
		return before, after, grad
	}
	_, _, plain := step(false)
	before, after, grad := step(true)
	for i, w := range before {
		g := plain[i] + 0.25*w
		want := w - o.Config.LR*g/(math.Abs(g)+1e-8)
		if math.Abs(grad[i]-g) > 1e-12 || math.Abs(after[i]-want) > 1e-9 {
			t.Fatalf("parameter %d: gradient %g, want %g; value %g, want %g", i, grad[i], g, after[i], want)
		}
	}
}
