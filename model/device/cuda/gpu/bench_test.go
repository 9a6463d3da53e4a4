//go:build cuda

package gpu

import (
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	"scalewm/model/lewm"
	"scalewm/model/nn"
	"scalewm/model/objective"
)

// counting counts the floating point operations of matrix products, attention's included.
type counting struct {
	device.Device
	flops float64
}

func (c *counting) Gemm(op device.Op, dst, a, b device.Mat, ep device.Epilogue) {
	m, n, k := op.Dims(a, b)
	c.flops += 2 * float64(m) * float64(n) * float64(k)
	c.Device.Gemm(op, dst, a, b, ep)
}

// scores is a product of queries and keys, of which attention has two and its gradient five.
func scores(h device.Heads) float64 {
	return 2 * float64(h.Seqs*h.Heads) * float64(h.Asking()*h.Len*h.Dim)
}

func (c *counting) Attention(out, lse, q, k, v device.Mat, h device.Heads) {
	c.flops += 2 * scores(h)
	c.Device.Attention(out, lse, q, k, v, h)
}

func (c *counting) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, h device.Heads) {
	c.flops += 5 * scores(h)
	c.Device.AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v, h)
}

func bench(b *testing.B, p device.Precision) *counting {
	b.Helper()
	m, err := Open()
	if err != nil {
		b.Skip(err)
	}
	d, err := cuda.New(m, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return &counting{Device: d}
}

// report gives the time of one of `each` and the rate of its products.
func (c *counting) report(b *testing.B, unit string, each int) {
	b.Helper()
	if err := c.Err(); err != nil {
		b.Fatal(err)
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(seconds*1000/float64(each), "ms/"+unit)
	b.ReportMetric(c.flops/float64(b.N)/seconds/1e12, "TFLOP/s")
}

// random is a matrix of normal numbers.
func random(d device.Device, rows, cols int) device.Mat {
	m := device.NewMat(d, rows, cols)
	d.Normal(m, []uint64{rng.Key("gpu bench", rows, cols)}, 0)
	return m
}

// BenchmarkPeak is one large product: what a share of peak is measured against,
// beside the same product by PyTorch (testdata/peer.py).
func BenchmarkPeak(b *testing.B) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		b.Run(string(p), func(b *testing.B) {
			const n = 8192
			d := bench(b, p)
			x := random(d, n, n)
			a := device.Mat{Buf: d.AllocHalf(n * n), Rows: n, Cols: n, Stride: n}
			w := device.Mat{Buf: d.AllocHalf(n * n), Rows: n, Cols: n, Stride: n}
			d.DropoutApply(a, x, device.Dropout{})
			d.DropoutApply(w, x, device.Dropout{})
			d.Gemm(device.NT, x, a, w, device.Epilogue{})
			d.Sync()
			for d.flops = 0; b.Loop(); d.Sync() {
				d.Gemm(device.NT, x, a, w, device.Epilogue{})
			}
			d.report(b, "product", 1)
		})
	}
}

// paper is the published geometry on Two-Room.
func paper() lewm.Config {
	return lewm.Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048,
		PredictorDepth: 6, PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1,
		History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
}

// BenchmarkTrain is LeWM's whole step at the published geometry, 128 clips of 4
// frames, frames resident.
func BenchmarkTrain(b *testing.B) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		b.Run(string(p), func(b *testing.B) {
			d := bench(b, p)
			s := newStep(b, d, 128)
			for i := range 3 { // memory, then the graph
				s.run(i)
			}
			d.flops = 0
			for i := 3; b.Loop(); i++ {
				s.run(i)
			}
			d.report(b, "step", 1)
		})
	}
}

// step is what training repeats (model/train, without its data and metrics).
type step struct {
	d             *counting
	model         *lewm.Model
	arena         *device.Arena
	clips         int
	pixels        device.Bytes
	moment, sq    device.Mat
	sums, actions device.Mat
}

func newStep(b *testing.B, d *counting, clips int) *step {
	m, err := lewm.Declare(paper())
	if err != nil {
		b.Fatal(err)
	}
	m.Alloc(d, true)
	m.Init(1)
	c, n := m.Config(), m.Params().Len()
	frames := clips * (c.History + 1)
	s := &step{d: d, model: m, arena: device.NewArena(d), clips: clips, pixels: d.AllocBytes(frames * c.ImageSize * c.ImageSize * 3),
		moment: device.NewMat(d, 1, n), sq: device.NewMat(d, 1, n), sums: device.NewMat(d, 1, 3), actions: random(d, frames, c.ActionWidth())}
	px := make([]byte, s.pixels.Len())
	for i := range px {
		px[i] = byte(i * 7919 >> 3)
	}
	d.UploadBytes(s.pixels, px)
	return s
}

