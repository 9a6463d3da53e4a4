package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/weights"
)

// Geometry describes the shape of a model of one family: layer widths, depths, frame
// size, action width. It can build such a model, and it predicts the work of the
// model's calls in floating point operations. Only matrix multiplications count, and
// a multiply-add counts as two operations.
//
// The JSON form of a Geometry is stored in the sidecar of a checkpoint, and in the
// spec whose hash names a training run. Renaming a field therefore renames existing
// runs.
type Geometry interface {
	// Validate returns an error that names the first invalid field.
	Validate() error
	// Info returns the shape that is common to all families. The Geometry must be
	// valid.
	Info() Info
	// Declare builds a model without allocating memory for its parameters.
	Declare() (Trainable, error)
	// Describe describes the encoder, the latents and the predictor for human readers.
	Describe() (encoder, latents, predictor string)
	// Hydra returns the contents of the config.json, to be encoded as JSON, from
	// which stable-worldmodel constructs the modules of its implementation. more
	// holds tensors that those modules have and a Trainable does not.
	Hydra() (config any, more []tensorfile.Tensor)

	// StepFLOP returns the operations of one training step on batch clips, forward
	// and backward, including the encoder even if it is frozen. directions is the
	// number of random projections of SIGReg.
	StepFLOP(batch, directions int) float64
	// EncodeFLOP returns the operations of Encode for that many frames.
	EncodeFLOP(frames int) float64
	// PlanFLOP returns the operations of Rollout for that many candidates of h
	// blocks.
	PlanFLOP(candidates, h int) float64
}

// Section is a family's table in a preset. Its implementations are pointers to
// structs, whose fields the TOML decoder sets.
type Section interface {
	// Geometry returns the geometry of a method's models for a task whose actions
	// have actionDim components. backbone is a frozen encoder in the type that the
	// family expects: the content of a file, or for a policy a *FrozenEncoder. It is nil
	// if none was given.
	Geometry(m Method, actionDim int, backbone any) (Geometry, error)
	// Training returns the fields in which the family's training differs from the
	// preset's [train] table. Zero fields leave the preset's values unchanged.
	Training() Schedule
	// With returns a copy of the section with another Schedule.
	With(Schedule) Section
}

// Schedule holds the parts of a training recipe that a family may override. A zero
// field means that the family does not override it.
type Schedule struct {
	Batch  int     `toml:"batch" json:"batch"`   // clips a step
	Steps  int     `toml:"steps" json:"steps"`   // optimiser steps; 0: Epochs decide
	Epochs int     `toml:"epochs" json:"epochs"` // passes over the training clips
	LR     float64 `toml:"lr" json:"lr"`
	// Decay replaces the weight decay of [train] unless it is 0.
	Decay float64 `toml:"decay,omitempty" json:"decay,omitempty"`
	// Final, if positive, selects a cosine without a warm-up from LR to Final*LR.
	Final float64 `toml:"final,omitempty" json:"final,omitempty"`
}

// Trainable is a model as the training loop uses it. The order of calls is:
//
//  1. Geometry.Declare creates the model, which declares its parameters.
//  2. The loss terms append parameters of their own to Params.
//  3. Alloc allocates all of them, then Init or a checkpoint sets their values.
//  4. Each step calls Forward, then PredictorGrad and, for a Learner, EncoderGrad.
type Trainable interface {
	// Params returns the parameters that the optimiser updates, and the buffers that
	// a resumed training also needs. Frozen weights are not part of them.
	Params() *nn.Set
	// Alloc allocates the model's memory on dev, including gradients if train is
	// true.
	Alloc(dev device.Device, train bool)
	// Init draws the initial values of Params from the seed and the tensors' names.
	Init(seed int64)
	// Forward encodes a batch and predicts its latents. Activations that the backward
	// pass needs are allocated in the arena of p, and live until that arena is reset.
	Forward(p *nn.Pass, b Batch) Output
	// PredictorGrad backpropagates through the predictor. dpred and dtarget, shaped
	// as Output.Pred, are the gradients of the loss with respect to the predictions
	// and their targets. It adds the gradient with respect to the latents to demb,
	// (B*T*P) x D, and the gradients of the parameters to Params. It is called once
	// per loss term that depends on the predictions, always after a Forward. demb and
	// dtarget are zero Mats if the model is not a Learner.
	PredictorGrad(p *nn.Pass, demb, dpred, dtarget device.Mat)
	// Saved returns the parameters and buffers that a checkpoint holds, in its order.
	// Those of loss terms are excluded.
	Saved() []*nn.Param
	// Counts returns the step counters of the BatchNorm layers. A checkpoint stores
	// them after the tensors of Own.
	Counts() []Count
	// World returns the model as a World. The values of Own must have been set.
	World() (World, error)
	// Free releases the model's memory.
	Free()
}

// Count is an integer tensor of a checkpoint, such as PyTorch's num_batches_tracked.
// N points into the layer that counts.
type Count struct {
	Name string
	N    *int64
}

