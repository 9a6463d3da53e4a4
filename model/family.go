package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

// Geometry is the shape of the models of one family, and counts what their work takes: floating point operations of
// matrix products, a multiply-add as two. Its JSON is in the sidecar of a checkpoint and in the spec that names a training.
type Geometry interface {
	// Validate names the first field that cannot work.
	Validate() error
	// Info is the shape of the models as others see them; it may be called on a valid geometry alone.
	Info() Info
	// Declare builds a model without memory.
	Declare() (Trainable, error)
	// Words describe the encoder, the latents and the predictor to a person.
	Words() (encoder, latents, predictor string)
	// Hydra is the config.json, to be written as JSON, from which stable-worldmodel makes the reference implementation's
	// modules, and tensors that these have and a Trainable has not.
	Hydra() (config any, more []weights.Tensor)

	StepFLOP(batch, directions int) float64 // a training step, forward and backward
	EncodeFLOP(frames int) float64          // Encode of that many frames
	PlanFLOP(candidates, h int) float64     // Rollout of that many candidates of h blocks
}

// Section is a family's table of a preset: a pointer to a struct whose keys TOML sets.
type Section interface {
	// Geometry is that of a method's models on a task with actions of that many numbers. backbone is what a frozen
	// encoder's file was read as, in the type that the family takes; nil: no file was given.
	Geometry(m Method, actionDim int, backbone any) (Geometry, error)
	// Training is what the family's trainings have in place of the preset's [train]; zero: nothing.
	Training() Schedule
	// With is a copy with another Schedule.
	With(Schedule) Section
}

// Schedule is the part of a training's recipe that families may have their own of.
type Schedule struct {
	Batch  int     `toml:"batch" json:"batch"`   // clips a step
	Steps  int     `toml:"steps" json:"steps"`   // optimiser steps; 0: Epochs decide
	Epochs int     `toml:"epochs" json:"epochs"` // passes over the training clips
	LR     float64 `toml:"lr" json:"lr"`
}

// Trainable is a model as its training sees it. It is declared; the terms of the
// loss add parameters of their own to Params; Alloc makes the memory of all; then
// come the steps: Forward, and the gradients from the predictor back to the frames.
type Trainable interface {
	// Params are what the optimiser changes, and the buffers that a resumed
	// training needs besides. What a family keeps frozen is not among them.
	Params() *nn.Set
	// Alloc makes the memory, with gradients if train.
	Alloc(dev device.Device, train bool)
	// Init draws the initial values of Params from the seed and the tensors' names.
	Init(seed int64)
	// Forward encodes a batch and predicts its latents; what the gradients need
	// stays in the arena of the pass.
	Forward(p *nn.Pass, b Batch) Output
	// PredictorGrad goes from the gradients at the predictions and their targets
	// to the latents: it adds to demb, and to the gradients of the parameters on
	// its way. It follows a Forward once for each term that sees predictions. demb and
	// dtarget are not given where the model is no Learner.
	PredictorGrad(p *nn.Pass, demb, dpred, dtarget device.Mat)
	// Own are the parameters and buffers of a checkpoint, in its order; those of loss terms are not among them.
	Own() []*nn.Param
	// Counts are the training steps that normalisations count, which a checkpoint holds behind Own.
	Counts() []Count
	// Ready is the model as a World, once Own has a checkpoint's values.
	Ready() (World, error)
	// Free gives the memory back.
	Free()
}

// Count is a number of a checkpoint that is no parameter.
type Count struct {
	Name string
	N    *int64
}

// Tensors are what a checkpoint of m holds.
func Tensors(dev device.Device, m Trainable) (ts []weights.Tensor) {
	for _, p := range m.Own() {
		v := make([]float32, p.Len())
		dev.Download(v, p.Value)
		ts = append(ts, weights.Tensor{Name: p.Name, Shape: p.Shape, F32: v})
	}
	for _, c := range m.Counts() {
		ts = append(ts, weights.Tensor{Name: c.Name, I64: []int64{*c.N}})
	}
	return ts
}

// Learner is a Trainable whose encoder learns. Any other is a World too, and the latents
// that its Encode makes are constants: they are made once and have no gradient.
type Learner interface {
	Trainable
	// EncoderGrad goes from the gradient at the latents to the frames.
	EncoderGrad(p *nn.Pass, demb device.Mat)
}

// Batch is B clips of T = History+1 frames, rows and frames counted b*T+t.
type Batch struct {
	B      int
	Pixels device.Bytes // (B*T) frames of FrameSize^2 x 3
	Frames device.Ints  // which frames of Pixels, if that is a whole data set; nil: the first
	// Features, (B*T*P) x D, are what a frozen encoder made of the frames, instead of
	// Pixels; only models that are no Learner take them.
	Features device.Mat
	Actions  device.Mat // (B*T) x ActionWidth, z-scored
}

// Output is what the loss sees of a batch.
type Output struct {
	Emb    device.Mat // (B*T*P) x D: latents of all frames
	Act    device.Mat // (B*T) x D: embedded action blocks; not given where tokens hold them
	Pred   device.Mat // (B*History*P) x D: row b*History+t predicts frame t+1
	Target device.Mat // as Pred: the latents that it should have predicted
}

// Family is a kind of world model. Its package registers it, and no other package names it.
type Family struct {
	Name    string // in sidecars and in the table of methods
	Section string // its table in presets
	// New is an empty Section.
	New func() Section
	// Decode reads a geometry from the JSON of a sidecar.
	Decode func(config []byte) (Geometry, error)

	// What follows is for published files, which do not say their kind.

	Method string // of published checkpoints
	Mark   string // ends the name of a tensor that models of no other family have
	// Root is a tensor that every model of the family has. What is before its name in a file is a trainer's wrapper.
	Root string
	// Rename gives a tensor the name that it has here, "" where the model does not need it; Transformers5 is the name in
	// generation 5 of transformers of a tensor with a name of ours.
	Rename, Transformers5 func(name string) string
	// Describe reads a geometry from a published config.json and, where that leaves things out, from the tensors.
	Describe func(config []byte, f *weights.File) (Geometry, error)
}

