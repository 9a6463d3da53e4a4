package geometry

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"scalewm/dataset/parallel"
	"scalewm/eval/stats"
)

// Alignment describes how well distances of latents agree with distances of task
// states.
type Alignment struct {
	Pairs             int
	Spearman, Pearson float64 // NaN if one side does not vary
	Lo, Hi            float64 // 95 % interval of Spearman, bootstrap over episodes
}

// Distances holds the squared distances of all pairs of samples in two spaces, z
// (latents) and q (task states). Each is sorted once, for all statistics and
// bootstrap samples.
type Distances struct {
	z, q     sorted
	pearson  float64
	episode  []int // episode of each sample, numbered from 0
	episodes int   // number of episodes
}

// sorted holds the indices of pairs in ascending order of their distance.
type sorted struct {
	pairs []int32
	ties  [][2]int32 // first and last position of each run of pairs with equal distances
}

// Compare sorts the squared distances dz of latents and those of the task states q,
// which it standardises first. episode holds an identifier of each sample's episode.
func Compare(dz []float64, q Samples[float64], episode []int) *Distances {
	dq := SquaredDistances(Standardised(q), Components{})
	number := map[int]int{}
	d := &Distances{}
	for _, e := range episode {
		if _, known := number[e]; !known {
			number[e] = len(number)
		}
		d.episode = append(d.episode, number[e])
	}
	d.episodes = len(number)
	parallel.For(context.Background(), parallel.Workers(0, 3), 3, func(_, i int) error { // no iteration returns an error
		switch i {
		case 0:
			d.z = sortPairs(dz)
		case 1:
			d.q = sortPairs(dq)
		default:
			d.pearson = stats.Pearson(dz, dq)
		}
		return nil
	})
	return d
}

// Align computes the correlations of the distances, and an interval from a bootstrap
// over episodes. Episodes are the resampled unit, since pairs share frames and frames
// of an episode are dependent. Bootstrap sample i is drawn from stream(i), so that
// the interval does not depend on the number of cores. Without draws, or with one
// episode only, Lo and Hi are NaN.
func (d *Distances) Align(draws int, stream func(i int) *rand.Rand) Alignment {
	a := Alignment{Pairs: len(d.z.pairs), Pearson: d.pearson, Spearman: d.spearman(nil), Lo: math.NaN(), Hi: math.NaN()}
	if d.episodes < 2 {
		draws = 0
	}
	twos := (draws + 1) / 2 // a resampler computes two bootstrap samples at a time
	workers := parallel.Workers(0, twos)
	var own []*resampler
	if draws > 0 {
		own = d.resamplers(workers)
	}
	all := make([]float64, 2*twos)
	parallel.For(context.Background(), workers, twos, func(w, i int) error { // no iteration returns an error
		var drawn [2][]int
		for half := range drawn {
			drawn[half] = make([]int, d.episodes)
			r := stream(2*i + half)
			for range d.episodes {
				drawn[half][r.IntN(d.episodes)]++
			}
		}
		rho := own[w].spearman(drawn)
		copy(all[2*i:], rho[:])
		return nil
	})
	// A bootstrap sample in which all frames are copies of a few has no correlation.
	all = slices.DeleteFunc(all[:draws], math.IsNaN)
	if slices.Sort(all); len(all) > 0 {
		a.Lo, a.Hi = stats.Quantile(all, 0.025), stats.Quantile(all, 0.975)
	}
	return a
}

