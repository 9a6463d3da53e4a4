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

// How far and how often predictions are compared with stored frames.
const (
	dynamicsBlocks = 10
	dynamicsClips  = 200
)

// dynamics predicts recorded episodes from their recorded actions, 1 to 10
// blocks ahead, and compares with the latents of their stored frames; no simulator
// is needed. Beside each error stand that of a latent that never changes and that of
// the same model under the actions of another clip: a model that is no better than
// the latter ignores its actions.
func (j measurement) dynamics(ctx context.Context) (*results.Dynamics, error) {
	c, err := cutClips(j.Job.Job, j.world.Info().ActionWidth)
	if err != nil {
		return nil, err
	}
	z, err := j.Latents(ctx, j.world, c.rows)
	if err != nil {
		return nil, err
	}
	info := j.world.Info()
	width := info.Patches * info.Dim
	at := func(clip, block int) []float32 { return z[(clip*(c.blocks+1)+block)*width:][:width] }
	imagined := []int{nearest(z, at(0, 0))} // of the first clip, by block: a frame among all that were encoded
	out := &results.Dynamics{Clips: c.n}
	if out.Scale, _ = spread(z, width, rng.Stream("dynamics scale")); !(out.Scale > 0) {
		return nil, fmt.Errorf("measuring dynamics: all frames have the same latent (hint: the model has collapsed)")
	}
	first := make([]float32, 0, c.n*width)
	for i := range c.n {
		first = append(first, at(i, 0)...)
	}
	for h := 1; h <= c.blocks; h++ {
		own, err := model.Predict(j.world, first, c.actions(h, 0), h)
		if err != nil {
			return nil, err
		}
		others, err := model.Predict(j.world, first, c.actions(h, 1), h)
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
	if j.Film == "" {
		return out, nil
	}
	f, err := j.film(c, imagined)
	if err == nil {
		err = f.Save(j.Film)
	}
	return out, err
}

// nearest is the place of the latent among all that is nearest to one.
func nearest(all, z []float32) (at int) {
	least := math.Inf(1)
	for i := range len(all) / len(z) {
		if d := squared(all[i*len(z):(i+1)*len(z)], z); d < least {
			least, at = d, i
		}
	}
	return at
}

// film shows the first clip as it was recorded and beside it what the model imagined
// from its first frame and its actions: after each block the stored frame whose latent
// is nearest to the predicted one.
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
	for step := range c.blocks*eval.Block + 1 {
		add(&f.Frames, c.rows[0]+step)
		add(&f.Beside, c.rows[imagined[step/eval.Block]])
	}
	return f, err
}

// clips are pieces of episodes whose frames are a block apart.
type clips struct {
	n, blocks int
	width     int   // numbers of an action block
	rows      []int // (blocks+1) a clip
	z         []float32
}

// cutClips draws clips of episodes that the protocol allows, no row of which is
// the last one of its episode, which has no action. Where episodes are shorter than
// ten blocks the clips are too.
func cutClips(j eval.Job, width int) (c clips, err error) {
	c.width = width
	sample, err := sampleOf(j)
	if err != nil {
		return c, err
	}
	eps := j.Data.Episodes()
	longest := 0
	for _, e := range sample.Episodes {
		longest = max(longest, eps[e].Len)
	}
	c.blocks = min(dynamicsBlocks, (longest-1)/eval.Block)
	for _, k := range sample.Order { // shuffled
		row, e := sample.Rows[k], eps[sample.Episodes[k]]
		if c.n == dynamicsClips || c.blocks == 0 {
			break
		}
		if row+c.blocks*eval.Block >= e.Offset+e.Len {
			continue
		}
		c.n++
		for b := range c.blocks + 1 {
			c.rows = append(c.rows, row+b*eval.Block)
		}
		actions, err := j.ScaledActions(row, row+c.blocks*eval.Block)
		if err != nil {
			return c, err
		}
		c.z = append(c.z, actions...)
	}
	if c.n < 2 {
		return c, fmt.Errorf("measuring dynamics: %d clips of %d blocks (hint: collect longer episodes)", c.n, c.blocks)
	}
	return c, nil
}

// actions are the first h blocks of each clip's actions, or of those of the clip
// that stands so many places behind it.
func (c clips) actions(h, places int) []float32 {
	var out []float32
	for i := range c.n {
		own := c.z[(i+places)%c.n*c.blocks*c.width:]
		out = append(out, own[:h*c.width]...)
	}
	return out
}
