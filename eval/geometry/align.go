package geometry

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"scalewm/envs/parallel"
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
	qAtZ     []int32 // place in q's order of the pair at each place of z's
	pearson  float64
	episodes int
	// For the interval pairs that are neighbours in q's order stand in one bucket, as if
	// their distances were equal: all their ranks stay in a near cache, and the
	// correlation changes in its seventh digit. These are the buckets of the pairs in q's
	// order and in z's.
	bucketAtQ, bucketAtZ []uint16
}

const buckets = 1 << 16

// sorted are pairs in ascending order of their distance.
type sorted struct {
	pairs []int32
	ends  []uint32   // episodes of both samples of each pair
	ties  [][2]int32 // first and last place of pairs at the same distance
}

// Compare sorts the squared distances of latents and those of task states, which are
// standardised first. episode numbers the samples' episodes, in any way.
func Compare(dz []float64, q Samples[float64], episode []int) *Distances {
	dq := SquaredDistances(Standardised(q), Components{})
	number := map[int]uint32{} // of episodes, from 0
	of := make([]uint32, len(episode))
	for i, e := range episode {
		if _, known := number[e]; !known {
			number[e] = uint32(len(number))
		}
		of[i] = number[e]
	}
	ends := make([]uint32, 0, len(dz))
	for i, e := range of {
		for _, f := range of[i+1:] {
			ends = append(ends, e<<16|f)
		}
	}
	d := &Distances{qAtZ: make([]int32, len(dz)), episodes: len(number)}
	parallel.For(context.Background(), parallel.Workers(0, 3), 3, func(_, i int) error { // no error: nothing fails
		switch i {
		case 0:
			d.z = ascending(dz, ends)
		case 1:
			d.q = ascending(dq, ends)
		default:
			d.pearson = stats.Pearson(dz, dq)
		}
		return nil
	})
	at := make([]int32, len(dz))
	for k, pair := range d.q.pairs {
		at[pair] = int32(k)
	}
	n := len(dz)
	d.bucketAtQ, d.bucketAtZ = make([]uint16, n), make([]uint16, n)
	for k := range n {
		d.bucketAtQ[k] = uint16(k * min(buckets, n) / n)
	}
	for _, tie := range d.q.ties {
		for k := tie[0]; k <= tie[1]; k++ {
			d.bucketAtQ[k] = d.bucketAtQ[tie[0]]
		}
	}
	for k, pair := range d.z.pairs {
		d.qAtZ[k] = at[pair]
		d.bucketAtZ[k] = d.bucketAtQ[at[pair]]
	}
	return d
}

// Align correlates the distances. The interval is of draws bootstrap samples over
// episodes, since pairs share frames and frames share episodes; draw i comes from
// stream(i). No draws give no interval (NaN), and neither does one episode.
func (d *Distances) Align(draws int, stream func(i int) *rand.Rand) Alignment {
	n := len(d.qAtZ)
	once := slices.Repeat([]float64{1}, d.episodes)
	a := Alignment{Pairs: n, Pearson: d.pearson, Spearman: d.spearman(once, make([]float32, 2*n)), Lo: math.NaN(), Hi: math.NaN()}
	if d.episodes < 2 {
		draws = 0
	}
	workers := parallel.Workers(0, draws)
	memory, all := make([][]float32, workers), make([]float64, draws)         // a rank a pair, and one a bucket
	parallel.For(context.Background(), workers, draws, func(w, i int) error { // no error: nothing fails
		if memory[w] == nil {
			memory[w] = make([]float32, n+buckets)
		}
		counts, r := make([]float64, d.episodes), stream(i)
		for range counts {
			counts[r.IntN(d.episodes)]++
		}
		all[i] = d.resampled(counts, memory[w])
		return nil
	})
	all = slices.DeleteFunc(all, math.IsNaN) // draws of one frame
	if slices.Sort(all); len(all) > 0 {
		a.Lo, a.Hi = stats.Quantile(all, 0.025), stats.Quantile(all, 0.975)
	}
	return a
}

