package analysis

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/dataset/rng/torch"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/geometry"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/model"
	"scalewm/model/objective"
)

// latents holds a checkpoint's latents of the sample, and the task state at the same
// frames.
type latents struct {
	Sample
	z    geometry.Samples[float32]
	q    geometry.Samples[float64] // the full task state
	full envs.Q                    // its definition
	data *eval.Data
	pca  geometry.Components // computed by the first call of components
}

// newLatents draws the sample and encodes it.
func newLatents(ctx context.Context, j eval.Job, w model.World) (*latents, error) {
	if len(j.Task.Spec.Qs) == 0 {
		return nil, fmt.Errorf("the task %s has no task state q, which latents are compared with (hint: --q-columns names columns of the data set; a task of your own gives Spec.Qs)", j.Task.Spec.Name)
	}
	sample, err := sampleOf(j)
	if err != nil {
		return nil, err
	}
	return encodeSample(ctx, j, w, sample)
}

// ErrNotFinite is returned for a model whose latents or predictions are NaN or infinite.
var ErrNotFinite = errors.New("the model's latents or predictions are not finite (hint: its training diverged, see metrics.jsonl)")

// encodeSample encodes a sample and reads its task state, which is empty without a q.
func encodeSample(ctx context.Context, j eval.Job, w model.World, sample Sample) (l *latents, err error) {
	l = &latents{Sample: sample, data: j.Data}
	if len(j.Task.Spec.Qs) > 0 {
		l.full = j.Task.Spec.Qs[0]
		if l.q, err = l.state(l.full); err != nil {
			return nil, err
		}
	}
	z, err := j.Latents(ctx, w, l.Rows)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(z, func(v float32) bool { return v-v != 0 }) { // NaN or infinite
		return nil, ErrNotFinite
	}
	l.z = geometry.Samples[float32]{N: len(l.Rows), D: len(z) / len(l.Rows), X: z}
	return l, nil
}

// state reads a task state at the sample's frames.
func (l *latents) state(q envs.Q) (geometry.Samples[float64], error) {
	s := geometry.Samples[float64]{N: len(l.Rows), D: len(q.Parts)}
	for _, row := range l.Rows {
		v, err := dataset.ReadQ(l.data.Source, q, row, row+1)
		if err != nil {
			return s, err
		}
		s.X = append(s.X, v...)
	}
	if slices.ContainsFunc(s.X, func(v float64) bool { return v-v != 0 }) {
		return s, fmt.Errorf("the task state %s of the data set is not finite (hint: `scalewm data check` finds the row)", q.Name)
	}
	return s, nil
}

// components returns the principal components of the latents. All three analyses use
// them.
func (l *latents) components() (geometry.Components, error) {
	var err error
	if l.pca.Eigenvalues == nil {
		l.pca, err = geometry.Analyse(l.z)
	}
	return l.pca, err
}

// draws is the number of bootstrap samples for an interval.
const draws = 1000

// rank returns the correlation of distances for the full task state and, if the paper
// prints a different state of the task, for that one.
func (l *latents) rank() (out []results.Rank, err error) {
	p, err := l.components()
	if err != nil { // such as geometry.ErrConstant: equal latents have no distances to rank
		return nil, err
	}
	// Distances of latents are computed once. The streams of the bootstrap do not
	// depend on the arm, so that arms with the same data use the same bootstrap
	// samples.
	dz := geometry.SquaredDistances(l.z, p)
	line := func(name string, q geometry.Samples[float64]) {
		a := geometry.Compare(dz, q, l.Episodes).Align(draws, func(i int) *rand.Rand { return rng.Stream("alignment", i) })
		out = append(out, results.Rank{Q: name, N: l.z.N, Episodes: distinct(l.Episodes), Pairs: a.Pairs,
			Spearman: results.Number(a.Spearman), Pearson: results.Number(a.Pearson), Lo: results.Number(a.Lo), Hi: results.Number(a.Hi)})
	}
	line("", l.q)
	for _, q := range l.data.Task().Spec.Qs {
		if q.Printed {
			printed, err := l.state(q)
			if err != nil {
				return nil, err
			}
			line("printed", printed)
		}
	}
	return out, nil
}

