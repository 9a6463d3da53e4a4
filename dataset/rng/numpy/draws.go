package numpy

import (
	"fmt"
	"math"
	"math/bits"
)

// Integers returns Generator.integers(low, high): a uniform integer in [low, high).
// It panics if the range is empty.
func (g *Generator) Integers(low, high int64) int64 {
	if low >= high {
		panic(fmt.Sprintf("numpy: Integers of the empty range [%d, %d)", low, high))
	}
	return low + int64(g.bounded(uint64(high-low-1)))
}

// bounded returns a uniform integer in [0, max] by Lemire's multiply-and-shift, on
// 32-bit words where they suffice. It branches where NumPy does, because the branches
// consume different numbers of bits: a max of 0 consumes none, and the two full
// ranges return a raw word.
func (g *Generator) bounded(max uint64) uint64 {
	switch {
	case max == 0:
		return 0
	case max == math.MaxUint32:
		return uint64(g.uint32())
	case max < math.MaxUint32:
		return uint64(g.lemire32(uint32(max)))
	case max == math.MaxUint64:
		return g.Uint64()
	}
	return g.lemire64(max)
}

// lemire32 returns a uniform integer in [0, max] for max < 2^32-1: the upper half of
// word*n, where n = max+1. Words whose lower half is below 2^32 mod n are rejected,
// which makes all results equally likely. The threshold needs a division, so it is
// computed only when lo < n, an upper bound of it.
func (g *Generator) lemire32(max uint32) uint32 {
	n := max + 1
	hi, lo := bits.Mul32(g.uint32(), n)
	if lo < n {
		for reject := -n % n; lo < reject; {
			hi, lo = bits.Mul32(g.uint32(), n)
		}
	}
	return hi
}

// lemire64 is lemire32 with 64-bit words.
func (g *Generator) lemire64(max uint64) uint64 {
	n := max + 1
	hi, lo := bits.Mul64(g.Uint64(), n)
	if lo < n {
		for reject := -n % n; lo < reject; {
			hi, lo = bits.Mul64(g.Uint64(), n)
		}
	}
	return hi
}

// Generator.choice without replacement switches its algorithm: if the pool has more
// than tailPool numbers and the sample more than 1/tailCutoff of them, NumPy shuffles
// the tail of the full range instead of sampling with a set.
const (
	tailPool   = 10000
	tailCutoff = 50
)

// Choice returns Generator.choice(pool, size, replace=False): size distinct numbers
// of [0, pool) in random order. It allocates pool numbers only if the sample is more
// than 1/50 of a pool beyond 10,000; otherwise memory is proportional to size. It
// panics if size is negative or exceeds pool.
func (g *Generator) Choice(pool, size int64) []int64 {
	if size < 0 || size > pool {
		panic(fmt.Sprintf("numpy: Choice of %d out of %d without replacement", size, pool))
	}
	if pool > tailPool && size > pool/tailCutoff {
		idx := arange(pool)
		g.shuffle(idx, max(pool-size, 1))
		return append([]int64(nil), idx[pool-size:]...)
	}
	idx := g.floyd(pool, size)
	g.shuffle(idx, 1)
	return idx
}

// floyd returns size distinct numbers of [0, pool) by Floyd's algorithm: for each j
// of the last size numbers it draws from [0, j], and takes j itself if the draw was
// already taken. Its order is not uniform, so Choice shuffles the result.
func (g *Generator) floyd(pool, size int64) []int64 {
	idx := make([]int64, 0, size)
	taken := make(map[int64]bool, size)
	for j := pool - size; j < pool; j++ {
		v := int64(g.bounded(uint64(j)))
		if taken[v] {
			v = j
		}
		taken[v] = true
		idx = append(idx, v)
	}
	return idx
}

// shuffle is a Fisher-Yates shuffle from the end of x down to index first.
func (g *Generator) shuffle(x []int64, first int64) {
	for i := int64(len(x)) - 1; i >= first; i-- {
		j := g.bounded(uint64(i))
		x[i], x[j] = x[j], x[i]
	}
}

// Permutation returns Generator.permutation(n), for n up to 2^32. Unlike Choice,
// NumPy draws its indices by masking and rejection, so it has a separate loop.
func (g *Generator) Permutation(n int64) []int64 {
	x := arange(n)
	for i := n - 1; i > 0; i-- {
		j := g.masked(uint32(i))
		x[i], x[j] = x[j], x[i]
	}
	return x
}

// masked returns a uniform integer in [0, max]: it masks each word to the bit length
// of max and rejects results beyond max.
func (g *Generator) masked(max uint32) uint32 {
	mask := uint32(1)<<bits.Len32(max) - 1
	for {
		if v := g.uint32() & mask; v <= max {
			return v
		}
	}
}

func arange(n int64) []int64 {
	x := make([]int64, n)
	for i := range x {
		x[i] = int64(i)
	}
	return x
}
