package numpy

import (
	"fmt"
	"math"
	"math/bits"
)

// Integers is Generator.integers(low, high): uniform in [low, high).
func (g *Generator) Integers(low, high int64) int64 {
	if low >= high {
		panic(fmt.Sprintf("numpy: Integers of the empty range [%d, %d)", low, high))
	}
	return low + int64(g.bounded(uint64(high-low-1)))
}

// bounded is uniform in [0, max] by Lemire's multiply-and-shift, on 32-bit
// words where they suffice; max 0 draws nothing.
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

// NumPy shuffles the tail of a whole range instead of collecting a set when the
// pool is large and the sample more than 1/50 of it.
const (
	tailPool   = 10000
	tailCutoff = 50
)

// Choice is Generator.choice(pool, size, replace=False): size different numbers
// of [0, pool) in random order. It needs memory for pool numbers only where
// size > pool/50.
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

// floyd is Floyd's sampling: a number already taken is replaced by the bound.
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

// shuffle is Fisher-Yates from the end down to index first.
func (g *Generator) shuffle(x []int64, first int64) {
	for i := int64(len(x)) - 1; i >= first; i-- {
		j := g.bounded(uint64(i))
		x[i], x[j] = x[j], x[i]
	}
}

// Permutation is Generator.permutation(n) for n up to 2^32. Unlike Choice it
// draws its indices by masking and rejection.
func (g *Generator) Permutation(n int64) []int64 {
	x := arange(n)
	for i := n - 1; i > 0; i-- {
		j := g.masked(uint32(i))
		x[i], x[j] = x[j], x[i]
	}
	return x
}

// masked is uniform in [0, max] by rejecting words beyond it after masking them
// to its number of bits.
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
