// Package numpy repeats numpy.random.default_rng(seed) bit for bit: the seed
// sequence, the generator PCG64 and the few draws with which the published
// evaluation sets and splits were made (checked against NumPy 2.4). Everything
// else of the program draws from package rng.
package numpy

import "math/bits"

// Generator is numpy.random.default_rng(seed).
type Generator struct {
	state, inc uint128
	spare      uint32 // upper half of a word whose lower half was drawn
	hasSpare   bool
}

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

// multiplier of the 128-bit congruential generator (O'Neill, PCG, 2014).
var multiplier = uint128{0x2360ED051FC65DA4, 0x4385DF649FCCF645}

// New is default_rng(seed).
func New(seed uint64) *Generator {
	w := seedSequence(seed)
	g := &Generator{inc: uint128{w[2]<<1 | w[3]>>63, w[3]<<1 | 1}}
	g.step()
	g.state = g.state.add(uint128{w[0], w[1]})
	g.step()
	return g
}

func (g *Generator) step() { g.state = g.state.mul(multiplier).add(g.inc) }

// Uint64 is the next raw word (bit_generator.random_raw).
func (g *Generator) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// uint32 takes the lower half of a word first and keeps the upper one for the
// next call; draws of 64 bits between the two leave it alone, as in NumPy.
func (g *Generator) uint32() uint32 {
	if g.hasSpare {
		g.hasSpare = false
		return g.spare
	}
	w := g.Uint64()
	g.spare, g.hasSpare = uint32(w>>32), true
	return uint32(w)
}

// Random is a float64 in [0, 1) of 53 bits (Generator.random).
func (g *Generator) Random() float64 { return float64(g.Uint64()>>11) * 0x1p-53 }

// Constants of the seed sequence's hashing (O'Neill's seed_seq_fe as in NumPy).
const (
	initA, multA = 0x43B0D7E5, 0x931E8875
	initB, multB = 0x8B51F9DD, 0x58F38DED
	mixL, mixR   = 0xCA01F9DD, 0x4973F715
	poolSize     = 4
)

// seedSequence is SeedSequence(seed).generate_state(4, uint64).
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

// mixEntropy fills the pool from at most poolSize words of entropy; missing
// words count as 0, so a zero upper half equals a one-word seed.
func mixEntropy(entropy []uint32) (pool [poolSize]uint32) {
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
