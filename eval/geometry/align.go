package geometry

import (
	"context"
	"math"
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

// Compare sorts the distances of latents and of task states, which are
// standardised first. episode numbers the samples' episodes, in any way.
func Compare[T float32 | float64](z Samples[T], q Samples[float64], episode []int) *Distances {
	dz, dq := SquaredDistances(z), SquaredDistances(Standardised(q))
	number := map[int]uint32{} // of episodes, from 0
	for _, e := range episode {
		if _, known := number[e]; !known {
			number[e] = uint32(len(number))
		}
	}
	ends := make([]uint32, 0, len(dz))
	for i, e := range episode {
		for _, f := range episode[i+1:] {
			ends = append(ends, number[e]<<16|number[f])
		}
	}
	d := &Distances{z: ascending(dz, ends), q: ascending(dq, ends), qAtZ: make([]int32, len(dz)), pearson: stats.Pearson(dz, dq), episodes: len(number)}
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

// ascending sorts pairs by their distances, which are not negative. Their bits are in the same order
// as they are, so a radix sort of 11 bits at a time does it in six rounds.
func ascending(x []float64, ends []uint32) sorted {
	const bits, buckets = 11, 1 << 11
	keys, from := make([]uint64, len(x)), make([]int32, len(x))
	for i, v := range x {
		keys[i], from[i] = math.Float64bits(v), int32(i)
	}
	keys2, from2 := make([]uint64, len(x)), make([]int32, len(x))
	for shift := 0; shift < 64; shift += bits {
		var next [buckets + 1]int
		for _, k := range keys {
			next[k>>shift&(buckets-1)+1]++
		}
		if next[keys[0]>>shift&(buckets-1)+1] == len(keys) {
			continue // all alike in these bits
		}
		for b := range buckets {
			next[b+1] += next[b]
		}
		for i, k := range keys {
			b := k >> shift & (buckets - 1)
			keys2[next[b]], from2[next[b]] = k, from[i]
			next[b]++
		}
		keys, keys2, from, from2 = keys2, keys, from2, from
	}
	s := sorted{pairs: from, ends: make([]uint32, len(x))}
	for i, at := range from {
		s.ends[i] = ends[at]
		switch {
		case i == 0 || keys[i] != keys[i-1]:
		case len(s.ties) > 0 && s.ties[len(s.ties)-1][1] == int32(i-1):
			s.ties[len(s.ties)-1][1]++
		default:
			s.ties = append(s.ties, [2]int32{int32(i - 1), int32(i)})
		}
	}
	return s
}
