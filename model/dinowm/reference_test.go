package dinowm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/dinov2"
	"scalewm/model/nn"
)

// committed is the folder that testdata/prejepa_small.py writes.
const committed = "testdata/reference"

// TestReference compares with the results of stable-worldmodel: the case written by
// testdata/prejepa_small.py and those in SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	for _, dir := range []string{committed, os.Getenv("SCALEWM_REFERENCE_DIR")} {
		if dir == "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(dir, "prejepa_small*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				tree := hdf5test.Open(t, filepath.Join(path, "reference.h5"))
				for _, group := range []string{"action_only", "proprio_action"} {
					t.Run(group, func(t *testing.T) { eachDevice(t, path, group, tree) })
				}
			})
		}
	}
}

// tolerances are those of a device (docs/sources.md#reference-tolerances). cost and
// grad are relative.
type tolerances struct{ numbers, cost, grad float64 }

var (
	// transformers interpolates the position table in float32, whatever the model's
	// precision.
	doubleTolerances = tolerances{3e-7, 1e-7, 1e-6}
	singleTolerances = tolerances{3e-5, 1e-5, 1e-4}
	bf16Tolerances   = tolerances{5e-2, 5e-3, 5e-2}
)

func eachDevice(t *testing.T, path, group string, tree *hdf5test.Tree) {
	t.Run("ref", func(t *testing.T) {
		(&smallCase{T: t, tolerances: doubleTolerances, tree: tree, group: group, dev: ref.New()}).run(path)
	})
	for _, isa := range cpu.Paths() {
		for _, p := range []device.Precision{device.FP32, device.BF16} {
			t.Run(fmt.Sprintf("cpu/%s/%s", isa, p), func(t *testing.T) {
				t.Setenv(cpu.ISAVariable, isa)
				dev, err := cpu.New(cpu.Options{Precision: p, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				tol := singleTolerances
				if p == device.BF16 {
					tol = bf16Tolerances
				}
				(&smallCase{T: t, tolerances: tol, tree: tree, group: group, dev: dev}).run(path)
			})
		}
	}
}

// smallCase is a group of a file, tested on one device.
type smallCase struct {
	*testing.T
	tolerances
	tree  *hdf5test.Tree
	group string
	dev   device.Device
}

// array returns an array of the group, or of the file if all groups share it.
func (c *smallCase) array(name string) ([]float64, []int) {
	c.Helper()
	at := name
	if c.tree.Has(c.group + "/" + name) {
		at = c.group + "/" + name
	}
	v, shape, err := c.tree.Read(at)
	if err != nil {
		c.Fatal(err)
	}
	return v, shape
}

// smallConfig is the structure of a case's config.json.
type smallConfig struct {
	Backbone struct {
		Width    int `json:"hidden_size"`
		Layers   int `json:"num_hidden_layers"`
		Heads    int `json:"num_attention_heads"`
		MLPRatio int `json:"mlp_ratio"`
		Image    int `json:"image_size"`
		Patch    int `json:"patch_size"`
	} `json:"backbone"`
	ImageSize int `json:"image_size"`
	History   int `json:"history_size"`
	Predictor struct {
		Depth   int `json:"depth"`
		Heads   int `json:"heads"`
		HeadDim int `json:"dim_head"`
		MLP     int `json:"mlp_dim"`
	} `json:"predictor"`
}

// geometry returns the geometry of the case's group. The widths follow from the tensors.
func geometry(t *testing.T, path, group string, tree *hdf5test.Tree) Config {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s smallConfig
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	shape := func(name string) []int {
		_, shape, err := tree.Read(group + "/weights/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return shape
	}
	p, w := s.Predictor, s.Backbone
	c := Config{Backbone: dinov2.Config{Width: w.Width, Layers: w.Layers, Heads: w.Heads, MLP: w.MLPRatio * w.Width, Patch: w.Patch,
		Positions: w.Image / w.Patch, FrameSize: s.ImageSize}, PredictorDepth: p.Depth, PredictorHeads: p.Heads, PredictorHeadDim: p.HeadDim,
		PredictorMLP: p.MLP, History: s.History}
	action := shape("extra_encoders.action.patch_embed.weight")
	c.ActionEmbedding = action[0]
	c.FrameSkip, c.ActionDim = model.SplitBlock(action[1])
	c.PositionFrames = shape("predictor.pos_embedding")[1] / c.Backbone.Patches()
	if group == "proprio_action" {
		proprio := shape("extra_encoders.proprio.patch_embed.weight")
		c.ProprioEmbedding, c.Proprio = proprio[0], proprio[1]
	}
	return c
}

func (c *smallCase) run(path string) {
	cfg := geometry(c.T, path, c.group, c.tree)
	if c.dev.Kind().Precision == device.BF16 && cfg.Backbone.Width < 64 {
		c.numbers *= 2 // sums so short round more
	}
	declared, err := cfg.Declare()
	if err != nil {
		c.Fatal(err)
	}
	m := declared.(*Model)
	m.Alloc(c.dev, true)
	defer m.Free()
	for _, p := range m.Saved() {
		v, _ := c.array("weights/" + spelt(c.tree, c.group, p.Name))
		c.dev.Upload64(p.Value, v)
	}
	m.backbone.Prepare(c.dev)
	emb, shape := c.array("f64/emb") // B, T, P, token
	b, t := shape[0], shape[1]
	features := c.encode(m, "input/pixels", b*t)
	p := &nn.Pass{Dev: c.dev, Arena: device.NewArena(c.dev), Train: true}
	defer p.Free()
	inputs := []device.Mat{c.rows("input/action", b*t)}
	if m.Cfg.Proprio > 0 {
		inputs = append([]device.Mat{c.rows("input/proprio", b*t)}, inputs...)
	}
	c.compare("emb", m.tokens(p, features, inputs), emb)
	c.loss(m, p, features, inputs)
	c.plan(m, p, features, t, inputs)
	if c.dev.Err() != nil {
		c.Error(c.dev.Err())
	}
}

// spelt returns a tensor's name in the file, which may be that of either version of
// transformers.
func spelt(tree *hdf5test.Tree, group, name string) string {
	if tree.Has(group + "/weights/" + name) {
		return name
	}
	return backbone + dinov2.Transformers5(name[len(backbone):])
}

// encode computes the features of the first n frames of an array.
func (c *smallCase) encode(m *Model, name string, n int) device.Mat {
	v, _ := c.array(name)
	px := make([]byte, n*m.Info().FrameBytes())
	for i := range px {
		px[i] = byte(v[i])
	}
	frames := c.dev.AllocBytes(len(px))
	c.dev.UploadBytes(frames, px)
	z := device.NewMat(c.dev, n*m.Info().Patches, m.Info().Dim)
	m.Encode(z, frames, n)
	return z
}

// rows uploads the first n rows of an array. NaN becomes 0.
func (c *smallCase) rows(name string, n int) device.Mat {
	v, shape := c.array(name)
	width := shape[len(shape)-1]
	v = slices.Clone(v[:n*width])
	for i, x := range v {
		if math.IsNaN(x) {
			v[i] = 0
		}
	}
	r := device.NewMat(c.dev, n, width)
	c.dev.Upload64(r, v)
	return r
}

// loss compares predictions, their loss and its gradients.
func (c *smallCase) loss(m *Model, p *nn.Pass, features device.Mat, inputs []device.Mat) {
	out := m.forward(p, features, inputs...)
	want, shape := c.array("f64/predict")
	token := shape[len(shape)-1]
	c.compare("predict", out.Pred, columns(want, token, m.Cfg.State()))
	value, dpred := p.Mat(1, 1), p.Zero(out.Pred.Rows, out.Pred.Cols)
	c.dev.MSE(value, dpred, device.Mat{}, out.Pred, out.Target, 1)
	want, _ = c.array("f64/loss")
	if got := download(c.dev, value)[0]; math.Abs(got-want[0]) > c.cost*want[0] {
		c.Errorf("loss %g, want %g", got, want[0])
	}
	c.dev.Fill(m.Set.Grad, 0)
	m.PredictorGrad(p, device.Mat{}, dpred, device.Mat{})
	for _, q := range m.Set.Params {
		want, _ := c.array("f64/grad/" + q.Name)
		var off, all float64
		for i, g := range download(c.dev, q.Grad) {
			off, all = off+(g-want[i])*(g-want[i]), all+want[i]*want[i]
		}
		if !(math.Sqrt(off) <= c.grad*math.Sqrt(all)) {
			c.Errorf("gradient of %s: off by %g of %g", q.Name, math.Sqrt(off), math.Sqrt(all))
		}
	}
}

// plan compares goals, rollouts from the first frames and their costs.
func (c *smallCase) plan(m *Model, p *nn.Pass, features device.Mat, frames int, inputs []device.Mat) {
	v, shape := c.array("input/candidates")
	b, s, h := shape[0], shape[1], shape[2]
	candidates := c.rows("input/candidates", len(v)/shape[3]).Reshape(b*s, h*shape[3])
	patches, state, width := m.Info().Patches, m.Cfg.State(), m.Info().Dim

	goal := device.NewMat(c.dev, b*patches, state)
	c.dev.Copy(goal.Columns(0, width), c.encode(m, "input/goal", b))
	start := device.NewMat(c.dev, b*patches, state)
	z := m.tokens(p, features, inputs).Columns(0, state)
	c.dev.CopyBlocks(start, patches, z, frames*patches, patches, false)
	if m.Cfg.Proprio > 0 {
		each := p.Mat(goal.Rows, m.Cfg.Proprio)
		c.dev.AddRepeated(each, c.rows("input/goal_proprio", b), p.Zero(1, each.Cols))
		m.extras[0].Into(p, goal.Columns(width, state-width), each, device.Epilogue{})
	}
	want, _ := c.array("f64/goal_emb")
	c.compare("goal_emb", goal, want)

	path, shape := c.array("f64/predicted_emb") // B, S, 1+H, P, token
	token := shape[4]
	got := device.NewMat(c.dev, b*s*patches, state)
	for t := 1; t <= h; t++ {
		m.Rollout(got, start, candidates.Columns(0, t*m.Cfg.ActionWidth()), t)
		var want []float64
		for i := range b * s {
			from := (i*(h+1) + t) * patches * token
			want = append(want, columns(path[from:from+patches*token], token, state)...)
		}
		c.compare(fmt.Sprintf("predicted_emb after %d blocks", t), got, want)
	}
	costs, total := p.Mat(b, s), p.Mat(b, s)
	c.dev.LatentCost(total, dense(p, got.Columns(0, width)), dense(p, goal.Columns(0, width)), true)
	if m.Cfg.Proprio > 0 { // stable-worldmodel takes proprioception from the first patch and adds the mean of its term
		first := func(z device.Mat) device.Mat { return dense(p, z.Columns(width, state-width).Every(0, patches)) }
		c.dev.LatentCost(costs, first(got), first(goal), true)
		c.dev.Axpy(total, 1, costs)
	}
	cost, _ := c.array("f64/cost")
	for i, v := range download(c.dev, total) {
		if math.Abs(v-cost[i]) > c.cost*cost[i] {
			c.Errorf("cost %d is %g, want %g", i, v, cost[i])
		}
	}
}

func dense(p *nn.Pass, m device.Mat) device.Mat {
	d := p.Mat(m.Rows, m.Cols)
	p.Dev.Copy(d, m)
	return d
}

// columns returns the first n columns of rows that have width columns.
func columns(v []float64, width, n int) (out []float64) {
	for i := 0; i < len(v); i += width {
		out = append(out, v[i:i+n]...)
	}
	return out
}

func download(dev device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	dev.Download64(v, m)
	return v
}

func (c *smallCase) compare(name string, m device.Mat, want []float64) {
	c.Helper()
	got := download(c.dev, m)
	if len(got) != len(want) {
		c.Fatalf("%s: %d numbers, want %d", name, len(got), len(want))
	}
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(got[i]-want[i]))
	}
	if !(worst <= c.numbers) {
		c.Errorf("%s: off by %g, allowed %g", name, worst, c.numbers)
	}
}
