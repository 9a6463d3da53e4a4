package dinov2

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
	"scalewm/model/device"
	"scalewm/model/nn"
)

// File is a backbone in host memory. Its tensors are complete, have the shapes that
// Config implies, and contain only finite numbers.
type File struct {
	Config Config
	SHA256 string // of the file's bytes

	tensors []tensorfile.Tensor // in the order of Encoder.params
}

// The names of the files that Hugging Face publishes for a model.
const (
	publishedName = "model.safetensors"
	configName    = "config.json"
)

// Read reads a backbone. path is a safetensors file or one of torch.save, with the
// tensor names of transformers or of the hub's code, or a folder with
// model.safetensors.
//
// The shapes of the tensors determine the geometry, except for the number of heads.
// It comes from the config.json next to a model.safetensors, and is otherwise
// width/64, as in all published models. Config.FrameSize is that of Small.
func Read(path string) (*File, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, publishedName)
	}
	if err := tensorfile.Check(path); err != nil {
		return nil, err
	}
	b, err := safefile.Read(path, safefile.MaxWeights)
	if err != nil {
		return nil, fmt.Errorf("opening the backbone: %w (hint: give DINOv2's model.safetensors as Hugging Face publishes it, its folder, or the hub's .pth file)", err)
	}
	d, err := describe(path)
	if err == nil {
		var f *File
		if f, err = parse(path, b, d); err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("reading the backbone %s: %w", path, err)
}

// parse parses and checks the bytes of the file at path.
func parse(path string, b []byte, d hfConfig) (*File, error) {
	w, err := tensorfile.ParseFile(path, b)
	if err != nil {
		return nil, err
	}
	if err := useTransformers4(w); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	f := &File{SHA256: hex.EncodeToString(sum[:])}
	if f.Config, err = geometry(w, d); err != nil {
		return nil, err
	}
	var s nn.Set
	var names []string
	shapes := map[string][]int{}
	for _, p := range New(&s, "", f.Config).params {
		name := strings.TrimPrefix(p.Name, ".")
		names, shapes[name] = append(names, name), p.Shape
	}
	if !w.Has(maskToken) { // some files omit it; features do not depend on it
		w.Zero(maskToken, shapes[maskToken])
	}
	f.tensors, err = w.Take(names, shapes)
	return f, err
}

// Set uploads the file's weights to the encoder, which must have the file's geometry.
func (f *File) Set(dev device.Device, e *Encoder) {
	for i, p := range e.params {
		dev.Upload64(p.Value, f.tensors[i].Float64())
	}
	e.Prepare(dev)
}

// hfConfig is the part of a config.json that matters here. Zero fields are absent in
// the file.
type hfConfig struct {
	Model    string  `json:"model_type"`
	Width    int     `json:"hidden_size"`
	Layers   int     `json:"num_hidden_layers"`
	Heads    int     `json:"num_attention_heads"`
	Patch    int     `json:"patch_size"`
	Act      string  `json:"hidden_act"`
	Eps      float64 `json:"layer_norm_eps"`
	Channels int     `json:"num_channels"`
	SwiGLU   bool    `json:"use_swiglu_ffn"`
}

// describe reads the config.json next to a model.safetensors, if there is one.
func describe(path string) (d hfConfig, err error) {
	if filepath.Base(path) != publishedName {
		return d, nil
	}
	b, err := safefile.Read(filepath.Join(filepath.Dir(path), configName), safefile.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("opening its config.json: %w (hint: it describes the %s in the same folder; put the published one there, or none)", err, publishedName)
	}
	return parseConfig(b)
}

// parseConfig parses and checks the bytes of a config.json. Keys that it omits have
// the published values.
func parseConfig(b []byte) (hfConfig, error) {
	d := hfConfig{Model: "dinov2", Act: "gelu", Eps: nn.DINOv2.Eps, Channels: 3}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("its config.json: %v (hint: fetch it again)", err)
	}
	switch {
	case d.SwiGLU:
		return d, errSwiGLU
	case d.Model != "dinov2":
		return d, fmt.Errorf("its config.json describes a model of type %.40q %s", d.Model, whichHint)
	case d.Act != "gelu" || d.Eps != nn.DINOv2.Eps || d.Channels != 3:
		return d, fmt.Errorf("its config.json says hidden_act %.20q, layer_norm_eps %g, num_channels %d; this program computes gelu, %g, 3 %s",
			d.Act, d.Eps, d.Channels, nn.DINOv2.Eps, whichHint)
	}
	return d, nil
}

// whichHint is appended to errors about other kinds of models.
const whichHint = "(hint: give a DINOv2 without registers; DINO-WM's is facebook/dinov2-small)"

var (
	errRegisters = errors.New("it has register tokens, which this program does not support " + whichHint)
	errSwiGLU    = errors.New("its layers are SwiGLU, as in the giant model, which this program does not support " + whichHint)
)

// geometry derives the geometry from the shapes of a file's tensors, and compares it
// with d.
func geometry(w *tensorfile.File, d hfConfig) (Config, error) {
	c := Small()
	for _, n := range w.Names() {
		switch {
		case strings.HasSuffix(n, "register_tokens"):
			return c, errRegisters
		case strings.Contains(n, ".mlp.w"): // weights_in and weights_out, or w12 and w3
			return c, errSwiGLU
		}
	}
	patch, err := dims(w, "embeddings.patch_embeddings.projection.weight", 4)
	table, none := dims(w, "embeddings.position_embeddings", 3)
	mlp, neither := dims(w, "encoder.layer.0.mlp.fc1.weight", 2)
	if err := cmp.Or(err, none, neither); err != nil {
		return c, err
	}
	c.Width, c.Patch, c.MLP, c.Layers = patch[0], patch[3], mlp[0], w.Count("encoder.layer.%d.norm1.weight")
	c.Positions = int(math.Sqrt(float64(table[1] - 1)))
	c.Heads = cmp.Or(d.Heads, c.Width/64)
	for _, s := range []struct {
		name      string
		said, has int
	}{{"hidden_size", d.Width, c.Width}, {"num_hidden_layers", d.Layers, c.Layers}, {"patch_size", d.Patch, c.Patch}} {
		if s.said != 0 && s.said != s.has {
			return c, fmt.Errorf("its config.json says %s %d, its tensors have %d (hint: fetch both files of the same model)", s.name, s.said, s.has)
		}
	}
	if c.Heads == 0 || c.Width%c.Heads != 0 {
		return c, fmt.Errorf("its width is %d, which %d heads do not divide (hint: put the config.json that was published with it into the folder of %s)", c.Width, c.Heads, publishedName)
	}
	return c, c.Validate()
}

// dims returns the shape of a tensor, which must have the given number of axes.
func dims(w *tensorfile.File, name string, axes int) ([]int, error) {
	s, ok := w.Shape(name)
	if !ok {
		return nil, fmt.Errorf("there is no tensor %s, neither under this name nor under the hub's %s", name, whichHint)
	}
	if len(s) != axes || slices.Min(s) < 1 {
		return nil, fmt.Errorf("tensor %s is %v, which is not a shape of DINOv2 %s", name, s, whichHint)
	}
	return s, nil
}
