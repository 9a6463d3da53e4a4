package lewm

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
)

// costGrads returns the costs and gradients of candidates.
func costGrads(m *Model, start, goal, candidates device.Mat, h int) (cost, grad []float64) {
	d := m.Device()
	c, g := device.NewMat(d, start.Rows, candidates.Rows/start.Rows), device.NewMat(d, candidates.Rows, candidates.Cols)
	m.CostGrad(c, g, start, goal, candidates, h, nil)
	return download(d, c), download(d, g)
}

// TestCostGrad compares the costs with those of Rollout and the gradients with
// central differences, over more steps than the predictor sees.
func TestCostGrad(t *testing.T) { eachProjector(t, checkCostGrad) }

func checkCostGrad(t *testing.T, c Config) {
	dev := ref.New()
	m := stirredOn(t, dev, c)
	r := rand.New(rand.NewPCG(11, 12))
	const episodes, each, h = 2, 3, 5
	start, goal := upload(dev, r, episodes, 6), upload(dev, r, episodes, 6)
	cand, last := upload(dev, r, episodes*each, h*10), device.NewMat(dev, episodes*each, 6)
	costs := device.NewMat(dev, episodes, each)
	value := func() []float64 {
		m.Rollout(last, start, cand, h)
		dev.LatentCost(costs, last, goal, m.Info().CostMean)
		return download(dev, costs)
	}
	cost, grad := costGrads(m, start, goal, cand, h)
	same(t, "cost", cost, value())
	x := download(dev, cand)
	for range 60 {
		i, step := r.IntN(len(x)), 1e-5
		old := x[i]
		x[i] = old + step
		dev.Upload64(cand, x)
		up := value()
		x[i] = old - step
		dev.Upload64(cand, x)
		down := value()
		x[i] = old
		for c := range up {
			want := 0.0 // for the costs of other candidates
			if c == i/cand.Cols {
				want = grad[i]
			}
			if got := (up[c] - down[c]) / (2 * step); math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
				t.Errorf("candidate %d, number %d: gradient %g, differences %g", c, i%cand.Cols, want, got)
			}
		}
	}
}

// A metric replaces the distance of the last latents: twice the usual one, whose gradient is
// twice as large, doubles costs and gradients.
func TestCostGradOfMetric(t *testing.T) {
	dev := ref.New()
	m := stirredOn(t, dev, tiny())
	r := rand.New(rand.NewPCG(13, 14))
	const episodes, each, h = 2, 150, 3 // more candidates than are processed at a time
	start, goal, cand := upload(dev, r, episodes, 6), upload(dev, r, episodes, 6), upload(dev, r, episodes*each, h*10)
	cost, grad := costGrads(m, start, goal, cand, h)
	c, g := device.NewMat(dev, episodes, each), device.NewMat(dev, cand.Rows, cand.Cols)
	m.CostGrad(c, g, start, goal, cand, h, func(cost, dz, z, goal device.Mat) {
		dev.LatentCost(cost, z, goal, false)
		dev.Axpy(cost, 1, cost)
		dev.Fill(dz, 0)
		dev.Axpy(dz, 4, z)
		dev.Axpy(dz, -4, goal)
	})
	for what, pair := range map[string][2][]float64{"cost": {download(dev, c), cost}, "gradient": {download(dev, g), grad}} {
		for i, v := range pair[0] {
			if want := 2 * pair[1][i]; math.Abs(v-want) > 1e-12*(1+math.Abs(want)) {
				t.Fatalf("%s %d is %g, not twice %g", what, i, v, pair[1][i])
			}
		}
	}
}

// TestCostGradReference compares with PyTorch's gradients (testdata/rollgrad.py).
func TestCostGradReference(t *testing.T) {
	fast, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for _, name := range []string{"tiny", "one"} {
		for _, dev := range []device.Device{ref.New(), fast} {
			t.Run(name+"/"+dev.Kind().Backend, func(t *testing.T) { costGradReference(t, dev, name) })
		}
	}
}

func costGradReference(t *testing.T, dev device.Device, name string) {
	folder := filepath.Join("testdata", "reference", "lewm_paper_"+name)
	m, _, err := load(dev, folder)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path, array string) ([]float64, []int) {
		tree := hdf5test.Open(t, path)
		v, shape, err := tree.Read(array)
		if err != nil {
			t.Fatal(err)
		}
		return v, shape
	}
	matrix := func(v []float64, rows int) device.Mat {
		for i := range v {
			if math.IsNaN(v[i]) { // a missing action counts as the mean
				v[i] = 0
			}
		}
		mat := device.NewMat(dev, rows, len(v)/rows)
		dev.Upload64(mat, v)
		return mat
	}
	reference := filepath.Join(folder, "reference.h5")
	emb, shape := read(reference, "f64/emb")
	goals, _ := read(reference, "f64/goal_emb")
	plans, dims := read(reference, "input/candidates")
	want, _ := read(filepath.Join("testdata", "rollgrad", name+".h5"), "grad")
	start := matrix(emb, shape[0]*shape[1]).Every(0, shape[1])
	_, got := costGrads(m, start, matrix(goals, shape[0]), matrix(plans, dims[0]*dims[1]), dims[2])

	tolerance, size := 1e-8, slices.Max(want) // relative, for a model in float64
	if dev.Kind().Backend != "ref" {
		tolerance = 1e-4 // as for gradients in training (docs/sources.md#reference-tolerances)
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*size) {
			t.Fatalf("gradient %d is %g, want %g (largest %g)", i, got[i], want[i], size)
		}
	}
}

// TestCostGradRowsAreAlone checks that a candidate's result does not depend on the
// other candidates, nor on where a chunk ends.
func TestCostGradRowsAreAlone(t *testing.T) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		dev, err := cpu.New(cpu.Options{Precision: p, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		m := stirredOn(t, dev, tiny())
		r := rand.New(rand.NewPCG(13, 14))
		const each = gradRows/2 + 2 // two episodes are more than a chunk
		start, goal, cand := upload(dev, r, 2, 6), upload(dev, r, 2, 6), upload(dev, r, 2*each, 30)
		cost, grad := costGrads(m, start, goal, cand, 3)
		for _, i := range []int{0, each - 1, gradRows - 1, gradRows, 2*each - 1} {
			e := i / each
			oneCost, oneGrad := costGrads(m, start.RowRange(e, 1), goal.RowRange(e, 1), cand.RowRange(i, 1), 3)
			if oneCost[0] != cost[i] || !slices.Equal(oneGrad, grad[i*30:(i+1)*30]) {
				t.Errorf("%s: candidate %d alone has other bytes", p, i)
			}
		}
	}
}
