package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
	"scalewm/model/nn"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// TestReference compares a few training steps with the reference implementation in
// PyTorch: the case in testdata/reference (written by testdata/lewm_small.py) and
// those in SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	open := func(p device.Precision) device.Device {
		dev, err := cpu.New(cpu.Options{Precision: p, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	eachSmall(t, []tried{{ref.New(), refBounds}, {open(device.FP32), singleBounds}, {open(device.BF16), bf16Bounds}})
}

// tried is a device and its tolerances.
type tried struct {
	dev device.Device
	b   bounds
}

func eachSmall(t *testing.T, devices []tried) {
	for _, dir := range []string{"testdata/reference", os.Getenv("SCALEWM_REFERENCE_DIR")} {
		if dir == "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(dir, "lewm_small*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) { checkSmall(t, path, devices) })
		}
	}
}

// bounds are the tolerances for a device (docs/sources.md#reference-tolerances).
type bounds struct {
	first, loss, hotLoss, norm, hotNorm, final, hotFinal, bn float64
	grad                                                     gradBounds
}

// gradBounds are tolerances for the gradients of a step: the relative L2 error of each
// tensor, the median of these errors, and the relative L2 error of all tensors together.
type gradBounds struct{ each, median, whole float64 }

func sameFor(v float64) gradBounds { return gradBounds{v, v, v} }

var singleBounds = bounds{first: 3e-5, loss: 5e-6, hotLoss: 2e-5, norm: 1e-4, hotNorm: 1e-4, final: 1e-5, hotFinal: 3e-5, bn: 3e-6, grad: sameFor(1e-4)}

var bf16Bounds = bounds{first: 0.1, loss: 0.05, hotLoss: 0.05, norm: 5e-2, hotNorm: 1.2e-1, final: 0.05, hotFinal: 0.05, bn: 0.1}

// bf16Gradients returns the tolerances for gradients in bf16, which are errors divided by
// those of PyTorch's autocast if the case has these. In models narrower than published
// ones sums are shorter, so that errors are larger, and tensors have few elements, so that
// one batch says little about an error.
func bf16Gradients(autocast bool, width int) gradBounds {
	switch narrow := width < 64; {
	case autocast && narrow:
		return gradBounds{3, 1, math.Inf(1)}
	case autocast:
		return gradBounds{1.5, 1, math.Inf(1)}
	case narrow:
		return gradBounds{5e-1, 1.75e-1, 2.25e-1}
	}
	return gradBounds{1e-1, 3.5e-2, 4.5e-2}
}

// refBounds are the tolerances in float64 if the recorded inputs are float32 numbers,
// narrowBounds those if a batch rounds its inputs to float32.
var (
	refBounds    = bounds{first: 1e-9, loss: 1e-9, hotLoss: 1e-9, norm: 1e-6, hotNorm: 1e-6, final: 1e-6, hotFinal: 1e-6, bn: 1e-9, grad: sameFor(1e-6)}
	narrowBounds = bounds{first: 3e-6, loss: 1e-6, hotLoss: 1e-6, norm: 1e-5, hotNorm: 1e-5, final: 1e-6, hotFinal: 3e-6, bn: 3e-7, grad: sameFor(1e-5)}
	// pixelBounds are for files in which the reference implementation normalised the
	// pixels in float32, which such files contain. The device normalises in its own
	// precision.
	pixelBounds = bounds{first: 3e-6, loss: 3e-6, hotLoss: 3e-6, norm: 1e-5, hotNorm: 1e-5, final: 3e-6, hotFinal: 3e-6, bn: 3e-6, grad: sameFor(1e-5)}
)

func normalised(name string) bool { return strings.HasPrefix(name, "input/pixels_normalised_") }

func checkSmall(t *testing.T, path string, devices []tried) {
	tree := hdf5test.Open(t, filepath.Join(path, "reference.h5"))
	for _, group := range []string{"lewm", "scale", "aux", "lewm_hot"} {
		for _, c := range devices {
			t.Run(fmt.Sprintf("%s/%s/%s", group, c.dev.Kind().Backend, c.dev.Kind().Precision), func(t *testing.T) {
				s := &smallCase{T: t, tree: tree, group: group, dev: c.dev, bounds: c.b}
				s.geometry(filepath.Join(path, "config.json"))
				if c.dev.Kind().Precision == device.FP64 && !(s.isSingle("action") && s.isSingle("q")) {
					s.bounds = narrowBounds
				}
				if c.dev.Kind().Precision == device.FP64 && slices.ContainsFunc(tree.Names(), normalised) {
					s.bounds = pixelBounds
				}
				if c.dev.Kind().Precision == device.BF16 {
					s.autocast = autocastOf(t, path, group)
					s.grad = bf16Gradients(s.autocast != nil, s.model.Width)
				}
				s.firstForward()
				s.steps()
			})
		}
	}
}

