package lewm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

// Kind is the sidecar's kind of this family.
const Kind = "lewm"

// Load reads a checkpoint onto dev: its folder, or its safetensors or .pt file
// (see Read).
func Load(dev device.Device, path string) (*Model, *weights.Sidecar, error) {
	f, s, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := fromFile(dev, f, s)
	if err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return m, s, nil
}

// Read reads a checkpoint of this family without building the model. Its
// tensors have the released names, whichever version of transformers and
// whichever trainer's wrapper named them. The sidecar of a published .pt file
// says what can be known: no task, no seed; its method is taken to be lewm.
func Read(path string) (*weights.File, *weights.Sidecar, error) {
	f, s, err := weights.Load(path)
	if err != nil {
		return nil, nil, err
	}
	if err := f.Unwrap("encoder.embeddings.cls_token"); err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	if err := f.Rename(weights.Transformers4); err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	if s.Kind == weights.Published {
		if err := describe(s, f); err != nil {
			return nil, nil, fmt.Errorf("loading %s: %w", path, err)
		}
	}
	return f, s, nil
}

// describe makes a sidecar of ours of a published checkpoint's config. Its
// training saw all episodes, which is what the paper's protocol says.
func describe(s *weights.Sidecar, f *weights.File) error {
	c, err := parseHydra(s.Config, f)
	if err != nil {
		return err
	}
	geometry, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing the sidecar: %w", err)
	}
	s.Kind, s.Schema, s.Method, s.Protocol = Kind, model.Schema, "lewm", "paper"
	s.Config, s.Train = geometry, json.RawMessage("{}")
	return nil
}

func fromFile(dev device.Device, f *weights.File, s *weights.Sidecar) (*Model, error) {
	if s.Kind != Kind {
		return nil, fmt.Errorf("the checkpoint is of kind %q, not %q (hint: give one of a LeWM-family training)", s.Kind, Kind)
	}
	if s.Schema != model.Schema {
		return nil, fmt.Errorf("the checkpoint has schema %d, this program reads %d (hint: train again, or use the program that wrote it)", s.Schema, model.Schema)
	}
	var c Config
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return nil, fmt.Errorf("the sidecar's config: %v (hint: the file is torn; train again)", err)
	}
	m, err := Declare(c)
	if err != nil {
		return nil, err
	}
	m.Alloc(dev, false)
	if err := m.SetTensors(f); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// batchCounters are the tensors of BatchNorm's count of training passes.
func (m *Model) batchCounters() map[string]*int64 {
	return map[string]*int64{
		"pred_proj.net.1.num_batches_tracked": &m.predProj.Batches,
		"projector.net.1.num_batches_tracked": &m.projector.Batches,
	}
}

// own lists the model's parameters and buffers, without what a method added.
func (m *Model) own() []*nn.Param {
	return append(slices.Clone(m.set.Params[:m.params]), m.set.Buffers...)
}

// Tensors is the model's state dict in the reference's names and order of ours.
func (m *Model) Tensors() []weights.Tensor {
	var ts []weights.Tensor
	for _, p := range m.own() {
		v := make([]float32, p.Len())
		m.dev.Download(v, p.Value)
		ts = append(ts, weights.Tensor{Name: p.Name, Shape: p.Shape, F32: v})
	}
	counters := m.batchCounters()
	for _, n := range []string{"projector.net.1.num_batches_tracked", "pred_proj.net.1.num_batches_tracked"} {
		ts = append(ts, weights.Tensor{Name: n, I64: []int64{*counters[n]}})
	}
	return ts
}

// SetTensors takes every tensor of the model from f. A missing one, one of
// another shape and one that has no place are errors: loaded in part, a model
// would be a random one.
func (m *Model) SetTensors(f *weights.File) error {
	known := map[string]bool{}
	for _, p := range m.own() {
		known[p.Name] = true
		if shape, ok := f.Shape(p.Name); ok && !slices.Equal(shape, p.Shape) {
			return fmt.Errorf("tensor %s is %v, the model needs %v (hint: the checkpoint has another geometry)", p.Name, shape, p.Shape)
		}
		v, err := f.Float64(p.Name)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
			return fmt.Errorf("tensor %s has %g at %d (hint: the training diverged or the file is damaged; take an earlier checkpoint)", p.Name, v[i], i)
		}
		m.dev.Upload64(p.Value, v)
	}
	for n, c := range m.batchCounters() {
		known[n] = true
		v, err := f.Float64(n)
		if err != nil {
			return err
		}
		if len(v) != 1 {
			return fmt.Errorf("tensor %s is not a scalar (hint: the checkpoint has another geometry)", n)
		}
		*c = int64(v[0])
	}
	extra := slices.DeleteFunc(f.Names(), func(n string) bool { return known[n] })
	if len(extra) > 0 {
		return fmt.Errorf("the checkpoint has tensors the model has not: %s (hint: it has another geometry)", strings.Join(extra[:min(3, len(extra))], ", "))
	}
	return nil
}

// Fork is the same model for another goroutine, on a device of its own.
func (m *Model) Fork(dev device.Device) *Model {
	g, err := Declare(m.cfg)
	if err != nil {
		panic(fmt.Sprintf("lewm: a model of an invalid config: %v", err)) // Declare accepted it before
	}
	g.Alloc(dev, false)
	theirs := g.own()
	for i, p := range m.own() {
		v := make([]float64, p.Len())
		m.dev.Download64(v, p.Value)
		dev.Upload64(theirs[i].Value, v)
	}
	return g
}