// spearman returns the rank correlation if each episode is present as often as drawn
// says, or once if drawn is nil. See weight for how often a pair counts. Float32 holds
// ranks below 2^23 exactly, including half ranks of ties.
func (d *Distances) spearman(drawn []int) float64 {
	n := len(d.z.pairs)
	zWeights := slices.Repeat([]float64{1}, n)
	qWeights := zWeights
	if drawn != nil {
		zWeights, qWeights = d.weights(d.z, drawn), d.weights(d.q, drawn)
	}
	zRank, inOrder, qRank := make([]float32, n), make([]float32, n), make([]float32, n)
	d.z.ranks(zRank, zWeights)
	middle := (d.q.ranks(inOrder, qWeights) + 1) / 2 // mean rank
	for k, pair := range d.q.pairs {
		qRank[pair] = inOrder[k]
	}
	var qq, zz, zq float64
	for k, w := range zWeights {
		z, q := float64(zRank[k])-middle, float64(qRank[d.z.pairs[k]])-middle
		zz += w * z * z
		zq += w * z * q
		qq += w * q * q
	}
	return zq / math.Sqrt(zz*qq) // NaN for 0/0
}

// weights returns the weight of each pair, in ascending order of distance.
func (d *Distances) weights(s sorted, drawn []int) (out []float64) {
	for _, ends := range d.ends(s) {
		out = append(out, float64(d.weight(drawn, int(ends))))
	}
	return out
}

// weight returns how often a pair counts in a bootstrap sample, given its episodes e and
// f as the index e*episodes+f: once for each pair of their copies. Within an episode it
// counts once for each copy. Two copies of one episode are not paired, because two
// episodes of the population are never equal: with such pairs, short distances within
// episodes would be twice as frequent as in the data, and the interval would not be
// centred on the estimate.
func (d *Distances) weight(drawn []int, ends int) int {
	e, f := ends/d.episodes, ends%d.episodes
	if e == f {
		return drawn[e]
	}
	return drawn[e] * drawn[f]
}

// ends returns the episodes e and f of the two samples of each pair, as the index
// e*episodes+f, in ascending order of distance.
func (d *Distances) ends(s sorted) []uint32 {
	of, out := make([]uint32, 0, len(s.pairs)), make([]uint32, len(s.pairs))
	for i, e := range d.episode {
		for _, f := range d.episode[i+1:] {
			of = append(of, uint32(e*d.episodes+f))
		}
	}
	for k, pair := range s.pairs {
		out[k] = of[pair]
	}
	return out
}

// resampler computes spearman for two bootstrap samples at a time, much faster:
//
//   - Its tables hold an integer for each of the two samples, in the lower and the
//     upper 32 bits of a word, so that one load or addition serves both.
//   - It uses twice the difference of a rank and the mean rank, which is an integer:
//     2n+w-all, for a pair that counts w times after n others, out of all.
//   - Neighbouring pairs in q's order share a bucket, as if their distances were
//     equal, so that the table of their ranks fits into the L2 cache. This changes
//     the correlation in its seventh digit.
type resampler struct {
	*Distances
	*orderTables
	weights []uint64 // how often pairs of each two episodes count
	qRank   []uint64 // twice the centred rank of the pairs in each bucket
}

// buckets is the number of buckets.
const buckets = 1 << 16

// orderTables holds what all resamplers look up for the pairs in z's or q's order. It
// does not depend on the bootstrap sample.
type orderTables struct {
	zEnds, qEnds []uint32 // the pairs' episodes, as returned by ends
	counts       []int    // number of pairs of each two episodes
	bucketEnds   []int32  // position in q's order at which each bucket ends
	bucketAtZ    []uint16 // bucket of each pair, in z's order
}

// resamplers returns n resamplers, one per goroutine, which share their orderTables.
// Pairs with equal distances in q are always in the same bucket.
func (d *Distances) resamplers(n int) (own []*resampler) {
	pairs := len(d.q.pairs)
	inOrder, of := make([]uint16, pairs), make([]uint16, pairs)
	for k := range inOrder {
		inOrder[k] = uint16(k * min(buckets, pairs) / pairs)
	}
	for _, tie := range d.q.ties {
		for k := tie[0]; k <= tie[1]; k++ {
			inOrder[k] = inOrder[tie[0]]
		}
	}
	p := orderTables{d.ends(d.z), d.ends(d.q), make([]int, d.episodes*d.episodes), make([]int32, buckets), make([]uint16, pairs)}
	for k, bucket := range inOrder {
		p.counts[p.qEnds[k]]++
		p.bucketEnds[bucket] = int32(k + 1)
		of[d.q.pairs[k]] = bucket
	}
	for bucket := range p.bucketEnds[1:] { // some buckets are empty
		p.bucketEnds[bucket+1] = max(p.bucketEnds[bucket], p.bucketEnds[bucket+1])
	}
	for k, pair := range d.z.pairs {
		p.bucketAtZ[k] = of[pair]
	}
	for range n {
		own = append(own, &resampler{d, &p, make([]uint64, len(p.counts)), make([]uint64, buckets)})
	}
	return own
}