// Tensors downloads what a checkpoint of m holds: the tensors of Own, then those of
// Counts.
func Tensors(dev device.Device, m Trainable) (ts []tensorfile.Tensor) {
	for _, p := range m.Saved() {
		v := make([]float32, p.Len())
		dev.Download(v, p.Value)
		ts = append(ts, tensorfile.Tensor{Name: p.Name, Shape: p.Shape, F32: v})
	}
	for _, c := range m.Counts() {
		ts = append(ts, tensorfile.Tensor{Name: c.Name, I64: []int64{*c.N}})
	}
	return ts
}

// Upload is the inverse of Tensors: it sets what a checkpoint of m holds to ts.
func Upload(dev device.Device, m Trainable, ts []tensorfile.Tensor) {
	own := m.Saved()
	for i, p := range own {
		dev.Upload64(p.Value, ts[i].Float64())
	}
	for i, n := range m.Counts() {
		*n.N = int64(ts[len(own)+i].Float64()[0])
	}
}

// Learner is a Trainable whose encoder is trained. A Trainable that is not a Learner
// has a frozen encoder and must implement World too: the training computes its
// latents by Encode, outside the training step, and may cache them, because they are
// constants without a gradient.
type Learner interface {
	Trainable
	// EncoderGrad backpropagates demb, (B*T*P) x D, the gradient with respect to the
	// latents, through the encoder. It follows all calls of PredictorGrad of a step.
	EncoderGrad(p *nn.Pass, demb device.Mat)
}

// Batch is the input of a training step: B clips of T = History+1 frames. Frame t of
// clip b has index b*T+t, for frames and for rows alike.
type Batch struct {
	B int
	// Pixels holds B*T frames of FrameSize x FrameSize x 3 bytes, or more if Frames
	// is set.
	Pixels device.Bytes
	// Frames lists the indices of the batch's frames within Pixels, where Pixels is a
	// data set that the device caches. If it is nil, the batch is the first B*T
	// frames.
	Frames device.Ints
	// Features, (B*T*P) x D, are the outputs of the frozen encoder for these frames.
	// They replace Pixels for models that are not a Learner.
	Features device.Mat
	// Actions, (B*T) x A, holds one z-scored action block per frame.
	Actions device.Mat
	// Left, B x 1, is the number of env steps from the last but one frame of a clip to
	// the last one, its goal. It is set if Info.Goals is.
	Left device.Mat
}

// Output is what the loss terms see of a batch.
type Output struct {
	// Emb, (B*T*P) x D, holds the latents of all frames.
	Emb device.Mat
	// Act, (B*T) x D, holds the embedded action blocks. It is the zero Mat if the
	// model makes the actions part of the predictor's tokens.
	Act device.Mat
	// Pred, (B*History*P) x D, holds the predictions: row b*History+t, or for P > 1
	// row-block, predicts the latents of frame t+1 of clip b.
	Pred device.Mat
	// Target, shaped as Pred, holds the latents that should have been predicted.
	Target device.Mat
}

// Family describes a kind of world model. The family's package registers one, and no
// package outside it refers to the family by name.
type Family struct {
	// Name identifies the family in sidecars and in the table of methods.
	Name string
	// Section is the name of the family's table in presets, and New returns an empty
	// value to decode it into.
	Section string
	New     func() Section
	// Decode parses the geometry in a sidecar, which is JSON.
	Decode func(config []byte) (Geometry, error)

	// The remaining fields are for published checkpoints, which have no sidecar and do
	// not state their family.

	// Method is the method of the family's published checkpoints.
	Method string
	// Mark is the name of a tensor that only models of this family have. What precedes it
	// in a file is a trainer's prefix, which is removed.
	Mark string
	// Root is the name of a tensor that every model of the family has. A model within
	// another one may have a tensor with the name Mark; a copy of it has both.
	Root string
	// Rename maps the name of a tensor in a published file to the name used here, or to
	// "" if the model does not need the tensor. Transformers5 maps a name used here to
	// the name in version 5 of the transformers library.
	Rename, Transformers5 func(name string) string
	// Describe derives the geometry from a published config.json and, for what the config
	// omits, from the shapes of the tensors.
	Describe func(config []byte, f *tensorfile.File) (Geometry, error)
}

// DecodeAs implements Family.Decode for a family whose geometry has the type G.
func DecodeAs[G Geometry](config []byte) (Geometry, error) {
	var g G
	if err := json.Unmarshal(config, &g); err != nil {
		return nil, fmt.Errorf("the sidecar's config: %v (hint: the file is torn; train again)", err)
	}
	return g, nil
}

// Checkpoint is a checkpoint in host memory whose tensors have been checked against
// its geometry.
type Checkpoint struct {
	Geometry Geometry
	// Tensors are in the order in which a checkpoint is written: Own, then Counts.
	Tensors []tensorfile.Tensor
	// File has the tensors as they are stored, under the names used here.
	File *tensorfile.File
	// NoSidecar says that the checkpoint is a published one.
	NoSidecar bool
	family    Family
	model     Trainable
}

