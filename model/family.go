package model

import (
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

// Config is the geometry of a model of one family. Its JSON stands in the sidecar
// of a checkpoint and in the spec that names a training.
type Config interface {
	// Validate names the first field that cannot work.
	Validate() error
	// Info is the shape of the models of this geometry.
	Info() Info
	// Declare builds a model without memory.
	Declare() (Trainable, error)
	// Words tell a person of the encoder, the latents and the predictor.
	Words() (encoder, latents, predictor string)
}

// Schedule is the part of a training's recipe that a family may have otherwise than others.
type Schedule struct {
	Batch  int     `toml:"batch" json:"batch"`   // clips a step
	Steps  int     `toml:"steps" json:"steps"`   // optimiser steps; 0: Epochs decide
	Epochs int     `toml:"epochs" json:"epochs"` // passes over the training clips
	LR     float64 `toml:"lr" json:"lr"`
}

// Geometry is a Config that counts what work takes: floating point operations of
// matrix products, a multiply-add as two.
type Geometry interface {
	Config
	StepFLOP(batch, directions int) float64 // a training step, forward and backward
	EncodeFLOP(frames int) float64          // Encode of so many frames
	PlanFLOP(candidates, h int) float64     // Rollout of so many candidates of h blocks
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
	// SetBatches sets the count of training steps that normalisations keep.
	SetBatches(n int64)
	// Tensors are what a checkpoint holds; parameters of loss terms are not among them.
	Tensors() []weights.Tensor
	// Free gives the memory back.
	Free()
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

// Family is a kind of world model: who can read its checkpoints.
type Family struct {
	Name string // the Kind of its sidecars
	// Owns says whether a published file, whose sidecar does not say its kind, has the
	// tensors of this family.
	Owns func(f *weights.File) bool
	// Read checks a checkpoint. Tensors get the names that ours have, and where the
	// sidecar is of kind weights.Published it fills in what the family can say.
	Read func(f *weights.File, s *weights.Sidecar) (Checkpoint, error)
}

// Checkpoint is a whole checkpoint that fits its geometry, without a device.
type Checkpoint interface {
	Config() Config
	// Tensors are those of the model, in its order, as they would be written again.
	Tensors() []weights.Tensor
	// World is the model on a device.
	World(dev device.Device) (World, error)
	// Published are the tensors by the names of a version of transformers, 4 or 5, and
	// the config.json from which stable-worldmodel makes the original's modules.
	Published(transformers int) ([]weights.Tensor, []byte, error)
}

var families []Family

// Register makes a family known; its package does so when it is linked in.
func Register(f Family) { families = append(families, f) }

// Read checks a checkpoint of any family, as weights.Load read it.
func Read(f *weights.File, s *weights.Sidecar) (Checkpoint, error) {
	var names []string
	for _, fam := range families {
		names = append(names, fam.Name)
		if s.Kind == fam.Name || s.Kind == weights.Published && fam.Owns(f) {
			return fam.Read(f, s)
		}
	}
	slices.Sort(names)
	known := strings.Join(names, ", ")
	if s.Kind == weights.Published {
		return nil, fmt.Errorf("its tensors are of no kind that is known (hint: this program knows %s)", known)
	}
	return nil, fmt.Errorf("the checkpoint is of kind %q (hint: this program knows %s; use the one that wrote it)", s.Kind, known)
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
