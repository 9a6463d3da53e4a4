package objective

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

// bench holds a device, a pass and a random stream for a small problem.
type bench struct {
	dev device.Device
	p   *nn.Pass
	r   *rand.Rand
}

func newBench() bench {
	dev := ref.New()
	return bench{dev, &nn.Pass{Dev: dev, Arena: device.NewArena(dev), Train: true}, rng.Stream("objective-test")}
}

func (b bench) random(rows, cols int, scale float64) device.Mat {
	m := device.NewMat(b.dev, rows, cols)
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = scale * b.r.NormFloat64()
	}
	b.dev.Upload64(m, v)
	return m
}

func (b bench) values(m device.Mat) []float64 {
	v := make([]float64, m.Len())
	b.dev.Download64(v, m)
	return v
}

// differences checks the gradient g of value at m by central differences.
func (b bench) differences(t *testing.T, m device.Mat, g []float64, value func() float64) {
	t.Helper()
	const h = 1e-5
	v := b.values(m)
	for i := 0; i < len(v); i += 1 + len(v)/40 {
		old := v[i]
		v[i] = old + h
		b.dev.Upload64(m, v)
		up := value()
		v[i] = old - h
		b.dev.Upload64(m, v)
		want := (up - value()) / (2 * h)
		v[i] = old
		b.dev.Upload64(m, v)
		if math.Abs(g[i]-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("entry %d: gradient %.9g, differences %.9g", i, g[i], want)
		}
	}
}

func TestSIGRegGradient(t *testing.T) {
	b := newBench()
	z, dirs, loss := b.random(5*4, 6, 1), b.random(6, 9, 1), device.NewMat(b.dev, 1, 1)
	value := func() float64 {
		SIGReg(b.p, loss, device.Mat{}, z, dirs, 4, 0)
		return 0.09 * b.values(loss)[0]
	}
	g := b.p.Zero(20, 6)
	SIGReg(b.p, loss, g, z, dirs, 4, 0.09)
	b.differences(t, z, b.values(g), value)
}

// The expected values follow from the formula (docs/sources.md#sigreg): latents that
// are all zero give 0.402048 B, and independent N(0, I) rows give 1.052464 on average
// for every B.
func TestSIGRegLevels(t *testing.T) {
	b := newBench()
	loss := device.NewMat(b.dev, 1, 1)
	SIGReg(b.p, loss, device.Mat{}, device.NewMat(b.dev, 128*4, 8), Directions(b.p, 8, 32, 1), 4, 0)
	if got := b.values(loss)[0]; math.Abs(got-0.402048*128) > 1e-3 {
		t.Errorf("collapse: %g, want %g", got, 0.402048*128)
	}
	sum, n := 0.0, 30
	for i := range n {
		SIGReg(b.p, loss, device.Mat{}, b.random(64*4, 8, 1), Directions(b.p, 8, 64, uint64(i)), 4, 0)
		sum += b.values(loss)[0] / float64(n)
	}
	if math.Abs(sum-1.052464) > 0.05 {
		t.Errorf("white latents: %g on average, want 1.0525", sum)
	}
}

func TestDirections(t *testing.T) {
	b := newBench()
	a := b.values(Directions(b.p, 3, 5, 77))
	for i, v := range a {
		if want := rng.Normal(77, uint64(i)); v != want {
			t.Errorf("number %d: %g, want %g", i, v, want)
		}
	}
}

func TestCorrelationGradient(t *testing.T) {
	for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
		b := newBench()
		z, q, result := b.random(6*4, 5, 1), b.random(6*4, 2, 1), device.NewMat(b.dev, 1, 2)
		pairs := device.NewInts(b.dev, DrawPairs(b.r, []int32{0, 1, 2, 3, 4, 4}, 4, 40, false))
		value := func() float64 {
			Correlation(b.p, result, device.Mat{}, z, q, pairs, form, 0)
			return 0.1 * b.values(result)[0]
		}
		g := b.p.Zero(24, 5)
		Correlation(b.p, result, g, z, q, pairs, form, 0.1)
		b.differences(t, z, b.values(g), value)
	}
}