// DecodeAs is Decode of a Family whose geometry is a G.
func DecodeAs[G Geometry](config []byte) (Geometry, error) {
	var g G
	if err := json.Unmarshal(config, &g); err != nil {
		return nil, fmt.Errorf("the sidecar's config: %v (hint: the file is torn; train again)", err)
	}
	return g, nil
}

// Checkpoint is a checkpoint that fits its geometry, without a device.
type Checkpoint struct {
	Geometry Geometry
	Tensors  []weights.Tensor // as they would be written again
	family   Family
	model    Trainable
}

// World is the model on a device.
func (c *Checkpoint) World(dev device.Device) (World, error) {
	c.model.Alloc(dev, false)
	own := c.model.Own()
	for i, p := range own {
		dev.Upload64(p.Value, c.Tensors[i].Float64())
	}
	for i, n := range c.model.Counts() {
		*n.N = int64(c.Tensors[len(own)+i].Float64()[0])
	}
	w, err := c.model.Ready()
	if err != nil {
		c.model.Free()
	}
	return w, err
}

// Published are the tensors by the names of a generation of transformers, 4 or 5, and the config.json for them.
func (c *Checkpoint) Published(transformers int) ([]weights.Tensor, []byte, error) {
	ts := slices.Clone(c.Tensors)
	for i := range ts {
		if transformers == 5 {
			ts[i].Name = c.family.Transformers5(ts[i].Name)
		}
	}
	config, more := c.Geometry.Hydra()
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("writing %s: %w", weights.HydraName, err)
	}
	return append(ts, more...), append(text, '\n'), nil
}

var families []Family

// Register makes a family known; its package does so when it is linked in.
func Register(f Family) {
	families = append(families, f)
	slices.SortFunc(families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}

// Families are those that are linked in, by name.
func Families() []Family { return slices.Clone(families) }

func known() string {
	var names []string
	for _, f := range families {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// FamilyOf is the family of a name.
func FamilyOf(name string) (Family, error) {
	for _, f := range families {
		if f.Name == name {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("no family of models is named %q (hint: this program knows %s)", name, known())
}

// Read checks a checkpoint of any family, as weights.Load read it. Tensors get the names that ours have, and a sidecar
// of kind weights.Published gets what the family can say.
func Read(f *weights.File, s *weights.Sidecar) (*Checkpoint, error) {
	for _, fam := range families {
		if s.Kind == fam.Name || s.Kind == weights.Published && fam.Mark != "" && slices.ContainsFunc(f.Names(), func(n string) bool { return strings.HasSuffix(n, fam.Mark) }) {
			return fam.read(f, s)
		}
	}
	if s.Kind == weights.Published {
		return nil, fmt.Errorf("its tensors are of no kind that is known (hint: this program knows %s)", known())
	}
	return nil, fmt.Errorf("the checkpoint is of kind %q (hint: this program knows %s; use the one that wrote it)", s.Kind, known())
}

func (fam Family) read(f *weights.File, s *weights.Sidecar) (*Checkpoint, error) {
	if err := f.Unwrap(fam.Root); err != nil {
		return nil, err
	}
	if err := f.Rename(fam.Rename); err != nil {
		return nil, err
	}
	if s.Kind == weights.Published { // whose training saw all episodes, as in the protocol paper, and says no task or seed
		g, err := fam.Describe(s.Config, f)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", weights.HydraName, err)
		}
		s.Kind, s.Schema, s.Method, s.Protocol, s.Train = fam.Name, Schema, fam.Method, "paper", json.RawMessage("{}")
		if s.Config, err = json.Marshal(g); err != nil {
			return nil, fmt.Errorf("writing the sidecar: %w", err)
		}
	}
	if s.Schema != Schema {
		return nil, fmt.Errorf("the checkpoint has schema %d, this program reads %d (hint: train again, or use the program that wrote it)", s.Schema, Schema)
	}
	g, err := fam.Decode(s.Config)
	if err != nil {
		return nil, err
	}
	m, err := g.Declare()
	if err != nil {
		return nil, err
	}
	var names []string
	shapes := map[string][]int{}
	for _, p := range m.Own() {
		names, shapes[p.Name] = append(names, p.Name), p.Shape
	}
	for _, c := range m.Counts() {
		names, shapes[c.Name] = append(names, c.Name), nil
	}
	ts, err := f.Take(names, shapes)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{g, ts, fam, m}, nil
}

// Load reads a checkpoint of any family onto dev: its folder, or its safetensors
// or .pt file.
func Load(dev device.Device, path string) (World, *weights.Sidecar, error) {
	f, s, err := weights.Load(path)
	if err != nil {
		return nil, nil, err
	}
	c, err := Read(f, s)
	var w World
	if err == nil {
		w, err = c.World(dev)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return w, s, nil
}

// Describe is the sidecar of the checkpoint in a folder; of a published one, which has none, what its tensors
// and its config tell. The error wraps fs.ErrNotExist where there is no checkpoint.
func Describe(dir string) (*weights.Sidecar, error) {
	side, err := weights.ReadSidecar(filepath.Join(dir, weights.SidecarName))
	if !errors.Is(err, fs.ErrNotExist) {
		return side, err
	}
	f, side, err := weights.Load(dir)
	if err == nil {
		_, err = Read(f, side)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint %s: %w", dir, err)
	}
	return side, nil
}
