package dataset

import (
	"fmt"
	"math/rand/v2"

	"scalewm/dataset/rng"
)

// The two splits (docs/protocol.md#two-protocols): paper draws single clips, so that nearly
// every episode is seen in training; strict holds out whole episodes.
const (
	SplitPaper  = "paper"
	SplitStrict = "strict"
)

// valShare of the clips (paper) or episodes (strict) is held out.
const valShare = 0.1

// Split divides clips into training and validation, 90 to 10, in clip order.
// It depends on the protocol and the data's fingerprint, and under paper on the
// seed: the strict split is one for all training seeds, so that all checkpoints
// can be judged on the same episodes.
func Split(protocol string, src Source, clips []Clip, seed int64) (train, val []Clip, err error) {
	fp, err := src.Fingerprint()
	if err != nil {
		return nil, nil, fmt.Errorf("splitting the data set: %w", err)
	}
	var held func(i int) bool
	switch protocol {
	case SplitPaper:
		out := drawn(len(clips), rng.Stream("split-clips", fp, seed))
		held = func(i int) bool { return out[i] }
	case SplitStrict:
		out := drawnEpisodes(fp, len(src.Episodes()))
		held = func(i int) bool { return out[clips[i].Episode] }
	default:
		return nil, nil, fmt.Errorf("no split named %q (hint: paper or strict)", protocol)
	}
	for i, c := range clips {
		if held(i) {
			val = append(val, c)
		} else {
			train = append(train, c)
		}
	}
	return train, val, nil
}

// HeldOut lists the episodes that the strict split keeps from training, in
// ascending order.
func HeldOut(fingerprint string, episodes int) []int {
	return where(drawnEpisodes(fingerprint, episodes), true)
}

// TrainEpisodes is the complement of HeldOut.
func TrainEpisodes(fingerprint string, episodes int) []int {
	return where(drawnEpisodes(fingerprint, episodes), false)
}

func where(marks []bool, value bool) []int {
	var out []int
	for i, v := range marks {
		if v == value {
			out = append(out, i)
		}
	}
	return out
}

func drawnEpisodes(fingerprint string, n int) []bool {
	return drawn(n, rng.Stream("split-episodes", fingerprint))
}

// drawn marks round(valShare*n) of n items, at least one when there are two or more.
func drawn(n int, r *rand.Rand) []bool {
	k := int(valShare*float64(n) + 0.5)
	if n > 1 {
		k = max(k, 1)
	}
	out := make([]bool, n)
	for _, i := range r.Perm(n)[:k] {
		out[i] = true
	}
	return out
}
