package dinowm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

func init() {
	model.Register(model.Family{Name: model.FamilyDinoWM, Owns: owns, Read: read})
}

// owns looks for a tensor of the predictor's first layer.
func owns(f *weights.File) bool {
	return slices.ContainsFunc(f.Names(), func(n string) bool { return strings.HasSuffix(n, "predictor.transformer.layers.0.0.to_qkv.weight") })
}

// read makes a sidecar of a published checkpoint, which says what can be known: no task,
// no seed, no file of the backbone.
func read(f *weights.File, s *weights.Sidecar) (model.Checkpoint, error) {
	if err := f.Unwrap("predictor.pos_embedding"); err != nil {
		return nil, err
	}
	if err := f.Rename(spelling); err != nil {
		return nil, err
	}
	if s.Kind == weights.Published {
		if err := describe(f, s); err != nil {
			return nil, err
		}
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
	ts, err := f.Take(m.names())
	if err != nil {
		return nil, err
	}
	return &checkpoint{m, ts}, nil
}

// mask matches the buffers of the attentions' masks, which follow from the geometry.
var mask = regexp.MustCompile(`^predictor\.transformer\.layers\.\d+\.0\.bias$`)

// backbone begins the names of the frozen encoder's tensors.
const backbone = "backbone."

// spelling is a tensor's name here, "" for those that say nothing.
func spelling(name string) string {
	if mask.MatchString(name) {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, backbone); ok {
		return backbone + dinov2.Transformers4(strings.TrimPrefix(rest, backbone)) // a wrapper puts it there twice
	}
	return name
}

// own lists the model's tensors, without what a method added.
func (m *Model) own() []*nn.Param {
	return append(slices.Clone(m.frozen.Params), m.set.Params[:m.params]...)
}

// names are the tensors of the state dict and their shapes, in our order.
func (m *Model) names() (names []string, shapes map[string][]int) {
	shapes = map[string][]int{}
	for _, p := range m.own() {
		names, shapes[p.Name] = append(names, p.Name), p.Shape
	}
	return names, shapes
}

// Tensors is the model's state dict, the backbone's first: a checkpoint is whole.
func (m *Model) Tensors() []weights.Tensor {
	var ts []weights.Tensor
	for _, p := range m.own() {
		v := make([]float32, p.Len())
		m.dev.Download(v, p.Value)
		ts = append(ts, weights.Tensor{Name: p.Name, Shape: p.Shape, F32: v})
	}
	return ts
}

// checkpoint is a model without memory and its tensors.
type checkpoint struct {
	m  *Model
	ts []weights.Tensor
}

func (c *checkpoint) Config() model.Config      { return c.m.cfg }
func (c *checkpoint) Tensors() []weights.Tensor { return c.ts }

// errProprio is the answer to upstream's variant: data sets of ours bring no
// proprioception to a plan, and zeros in its place would be another model.
var errProprio = errors.New("its tokens hold proprioception, which nothing gives them here: it can be looked at and converted, but not plan or encode (hint: train without, as the paper does)")

func (c *checkpoint) World(dev device.Device) (model.World, error) {
	if c.m.cfg.Proprio > 0 {
		return nil, errProprio
	}
	return c.place(dev), nil
}

// place is the model on a device.
func (c *checkpoint) place(dev device.Device) *Model {
	c.m.Alloc(dev, false)
	for i, p := range c.m.own() {
		dev.Upload64(p.Value, c.ts[i].Float64())
	}
	c.m.backbone.Prepare(dev)
	return c.m
}
