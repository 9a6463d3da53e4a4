package dataset

import (
	"fmt"
	"math/rand/v2"

	"scalewm/dataset/rng"
)

// Clip is one training example: frames that are a fixed number of rows apart, all in
// one episode. Row is the file's row of the first frame.
type Clip struct{ Episode, Row int }

// Clips returns every clip of frames frames that are skip rows apart, episode by
// episode: every start s with s <= len - frames*skip. The last frame is thus followed
// by its complete block of skip actions, although no frame shows their result
// (docs/sources.md#clips). Episodes shorter than frames*skip have no clips.
func Clips(src Source, frames, skip int) []Clip {
	if frames < 1 || skip < 1 {
		panic("dataset: Clips needs frames >= 1 and skip >= 1")
	}
	span, n := frames*skip, 0
	eps := src.Episodes()
	for _, e := range eps {
		n += max(0, e.Len-span+1)
	}
	clips := make([]Clip, 0, n)
	for i, e := range eps {
		for s := 0; s+span <= e.Len; s++ {
			clips = append(clips, Clip{Episode: i, Row: e.Offset + s})
		}
	}
	return clips
}

// Protocol is one of two ways to train and evaluate, whose results are never mixed
// (docs/protocol.md#two-protocols).
type Protocol string

const (
	// Paper repeats the published experiment. Training holds out single clips, so
	// that the model sees nearly every episode; evaluation starts anywhere in the
	// file except at its last valid row, and all sets share their noise.
	Paper Protocol = "paper"
	// Strict holds out entire episodes and evaluates on those alone. It leaves out
	// starts that already meet the goal and gives every set its own noise.
	Strict Protocol = "strict"
)

// ParseProtocol returns the protocol of a name.
func ParseProtocol(s string) (Protocol, error) {
	switch p := Protocol(s); p {
	case Paper, Strict:
		return p, nil
	}
	return "", fmt.Errorf("unknown protocol %q (hint: paper or strict)", s)
}

// Cuts is a data set prepared for training: the clips to train on, the clips to
// validate on, and the moments for scaling actions. Under Paper the moments are taken
// over the entire file, under Strict over the training episodes only, so that nothing
// held out influences the training.
type Cuts struct {
	Train, Val []Clip
	Action     Moments
}

// Cut returns the clips of a data set, split and with the moments of its actions.
func Cut(src Source, protocol Protocol, frames, skip int, seed int64) (c Cuts, err error) {
	if c.Train, c.Val, err = Split(protocol, src, Clips(src, frames, skip), seed); err != nil {
		return c, err
	}
	var episodes []int
	if protocol == Strict {
		fp, err := src.Fingerprint()
		if err != nil {
			return c, err
		}
		episodes = TrainEpisodes(fp, len(src.Episodes()))
	}
	c.Action, err = ColumnMoments(src, "action", episodes, 0)
	return c, err
}

// valShare is the share of clips (Paper) or episodes (Strict) that is held out.
const valShare = 0.1

// Split divides clips into training and validation, 90 to 10, both in the order of
// clips. The split is drawn from the data's fingerprint and, under Paper, the seed.
// The strict split is the same for all training seeds, so that all checkpoints can be
// evaluated on the same episodes.
func Split(protocol Protocol, src Source, clips []Clip, seed int64) (train, val []Clip, err error) {
	fp, err := src.Fingerprint()
	if err != nil {
		return nil, nil, fmt.Errorf("splitting the data set: %w", err)
	}
	var held func(i int) bool
	switch protocol {
	case Paper:
		out := drawn(len(clips), rng.Stream("split-clips", fp, seed))
		held = func(i int) bool { return out[i] }
	case Strict:
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

// HeldOut returns the episodes that the strict split holds out, in ascending order.
func HeldOut(fingerprint string, episodes int) []int {
	return where(drawnEpisodes(fingerprint, episodes), true)
}

// TrainEpisodes returns the episodes that the strict split trains on, in ascending
// order.
func TrainEpisodes(fingerprint string, episodes int) []int {
	return where(drawnEpisodes(fingerprint, episodes), false)
}

// where returns the indices at which marks has value.
func where(marks []bool, value bool) []int {
	var out []int
	for i, v := range marks {
		if v == value {
			out = append(out, i)
		}
	}
	return out
}

// drawnEpisodes marks the episodes that the strict split holds out of n.
func drawnEpisodes(fingerprint string, n int) []bool {
	return drawn(n, rng.Stream("split-episodes", fingerprint))
}

// drawn marks round(valShare*n) of n items at random, at least one if there are two
// or more.
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