// The authors' own unit checks (docs/sources.md#scale): z proportional to
// q gives less than 1e-3, unrelated q about 1, constant z is skipped with a
// gradient of zero.
func TestCorrelationLevels(t *testing.T) {
	b := newBench()
	const clips, k = 64, 4096
	var episodes []int32
	for i := range int32(clips) {
		episodes = append(episodes, i)
	}
	pairs := device.NewInts(b.dev, DrawPairs(b.r, episodes, 4, k, false))
	q, result := b.random(clips*4, 3, 1), device.NewMat(b.dev, 1, 2)
	z := device.NewMat(b.dev, clips*4, 3)
	b.dev.Axpy(z, 2, q)
	Correlation(b.p, result, device.Mat{}, z, q, pairs, device.Authors, 1)
	if got := b.values(result); math.Abs(got[0]-1.0/k) > 1e-5 || got[1] != 0 {
		t.Errorf("proportional: %v, want the floor 1/K", got)
	}
	Correlation(b.p, result, device.Mat{}, b.random(clips*4, 3, 1), q, pairs, device.Authors, 1)
	if got := b.values(result)[0]; math.Abs(got-1) > 0.1 {
		t.Errorf("unrelated: %g, want about 1", got)
	}
	constant := device.NewMat(b.dev, clips*4, 3)
	b.dev.Fill(constant, 0.7)
	g := b.p.Zero(clips*4, 3)
	Correlation(b.p, result, g, constant, q, pairs, device.Authors, 1)
	if got := b.values(result); got[0] != 0 || got[1] != 1 || slices.ContainsFunc(b.values(g), func(v float64) bool { return v != 0 }) {
		t.Errorf("constant latents: %v", got)
	}
}

// docs/sources.md#scale: half of the pairs within a clip, half across
// episodes, never a frame with itself, all six within-clip pairs equally often.
func TestDrawPairs(t *testing.T) {
	episodes := []int32{7, 7, 8, 9, 9, 10, 11, 12}
	const frames, k = 4, 6000
	p := DrawPairs(rng.Stream("pairs-test"), episodes, frames, k, false)
	if len(p) != 2*k {
		t.Fatalf("%d numbers for %d pairs", len(p), k)
	}
	counts := map[[2]int32]int{}
	for i := range k {
		a, b := p[i], p[k+i]
		within := a/frames == b/frames
		if within != (i < k/2) || a == b {
			t.Fatalf("pair %d is (%d, %d)", i, a, b)
		}
		if within {
			counts[[2]int32{a % frames, b % frames}]++
		} else if episodes[a/frames] == episodes[b/frames] {
			t.Fatalf("pair %d joins two frames of episode %d", i, episodes[a/frames])
		}
	}
	if len(counts) != 6 {
		t.Fatalf("%d kinds of pairs within a clip", len(counts))
	}
	for pair, n := range counts {
		if math.Abs(float64(n)-500) > 5*math.Sqrt(500) { // 5 sigma of a count of 500
			t.Errorf("pair %v drawn %d times of 3000", pair, n)
		}
	}
	if p := DrawPairs(rng.Stream("pairs-test"), []int32{3, 3, 3}, frames, 100, false); len(p) != 100 {
		t.Errorf("one episode: %d numbers, want the 50 pairs within clips", len(p))
	}
}

// The paper's pairs are a set: none occurs twice, in either order, and half of them are
// within clips. 8 clips of 4 frames have 8 * 6 = 48 pairs within clips.
func TestDistinctPairs(t *testing.T) {
	episodes := []int32{7, 7, 8, 9, 9, 10, 11, 12}
	const frames = 4
	for k, want := range map[int]int{40: 40, 96: 96, 4096: 96} {
		p := DrawPairs(rng.Stream("pairs-test"), episodes, frames, k, true)
		if len(p) != 2*want {
			t.Fatalf("K = %d: %d numbers, want those of %d pairs", k, len(p), want)
		}
		seen := map[[2]int32]bool{}
		for i := range want {
			a, b := p[i], p[want+i]
			if within := a/frames == b/frames; within != (i < want/2) || !within && episodes[a/frames] == episodes[b/frames] {
				t.Fatalf("K = %d: pair %d is (%d, %d)", k, i, a, b)
			}
			seen[[2]int32{min(a, b), max(a, b)}] = true
		}
		if len(seen) != want {
			t.Errorf("K = %d: %d different pairs of %d", k, len(seen), want)
		}
	}
	if p := DrawPairs(rng.Stream("pairs-test"), []int32{3, 3}, frames, 100, true); len(p) != 2*12 {
		t.Errorf("one episode: %d numbers, want the 12 pairs within clips", len(p))
	}
}

