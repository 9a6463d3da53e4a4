// Package analysis measures properties of a checkpoint other than its success rate:
//
//   - rank, spectrum, probe and leverage: the geometry of its latents (package geometry) on the
//     published sample of frames
//   - rollout: its predictions of random actions, compared with the simulator
//   - dynamics: its predictions of recorded actions, compared with stored frames
//   - cost: the work and the time of planning and training
//
// Run computes the analyses that a store of cells lacks and returns the results of
// all. Each result is a cell, whose spec (Job.Spec) includes everything that the
// result depends on.
package analysis

import (
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng/numpy"
	"scalewm/eval"
	"scalewm/eval/results"
)

// The published sample has 1,500 frames of a tenth of the episodes, and 20,000 pairs
// of these frames, drawn by NumPy's generator with seed 0
// (docs/sources.md#latent-analyses).
const (
	sampleRows  = 1500
	samplePairs = 20000
	sampleSeed  = 0
)

// Sample is the set of frames that all analyses of latents use.
type Sample struct {
	Rows     []int    // row indices in the file, ascending
	Episodes []int    // episode of each row
	Order    []int    // random order of the frames: probes are fitted on its first half
	Pairs    [][2]int // random pairs of distinct frames
}

// sampleOf draws the sample of a job's data under its protocol.
func sampleOf(j eval.Job) (Sample, error) {
	heldOut := j.Data.HeldOut()
	if j.Protocol == results.Strict && len(heldOut) == 0 {
		return Sample{}, fmt.Errorf("drawing the frames to analyse: no episode of the data set is held out, as --protocol strict needs (hint: give the data set that the checkpoint was trained on, of two episodes or more)")
	}
	return Draw(j.Data.Episodes(), heldOut)
}

// Draw returns the published sample of a data set. If heldOut is not empty, the
// frames come from all of these episodes, as under the strict protocol, and otherwise
// from a random tenth of all episodes. If there are fewer than 1,500 rows, all of
// them are used. The order of the calls of the generator is that of the authors'
// code, and determines the sample.
func Draw(episodes []dataset.Episode, heldOut []int) (Sample, error) {
	g := numpy.New(sampleSeed)
	kept := heldOut
	if len(heldOut) == 0 {
		for _, e := range g.Permutation(int64(len(episodes)))[:max(1, len(episodes)/10)] {
			kept = append(kept, int(e))
		}
	}
	var s Sample
	var pool, of []int // rows to draw from, and the episode of each
	for _, e := range kept {
		for t := range episodes[e].Len {
			pool, of = append(pool, episodes[e].Offset+t), append(of, e)
		}
	}
	if len(pool) < 2 {
		return s, fmt.Errorf("drawing the frames to analyse: %d of %d episodes have %d rows (hint: collect a larger data set)", len(kept), len(episodes), len(pool))
	}
	// Choice draws without replacement. Sorting by row makes reading the frames
	// sequential.
	n := min(sampleRows, len(pool))
	drawn := g.Choice(int64(len(pool)), int64(n))
	slices.SortFunc(drawn, func(a, b int64) int { return pool[a] - pool[b] })
	for _, k := range drawn {
		s.Rows, s.Episodes = append(s.Rows, pool[k]), append(s.Episodes, of[k])
	}
	for _, k := range g.Permutation(int64(n)) {
		s.Order = append(s.Order, int(k))
	}
	for range samplePairs {
		if a, b := int(g.Integers(0, int64(n))), int(g.Integers(0, int64(n))); a != b {
			s.Pairs = append(s.Pairs, [2]int{a, b})
		}
	}
	return s, nil
}