// distinct returns the number of distinct values in x.
func distinct(x []int) int { return len(slices.Compact(slices.Sorted(slices.Values(x)))) }

// spectrum returns the eigenvalues of the latents' covariance and statistics of them.
func (l *latents) spectrum() (*results.Spectrum, error) {
	p, err := l.components()
	if err != nil {
		return nil, err
	}
	s := &results.Spectrum{N: l.z.N, Eigenvalues: p.Spectrum(), Participation: p.ParticipationRatio(),
		EffectiveRank: objective.EffectiveRank(p.Eigenvalues), Stretch: results.Number(geometry.Stretch(l.z, l.q, l.Pairs))}
	for _, v := range p.Eigenvalues {
		s.Variance += v
	}
	return s, nil
}

// probeSizes are the numbers of components that linear probes use, in addition to all
// of them. The first three are those in the paper's figure.
var probeSizes = []int{2, 4, 8, 1, 16, 32, 64, 128, 192, 256, 384}

// ownSeeds is the number of initial weights of the probe with a hidden layer, in
// addition to those of PyTorch's seed 0. The R2 of one network after 30 steps depends
// on its initial weights.
const ownSeeds = 10

// probe returns R2 of the probes: ridge regressions on the first and on the last k
// components, the network with PyTorch's initial weights, and the mean and deviation
// over networks with other ones.
func (l *latents) probe() (*results.Probe, error) {
	p, err := l.components()
	if err != nil {
		return nil, err
	}
	out := &results.Probe{N: l.z.N}
	// Sizes that are not smaller than the number of components are replaced by that
	// number.
	kept := len(p.Eigenvalues)
	sizes := slices.DeleteFunc(slices.Sorted(slices.Values(probeSizes)), func(k int) bool { return k >= kept })
	for _, k := range append(sizes, kept) {
		r2, err := p.Linear(l.q, l.Order, k)
		if err != nil {
			return nil, err
		}
		out.Scores = append(out.Scores, l.scores("ridge", k, r2, nil)...)
		if r2, err = p.LinearOfLast(l.q, l.Order, k); err != nil {
			return nil, err
		}
		out.Scores = append(out.Scores, l.scores("ridge-last", k, r2, nil)...)
	}
	r2, err := p.MLP(l.q, l.Order, geometry.DefaultLayers(kept, l.q.D, torch.New(0).Uniform))
	if err != nil {
		return nil, err
	}
	out.Scores = append(out.Scores, l.scores("mlp", kept, r2, nil)...)
	seeds := make([][]float64, l.q.D+1) // R2 by seed: of each component of q, and of their mean
	for seed := range ownSeeds {
		r := rng.Stream("probe weights", seed)
		r2, err := p.MLP(l.q, l.Order, geometry.DefaultLayers(kept, l.q.D, func(dst []float32, from, to float64) {
			for i := range dst {
				dst[i] = float32(from + (to-from)*r.Float64())
			}
		}))
		if err != nil {
			return nil, err
		}
		for i, v := range append(r2, meanOf(r2)) {
			seeds[i] = append(seeds[i], v)
		}
	}
	// Transpose: the mean and the deviation over seeds of each component, and of the
	// mean.
	var means, sds []float64
	for _, s := range seeds {
		mean, sd := stats.MeanSD(s)
		means, sds = append(means, mean), append(sds, sd)
	}
	out.Scores = append(out.Scores, l.scores("mlp-seeds", kept, means[:l.q.D], sds)...)
	return out, nil
}