// spearman is the rank correlation where each episode stands as often as counts
// says: a pair of frames counts once for each pair of their copies, and no frame
// is paired with its own copy. memory has two numbers a pair; ranks below 2^23 are
// exact in float32, halves included.
func (d *Distances) spearman(counts []float64, memory []float32) float64 {
	n := len(d.qAtZ)
	zRank, qRank := memory[:n], memory[n:2*n]
	d.z.ranks(zRank, counts)
	middle := (d.q.ranks(qRank, counts) + 1) / 2 // the mean rank
	var qq, zz, zq float64
	for k, ends := range d.z.ends {
		w := counts[ends>>16] * counts[ends&0xffff]
		z, q := float64(zRank[k])-middle, float64(qRank[d.qAtZ[k]])-middle
		zz += w * z * z
		zq += w * z * q
		qq += w * q * q
	}
	return zq / math.Sqrt(zz*qq) // NaN for 0/0
}

// resampled is spearman with buckets of q's ranks. memory has a number a pair, and
// one a bucket.
func (d *Distances) resampled(counts []float64, memory []float32) float64 {
	n := len(d.qAtZ)
	zRank, qRank := memory[:n], memory[n:]
	middle := (d.z.ranks(zRank, counts) + 1) / 2
	before := 0.0
	for k := 0; k < n; {
		bucket, inside := d.bucketAtQ[k], 0.0
		for ; k < n && d.bucketAtQ[k] == bucket; k++ {
			ends := d.q.ends[k]
			inside += counts[ends>>16] * counts[ends&0xffff]
		}
		qRank[bucket] = float32(before + (inside+1)/2 - middle)
		before += inside
	}
	var qq, zz, zq float64
	for k, ends := range d.z.ends {
		w := counts[ends>>16] * counts[ends&0xffff]
		z, q := float64(zRank[k])-middle, float64(qRank[d.bucketAtZ[k]])
		zz += w * z * z
		zq += w * z * q
		qq += w * q * q
	}
	return zq / math.Sqrt(zz*qq)
}

// ranks gives each value its average rank among values that stand as often as the
// counts of their pair's episodes say, and returns how many these are.
func (s sorted) ranks(dst []float32, counts []float64) float64 {
	before := 0.0
	for k, ends := range s.ends {
		w := counts[ends>>16] * counts[ends&0xffff]
		dst[k] = float32(before + (w+1)/2)
		before += w
	}
	for _, tie := range s.ties {
		first, last := tie[0], tie[1]
		sum, n := 0.0, 0.0
		for k := first; k <= last; k++ {
			w := counts[s.ends[k]>>16] * counts[s.ends[k]&0xffff]
			sum += w * float64(dst[k])
			n += w
		}
		for k := first; k <= last && n > 0; k++ {
			dst[k] = float32(sum / n)
		}
	}
	return before
}

// ascending sorts pairs by their distances, which are not negative: their bits are in
// the same order as they are. A radix sort of the first 40 bits, behind which the pair
// stands in place of the others, comes first; the few pairs that are equal in these
// are then sorted by the whole.
func ascending(x []float64, ends []uint32) sorted {
	const digits, lowest = 5, 24 // of 8 bits
	pair := uint64(1)<<max(lowest, bits.Len(uint(len(x)))) - 1
	keys, other := make([]uint64, len(x)), make([]uint64, len(x))
	var count [digits][256]int
	for i, v := range x {
		k := math.Float64bits(v)<<1&^pair | uint64(i)
		for d := range count {
			count[d][byte(k>>(lowest+8*d))]++
		}
		keys[i] = k
	}
	for d := range count {
		place := 0
		for b, n := range count[d] {
			count[d][b], place = place, place+n
		}
		for _, k := range keys {
			next := &count[d][byte(k>>(lowest+8*d))]
			other[*next] = k
			*next++
		}
		keys, other = other, keys
	}
	for first := 0; first < len(keys); {
		last := first + 1
		for last < len(keys) && keys[last]&^pair == keys[first]&^pair {
			last++
		}
		if last > first+1 {
			slices.SortFunc(keys[first:last], func(a, b uint64) int {
				return cmp.Or(cmp.Compare(x[a&pair], x[b&pair]), cmp.Compare(a, b))
			})
		}
		first = last
	}
	s := sorted{pairs: make([]int32, len(x)), ends: make([]uint32, len(x))}
	for i, k := range keys {
		at := int32(k & pair)
		s.pairs[i], s.ends[i] = at, ends[at]
		switch {
		case i == 0 || k&^pair != keys[i-1]&^pair || x[at] != x[s.pairs[i-1]]:
		case len(s.ties) > 0 && s.ties[len(s.ties)-1][1] == int32(i-1):
			s.ties[len(s.ties)-1][1]++
		default:
			s.ties = append(s.ties, [2]int32{int32(i - 1), int32(i)})
		}
	}
	return s
}
