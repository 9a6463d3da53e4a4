package eval

import (
	"context"
	"math"
	"slices"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/rng"
	"scalewm/envs"
	_ "scalewm/envs/tworoom"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// recording is a dataset.Source in memory: episodes of the Two-Room expert, whose
// frames are drawn on demand.
type recording struct {
	episodes []dataset.Episode
	state    []float64 // rows x 2
	action   []float64 // rows x 2, NaN in the last row of an episode
	attr     map[string]string
	noFrames bool
	tint     byte // added to every byte of a frame
}

func (s *recording) Rows() int                   { return len(s.state) / 2 }
func (s *recording) Episodes() []dataset.Episode { return s.episodes }
func (s *recording) FrameSize() int {
	if s.noFrames {
		return 0
	}
	return envs.FrameSize
}
func (s *recording) Attr(name string) (string, bool) {
	v, ok := s.attr[name]
	return v, ok
}
func (s *recording) Fingerprint() (string, error) { return "a-recording-for-tests", nil }
func (s *recording) Close() error                 { return nil }
func (s *recording) Columns() []envs.Column {
	return []envs.Column{{Name: "state", DType: "float32", Width: 2}, {Name: "proprio", DType: "float32", Width: 2}, {Name: "action", DType: "float32", Width: 2}}
}

func (s *recording) Read(column string, from, to int) ([]float64, error) {
	if column == "action" {
		return slices.Clone(s.action[2*from : 2*to]), nil
	}
	return slices.Clone(s.state[2*from : 2*to]), nil
}

func (s *recording) Frame(row int, dst []byte) error {
	e, err := tworoom().New(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.SetState(envs.Row{"state": s.state[2*row : 2*row+2]}); err != nil {
		return err
	}
	if err := e.Frame(dst); err != nil {
		return err
	}
	for i := range dst {
		dst[i] += s.tint
	}
	return nil
}

func tworoom() envs.Task {
	t, err := envs.Lookup("tworoom")
	if err != nil {
		panic(err)
	}
	return t
}

// recordEpisodes records n episodes of the expert.
func recordEpisodes(t testing.TB, n int) *recording {
	t.Helper()
	e, err := tworoom().New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tworoom().Policy("expert")
	if err != nil {
		t.Fatal(err)
	}
	s := &recording{}
	for i := range n {
		must(t, e.Reset(rng.Stream("test env", i)))
		must(t, p.Reset(e, rng.Stream("test policy", i)))
		ep := dataset.Episode{Offset: s.Rows()}
		for done := false; ; {
			var at, a [2]float64
			must(t, e.Observe("state", at[:]))
			s.state = append(s.state, at[:]...)
			ep.Len++
			if done || ep.Len > tworoom().Spec.MaxSteps {
				s.action = append(s.action, math.NaN(), math.NaN())
				break
			}
			must(t, p.Act(e, a[:]))
			s.action = append(s.action, a[:]...)
			out, err := e.Step(a[:])
			must(t, err)
			done = out.Terminated
		}
		s.episodes = append(s.episodes, ep)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dotWorld is a world model whose latent is the position of the dot, read off the
// frame by a fixed linear map, and whose dynamics add the actions: Two-Room without
// walls. It runs on a device's kernels like a trained model.
type dotWorld struct {
	d       device.Device
	info    model.Info
	read    device.Mat // 2 x 3*S*S
	bias    device.Mat // 1 x 2
	move    device.Mat // 2 x H*A: a plan's shift in pixels, from z-scored actions
	shift   device.Mat // 1 x 2: of the mean actions of a plan actions
	horizon int
	spoil   func(pred device.Mat) // changes what is predicted; nil: nothing does
}

const dotFrame = 28 // pixels, 8 of a stored frame's each

// newDotWorld calibrates the map on an empty floor and on one with the dot: away from
// walls, the green that the dot removes weighs x and y with the same mass.
func newDotWorld(t *testing.T, d device.Device, actions dataset.Moments, horizon int) *dotWorld {
	t.Helper()
	w := &dotWorld{d: d, horizon: horizon, info: model.Info{Kind: "dot", Patches: 1, Dim: 2, History: 1,
		FrameSize: dotFrame, ActionWidth: 2 * results.UsualBlock, FrameSkip: results.UsualBlock}}
	n := 3 * dotFrame * dotFrame
	w.read, w.bias = device.NewMat(d, 2, n), device.NewMat(d, 1, 2)
	w.calibrate(t)
	h := horizon * w.info.ActionWidth
	move, shift := make([]float64, 2*h), make([]float64, 2)
	for i := range h {
		move[(i%2)*h+i] = 5 * actions.Std[i%2]
		shift[i%2] += 5 * actions.Mean[i%2]
	}
	w.move, w.shift = device.NewMat(d, 2, h), device.NewMat(d, 1, 2)
	d.Upload64(w.move, move)
	d.Upload64(w.shift, shift)
	return w
}

// calibrate fits latent = position at two drawn positions, from the centroid of the
// green that the dot removes.
func (w *dotWorld) calibrate(t *testing.T) {
	frame := func(x, y float64) []byte {
		e, err := tworoom().New(nil)
		must(t, err)
		must(t, e.SetState(envs.Row{"state": {x, y}}))
		px, small := make([]byte, envs.FrameBytes), make([]byte, 3*dotFrame*dotFrame)
		must(t, e.Frame(px))
		dataset.NewResizer(envs.FrameSize, dotFrame).Resize(small, px)
		return small
	}
	a, b := frame(60, 100), frame(60, 140)
	mass, plane := 0.0, dotFrame*dotFrame
	for i := range plane {
		mass += float64(i/dotFrame) * (float64(a[3*i+1]) - float64(b[3*i+1])) / 255
	}
	scale := 40 / mass // pixels of place for one of the centroid's sum
	read, bias := make([]float64, 2*3*plane), []float64{-60, -100}
	for i := range plane {
		read[plane+i] = -scale * float64(i%dotFrame)
		read[3*plane+plane+i] = -scale * float64(i/dotFrame)
		bias[0] -= read[plane+i] * float64(a[3*i+1]) / 255
		bias[1] -= read[3*plane+plane+i] * float64(a[3*i+1]) / 255
	}
	bias[0], bias[1] = bias[0]+120, bias[1]+200
	w.d.Upload64(w.read, read)
	w.d.Upload64(w.bias, bias)
}

func (w *dotWorld) Info() model.Info         { return w.info }
func (w *dotWorld) Device() device.Device    { return w.d }
func (w *dotWorld) PredictorCalls(h int) int { return h }
func (w *dotWorld) Free()                    {}

func (w *dotWorld) Encode(dst device.Mat, frames device.Bytes, n int) {
	px := device.NewMat(w.d, n, w.read.Cols)
	w.d.Patches(px, frames, device.Frames{Count: n, Size: dotFrame, Patch: dotFrame, Std: [3]float64{1, 1, 1}})
	w.d.Gemm(device.NT, dst, px, w.read, device.Epilogue{Bias: w.bias})
}

func (w *dotWorld) Rollout(dst, start, candidates device.Mat, h int) {
	shift := w.shift
	if h < w.horizon {
		shift = device.NewMat(w.d, 1, 2)
		w.d.Axpy(shift, float64(h)/float64(w.horizon), w.shift)
	}
	w.d.Gemm(device.NT, dst, candidates, w.move.Columns(0, candidates.Cols), device.Epilogue{Bias: shift})
	per := candidates.Rows / start.Rows
	for e := range start.Rows {
		w.d.CopyBlocks(dst.RowRange(e*per, per), 1, start.RowRange(e, 1), 0, 1, true)
	}
	if w.spoil != nil {
		w.spoil(dst)
	}
}

// rules returns the published rules under a protocol.
func rules(protocol string) results.Rules {
	r := results.Published()
	r.Protocol = protocol
	return r
}

// trial is a job together with its agent.
type trial struct {
	Job
	Agent
}

func (t trial) load() (Agent, error) { return t.Agent, nil }

func (t trial) evaluation(store cell.Store) Evaluation {
	return Evaluation{Job: t.Job, Store: store, Load: t.load, Note: func(string) {}}
}

func (t trial) cells(ctx context.Context, store cell.Store) ([]results.Cell, []Failure, error) {
	o, err := t.evaluation(store).Run(ctx)
	return o.Cells, o.Failed, err
}

// testJob is a small evaluation of the dot world.
func testJob(t *testing.T, tier string, episodes int, sets ...string) trial {
	t.Helper()
	d, err := NewData(recordEpisodes(t, 8), tworoom(), rules(results.Paper))
	must(t, err)
	engine, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	j := trial{Job{Task: tworoom(), Data: d, Rules: rules(results.Paper), Solver: "cem", Workers: 1,
		Arm: Arm{Method: "lewm", TrainSeed: 1, Weights: "w", Protocol: results.Paper, Actions: d.Actions}}, Agent{World: newDotWorld(t, engine, d.Actions, results.Published().Horizon)}}
	j.Precision = "fp32"
	tiers, err := ParseTiers(tier)
	must(t, err)
	j.Tier = tiers[0]
	for _, name := range sets {
		s, err := d.Set(name, episodes)
		must(t, err)
		j.Sets = append(j.Sets, s)
	}
	return j
}
