package lewm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

func init() {
	model.Register(model.Family{Name: model.FamilyLeWM, Load: func(dev device.Device, f *weights.File, s *weights.Sidecar) (model.World, error) {
		if err := adopt(f, s); err != nil {
			return nil, err
		}
		m, ts, err := checked(f, s)
		if err != nil {
			return nil, err
		}
		m.Alloc(dev, false)
		m.set64(ts)
		return m, nil
	}})
}

// Read reads a checkpoint of this family without building the model. Its
// tensors have the released names, whichever version of transformers and
// whichever trainer's wrapper named them. The sidecar of a published .pt file
// says what can be known: no task, no seed; its method is taken to be the baseline.
func Read(path string) (*weights.File, *weights.Sidecar, error) {
	f, s, err := weights.Load(path)
	if err != nil {
		return nil, nil, err
	}
	if err := adopt(f, s); err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return f, s, nil
}

// adopt gives the tensors their released names and a published checkpoint a
// sidecar of ours.
func adopt(f *weights.File, s *weights.Sidecar) error {
	if err := f.Unwrap("encoder.embeddings.cls_token"); err != nil {
		return err
	}
	if err := f.Rename(spelling); err != nil {
		return err
	}
	if s.Kind != weights.Published {
		return nil
	}
	return describe(s, f)
}

// maskToken is a tensor that an encoder may have and never reads here.
const maskToken = "encoder.embeddings.mask_token"

func spelling(name string) string {
	if name == maskToken {
		return ""
	}
	return weights.Transformers4(name)
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
	s.Kind, s.Schema, s.Method, s.Protocol = model.FamilyLeWM, model.Schema, model.Baseline, "paper"
	s.Config, s.Train = geometry, json.RawMessage("{}")
	return nil
}

// Checked is the config of a checkpoint and its tensors, in the model's order,
// as they would be written again; it fails where model.Load would.
func Checked(f *weights.File, s *weights.Sidecar) (Config, []weights.Tensor, error) {
	m, ts, err := checked(f, s)
	if err != nil {
		return Config{}, nil, err
	}
	return m.cfg, ts, nil
}

// checked is the model that a sidecar describes, without memory, and its tensors.
func checked(f *weights.File, s *weights.Sidecar) (*Model, []weights.Tensor, error) {
	if s.Kind != model.FamilyLeWM {
		return nil, nil, fmt.Errorf("the checkpoint is of kind %q, not %q (hint: give one of a LeWM-family training)", s.Kind, model.FamilyLeWM)
	}
	if s.Schema != model.Schema {
		return nil, nil, fmt.Errorf("the checkpoint has schema %d, this program reads %d (hint: train again, or use the program that wrote it)", s.Schema, model.Schema)
	}
	var c Config
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return nil, nil, fmt.Errorf("the sidecar's config: %v (hint: the file is torn; train again)", err)
	}
	m, err := Declare(c)
	if err != nil {
		return nil, nil, err
	}
	ts, err := m.take(f)
	return m, ts, err
}

// counterNames are the tensors of BatchNorm's count of training passes.
var counterNames = [2]string{"projector.net.1.num_batches_tracked", "pred_proj.net.1.num_batches_tracked"}

func (m *Model) counters() [2]*int64 { return [2]*int64{&m.projector.Batches, &m.predProj.Batches} }

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
	for i, c := range m.counters() {
		ts = append(ts, weights.Tensor{Name: counterNames[i], I64: []int64{*c}})
	}
	return ts
}

// names are the tensors of the state dict and their shapes, in our order.
func (m *Model) names() (names []string, shapes map[string][]int) {
	shapes = map[string][]int{}
	for _, p := range m.own() {
		names, shapes[p.Name] = append(names, p.Name), p.Shape
	}
	for _, n := range counterNames {
		names, shapes[n] = append(names, n), nil
	}
	return names, shapes
}

// take reads every tensor of the model from f. A missing one, one of another
// shape, one that has no place and one that holds no finite number are errors:
// loaded in part, a model would be a random one.
func (m *Model) take(f *weights.File) ([]weights.Tensor, error) {
	names, shapes := m.names()
	for _, n := range f.Names() {
		if _, ok := shapes[n]; !ok {
			return nil, fmt.Errorf("the checkpoint has a tensor the model has not: %s (hint: it has another geometry, or is of another kind)", n)
		}
	}
	var ts []weights.Tensor
	for _, n := range names {
		if shape, ok := f.Shape(n); ok && !slices.Equal(shape, shapes[n]) {
			return nil, fmt.Errorf("tensor %s is %v, the model needs %v (hint: the checkpoint has another geometry)", n, shape, shapes[n])
		}
		t, err := f.Tensor(n)
		if err != nil {
			return nil, err
		}
		v := t.Float64()
		if i := slices.IndexFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
			return nil, fmt.Errorf("tensor %s has %g at %d (hint: the training diverged or the file is damaged; take an earlier checkpoint)", n, v[i], i)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// set64 uploads what take returned.
func (m *Model) set64(ts []weights.Tensor) {
	own := m.own()
	for i, p := range own {
		m.dev.Upload64(p.Value, ts[i].Float64())
	}
	for i, c := range m.counters() {
		*c = int64(ts[len(own)+i].Float64()[0])
	}
}