// The paper's forms of the prediction error and of SIGReg against the formulas: the sum
// over the D = 3 numbers of a latent, averaged over rows, and SIGReg of all rows as
// clips of one frame. Gradients are compared with central differences.
func TestPrintedTerms(t *testing.T) {
	b := newBench()
	emb, pred, target := b.random(8, 3, 1), b.random(6, 3, 1), b.random(6, 3, 1)
	out := model.Output{Emb: emb, Pred: pred, Target: target}
	sum := 0.0
	for i, x := range b.values(pred) {
		d := x - b.values(target)[i]
		sum += d * d
	}
	pooled := device.NewMat(b.dev, 1, 1)
	SIGReg(b.p, pooled, device.Mat{}, emb, Directions(b.p, 3, 5, Draw{}.Key("sigreg")), 1, 0)
	setting := Setting{Numbers: Numbers{Directions: 5, PredictionSum: true, PooledSIGReg: true}, Weight: 0.3, Frames: 4, Dim: 3}
	for name, want := range map[string]float64{model.Prediction: sum / 6, model.SIGReg: b.values(pooled)[0]} {
		term := Terms[name](setting)
		result, run := device.NewMat(b.dev, 1, 2), term.Prepare(Batch{})
		value := func() float64 {
			run(b.p, result, Gradients{}, out)
			return max(term.Scale, 1) * b.values(result)[0]
		}
		if got := value(); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s is %.12g, want %.12g", name, got, want)
		}
		g := Gradients{Emb: b.p.Zero(8, 3), Pred: b.p.Zero(6, 3), Target: b.p.Zero(6, 3)}
		run(b.p, result, g, out)
		weighted := func() float64 { return 0.3 * value() }
		for _, of := range []struct{ at, grad device.Mat }{{emb, g.Emb}, {pred, g.Pred}, {target, g.Target}} {
			b.differences(t, of.at, b.values(of.grad), weighted)
		}
	}
}

// The gradient of the term is compared with central differences of its value, for both
// readings of the loss and a head of another width.
func TestRegressionGradient(t *testing.T) {
	for reading, scale := range map[string]float64{"authors": 1, "paper": 3} { // mean over d_q = 3, or sum
		b := newBench()
		var s nn.Set
		term := Terms[model.Regression](Setting{Numbers: Numbers{AuxLoss: reading, AuxHidden: 7}, Params: &s, Weight: 0.3, Dim: 5, Q: 3})
		s.Alloc(b.dev, true)
		s.Init(b.dev, func(name string) *rand.Rand { return rng.Stream("aux-test", name) })
		if n := s.Len(); n != 5*7+7+7*3+3 {
			t.Errorf("a head 5-7-3 of %d numbers", n)
		}
		z, q, loss := b.random(8, 5, 1), b.random(8, 3, 1), device.NewMat(b.dev, 1, 2)
		run := term.Prepare(Batch{Q: q})
		value := func() float64 {
			run(b.p, loss, Gradients{}, model.Output{Emb: z})
			return 0.3 * scale * b.values(loss)[0]
		}
		g := b.p.Zero(8, 5)
		run(b.p, loss, Gradients{Emb: g}, model.Output{Emb: z})
		b.differences(t, z, b.values(g), value)
		b.differences(t, s.Value, b.values(s.Grad), value)
		if term.Scale != scale {
			t.Errorf("scale %g, want %g", term.Scale, scale)
		}
	}
}

// Two orthogonal directions of equal variance have effective rank 2, and points on a
// line have rank 1. All norms of the first case are 2, so that their deviation is 0.
func TestMeasure(t *testing.T) {
	h := Measure([]float64{2, 0, 0, -2, 0, 0, 0, 2, 0, 0, -2, 0}, 3)
	if math.Abs(h.EffectiveRank-2) > 1e-12 || h.NormMean != 2 || h.NormStd != 0 {
		t.Errorf("%+v", h)
	}
	if h := Measure([]float64{1, 1, 3, 3, 8, 8}, 2); math.Abs(h.EffectiveRank-1) > 1e-6 {
		t.Errorf("a line has rank %g", h.EffectiveRank)
	}
}