func (s *step) run(i int) {
	s.arena.Reset()
	c, set := s.model.Config(), s.model.Params()
	p := &nn.Pass{Dev: s.d, Arena: s.arena, Train: true, DropKey: uint64(i)}
	s.d.Fill(set.Grad, 0)
	out := s.model.Forward(p, lewm.Batch{B: s.clips, Pixels: s.pixels, Actions: s.actions})
	demb := p.Zero(out.Emb.Rows, out.Emb.Cols)
	dpred, dtarget := p.Zero(out.Pred.Rows, out.Pred.Cols), p.Zero(out.Pred.Rows, out.Pred.Cols)
	s.d.MSE(s.sums.Columns(0, 1), dpred, dtarget, out.Pred, out.Target, 1)
	s.model.PredictorGrad(p, demb, dpred, dtarget)
	objective.SIGReg(p, s.sums.Columns(1, 1), demb, out.Emb, objective.Directions(p, c.Dim, 1024, uint64(i)), c.History+1, 0.09)
	s.model.EncoderGrad(p, demb)
	s.d.SumSquares(s.sums.Columns(2, 1), set.Grad)
	s.d.AdamW(set.Value, set.Grad, s.moment, s.sq, s.sums.Columns(2, 1),
		device.AdamW{LR: 5e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 1e-3, MaxNorm: 1, Step: i + 1})
	s.d.Download(make([]float32, 3), s.sums)
}

// BenchmarkPlan is CEM of tier T1 - 30 iterations of 300 candidates of 5 blocks,
// 30 elites - on the device from end to end, for 1 and for 100 episodes side by side.
func BenchmarkPlan(b *testing.B) {
	for name, episodes := range map[string]int{"1": 1, "100": 100} {
		for _, p := range []device.Precision{device.FP32, device.BF16} {
			b.Run(name+"/"+string(p), func(b *testing.B) {
				d := bench(b, p)
				m, err := lewm.New(d, paper(), 1)
				if err != nil {
					b.Fatal(err)
				}
				s := newSearch(d, m, episodes)
				for range 3 { // memory, then the graphs
					s.plan()
				}
				for d.flops = 0; b.Loop(); {
					s.plan()
				}
				d.report(b, "plan", episodes)
			})
		}
	}
}

// search is the state of CEM on E episodes.
type search struct {
	d                                             *counting
	model                                         *lewm.Model
	keys                                          []uint64
	start, goal, mean, std, cand, end, cost, nans device.Mat
	elites                                        device.Ints
}

const (
	planIterations = 30
	planCandidates = 300
	planBlocks     = 5
	planElites     = 30
)

func newSearch(d *counting, m *lewm.Model, episodes int) *search {
	c := m.Config()
	width := planBlocks * c.ActionWidth()
	mat := func(rows, cols int) device.Mat { return device.NewMat(d, rows, cols) }
	return &search{d: d, model: m, keys: make([]uint64, episodes), start: random(d, episodes, c.Dim), goal: random(d, episodes, c.Dim),
		mean: mat(episodes, width), std: mat(episodes, width), cand: mat(episodes*planCandidates, width),
		end: mat(episodes*planCandidates, c.Dim), cost: mat(episodes, planCandidates), nans: mat(episodes, 1),
		elites: d.AllocInts(episodes * planElites)}
}

func (s *search) plan() {
	for e := range s.keys {
		s.keys[e]++
	}
	s.d.Fill(s.mean, 0)
	s.d.Fill(s.std, 1)
	for i := range planIterations {
		s.d.Normal(s.cand, s.keys, uint64(i*planCandidates*s.cand.Cols))
		s.d.Candidates(s.cand, s.mean, s.std, s.cand)
		s.model.Rollout(s.end, s.start, s.cand, planBlocks)
		s.d.LatentCost(s.cost, s.end, s.goal, false)
		s.d.NaNToInf(s.cost, s.nans)
		s.d.SmallestK(s.elites, s.cost, planElites)
		s.d.Moments(s.mean, s.std, s.cand, s.elites, planElites, 1)
	}
	s.d.Download(make([]float32, s.mean.Len()), s.mean)
}
