// Package numpy reproduces numpy.random.default_rng(seed) bit for bit (checked
// against NumPy 2.4): the seed sequence, the generator PCG64, and the few draws that
// the published evaluation sets and data splits were made with. Package eval uses it
// to rebuild those sets from their seeds.
//
// The rest of the program draws from package rng, whose streams do not depend on how
// many numbers were drawn before.
package numpy

import "math/bits"

// Generator is the generator that numpy.random.default_rng(seed) returns. It must not
// be used by several goroutines at once.
type Generator struct {
	state, inc uint128
	// spare is the upper half of a 64-bit word whose lower half uint32 has returned.
	spare    uint32
	hasSpare bool
}

// uint128 is an unsigned integer modulo 2^128.
type uint128 struct{ hi, lo uint64 }

func (a uint128) add(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return uint128{hi, lo}
}

func (a uint128) mul(b uint128) uint128 {
	hi, lo := bits.Mul64(a.lo, b.lo)
	return uint128{hi + a.hi*b.lo + a.lo*b.hi, lo}
}

// multiplier is that of PCG64's 128-bit linear congruential generator (O'Neill, PCG,
// 2014).
var multiplier = uint128{0x2360ED051FC65DA4, 0x4385DF649FCCF645}

// New returns the generator of default_rng(seed). Of the four words of the seed
// sequence, the first two are the initial state and the last two select the stream:
// the increment must be odd, so NumPy shifts them left by one and sets the low bit.
// The order step, add, step is that of pcg64_srandom.
func New(seed uint64) *Generator {
	w := seedSequence(seed)
	g := &Generator{inc: uint128{w[2]<<1 | w[3]>>63, w[3]<<1 | 1}}
	g.step()
	g.state = g.state.add(uint128{w[0], w[1]})
	g.step()
	return g
}

func (g *Generator) step() { g.state = g.state.mul(multiplier).add(g.inc) }

// Uint64 returns the next 64-bit word (bit_generator.random_raw), by PCG64's output
// function XSL-RR: the two halves of the state xored, rotated by its top 6 bits.
func (g *Generator) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// uint32 returns the lower half of a word first and keeps the upper half for its next
// call. 64-bit draws between the two calls do not touch the kept half, as in NumPy;
// discarding it would shift every later 32-bit draw.
func (g *Generator) uint32() uint32 {
	if g.hasSpare {
		g.hasSpare = false
		return g.spare
	}
	w := g.Uint64()
	g.spare, g.hasSpare = uint32(w>>32), true
	return uint32(w)
}

// Random returns a float64 in [0, 1) with 53 random bits (Generator.random).
func (g *Generator) Random() float64 { return float64(g.Uint64()>>11) * 0x1p-53 }

// Constants of the seed sequence's hash functions (O'Neill's seed_seq_fe, as in
// NumPy), and the number of 32-bit words in its pool.
const (
	initA, multA = 0x43B0D7E5, 0x931E8875
	initB, multB = 0x8B51F9DD, 0x58F38DED
	mixL, mixR   = 0xCA01F9DD, 0x4973F715
	poolSize     = 4
)

// seedSequence returns SeedSequence(seed).generate_state(4, uint64): 8 hashed words
// of 32 bits from the mixed pool, joined in pairs with the lower half first.
func seedSequence(seed uint64) (words [4]uint64) {
	pool := mixEntropy([]uint32{uint32(seed), uint32(seed >> 32)})
	hash := uint32(initB)
	var half [8]uint32
	for i := range half {
		v := pool[i%poolSize] ^ hash
		hash *= multB
		v *= hash
		half[i] = v ^ v>>16
	}
	for i := range words {
		words[i] = uint64(half[2*i]) | uint64(half[2*i+1])<<32
	}
	return words
}

// mixEntropy hashes at most poolSize words of entropy into the pool, then mixes each
// pool word into all others so that every seed bit can affect every pool bit. Missing
// words count as 0. NumPy passes a seed below 2^32 as one word and we always pass
// two; the pools are equal because a missing word counts as 0.
func mixEntropy(entropy []uint32) (pool [poolSize]uint32) {
	// hash changes with every call of hashmix, so the order of the calls below
	// matters.
	hash := uint32(initA)
	hashmix := func(v uint32) uint32 {
		v ^= hash
		hash *= multA
		v *= hash
		return v ^ v>>16
	}
	for i := range pool {
		var e uint32
		if i < len(entropy) {
			e = entropy[i]
		}
		pool[i] = hashmix(e)
	}
	for src := range pool {
		for dst := range pool {
			if src != dst {
				v := mixL*pool[dst] - mixR*hashmix(pool[src])
				pool[dst] = v ^ v>>16
			}
		}
	}
	return pool
}
