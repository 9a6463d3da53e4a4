package analysis

import (
	"context"
	"fmt"
	"math"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// Size of the measurement of dynamics.
const (
	dynamicsBlocks = 10  // maximum number of blocks ahead
	dynamicsClips  = 200 // maximum number of clips
)

// dynamics predicts recorded clips from their first frames and their recorded
// actions, 1 to 10 blocks ahead, and compares with the latents of their stored
// frames. It does not need a simulator.
//
// It reports two baselines for each error: the error of a constant latent, and that
// of the same model with the actions of another clip. A model whose error is no lower
// than the second ignores its actions.
//
// Errors are squared distances, divided by the mean squared distance of two frames'
// latents.
func (j measurement) dynamics(ctx context.Context) (*results.Dynamics, error) {
	sample, err := sampleOf(j.Job.Job)
	if err != nil {
		return nil, err
	}
	blocks := min(dynamicsBlocks, (longest(j.Data.Episodes(), sample)-1)/results.UsualBlock) // same for all clips
	c := clipsOf(j.Data.Episodes(), sample, blocks)
	if c.n < 2 {
		return nil, fmt.Errorf("measuring dynamics: %d clips of %d blocks (hint: collect longer episodes)", c.n, c.blocks)
	}
	if err := c.read(j.Job.Job, j.world.Info().ActionWidth); err != nil {
		return nil, err
	}
	z, err := j.Latents(ctx, j.world, c.rows)
	if err != nil {
		return nil, err
	}
	info := j.world.Info()
	width := info.Patches * info.Dim
	// at returns the latent of a clip's frame after that many blocks.
	at := func(clip, block int) []float32 { return z[(clip*(c.blocks+1)+block)*width:][:width] }
	// imagined has, for the first clip and each number of blocks, the index of the
	// encoded frame whose latent is nearest to the prediction.
	imagined := []int{nearest(z, at(0, 0))}
	out := &results.Dynamics{Clips: c.n}
	if out.Scale, _ = spread(z, width, rng.Stream("dynamics scale")); !(out.Scale > 0) {
		return nil, fmt.Errorf("measuring dynamics: all frames have the same latent (hint: the model has collapsed)")
	}
	// Every number of blocks is a separate rollout from the first frames, as in
	// planning. All clips are one call: E = n episodes with one candidate each.
	first := make([]float32, 0, c.n*width)
	for i := range c.n {
		first = append(first, at(i, 0)...)
	}
	for h := 1; h <= c.blocks; h++ {
		own, others, err := c.predict(j.world, first, h)
		if err != nil {
			return nil, err
		}
		b := results.Block{Blocks: h}
		for i := range c.n {
			end := at(i, h)
			b.Error += squared(own[i*width:(i+1)*width], end) / out.Scale / float64(c.n)
			b.OtherActions += squared(others[i*width:(i+1)*width], end) / out.Scale / float64(c.n)
			b.NoChange += squared(at(i, 0), end) / out.Scale / float64(c.n)
		}
		out.PerBlock = append(out.PerBlock, b)
		imagined = append(imagined, nearest(z, own[:width]))
	}
	if j.Films[results.DynamicsAnalysis] == "" {
		return out, nil
	}
	f, err := j.film(c, imagined)
	if err == nil {
		err = f.Save(j.Films[results.DynamicsAnalysis])
	}
	return out, err
}

// nearest returns the index of the latent in all that is nearest to z. Of equally
// near ones it returns the first.
func nearest(all, z []float32) (at int) {
	least := math.Inf(1)
	for i := range len(all) / len(z) {
		if d := squared(all[i*len(z):(i+1)*len(z)], z); d < least {
			least, at = d, i
		}
	}
	return at
}

// film shows the first clip twice, side by side: as it was recorded, and as the model
// predicts it from the first frame and the actions. The model cannot draw frames, so
// that after each block the film shows the stored frame whose latent is nearest to
// the predicted one.
func (j measurement) film(c clips, imagined []int) (f eval.Film, err error) {
	size := j.Data.FrameSize()
	stored, resize := make([]byte, 3*size*size), dataset.NewResizer(size, envs.FrameSize)
	add := func(frames *[][]byte, row int) {
		px := make([]byte, envs.FrameBytes)
		*frames = append(*frames, px)
		if err == nil {
			err = j.Data.Frame(row, stored)
		}
		resize.Resize(px, stored)
	}
	// One frame per env step. The prediction changes once per block.
	for step := range c.blocks*results.UsualBlock + 1 {
		add(&f.Frames, c.rows[0]+step)
		add(&f.Side, c.rows[imagined[step/results.UsualBlock]])
	}
	return f, err
}

// clips are parts of episodes, with frames one block apart.
type clips struct {
	n, blocks int       // number of clips, and blocks per clip
	episodes  []int     // episode of each clip
	rows      []int     // row indices of the frames, blocks+1 per clip
	width     int       // A, numbers per action block
	z         []float32 // scaled actions, n x blocks*width; set by read, with width
}

// longest returns the number of rows of the longest episode in a sample.
func longest(eps []dataset.Episode, sample Sample) (rows int) {
	for _, e := range sample.Episodes {
		rows = max(rows, eps[e].Len)
	}
	return rows
}

// clipsOf returns clips that begin with the frames of a sample, in its random order. A
// clip does not include the last row of its episode in its actions, since that row has no
// action.
func clipsOf(eps []dataset.Episode, sample Sample, blocks int) clips {
	c := clips{blocks: blocks}
	for _, k := range sample.Order {
		row, e := sample.Rows[k], eps[sample.Episodes[k]]
		if c.n == dynamicsClips || c.blocks == 0 {
			break
		}
		if row+c.blocks*results.UsualBlock >= e.Offset+e.Len {
			continue // the clip would extend beyond its episode
		}
		c.n++
		c.episodes = append(c.episodes, sample.Episodes[k])
		for b := range c.blocks + 1 {
			c.rows = append(c.rows, row+b*results.UsualBlock)
		}
	}
	return c
}

// read reads the actions of the clips, in blocks of width numbers.
func (c *clips) read(j eval.Job, width int) error {
	c.width = width
	for i := range c.n {
		row := c.rows[i*(c.blocks+1)]
		actions, err := j.ScaledActions(row, row+c.blocks*results.UsualBlock)
		if err != nil {
			return err
		}
		c.z = append(c.z, actions...)
	}
	return nil
}

// predict predicts the latents h blocks ahead of the clips' first ones: with their own
// actions, and with those of the next clip.
func (c clips) predict(w model.World, first []float32, h int) (own, others []float32, err error) {
	if own, err = model.Predict(w, first, c.actions(h, 0), h); err == nil {
		others, err = model.Predict(w, first, c.actions(h, 1), h)
	}
	return own, others, err
}

// actions returns the first h blocks of actions for each clip, n x h*A. Clip i gets
// those of clip i+places, modulo n.
func (c clips) actions(h, places int) []float32 {
	var out []float32
	for i := range c.n {
		own := c.z[(i+places)%c.n*c.blocks*c.width:]
		out = append(out, own[:h*c.width]...)
	}
	return out
}
