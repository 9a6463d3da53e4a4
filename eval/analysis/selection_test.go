package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/geometry"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// track is a data set in memory: a place on a line, x, and noise y, drawn as the red and
// the green of frames of 2 x 2 pixels. The action moves x.
type track struct {
	dataset.Source
	episodes  []dataset.Episode
	x, y, act []float64
}

func newTrack(lengths ...int) *track {
	s, r := &track{}, rng.Stream("selection test")
	for _, n := range lengths {
		s.episodes = append(s.episodes, dataset.Episode{Offset: len(s.x), Len: n})
		for x, t := float64(100+r.IntN(50)), 0; t < n; t++ {
			a := float64(r.IntN(9) - 4)
			s.x, s.y, s.act = append(s.x, x), append(s.y, float64(r.IntN(20))), append(s.act, a)
			x = min(max(x+a, 0), 255)
		}
	}
	return s
}

func (s *track) Rows() int                    { return len(s.x) }
func (s *track) Episodes() []dataset.Episode  { return s.episodes }
func (s *track) FrameSize() int               { return 2 }
func (s *track) Attr(string) (string, bool)   { return "", false }
func (s *track) Fingerprint() (string, error) { return "a-track", nil }
func (s *track) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: "float32", Width: 1}, {Name: "x", DType: "float32", Width: 1}}
}
func (s *track) Read(column string, from, to int) ([]float64, error) {
	if column == "action" {
		return slices.Clone(s.act[from:to]), nil
	}
	return slices.Clone(s.x[from:to]), nil
}
func (s *track) Frame(row int, dst []byte) error {
	for i := range 4 {
		dst[3*i], dst[3*i+1], dst[3*i+2] = byte(s.x[row]), byte(s.y[row]), 0
	}
	return nil
}

// place is the task state x.
var place = envs.Q{Name: "full", Columns: []string{"x"}, Parts: []string{"x"}, Of: func(r envs.Row, q []float64) { copy(q, r["x"]) }}

// job returns a selection on all episodes of the track, whose actions are z-scored with mean
// 0 and deviation 2.
func (s *track) job(t *testing.T, q ...envs.Q) Job {
	t.Helper()
	task := envs.Task{Spec: &envs.Spec{Name: dataset.NoTask, ActionDim: 1, Qs: q}}
	d, err := eval.NewData(s, task, results.Published())
	if err != nil {
		t.Fatal(err)
	}
	d.Actions = dataset.Moments{Mean: []float64{0}, Std: []float64{2}}
	j := Job{Job: eval.Job{Task: task, Data: d, Rules: results.Published(), Workers: 2}}
	for e := range s.episodes {
		j.Held = append(j.Held, e)
	}
	return j
}

// lift is what a follower predicts that y moves by. Without it and an odd gain, frames would be equally far
// from a prediction, whose order rounding decides.
const lift = .3137

// follower is a model whose latent is scale * (x, y) / 255. It predicts that x moves by gain
// times the actions and y by lift.
type follower struct {
	dev         device.Device
	gain, scale float64
}

func (w follower) Device() device.Device    { return w.dev }
func (w follower) PredictorCalls(h int) int { return h }
func (w follower) Free()                    {}
func (w follower) Info() model.Info {
	return model.Info{Kind: "follower", Patches: 1, Dim: 2, History: 1, FrameSize: 2, ActionWidth: results.UsualBlock, FrameSkip: results.UsualBlock}
}

func (w follower) mat(rows, cols int, values ...float64) device.Mat {
	m := device.NewMat(w.dev, rows, cols)
	w.dev.Upload64(m, values)
	return m
}

func (w follower) Encode(dst device.Mat, frames device.Bytes, n int) {
	px := device.NewMat(w.dev, n, 12) // numbers of a frame: 4 of each colour
	w.dev.Patches(px, frames, device.Frames{Count: n, Size: 2, Patch: 2, Std: [3]float64{1, 1, 1}})
	read := make([]float64, 24)
	for i := range 4 {
		read[i], read[12+4+i] = w.scale/4, w.scale/4
	}
	w.dev.Gemm(device.NT, dst, px, w.mat(2, 12, read...), device.Epilogue{})
}

