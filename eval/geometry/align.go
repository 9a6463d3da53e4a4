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

// Alignment says how distances of latents follow distances of task states.
type Alignment struct {
	Pairs             int
	Spearman, Pearson float64 // NaN where one side does not vary
	Lo, Hi            float64 // 95 % interval of Spearman over episodes
}

// Distances are the squared distances of all pairs of the same samples in two
// spaces, each sorted once for all that is asked of them.
type Distances struct {
	z, q     sorted
	pearson  float64
	episode  []int // of each sample, from 0
	episodes int
}

// sorted are pairs in ascending order of their distance.
type sorted struct {
	pairs []int32
	ties  [][2]int32 // first and last place of pairs at the same distance
}

// Compare sorts the squared distances of latents and those of task states, which are
// standardised first. episode numbers the samples' episodes, in any way.
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
	parallel.For(context.Background(), parallel.Workers(0, 3), 3, func(_, i int) error { // no error: nothing fails
		switch i {
		case 0:
			d.z = ascending(dz)
		case 1:
			d.q = ascending(dq)
		default:
			d.pearson = stats.Pearson(dz, dq)
		}
		return nil
	})
	return d
}

// Align correlates the distances. The interval is of draws bootstrap samples over
// episodes, since pairs share frames and frames share episodes; draw i comes from
// stream(i). No draws give no interval (NaN), and neither does one episode.
func (d *Distances) Align(draws int, stream func(i int) *rand.Rand) Alignment {
	a := Alignment{Pairs: len(d.z.pairs), Pearson: d.pearson, Spearman: d.spearman(nil), Lo: math.NaN(), Hi: math.NaN()}
	if d.episodes < 2 {
		draws = 0
	}
	twos := (draws + 1) / 2
	workers := parallel.Workers(0, twos)
	var own []*resampler
	if draws > 0 {
		own = d.resamplers(workers)
	}
	all := make([]float64, 2*twos)
	parallel.For(context.Background(), workers, twos, func(w, i int) error { // no error: nothing fails
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
	all = slices.DeleteFunc(all[:draws], math.IsNaN) // draws of one frame
	if slices.Sort(all); len(all) > 0 {
		a.Lo, a.Hi = stats.Quantile(all, 0.025), stats.Quantile(all, 0.975)
	}
	return a
}

// spearman is the rank correlation where each episode stands as often as drawn
// says, or once without it: a pair of frames counts once for each pair of their copies, and
// no frame is paired with its own copy. Ranks below 2^23 are exact in float32, halves included.
func (d *Distances) spearman(drawn []int) float64 {
	n := len(d.z.pairs)
	zWeights := slices.Repeat([]float64{1}, n)
	qWeights := zWeights
	if drawn != nil {
		zWeights, qWeights = d.weights(d.z, drawn), d.weights(d.q, drawn)
	}
	zRank, inOrder, qRank := make([]float32, n), make([]float32, n), make([]float32, n)
	d.z.ranks(zRank, zWeights)
	middle := (d.q.ranks(inOrder, qWeights) + 1) / 2 // the mean rank
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

// weights are how often pairs stand, in ascending order of their distance.
func (d *Distances) weights(s sorted, drawn []int) (out []float64) {
	for _, ends := range d.ends(s) {
		out = append(out, float64(drawn[int(ends)/d.episodes]*drawn[int(ends)%d.episodes]))
	}
	return out
}

// ends are the episodes of both samples of each pair, as one index of a square table, in
// ascending order of their distance.
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

// resampler is spearman for two bootstrap samples at a time: its tables hold a whole number
// for each of them, in the lower and the upper half of 64 bits, so that one addition
// serves both. Twice a rank less the mean rank is a whole number: 2n+w-all for a pair that
// stands w times behind n of all others. Pairs that are neighbours in q's order stand in
// one bucket, as if their distances were equal: all their ranks stay in a near cache, and
// the correlation changes in its seventh digit.
type resampler struct {
	*Distances
	*places
	weights []uint64 // how often pairs of two episodes stand
	qRank   []uint64 // of the pairs in each bucket
}

const buckets = 1 << 16

// places is what resamplers look up for the pairs in z's or q's order.
type places struct {
	zEnds, qEnds []uint32 // their episodes, as ends
	counts       []int    // how many pairs each two episodes have
	bucketEnds   []int32  // where each bucket ends in q's order
	bucketAtZ    []uint16 // the buckets in z's order
}

// resamplers are n, each with tables of its own.
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
	p := places{d.ends(d.z), d.ends(d.q), make([]int, d.episodes*d.episodes), make([]int32, buckets), make([]uint16, pairs)}
	for k, bucket := range inOrder {
		p.counts[p.qEnds[k]]++
		p.bucketEnds[bucket] = int32(k + 1)
		of[d.q.pairs[k]] = bucket
	}
	for bucket := range p.bucketEnds[1:] { // nothing is inside some
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

// The sum of w*rank*rank over pairs is (all^3 - the sum of w^3)/3, where pairs of one rank
// are one that stands as often as all of them.
func (r *resampler) spearman(drawn [2][]int) (rho [2]float64) {
	clear(r.weights)
	var all [2]int64
	var zq, zCubes, qCubes [2]float64
	for half, drawn := range drawn {
		for at, n := range r.counts {
			w := drawn[at/r.episodes] * drawn[at%r.episodes]
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

// rankBuckets ranks the buckets of q and adds the cubes of how often their pairs stand.
func (r *resampler) rankBuckets(all [2]int64, cubes *[2]float64) {
	first, before := int32(0), uint64(0)
	for bucket, end := range r.bucketEnds {
		inside := uint64(0)
		for _, ends := range r.qEnds[first:end] {
			inside += r.weights[ends]
		}
		first = end
		a, b := halves(2*before + inside)
		r.qRank[bucket] = uint64(b-all[1])<<32 | uint64(uint32(a-all[0]))
		before += inside
		a, b = halves(inside)
		cubes[0] += cube(a)
		cubes[1] += cube(b)
	}
}

// sum adds the products of both ranks, and to the cubes what ties of z change. The mean
// is taken off q's ranks only, which is enough for their covariance.
func (r *resampler) sum(zq, cubes *[2]float64) {
	before, first := uint64(0), int32(0)
	for _, tie := range r.z.ties {
		before = r.sumUntied(before, first, tie[0], zq)
		var inside uint64
		var sum [2]int64
		for k := tie[0]; k <= tie[1]; k++ {
			w, q := r.weights[r.zEnds[k]], r.qRank[r.bucketAtZ[k]]
			inside += w
			a, b := halves(w)
			cubes[0] -= cube(a)
			cubes[1] -= cube(b)
			sum[0] += a * int64(int32(q))
			sum[1] += b * (int64(q) >> 32)
		}
		a, b := halves(before + inside)
		zq[0] += float64(a) * float64(sum[0])
		zq[1] += float64(b) * float64(sum[1])
		before += 2 * inside
		a, b = halves(inside)
		cubes[0] += cube(a)
		cubes[1] += cube(b)
		first = tie[1] + 1
	}
	r.sumUntied(before, first, int32(len(r.zEnds)), zq)
}

// sumUntied adds the products of pairs at places of z's order that have no ties, and
// moves on what stands before.
func (r *resampler) sumUntied(before uint64, first, end int32, zq *[2]float64) uint64 {
	const chunk = 1024 // whose sum is far from the largest int64
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

// halves are the two numbers in one.
func halves(v uint64) (lower, upper int64) { return int64(uint32(v)), int64(v >> 32) }

func cube(v int64) float64 { return float64(v) * float64(v) * float64(v) }

// ranks gives each value its average rank among values that stand as often as their
// weights say, all in ascending order, and returns how many these are.
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

// ascending sorts pairs by their distances, which are not negative: their bits are in
// the same order as they are. A radix sort comes first, of the leading 33 bits of how far
// the bits of each are from those of the least, before the number of the pair; the few pairs
// that are equal in these are then sorted by the whole.
func ascending(x []float64) sorted {
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