// smallCase is a group of a file, tested on one device.
type smallCase struct {
	*testing.T
	bounds
	tree  *hdf5test.Tree
	group string
	dev   device.Device
	// autocast has the relative error of each tensor's gradient under PyTorch's autocast;
	// nil without autocast.json.
	autocast map[string]float64
	model    lewm.Config
	b, n     int // clips per batch, recorded steps
	pairs    int
	dq       int
}

// autocastOf reads the yardstick of a case: for each tensor, the root mean square over
// batches of the relative L2 error that PyTorch's autocast to bf16 makes in its gradient
// (testdata/lewm_small.py). It returns nil if the case has none.
func autocastOf(t *testing.T, path, group string) map[string]float64 {
	b, err := os.ReadFile(filepath.Join(path, "autocast.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var methods map[string]struct {
		GradRMS map[string]float64 `json:"grad_rms"`
	}
	if err == nil {
		err = json.Unmarshal(b, &methods)
	}
	// Groups of one method differ in the learning rate, which the first gradient does not depend on.
	method, _, _ := strings.Cut(group, "_")
	if err != nil || len(methods[method].GradRMS) == 0 {
		t.Fatalf("%s/autocast.json has no errors of %s: %v", path, method, err)
	}
	return methods[method].GradRMS
}

// read returns an array of the file. A tensor is found by its name in version 4 or 5 of
// transformers.
func (s *smallCase) read(name string) ([]float64, []int) {
	s.Helper()
	if !s.tree.Has(name) {
		name = weights.Transformers5(name)
	}
	v, shape, err := s.tree.Read(name)
	if err != nil {
		s.Fatal(err)
	}
	return v, shape
}

func (s *smallCase) attr(name string) float64 {
	s.Helper()
	v, _, err := s.tree.Attr(s.group+"/f64", name)
	if err != nil {
		s.Fatal(err)
	}
	return v
}

func (s *smallCase) shape(name string) []int { _, shape := s.read("weights/" + name); return shape }

// count returns the number of layers whose tensors are named prefix + index.
func (s *smallCase) count(prefix, tensor string) int {
	n := 0
	for {
		name := fmt.Sprintf("weights/%s%d.%s", prefix, n, tensor)
		if !s.tree.Has(name) && !s.tree.Has(weights.Transformers5(name)) {
			return n
		}
		n++
	}
}

// vitHeads maps the sizes that a config may name to Hugging Face's numbers of heads.
var vitHeads = map[string]int{"tiny": 3, "small": 6, "base": 12, "large": 16}

// geometry reads widths from the tensors and heads from the config.
func (s *smallCase) geometry(config string) {
	b, err := os.ReadFile(config)
	if err != nil {
		s.Fatal(err)
	}
	var c struct {
		Encoder struct {
			Size  string `json:"size"`
			Heads int    `json:"num_attention_heads"`
		} `json:"encoder"`
		Predictor struct {
			Heads   int `json:"heads"`
			HeadDim int `json:"dim_head"`
		} `json:"predictor"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		s.Fatal(err)
	}
	if c.Encoder.Heads == 0 {
		c.Encoder.Heads = vitHeads[c.Encoder.Size]
	}
	if c.Predictor.HeadDim == 0 {
		c.Predictor.HeadDim = 64
	}
	_, px := s.read("input/pixels")
	_, act := s.read("input/action")
	_, q := s.read("input/q")
	_, pairs := s.read("input/pairs")
	s.n, s.b, s.dq, s.pairs = px[0], px[1], q[3], pairs[2]
	patch := s.shape("encoder.embeddings.patch_embeddings.projection.weight")
	layer := "encoder.encoder.layer."
	block := "predictor.transformer.layers."
	s.model = lewm.Config{ImageSize: px[3], Patch: patch[2], Width: patch[0], Layers: s.count(layer, "intermediate.dense.bias"),
		Heads: c.Encoder.Heads, MLP: s.shape(layer + "0.intermediate.dense.bias")[0],
		Dim: s.shape("projector.net.3.bias")[0], Projector: s.shape("projector.net.0.bias")[0],
		PredictorDepth: s.count(block, "mlp.net.1.bias"), PredictorHeads: c.Predictor.Heads, PredictorHeadDim: c.Predictor.HeadDim,
		PredictorMLP: s.shape(block + "0.mlp.net.1.bias")[0], History: s.shape("predictor.pos_embedding")[1],
		PredictorWidth: s.shape("predictor.transformer.norm.weight")[0], PredProjector: s.shape("pred_proj.net.0.bias")[0],
		PredictorOut: s.shape("pred_proj.net.0.weight")[1], ActionScale: s.shape("action_encoder.embed.0.bias")[0] / s.shape("projector.net.3.bias")[0],
		FrameSkip: 1, ActionDim: act[3], Smoothed: s.shape("action_encoder.patch_embed.bias")[0]}
}

func (s *smallCase) trainer() *trainer {
	s.Helper()
	method, _, _ := strings.Cut(s.group, "_")
	o := Options{Dev: s.dev, Method: model.MethodOf(method), Model: s.model,
		Task: Task{Name: "case", Q: envs.Q{Name: "full", Parts: make([]string, s.dq)}},
		Config: Config{Optimiser: Optimiser{Schedule: model.Schedule{Batch: s.b, LR: s.attr("lr")}, WeightDecay: 1e-3, WarmUp: 0.01, Clip: 1}, Weights: lossWeights,
			Loss: Loss{Numbers: objective.Numbers{Pairs: s.pairs, Correlation: "authors", AuxLoss: "authors", AuxHidden: s.shape("aux_head.net.0.bias")[0]}}}}
	t, err := newTrainer(o, int(s.attr("total_steps")))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(t.free)
	for _, p := range append(t.model.Params().Params, t.model.Params().Buffers...) {
		v, _ := s.read("weights/" + p.Name)
		s.dev.Upload64(p.Value, v)
	}
	return t
}

// slice returns step n of an array whose first axis is the step.
func (s *smallCase) slice(name string, n int) []float64 {
	v, shape := s.read("input/" + name)
	each := len(v) / shape[0]
	return v[n*each : (n+1)*each]
}

// isSingle reports whether all numbers of an input are representable in float32.
func (s *smallCase) isSingle(name string) bool {
	v, _ := s.read("input/" + name)
	for _, x := range v {
		if x == x && float64(float32(x)) != x {
			return false
		}
	}
	return true
}

func singles(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		if x == x { // NaN actions become 0
			out[i] = float32(x)
		}
	}
	return out
}

// batch returns step n of the file, with the recorded pairs and directions instead of
// random ones.
func (s *smallCase) batch(t *trainer, n int) inputs {
	b := &dataset.Batch{Step: n, Clips: make([]dataset.Clip, s.b), Episode: make([]int32, s.b), Actions: singles(s.slice("action", n)), Q: singles(s.slice("q", n))}
	for _, v := range s.slice("pixels", n) {
		b.Pixels = append(b.Pixels, byte(v))
	}
	var recorded []int32
	for _, v := range s.slice("pairs", n) {
		recorded = append(recorded, int32(v))
	}
	raw := s.slice("sigreg_directions_raw", n)
	px := s.dev.AllocBytes(len(b.Pixels))
	s.dev.UploadBytes(px, b.Pixels)
	in := t.inputs(b, model.Batch{B: s.b, Pixels: px}, metrics.Train, n)
	directions := device.NewMat(s.dev, s.model.Dim, len(raw)/s.model.Dim)
	s.dev.Upload64(directions, raw)
	pairs := device.NewInts(s.dev, recorded)
	for i, term := range t.terms {
		switch term.name {
		case model.SIGReg:
			in.losses[i] = func(p *nn.Pass, result device.Mat, g objective.Gradients, out model.Output) {
				objective.SIGReg(p, result.Columns(0, 1), g.Emb, out.Emb, directions, t.info.ClipFrames(), term.weight)
			}
		case model.Correlation:
			q := t.q.RowRange(0, len(b.Q)/s.dq)
			in.losses[i] = func(p *nn.Pass, result device.Mat, g objective.Gradients, out model.Output) {
				objective.Correlation(p, result, g.Emb, out.Emb, q, pairs, device.Authors, term.weight)
			}
		}
	}
	return in
}

func (s *smallCase) firstForward() {
	s.Helper()
	t := s.trainer()
	in := s.batch(t, 0)
	p := &nn.Pass{Dev: s.dev, Arena: t.arena, Train: true}
	out := t.model.Forward(p, in.Batch)
	for name, m := range map[string]device.Mat{"emb": out.Emb, "act_emb": out.Act, "pred": out.Pred} {
		s.close("first_forward/"+name, s.download(m), s.first)
	}
	for _, p := range t.model.Params().Buffers {
		s.close("bn_after_first_forward/"+p.Name, s.download(p.Value), s.bn)
	}
}

func (s *smallCase) download(m device.Mat) []float64 {
	v := make([]float64, m.Len())
	s.dev.Download64(v, m)
	return v
}

// close compares values with an array of the file, by absolute difference.
func (s *smallCase) close(name string, got []float64, tol float64) {
	s.Helper()
	want, _ := s.read(s.group + "/f64/" + name)
	worst := 0.0
	for i := range want {
		if d := math.Abs(got[i] - want[i]); d > worst || math.IsNaN(d) {
			worst = d
		}
	}
	if len(got) != len(want) || !(worst <= tol) {
		s.Errorf("%s: off by %g, allowed %g", name, worst, tol)
	}
}

// zeroGradient reports whether a tensor's exact gradient is zero, so that Adam in
// float32 changes it by noise (docs/sources.md#zero-gradients). The running mean of a
// BatchNorm after it has the same noise.
func zeroGradient(name string) bool {
	return strings.HasSuffix(name, "attention.attention.key.bias") || name == "encoder.layernorm.bias" ||
		name == "predictor.transformer.norm.bias" || name == "predictor.transformer.output_proj.bias" || name == "projector.net.0.bias" || name == "pred_proj.net.0.bias" ||
		strings.HasSuffix(name, "running_mean")
}

func (s *smallCase) steps() {
	s.Helper()
	t := s.trainer()
	loss, gradNorm, final := s.loss, s.norm, s.bounds.final
	if s.group == "lewm_hot" {
		loss, gradNorm, final = s.hotLoss, s.hotNorm, s.hotFinal
	}
	sumLR := 0.0
	for n := range s.n {
		in := s.batch(t, n)
		l, norm := t.step(n, in, nil)
		sumLR += t.rate(n)
		for name, got := range map[string]float64{"loss": l.Loss, "pred_loss": l.Pred, "sigreg_loss": l.SIGReg,
			map[string]string{"scale": "obj_loss", "aux": "aux_loss"}[t.method]: l.Obj, "lr": t.rate(n)} {
			if name != "" {
				s.relative(fmt.Sprintf("by_step/%s", name), n, got, loss)
			}
		}
		s.relative("by_step/grad_norm", n, norm, gradNorm)
		if n == 0 {
			s.gradients(t.model.Params().Params, norm)
		}
	}
	for _, p := range append(t.model.Params().Params, t.model.Params().Buffers...) {
		tol := final
		if zeroGradient(p.Name) {
			tol += 2 * sumLR
		}
		if strings.HasSuffix(p.Name, "running_var") || strings.HasSuffix(p.Name, "running_mean") {
			tol += s.bn
		}
		s.close("final/"+p.Name, s.download(p.Value), tol)
	}
}

func (s *smallCase) relative(name string, n int, got, tol float64) {
	s.Helper()
	want, _ := s.read(s.group + "/f64/" + name)
	if !(math.Abs(got-want[n]) <= tol*math.Abs(want[n])) {
		s.Errorf("%s of step %d: %.12g, want %.12g", name, n, got, want[n])
	}
}

// gradients compares gradients in relative L2 norm, or in units of autocast's error. If a
// gradient is exactly zero by its formula, its error is relative to the norm of the
// gradient of all parameters, and does not count in the median.
func (s *smallCase) gradients(params []*nn.Param, norm float64) {
	s.Helper()
	unit := ""
	if s.autocast != nil {
		unit = " times autocast's error"
	}
	var relative []float64
	var all, size float64
	for _, p := range params {
		want, _ := s.read(s.group + "/f64/grad_step0/" + p.Name)
		var d, w float64
		for i, v := range s.download(p.Grad) {
			d += (v - want[i]) * (v - want[i])
			w += want[i] * want[i]
		}
		all, size = all+d, size+w
		if zeroGradient(p.Name) {
			if !(math.Sqrt(d) <= min(s.grad.each, 5e-2)*norm) {
				s.Errorf("gradient of %s: %g instead of 0, where that of all parameters is %g", p.Name, math.Sqrt(d), norm)
			}
			continue
		}
		e := math.Sqrt(d / w)
		if s.autocast != nil {
			rms, ok := s.autocast[p.Name]
			if !ok {
				rms = s.autocast[weights.Transformers5(p.Name)]
			}
			if !(rms > 0) {
				s.Errorf("autocast.json has no error of %s", p.Name)
			}
			e /= rms
		}
		if !(e <= s.grad.each) {
			s.Errorf("gradient of %s: off by %.3g%s, allowed %g", p.Name, e, unit, s.grad.each)
		}
		relative = append(relative, e)
	}
	slices.Sort(relative)
	if m := relative[len(relative)/2]; !(m <= s.grad.median) {
		s.Errorf("the median error of a gradient is %.3g%s, allowed %g", m, unit, s.grad.median)
	}
	if e := math.Sqrt(all / size); !(e <= s.grad.whole) {
		s.Errorf("gradient of all parameters: off by %.3g, allowed %g", e, s.grad.whole)
	}
	if s.dev.Kind().Precision == device.BF16 {
		s.Logf("errors of gradients%s: median %.3g, worst %.3g; of all parameters: %.3g", unit, relative[len(relative)/2], relative[len(relative)-1], math.Sqrt(all/size))
	}
}
