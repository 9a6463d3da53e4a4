package train

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/devicetest"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
	"scalewm/model/objective"
	"scalewm/model/train/metrics"
	"scalewm/model/train/testdata/line"
	"scalewm/model/weights"
)

// TestNewMethodAndFamily follows the instructions "a new method" of
// docs/architecture.md: an entry in the table of methods, with a loss term that is
// new too. Here the term pulls the latents to zero, and the family is also new.
func TestNewMethodAndFamily(t *testing.T) {
	const shrink = "shrink"
	objective.Terms[shrink] = func(s objective.Setting) objective.Term {
		return objective.Term{Prepare: func(objective.Batch) objective.Loss {
			return func(p *nn.Pass, result device.Mat, g objective.Gradients, out model.Output) {
				zero := p.Zero(out.Emb.Rows, out.Emb.Cols)
				p.Dev.MSE(result.Columns(0, 1), g.Emb, device.Mat{}, out.Emb, zero, s.Weight)
			}
		}}
	}
	defer delete(objective.Terms, shrink)
	prediction := model.Term{Name: model.Prediction}

	// With an existing family, only the list of terms is new.
	small := options(t, model.Baseline)
	small.Method = model.Method{Name: "small", Family: model.FamilyLeWM, Terms: []model.Term{prediction, {Name: shrink}}}
	small.Config.Weights = lossWeights.With(shrink, model.Others, 2).With(shrink, "dot", 0.5)
	mustRun(t, small)
	rows, err := metrics.Read(small.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows { // up to rounding: the loss and its parts are each rounded once
		if want := r.Pred + 0.5*r.Obj; r.SIGReg != 0 || r.Obj <= 0 || r.Loss-want > 1e-12 || want-r.Loss > 1e-12 {
			t.Errorf("row %+v", r)
		}
		if d := r.Diagnostics; d != nil && (d.ObjGrad <= 0 || d.SIGRegGrad != 0) {
			t.Errorf("diagnostics %+v", d)
		}
	}
	if w, side, err := model.Load(ref.New(), small.Out, ""); err != nil || side.Method != "small" || w.Info().Dim != 4 {
		t.Errorf("%+v, %v", side, err)
	}

	// With a new family, whose encoder is a constant matrix.
	o := options(t, model.Baseline)
	o.Method = model.Method{Name: "lines", Family: "line", Terms: []model.Term{prediction, {Name: model.Correlation, UsesQ: true}}}
	o.Model, o.Config.Steps = line.Config{FrameSize: frameSize, Dim: 3, FrameSkip: 1, ActionDim: 2}, 40
	mustRun(t, o)
	if rows, err = metrics.Read(o.Out); err != nil {
		t.Fatal(err)
	}
	if first, last := rows[0], rows[len(rows)-1]; !(last.Pred < 0.9*first.Pred) || first.Obj <= 0 {
		t.Errorf("the predictor learns nothing: from %+v to %+v", first.Losses, last.Losses)
	}
	w, side, err := model.Load(ref.New(), o.Out, "")
	if err != nil || side.Kind != "line" || string(side.Config) == "" {
		t.Fatalf("%+v, %v", side, err)
	}
	dev := w.Device()
	if got := w.(*line.Model).Move.Value; got.Len() != 6 {
		t.Errorf("a predictor of %d numbers", got.Len())
	}
	z := device.NewMat(dev, 1, 3)
	w.Encode(z, dev.AllocBytes(w.Info().FrameBytes()), 1)
	w.Free()

	// A kind that is not registered, and a method with the geometry of another family.
	other := *side
	other.Kind = "cube"
	if err := weights.Save(filepath.Join(o.Out, weights.FileName), nil, &other); err != nil {
		t.Fatal(err)
	}
	if _, _, err := model.Load(ref.New(), o.Out, ""); err == nil || !strings.Contains(err.Error(), `kind "cube" (hint: this program knows `) {
		t.Errorf("an unknown kind: %v", err)
	}
	o.Method.Family = model.FamilyLeWM
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), `a geometry of family "line" (hint: `) {
		t.Errorf("another family's geometry: %v", err)
	}
}

// counted is a backend that delegates to another one and counts the GEMMs.
type counted struct {
	device.Device
	products int
}

func (d *counted) Kind() device.Kind {
	return device.Kind{Backend: "counted", ISA: "plain", Precision: device.FP64}
}

func (d *counted) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	d.products++
	d.Device.Gemm(op, dst, a, b, ep)
}

// TestNewBackend follows the instructions "a new backend" of docs/architecture.md: a
// backend that passes devicetest trains and loads models, and only its Kind
// identifies it.
func TestNewBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	devicetest.Run(t, func(*testing.T, int) device.Device { return &counted{Device: ref.New()} })
	want := options(t, model.Baseline)
	mustRun(t, want)
	got, dev := options(t, model.Baseline), &counted{Device: ref.New()}
	got.Dev = dev
	mustRun(t, got)
	if dev.products == 0 || !bytes.Equal(readFile(t, got.Out, weights.FileName), readFile(t, want.Out, weights.FileName)) {
		t.Errorf("%d products; the weights differ from those of the backend below", dev.products)
	}
	w, side, err := model.Load(dev, got.Out, "")
	if err != nil || side.Device != "counted/plain/fp64" {
		t.Fatalf("%+v, %v", side, err)
	}
	w.Free()
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A sidecar has the weights of the preset in the layout of configJSON, without those in
// impliedWeights, so that the ids of existing runs stay the same.
func TestWeightsInJSON(t *testing.T) {
	c := Config{Weights: lossWeights.With(model.Correlation, "reacher", .15)}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"sigreg":0.09`, `"scale_weight":{"reacher":0.15}`, `"aux_weight":{"others":0.3}`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	for _, key := range []string{`"Weights"`, `"weights"`, `"prediction"`} {
		if strings.Contains(string(text), key) {
			t.Errorf("%s in %s", key, text)
		}
	}
	for what, w := range map[string]model.Weights{"old terms": c.Weights, "by task": c.Weights.With(model.SIGReg, "cube", 3).With(model.Prediction, model.Others, 2).With("shrink", "dot", 4)} {
		c.Weights = w
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Config
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s: %+v, %v from %s", what, back, err, text)
		}
	}
}
