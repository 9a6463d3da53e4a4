// Package analysis measures checkpoints beside their success: the geometry of their
// latents (package geometry) on the published sample of frames, and what their
// predictions are worth in the simulator.
package analysis

import (
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng/numpy"
	"scalewm/eval"
	"scalewm/eval/results"
)

// The published sample: 1,500 frames of a tenth of the episodes, drawn from
// NumPy's generator with seed 0, and 20,000 pairs of them (docs/sources.md#latent-analyses).
const (
	sampleRows  = 1500
	samplePairs = 20000
	sampleSeed  = 0
)

// Sample are the frames that every analysis of latents looks at.
type Sample struct {
	Rows     []int    // rows of the file, ascending
	Episodes []int    // the episode of each
	Order    []int    // in which probes see the frames: the first half is fitted
	Pairs    [][2]int // of frames, drawn; equal ones are left out
}

// sampleOf is the sample of a job's data under its protocol.
func sampleOf(j eval.Job) (Sample, error) {
	heldOut := j.Data.HeldOut()
	if j.Protocol == results.Strict && len(heldOut) == 0 {
		return Sample{}, fmt.Errorf("drawing the frames that are analysed: no episode of the data set is held out, as --protocol strict needs (hint: give the data set that the checkpoint was trained on, of two episodes or more)")
	}
	return Draw(j.Data.Episodes(), heldOut)
}

// Draw is the published sample of a data set. Under the strict protocol only
// heldOut episodes are drawn from, all of them; else it is empty. Where there are
// fewer than 1,500 rows all are taken.
func Draw(episodes []dataset.Episode, heldOut []int) (Sample, error) {
	g := numpy.New(sampleSeed)
	kept := heldOut
	if len(heldOut) == 0 {
		for _, e := range g.Permutation(int64(len(episodes)))[:max(1, len(episodes)/10)] {
			kept = append(kept, int(e))
		}
	}
	var s Sample
	var pool, of []int
	for _, e := range kept {
		for t := range episodes[e].Len {
			pool, of = append(pool, episodes[e].Offset+t), append(of, e)
		}
	}
	if len(pool) < 2 {
		return s, fmt.Errorf("drawing the frames that are analysed: %d of %d episodes have %d rows (hint: collect a larger data set)", len(kept), len(episodes), len(pool))
	}
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
