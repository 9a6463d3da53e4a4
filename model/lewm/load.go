package lewm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

func init() {
	model.Register(model.Family{Name: model.FamilyLeWM, Owns: owns, Read: read})
}

// owns looks for a tensor of the projector, which no other family has.
func owns(f *weights.File) bool {
	return slices.ContainsFunc(f.Names(), func(n string) bool { return strings.HasSuffix(n, "projector.net.0.weight") })
}

// read makes a sidecar of a published checkpoint, which says what can be known: no
// task, no seed; its method is taken to be the baseline. The tensors have the released
// names, whichever version of transformers and whichever trainer's wrapper named them.
func read(f *weights.File, s *weights.Sidecar) (model.Checkpoint, error) {
	if err := adopt(f, s); err != nil {
		return nil, err
	}
	return checked(f, s)
}

// checkpoint is a model without memory and its tensors.
type checkpoint struct {
	m  *Model
	ts []weights.Tensor
}

func (c *checkpoint) Config() model.Config      { return c.m.cfg }
func (c *checkpoint) Tensors() []weights.Tensor { return c.ts }

func (c *checkpoint) World(dev device.Device) (model.World, error) {
	c.m.Alloc(dev, false)
	c.m.set64(c.ts)
	return c.m, nil
}

func (c *checkpoint) Published(transformers int) ([]weights.Tensor, []byte, error) {
	ts := slices.Clone(c.ts)
	for i := range ts {
		if transformers == 5 {
			ts[i].Name = weights.Transformers5(ts[i].Name)
		}
	}
	config, err := c.m.cfg.Hydra()
	return ts, config, err
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

// checked is the model that a sidecar describes and its tensors.
func checked(f *weights.File, s *weights.Sidecar) (*checkpoint, error) {
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
	ts, err := f.Take(m.names())
	if err != nil {
		return nil, err
	}
	return &checkpoint{m, ts}, nil
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

// set64 uploads what was read.
func (m *Model) set64(ts []weights.Tensor) {
	own := m.own()
	for i, p := range own {
		m.dev.Upload64(p.Value, ts[i].Float64())
	}
	for i, c := range m.counters() {
		*c = int64(ts[len(own)+i].Float64()[0])
	}
}
