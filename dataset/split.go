package dataset

import (
	"fmt"
	"slices"

	"scalewm/dataset/rng"
)

// The two splits (DESIGN, contract 5): paper draws single clips, so that nearly
// every episode is seen in training; strict holds out whole episodes.
const (
	SplitPaper  = "paper"
	SplitStrict = "strict"
)

// valShare of the clips (paper) or episodes (strict) is held out.
const valShare = 0.1

// Split divides clips into training and validation, 90 to 10, in clip order.
// It depends on the protocol, the data's fingerprint and the seed alone.
func Split(protocol string, src Source, clips []Clip, seed int64) (train, val []Clip, err error) {
	fp, err := src.Fingerprint()
	if err != nil {
		return nil, nil, fmt.Errorf("splitting the data set: %w", err)
	}
	var held func(i int) bool
	switch protocol {
	case SplitPaper:
		out := drawn(len(clips), "split-clips", fp, seed)
		held = func(i int) bool { return out[i] }
	case SplitStrict:
		out := drawn(len(src.Episodes()), "split-episodes", fp, seed)
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
// ascending order. An evaluation recomputes it from a checkpoint's fingerprint
// and seed, to refuse episodes that were trained on.
func HeldOut(fingerprint string, episodes int, seed int64) []int {
	var out []int
	for i, held := range drawn(episodes, "split-episodes", fingerprint, seed) {
		if held {
			out = append(out, i)
		}
	}
	return out
}

// TrainEpisodes is the complement of HeldOut.
func TrainEpisodes(fingerprint string, episodes int, seed int64) []int {
	held := HeldOut(fingerprint, episodes, seed)
	var out []int
	for i := range episodes {
		if _, ok := slices.BinarySearch(held, i); !ok {
			out = append(out, i)
		}
	}
	return out
}

// drawn marks round(valShare*n) of n items, at least one when there are two or more.
func drawn(n int, purpose, fingerprint string, seed int64) []bool {
	k := int(valShare*float64(n) + 0.5)
	if n > 1 {
		k = max(k, 1)
	}
	out := make([]bool, n)
	for _, i := range rng.Stream(purpose, fingerprint, seed).Perm(n)[:k] {
		out[i] = true
	}
	return out
}