// spearman returns the rank correlations of two bootstrap samples. With centred ranks
// that are doubled, the sum of w*rank*rank over all pairs is (all^3 - sum of w^3)/3,
// where tied pairs count as one pair with the sum of their weights. The denominator
// therefore needs no pass over the pairs.
func (r *resampler) spearman(drawn [2][]int) (rho [2]float64) {
	clear(r.weights)
	var all [2]int64
	var zq, zCubes, qCubes [2]float64
	for half, drawn := range drawn {
		for at, n := range r.counts {
			w := r.weight(drawn, at)
			r.weights[at] |= uint64(w) << (32 * half)
			all[half] += int64(n * w)
			zCubes[half] += float64(n) * cube(int64(w))
		}
	}
	r.rankBuckets(all, &qCubes)
	r.sum(&zq, &zCubes)
	for half, all := range all {
		rho[half] = 3 * zq[half] / math.Sqrt((cube(all)-zCubes[half])*(cube(all)-qCubes[half])) // NaN for 0/0
	}
	return rho
}

// rankBuckets computes the ranks of q's buckets, and adds the cube of each bucket's
// weight to cubes.
func (r *resampler) rankBuckets(all [2]int64, cubes *[2]float64) {
	first, before := int32(0), uint64(0)
	for bucket, end := range r.bucketEnds {
		inside := uint64(0)
		for _, ends := range r.qEnds[first:end] {
			inside += r.weights[ends]
		}
		first = end
		a, b := unpack(2*before + inside)
		r.qRank[bucket] = uint64(b-all[1])<<32 | uint64(uint32(a-all[0]))
		before += inside
		a, b = unpack(inside)
		cubes[0] += cube(a)
		cubes[1] += cube(b)
	}
}

// sum adds the products of both ranks to zq, and corrects cubes for the ties of z.
// Only q's ranks are centred: subtracting the mean from one factor is enough for a
// covariance.
func (r *resampler) sum(zq, cubes *[2]float64) {
	before, first := uint64(0), int32(0)
	for _, tie := range r.z.ties {
		before = r.sumUntied(before, first, tie[0], zq)
		var inside uint64
		var sum [2]int64
		for k := tie[0]; k <= tie[1]; k++ {
			w, q := r.weights[r.zEnds[k]], r.qRank[r.bucketAtZ[k]]
			inside += w
			a, b := unpack(w)
			cubes[0] -= cube(a)
			cubes[1] -= cube(b)
			sum[0] += a * int64(int32(q))
			sum[1] += b * (int64(q) >> 32)
		}
		a, b := unpack(before + inside)
		zq[0] += float64(a) * float64(sum[0])
		zq[1] += float64(b) * float64(sum[1])
		before += 2 * inside
		a, b = unpack(inside)
		cubes[0] += cube(a)
		cubes[1] += cube(b)
		first = tie[1] + 1
	}
	r.sumUntied(before, first, int32(len(r.zEnds)), zq)
}