func (w follower) Rollout(dst, start, candidates device.Mat, h int) {
	move := make([]float64, 2*candidates.Cols)
	for i := range candidates.Cols {
		move[i] = w.scale * w.gain * 2 / 255 // 2 is the deviation of the actions
	}
	w.dev.Gemm(device.NT, dst, candidates, w.mat(2, candidates.Cols, move...), device.Epilogue{Bias: w.mat(1, 2, 0, lift*w.scale/255)})
	w.dev.Axpy(dst, 1, start)
}

// The measures of clips are those of a plain computation from the recorded numbers, and
// those of latents those of the analyses probe and rank.
func TestSelection(t *testing.T) {
	s := newTrack(70, 60, 80, 55, 90)
	j := s.job(t, place)
	const gain = .7937
	w := follower{ref.New(), gain, 3}
	got, err := Select(t.Context(), j, w)
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := j.selectionRows()
	if err != nil || c.n < selectionClips || c.blocks != 10 || got.Clips != c.n || got.Episodes != 5 {
		t.Fatalf("%d clips of %d blocks, %+v, %v", c.n, c.blocks, got, err)
	}
	// Plain twin: latents and predictions in units of 1/255, without the scale, which cancels.
	first := func(i int) int { return c.rows[i*11] }
	sq := func(ax, ay, bx, by float64) float64 { return (ax-bx)*(ax-bx) + (ay-by)*(ay-by) }
	var spread, pairs float64
	for _, a := range c.rows {
		for _, b := range c.rows {
			spread += sq(s.x[a], s.y[a], s.x[b], s.y[b])
			pairs++
		}
	}
	spread /= pairs - float64(len(c.rows)) // mean over pairs of two different frames
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-4*math.Abs(want)+1e-9 {
			t.Errorf("%s: %.9g, want %.9g", what, got, want)
		}
	}
	clip := make([]results.ClipScore, c.n)
	for h := 1; h <= 10; h++ {
		var e, still, other, rank float64
		for i := range c.n {
			at := func(with int) float64 { // x after the actions of a clip
				x := s.x[first(i)]
				for k := range 5 * h {
					x += gain * s.act[first(with)+k]
				}
				return x
			}
			x, y, end := at(i), s.y[first(i)], first(i)+5*h
			mine, shuffled := sq(x, y+lift, s.x[end], s.y[end])/spread, sq(at((i+1)%c.n), y+lift, s.x[end], s.y[end])/spread
			unchanged, nearer := sq(s.x[first(i)], y, s.x[end], s.y[end])/spread, 0.0
			for k := range c.n {
				if row := first(k) + 5*h; sq(x, y+lift, s.x[row], s.y[row])/spread < mine {
					nearer++
				}
			}
			nearer /= float64(c.n - 1)
			e, still, other, rank = e+mine, still+unchanged, other+shuffled, rank+nearer
			clip[i].Error += mine / 10
			clip[i].NextRank += nearer / 10
			if h == 5 {
				clip[i].Sensitivity = sq(x, 0, at((i+1)%c.n), 0) / spread
			}
		}
		b, n := got.PerBlock[h-1], float64(c.n)
		if b.Blocks != h {
			t.Errorf("block %d is %d", h, b.Blocks)
		}
		near("error", b.Error, e/n)
		near("unchanged latent", b.NoChange, still/n)
		near("other actions", b.OtherActions, other/n)
		near("rank", b.NextRank, rank/n)
	}
	for i, want := range clip {
		have := got.PerClip[i]
		near("error of a clip", have.Error, want.Error)
		near("rank of a clip", have.NextRank, want.NextRank)
		near("sensitivity of a clip", have.Sensitivity, want.Sensitivity)
		if ep := s.episodes[have.Episode]; first(i) < ep.Offset || first(i) >= ep.Offset+ep.Len {
			t.Errorf("clip %d is not of episode %d", i, have.Episode)
		}
	}
	near("scale", got.Scale, spread*9/255/255) // the latents are 3 times as large

	// The other analyses, on the same sample.
	sample, err := j.held()
	if err != nil {
		t.Fatal(err)
	}
	l, err := encodeSample(t.Context(), j.Job, w, sample)
	if err != nil {
		t.Fatal(err)
	}
	probe, err := l.probe()
	rank, err2 := l.rank()
	spectrum, err3 := l.spectrum()
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	for _, p := range probe.Scores {
		if p.Probe == "ridge" && p.K == 2 && p.Component == "mean" && p.R2 != got.ProbeR2 {
			t.Errorf("probe %g, want %g", got.ProbeR2, p.R2)
		}
	}
	if got.ProbeR2 < .99 || got.Alignment != rank[0].Spearman || float64(got.EffectiveRank) != spectrum.Participation/2 || got.Frames != 355 || got.Missing != "" {
		t.Errorf("%g %g %g of %d frames, %q", got.ProbeR2, got.Alignment, got.EffectiveRank, got.Frames, got.Missing)
	}
}

