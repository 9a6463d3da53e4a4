package analysis

import (
	"context"
	"fmt"
	"math"

	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/eval/geometry"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/nn"
	"scalewm/model/objective"
)

// Settings of the selection (docs/sources.md#selection-measures).
const (
	// selectionClips is the least number of clips. Shorter clips are drawn if there are fewer
	// of ten blocks, since each row of an episode begins one.
	selectionClips  = 50
	sensitiveBlocks = 5    // blocks ahead at which the sensitivity to actions is measured
	sigregDirection = 1024 // random projections of SIGReg, as published
)

// held draws the sample of a selection.
func (j Job) held() (Sample, error) {
	if j.Held != nil {
		return Draw(j.Data.Episodes(), j.Held)
	}
	return sampleOf(j.Job)
}

// selectionRows returns the sample and the clips of a selection, the longest of at most ten
// blocks of which there are enough.
func (j Job) selectionRows() (sample Sample, c clips, err error) {
	if sample, err = j.held(); err != nil {
		return sample, c, err
	}
	for blocks := dynamicsBlocks; blocks > 0; blocks-- {
		if c = clipsOf(j.Data.Episodes(), sample, blocks); c.n >= selectionClips {
			return sample, c, nil
		}
	}
	return sample, c, fmt.Errorf("the %d held-out rows that are drawn, of %d episodes, begin %d clips of one block of actions, and the measures need %d (hint: a larger data set)", len(sample.Rows), distinct(sample.Episodes), c.n, selectionClips)
}

// CheckSelection returns an error if the data set has too few rows for a selection.
func (j Job) CheckSelection() error {
	_, _, err := j.selectionRows()
	return err
}

// Select measures a checkpoint for a selection. It does not need a simulator.
func Select(ctx context.Context, j Job, w model.World) (*results.Selection, error) {
	return measurement{j, w}.selection(ctx)
}

// selection computes the measures of clips and those of latents.
func (j measurement) selection(ctx context.Context) (*results.Selection, error) {
	sample, c, err := j.selectionRows()
	if err != nil {
		return nil, err
	}
	if err := c.read(j.Job.Job, j.world.Info().ActionWidth); err != nil {
		return nil, err
	}
	out, err := j.predicted(ctx, c)
	if err != nil {
		return nil, err
	}
	l, err := encodeSample(ctx, j.Job.Job, j.world, sample)
	if err != nil {
		return nil, err
	}
	return out, l.addTo(out, j.world)
}

// predicted computes the measures of clips: predictions with their own actions and with
// those of the next clip in the random order, compared with the recorded frames.
func (j measurement) predicted(ctx context.Context, c clips) (*results.Selection, error) {
	z, err := j.Latents(ctx, j.world, c.rows)
	if err != nil {
		return nil, err
	}
	width := j.world.Info().Patches * j.world.Info().Dim
	at := func(clip, block int) []float32 { return z[(clip*(c.blocks+1)+block)*width:][:width] }
	out := &results.Selection{Clips: c.n, Episodes: distinct(c.episodes), PerClip: make([]results.ClipScore, c.n)}
	switch out.Scale, _ = spread(z, width, rng.Stream("selection scale")); {
	case out.Scale-out.Scale != 0: // NaN or infinite
		return nil, ErrNotFinite
	case out.Scale == 0:
		return nil, geometry.ErrConstant
	}
	var first []float32
	for i := range c.n {
		first = append(first, at(i, 0)...)
	}
	for h := 1; h <= c.blocks; h++ {
		own, others, err := c.predict(j.world, first, h)
		if err != nil {
			return nil, err
		}
		scores := make([]results.ClipScore, c.n)
		if err := parallel.For(ctx, parallel.Workers(j.Workers, c.n), c.n, func(_, i int) error {
			pred, other, end := own[i*width:(i+1)*width], others[i*width:(i+1)*width], at(i, h)
			s := results.ClipScore{Error: squared(pred, end), OtherActions: squared(other, end), NoChange: squared(at(i, 0), end), Sensitivity: squared(pred, other)}
			if s.Error-s.Error != 0 {
				return ErrNotFinite
			}
			for k := range c.n {
				if squared(pred, at(k, h)) < s.Error {
					s.NextRank += 1 / float64(c.n-1)
				}
			}
			scores[i] = s
			return nil
		}); err != nil {
			return nil, err
		}
		addBlock(out, h, c.blocks, scores)
	}
	for i := range out.PerClip {
		out.PerClip[i].Episode = c.episodes[i]
	}
	return out, nil
}

// addBlock adds the scores of all clips h of n blocks ahead.
func addBlock(out *results.Selection, h, n int, scores []results.ClipScore) {
	b := results.SelectionBlock{Block: results.Block{Blocks: h}}
	clips, blocks := float64(len(scores)), float64(n)
	for i, s := range scores {
		b.Error += s.Error / out.Scale / clips
		b.NoChange += s.NoChange / out.Scale / clips
		b.OtherActions += s.OtherActions / out.Scale / clips
		b.NextRank += s.NextRank / clips
		t := &out.PerClip[i]
		t.Error += s.Error / out.Scale / blocks
		t.NoChange += s.NoChange / out.Scale / blocks
		t.OtherActions += s.OtherActions / out.Scale / blocks
		t.NextRank += s.NextRank / blocks
		if h == min(sensitiveBlocks, n) {
			t.Sensitivity = s.Sensitivity / out.Scale
		}
	}
	out.PerBlock = append(out.PerBlock, b)
}

// addTo adds the measures of latents to a selection.
func (l *latents) addTo(out *results.Selection, w model.World) error {
	none := results.Number(math.NaN())
	out.Frames, out.ProbeR2, out.Alignment, out.SIGReg = l.z.N, none, none, none
	p, err := l.components()
	if err != nil {
		return err
	}
	out.EffectiveRank = results.Number(p.ParticipationRatio() / float64(l.z.D))
	if w.Info().Patches == 1 {
		if out.SIGReg, err = sigreg(w.Device(), l.z); err != nil {
			return err
		}
	} else {
		out.Missing = "SIGReg needs one latent vector for each frame. "
	}
	if l.q.N == 0 {
		out.Missing += "The task has no state q, with which probe and alignment compare latents."
		return nil
	}
	r2, err := p.Linear(l.q, l.Order, len(p.Eigenvalues))
	if err != nil {
		return err
	}
	out.ProbeR2 = results.Number(meanOf(r2))
	a := geometry.Compare(geometry.SquaredDistances(l.z, p), l.q, l.Episodes).Align(0, nil)
	out.Alignment = results.Number(a.Spearman)
	return nil
}

// sigreg returns the loss term SIGReg of latents as one batch of clips of one frame.
func sigreg(d device.Device, z geometry.Samples[float32]) (results.Number, error) {
	p := &nn.Pass{Dev: d, Arena: device.NewArena(d)}
	defer p.Free()
	loss, x := p.Mat(1, 1), p.Mat(z.N, z.D)
	d.Upload(x, z.X)
	objective.SIGReg(p, loss, device.Mat{}, x, objective.Directions(p, z.D, sigregDirection, rng.Key("selection sigreg")), 1, 0)
	var value [1]float64
	d.Download64(value[:], loss)
	return results.Number(value[0]), d.Err()
}