// sumUntied adds the products for the positions [first, end) of z's order, which have
// no ties. before is twice the weight of all earlier pairs, and sumUntied returns its
// new value. Adding w before and after a pair's product gives 2n+w in between.
func (r *resampler) sumUntied(before uint64, first, end int32, zq *[2]float64) uint64 {
	const chunk = 1024 // its sum cannot overflow an int64
	for first < end {
		until := min(end, first+chunk)
		bucket := r.bucketAtZ[first:until]
		var sumA, sumB int64
		for k, ends := range r.zEnds[first:until] {
			w, q := r.weights[ends], r.qRank[bucket[k]]
			before += w
			sumA += int64(uint32(w)) * int64(int32(q)) * int64(uint32(before))
			sumB += int64(w>>32) * (int64(q) >> 32) * int64(before>>32)
			before += w
		}
		zq[0] += float64(sumA)
		zq[1] += float64(sumB)
		first = until
	}
	return before
}

// unpack returns the two integers in a word.
func unpack(v uint64) (lower, upper int64) { return int64(uint32(v)), int64(v >> 32) }

// cube returns v^3.
func cube(v int64) float64 { return float64(v) * float64(v) * float64(v) }

// ranks sets dst to the average rank of each value, in ascending order, if each value
// is present as often as its weight says. It returns the sum of the weights.
func (s sorted) ranks(dst []float32, weights []float64) float64 {
	before := 0.0
	for k, w := range weights {
		dst[k] = float32(before + (w+1)/2)
		before += w
	}
	for _, tie := range s.ties {
		first, last := tie[0], tie[1]
		sum, n := 0.0, 0.0
		for k := first; k <= last; k++ {
			sum += weights[k] * float64(dst[k])
			n += weights[k]
		}
		for k := first; k <= last && n > 0; k++ {
			dst[k] = float32(sum / n)
		}
	}
	return before
}

// sortPairs sorts the indices of distances x in ascending order. Distances are not
// negative, so that their IEEE 754 bits have the same order as the numbers.
//
// A radix sort of three passes sorts by the 33 leading bits of the difference to the
// smallest distance. A key also holds the pair's index in its lower 31 bits. The few
// pairs whose leading bits are equal are then sorted by their complete distance, and
// by index if that is equal too.
func sortPairs(x []float64) sorted {
	const digits, width, pair = 3, 11, 31
	least, most := uint64(math.MaxUint64), uint64(0)
	for _, v := range x {
		least, most = min(least, math.Float64bits(v)), max(most, math.Float64bits(v))
	}
	drop := max(0, bits.Len64(most-least)-digits*width)
	keys, other := make([]uint64, len(x)), make([]uint64, len(x))
	var count [digits][1 << width]uint32
	for i, v := range x {
		k := (math.Float64bits(v) - least) >> drop << pair
		count[0][k>>pair%(1<<width)]++
		count[1][k>>(pair+width)%(1<<width)]++
		count[2][k>>(pair+2*width)]++
		keys[i] = k | uint64(i)
	}
	for d := range count {
		place, shift := uint32(0), pair+width*d
		for digit, n := range count[d] {
			count[d][digit], place = place, place+n
		}
		for _, k := range keys {
			next := &count[d][k>>shift%(1<<width)]
			other[*next] = k
			*next++
		}
		keys, other = other, keys
	}
	const of = 1<<pair - 1
	for first := 0; first < len(keys); {
		last := first + 1
		for last < len(keys) && keys[last]>>pair == keys[first]>>pair {
			last++
		}
		if last > first+1 {
			slices.SortFunc(keys[first:last], func(a, b uint64) int {
				return cmp.Or(cmp.Compare(x[a&of], x[b&of]), cmp.Compare(a, b))
			})
		}
		first = last
	}
	s := sorted{pairs: make([]int32, len(x))}
	for i, k := range keys {
		at := int32(k & of)
		s.pairs[i] = at
		switch {
		case i == 0 || k>>pair != keys[i-1]>>pair || x[at] != x[s.pairs[i-1]]:
		case len(s.ties) > 0 && s.ties[len(s.ties)-1][1] == int32(i-1):
			s.ties[len(s.ties)-1][1]++
		default:
			s.ties = append(s.ties, [2]int32{int32(i - 1), int32(i)})
		}
	}
	return s
}