// SIGReg of zeros is .4020476 for each frame, and of N(0, I) 1.0525 on average
// (docs/sources.md#sigreg).
func TestSelectionSIGReg(t *testing.T) {
	z := geometry.Samples[float32]{N: 50, D: 8, X: make([]float32, 400)}
	if v, err := sigreg(ref.New(), z); err != nil || math.Abs(float64(v)-50*.4020476) > 1e-3 {
		t.Errorf("zeros: %g, %v", v, err)
	}
	r := rng.Stream("sigreg test")
	for i := range z.X {
		z.X[i] = float32(r.NormFloat64())
	}
	if v, err := sigreg(ref.New(), z); err != nil || math.Abs(float64(v)-1.0525) > .5 {
		t.Errorf("normal latents: %g, %v", v, err)
	}
}

// Without a task state, the measures that compare with it are missing.
func TestSelectionWithoutState(t *testing.T) {
	got, err := Select(t.Context(), newTrack(70, 70, 70).job(t), follower{ref.New(), 1, 1})
	if err != nil || got.ProbeR2 == got.ProbeR2 || got.Alignment == got.Alignment || got.SIGReg != got.SIGReg || !strings.Contains(got.Missing, "no state q") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Short episodes give shorter clips, the longest of which there are enough, and too few rows
// or a collapsed model are errors.
func TestSelectionOfFewRows(t *testing.T) {
	for _, c := range []struct {
		lengths []int
		blocks  int // 0: too few
	}{
		{[]int{51, 51}, 5},  // h blocks leave 2 * (51 - 5h) starts: 52 for 5, 42 for 6
		{[]int{100}, 10},    // 50
		{[]int{99}, 9},      // 49 of ten blocks, 54 of nine
		{[]int{30, 30}, 1},  // 50
		{[]int{30, 29}, 0},  // 49
		{[]int{5, 5, 5}, 0}, // no clip of one block
	} {
		j := newTrack(c.lengths...).job(t, place)
		_, clips, err := j.selectionRows()
		if c.blocks == 0 {
			if err == nil || !strings.Contains(err.Error(), "the measures need 50 (hint: ") {
				t.Errorf("%v: %v", c.lengths, err)
			}
			continue
		}
		if err != nil || clips.blocks != c.blocks {
			t.Errorf("%v: clips of %d blocks, %v", c.lengths, clips.blocks, err)
		}
	}
	for _, scale := range []float64{0, math.NaN()} {
		if got, err := Select(t.Context(), newTrack(70, 70).job(t, place), follower{ref.New(), 1, scale}); err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("a model of scale %g: %+v, %v", scale, got, err)
		}
	}
}
