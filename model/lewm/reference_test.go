package lewm

import (
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
	"scalewm/model/nn"
)

// committed is the folder that testdata/lewm_paper.py writes.
const committed = "testdata/reference"

// TestReference loads weights.pt and config.json as they are published, and compares
// with the results of the reference implementation in evaluation mode: the cases
// written by testdata/lewm_paper.py and those in SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) { eachPaper(t, checkPaper) }

func eachPaper(t *testing.T, check func(t *testing.T, path string, tree *hdf5test.Tree)) {
	for _, dir := range []string{committed, os.Getenv("SCALEWM_REFERENCE_DIR")} {
		if dir == "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(dir, "lewm_paper*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				tree := hdf5test.Open(t, filepath.Join(path, "reference.h5"))
				check(t, path, tree)
			})
		}
	}
}

// tolerances are those of a device by output (docs/sources.md#reference-tolerances).
// Candidates whose costs differ by more than order must be ordered in the same way.
type tolerances struct {
	emb, act, cls, cost, order float64
}

var (
	doubleTolerances = tolerances{1e-9, 1e-9, 1e-9, 1e-9, 1e-8}
	// Cases in SCALEWM_REFERENCE_DIR: their float64 results may start from colours
	// that were standardised in float32 or with float32 constants.
	widenedTolerances = tolerances{2e-6, 1e-9, 5e-6, 5e-5, 2e-4}
	singleTolerances  = tolerances{2e-5, 5e-6, 5e-5, 5e-4, 2e-3}
	bf16Tolerances    = tolerances{5e-2, 2e-2, 1e-1, 0.6, 1.2}
)

func checkPaper(t *testing.T, path string, tree *hdf5test.Tree) {
	double := widenedTolerances
	if filepath.Dir(path) == committed {
		double = doubleTolerances
	}
	t.Run("ref", func(t *testing.T) {
		(&paperCase{T: t, tree: tree, tolerances: double}).run(path, ref.New())
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
				(&paperCase{T: t, tree: tree, tolerances: tol}).run(path, dev)
			})
		}
	}
}

// paperCase is a folder, tested on one device.
type paperCase struct {
	*testing.T
	tolerances
	tree *hdf5test.Tree
	m    *Model
}

func (c *paperCase) read(name string) ([]float64, []int) {
	c.Helper()
	v, shape, err := c.tree.Read(name)
	if err != nil {
		c.Fatal(err)
	}
	return v, shape
}

func (c *paperCase) run(path string, dev device.Device) {
	m, side, err := load(dev, path)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { m.Free() }()
	if side.Kind != model.FamilyLeWM || side.Method != model.Baseline || side.Task != "" {
		c.Errorf("the sidecar of a published checkpoint: %+v", side)
	}
	// The reference implementation accepts frames of any size. The config has that of
	// the table.
	if _, shape := c.read("input/pixels"); len(shape) == 5 && shape[2] != m.Cfg.ImageSize {
		given := m
		defer given.Free()
		m = resampled(c.T, given, shape[2])
	}
	c.m = m
	emb, shape := c.encode("pixels")
	c.close("emb", download(dev, emb), c.emb)
	c.cls()
	act, _ := c.actions("action")
	p := m.Eval()
	actEmb := m.embedder.Forward(p, act)
	c.close("act_emb", download(dev, actEmb), c.act)
	c.predict(emb, actEmb, shape[1])
	c.plan(emb.Every(0, shape[1]))
	if dev.Err() != nil {
		c.Error(dev.Err())
	}
}