// scores returns a row for each component's R2, and one for their mean. sd is nil, or
// has the deviations of all these rows.
func (l *latents) scores(probe string, k int, r2, sd []float64) (out []results.ProbeScore) {
	for i, v := range append(slices.Clone(r2), meanOf(r2)) {
		s := results.ProbeScore{Probe: probe, K: k, Component: "mean", R2: results.Number(v), SD: results.Number(math.NaN())}
		if sd != nil {
			s.SD = results.Number(sd[i])
		}
		if i < len(r2) {
			s.Component = l.full.Parts[i]
			if math.IsNaN(v) {
				s.Note = "it does not vary"
			}
		}
		out = append(out, s)
	}
	return out
}

// leverage returns the metric leverage of the components and of the state's readout, and
// pairs of frames whose distances disagree. It writes their picture to a path, unless
// that is "".
func (l *latents) leverage(picture string) (*results.Leverage, error) {
	p, err := l.components()
	if err != nil {
		return nil, err
	}
	out := &results.Leverage{N: l.z.N, Components: p.Leverage()}
	for k := range out.Components {
		r2, err := p.LinearOfOne(l.q, l.Order, k)
		if err != nil {
			return nil, err
		}
		out.R2 = append(out.R2, results.Number(meanOf(r2)))
	}
	if out.Readout, err = p.Readout(l.q, l.Order); err != nil {
		return nil, err
	}
	if out.Explained, err = p.Explained(l.q); err != nil {
		return nil, err
	}
	near, far := geometry.Compare(geometry.SquaredDistances(l.z, p), l.q, l.Episodes).Contrasts(shownPairs)
	out.Near, out.Far = l.framePairs(near), l.framePairs(far)
	if picture == "" {
		return out, nil
	}
	return out, l.draw(picture, out.Near, out.Far)
}

// framePairs returns pairs of samples as pairs of frames.
func (l *latents) framePairs(all []geometry.Contrast) []results.FramePair {
	out := []results.FramePair{}
	for _, c := range all {
		out = append(out, results.FramePair{Rows: [2]int{l.Rows[c.Samples[0]], l.Rows[c.Samples[1]]}, Latent: c.Z, State: c.Q})
	}
	return out
}

// Layout of the picture of pairs: two lines of pairs, in pixels.
const (
	shownPairs = 3
	frameEdge  = 96
	frameGap   = 4 // between the frames of a pair, and the lines; pairs are three times as far apart
)

// draw writes a picture of lines of pairs as a GIF with a fixed palette, so that equal
// pictures have equal bytes.
func (l *latents) draw(path string, lines ...[]results.FramePair) error {
	size := l.data.FrameSize()
	stored, small, resize := make([]byte, 3*size*size), make([]byte, 3*frameEdge*frameEdge), dataset.NewResizer(size, frameEdge)
	const pair = 2*frameEdge + 4*frameGap
	img := image.NewPaletted(image.Rect(0, 0, shownPairs*pair-3*frameGap, len(lines)*(frameEdge+frameGap)-frameGap), palette.Plan9)
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	for y, line := range lines {
		for x, p := range line {
			for k, row := range p.Rows {
				if err := l.data.Frame(row, stored); err != nil {
					return fmt.Errorf("drawing pairs of frames: %w", err)
				}
				resize.Resize(small, stored)
				at := image.Pt(x*pair+k*(frameEdge+frameGap), y*(frameEdge+frameGap))
				for i := range frameEdge * frameEdge {
					img.Set(at.X+i%frameEdge, at.Y+i/frameEdge, color.RGBA{small[3*i], small[3*i+1], small[3*i+2], 255})
				}
			}
		}
	}
	return safefile.Write(path, func(w io.Writer) error { return gif.Encode(w, img, nil) })
}

// meanOf returns the mean over the components that have an R2.
func meanOf(r2 []float64) float64 {
	m, _ := stats.MeanSD(slices.DeleteFunc(slices.Clone(r2), math.IsNaN))
	return m
}
