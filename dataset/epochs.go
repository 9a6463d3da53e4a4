package dataset

import "scalewm/dataset/rng"

// epochOrder is the order of the clips in an epoch, one permutation each.
type epochOrder struct {
	n     int
	seed  int64
	epoch int
	perm  []int32
}

func (o *epochOrder) of(epoch int) []int32 {
	if epoch == o.epoch {
		return o.perm
	}
	o.epoch, o.perm = epoch, make([]int32, o.n)
	r := rng.Stream("loader", o.seed, epoch)
	for i := range o.perm {
		j := r.IntN(i + 1)
		o.perm[i] = o.perm[j]
		o.perm[j] = int32(i)
	}
	return o.perm
}