// resampled returns the model for frames of another edge in pixels, with interpolated
// positions, as the reference implementation's encode computes for such frames.
func resampled(t *testing.T, m *Model, edge int) *Model {
	t.Helper()
	c := m.Cfg
	c.ImageSize = edge
	g, err := New(m.Dev, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	theirs := g.Saved()
	for i, p := range m.Saved() {
		v := download(m.Dev, p.Value)
		if p.Name == "encoder.embeddings.position_embeddings" && len(v) != theirs[i].Len() {
			from, to := m.Cfg.ImageSize/c.Patch, edge/c.Patch
			v = nn.ResamplePositions(v, c.Width, from, to, float64(from)/float64(to))
		}
		m.Dev.Upload64(theirs[i].Value, v)
	}
	return g
}

// frames uploads an array of frames and returns their number.
func (c *paperCase) frames(name string) (px device.Bytes, n int, shape []int) {
	c.Helper()
	v, shape := c.read("input/" + name)
	if edge := c.m.Cfg.ImageSize; len(shape) != 5 || shape[2] != edge || shape[3] != edge || shape[4] != 3 {
		c.Fatalf("input/%s has shape %v, the model sees frames of %d pixels", name, shape, edge)
	}
	b := make([]byte, len(v))
	for i, x := range v {
		b[i] = byte(x)
	}
	px = c.m.Dev.AllocBytes(len(b))
	c.m.Dev.UploadBytes(px, b)
	return px, shape[0] * shape[1], shape
}

func (c *paperCase) encode(name string) (device.Mat, []int) {
	c.Helper()
	px, n, shape := c.frames(name)
	emb := device.NewMat(c.m.Dev, n, c.m.Cfg.Dim)
	c.m.Encode(emb, px, n)
	return emb, shape
}

func (c *paperCase) cls() {
	px, n, _ := c.frames("pixels")
	p := c.m.Eval()
	c.close("cls", download(c.m.Dev, c.m.encoder.Forward(p, c.m.encoder.Patches(p, px, nil, 0, n))), c.tolerances.cls)
}

// actions uploads action blocks, one per row. NaN becomes 0.
func (c *paperCase) actions(name string) (device.Mat, []int) {
	c.Helper()
	v, shape := c.read("input/" + name)
	for i, x := range v {
		if math.IsNaN(x) {
			v[i] = 0
		}
	}
	width := c.m.Cfg.ActionWidth()
	if shape[len(shape)-1] != width {
		c.Fatalf("input/%s has shape %v, the model takes blocks of %d", name, shape, width)
	}
	m := device.NewMat(c.m.Dev, len(v)/width, width)
	c.m.Dev.Upload64(m, v)
	return m, shape
}

// predict compares the predictions from the first frames of every clip of T frames.
func (c *paperCase) predict(emb, act device.Mat, t int) {
	want, shape := c.read("f64/pred")
	k, dev := shape[1], c.m.Dev
	p := &nn.Pass{Dev: dev, Arena: device.NewArena(dev)}
	defer p.Free()
	n := emb.Rows / t
	x, cond := p.Mat(n*k, emb.Cols), p.Mat(n*k, emb.Cols)
	dev.CopyBlocks(x, k, emb, t, k, false)
	dev.CopyBlocks(cond, k, act, t, k, false)
	pred := c.m.predProj.Forward(p, c.m.predictor.Forward(p, x, cond, nn.Seqs{Count: n, Len: k}, nn.All))
	c.compare("pred", download(dev, pred), want, c.emb)
}

// plan compares goals, rollouts from the first frames and their costs.
func (c *paperCase) plan(start device.Mat) {
	goal, _ := c.encode("goal")
	c.close("goal_emb", download(c.m.Dev, goal), c.emb)
	blocks, shape := c.actions("candidates")
	s, h, dev := shape[1], shape[2], c.m.Dev
	candidates := blocks.Reshape(start.Rows*s, h*c.m.Cfg.ActionWidth())
	// The recorded path has the start and the latents after 1 to h blocks.
	path := device.NewMat(dev, candidates.Rows*(h+1), c.m.Cfg.Dim)
	for i := range candidates.Rows {
		dev.Copy(path.RowRange(i*(h+1), 1), start.RowRange(i/s, 1))
	}
	last, cost := device.NewMat(dev, candidates.Rows, c.m.Cfg.Dim), device.NewMat(dev, start.Rows, s)
	for t := 1; t <= h; t++ {
		c.m.Rollout(last, start, candidates.Columns(0, t*c.m.Cfg.ActionWidth()), t)
		dev.Copy(path.Every(t, h+1), last)
	}
	c.close("rollout", download(dev, path), c.emb)
	dev.LatentCost(cost, last, goal, c.m.Info().CostMean)
	got := download(dev, cost)
	c.close("cost", got, c.cost)
	c.ordered(got, s)
}

// ordered checks that candidates of an episode whose costs clearly differ are in the
// same order.
func (c *paperCase) ordered(got []float64, s int) {
	want, _ := c.read("f64/cost")
	for i := range want {
		for j := i / s * s; j < i; j++ {
			if d := want[i] - want[j]; math.Abs(d) > c.order && d*(got[i]-got[j]) <= 0 {
				c.Errorf("candidates %d and %d: costs %g and %g, want %g and %g", i, j, got[i], got[j], want[i], want[j])
			}
		}
	}
}

// close compares values with an array of float64, by absolute difference.
func (c *paperCase) close(name string, got []float64, tol float64) {
	c.Helper()
	want, _ := c.read("f64/" + name)
	c.compare(name, got, want, tol)
}

func (c *paperCase) compare(name string, got, want []float64, tol float64) {
	c.Helper()
	if len(got) != len(want) || slices.ContainsFunc(want, math.IsNaN) {
		c.Errorf("%s: %d numbers, want %d", name, len(got), len(want))
		return
	}
	worst, at := 0.0, 0
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= worst) {
			worst, at = d, i
		}
	}
	if !(worst <= tol) {
		c.Errorf("%s: off by %g at %d, allowed %g", name, worst, at, tol)
	}
}