// FrozenEncoder is a trained checkpoint on whose latents a policy is trained.
type FrozenEncoder struct {
	Arm    string // name of its arm, such as lewm or scale@half
	SHA256 string // of its weights file
	*Checkpoint
}

// World allocates the model on dev, uploads the tensors and returns the model in
// evaluation mode. It may be called once, since the Checkpoint holds a single model.
func (c *Checkpoint) World(dev device.Device) (World, error) {
	c.model.Alloc(dev, false)
	Upload(dev, c.model, c.Tensors)
	w, err := c.model.World()
	if err != nil {
		c.model.Free()
	}
	return w, err
}

// Published returns the tensors and the config.json of the checkpoint in the form
// that stable-worldmodel publishes. transformers is the major version of the
// transformers library, 4 or 5, whose tensor names are used.
func (c *Checkpoint) Published(transformers int) ([]tensorfile.Tensor, []byte, error) {
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

// families is sorted by name, so that messages and Families do not depend on the
// order of package initialisation.
var families []Family

// Register adds a family. The family's package calls it from init.
func Register(f Family) {
	families = append(families, f)
	slices.SortFunc(families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}

// Families returns the registered families, sorted by name.
func Families() []Family { return slices.Clone(families) }

// familyNames lists the registered families for messages.
func familyNames() string {
	var names []string
	for _, f := range families {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// FamilyOf returns the family with the given name.
func FamilyOf(name string) (Family, error) {
	for _, f := range families {
		if f.Name == name {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("no family of models is named %q (hint: this program knows %s)", name, familyNames())
}

// Open reads a checkpoint of any family and its sidecar. path is the checkpoint's folder
// or its file of tensors. key selects one of several models in a published file, and is
// "" otherwise (choose).
func Open(path, key string) (*Checkpoint, *weights.Sidecar, error) {
	f, s, err := weights.Load(path)
	if err != nil {
		return nil, nil, err
	}
	c, err := Read(f, s, key)
	if err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return c, s, nil
}

// Read checks a checkpoint of any family that weights.Load has read, and renames its
// tensors to the names used here. If s is of kind weights.Published, Read finds the
// model by the names of its tensors and fills in s from the family's conventions.
func Read(f *tensorfile.File, s *weights.Sidecar, key string) (*Checkpoint, error) {
	var fam Family
	var left map[string]int
	var err error
	switch {
	case s.Kind == weights.Published:
		fam, left, err = extract(f, s, key)
	case key != "":
		err = fmt.Errorf("it holds a single model (hint: leave --key out)")
	default:
		if fam, err = FamilyOf(s.Kind); err != nil {
			err = fmt.Errorf("the checkpoint is of kind %q (hint: this program knows %s; use the program that wrote the checkpoint)", s.Kind, familyNames())
		}
	}
	if err != nil {
		return nil, err
	}
	return fam.read(f, s, left)
}

// read is Read for a model of this family without a prefix. It renames the tensors,
// completes the sidecar of a published file, and checks the tensors against the
// geometry. left has the tensors of a published file that were left out so far, by
// module. It is nil for a file of this program, which has no others.
func (fam Family) read(f *tensorfile.File, s *weights.Sidecar, left map[string]int) (*Checkpoint, error) {
	published := left != nil
	if err := f.Rename(fam.Rename); err != nil {
		return nil, err
	}
	// A published file records no protocol, task or seed. Its training used all
	// episodes, as under the protocol "paper".
	if published {
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
	for _, p := range m.Saved() {
		names, shapes[p.Name] = append(names, p.Name), p.Shape
	}
	for _, c := range m.Counts() {
		names, shapes[c.Name] = append(names, c.Name), nil
	}
	if published {
		dropModules(f, names, left)
		noteLeft(s, left)
	}
	// Take returns an error unless the file has exactly these tensors, in these shapes.
	ts, err := f.Take(names, shapes)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Geometry: g, Tensors: ts, File: f, NoSidecar: published, family: fam, model: m}, nil
}

// Load reads a checkpoint onto dev, as Open does.
func Load(dev device.Device, path, key string) (World, *weights.Sidecar, error) {
	c, s, err := Open(path, key)
	if err != nil {
		return nil, nil, err
	}
	w, err := c.World(dev)
	if err != nil {
		return nil, nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return w, s, nil
}

// Describe returns the sidecar of a checkpoint, as Open does. The error wraps
// fs.ErrNotExist if there is no checkpoint.
func Describe(path, key string) (*weights.Sidecar, error) {
	// The sidecar in a folder suffices. A published checkpoint has none: its is derived
	// from the tensors and the config.json.
	if st, err := os.Stat(path); err == nil && st.IsDir() && key == "" {
		side, err := weights.ReadSidecar(filepath.Join(path, weights.SidecarName))
		if !errors.Is(err, fs.ErrNotExist) {
			return side, err
		}
	}
	_, side, err := Open(path, key)
	return side, err
}
