// Package rng is the source of every random number of the program. A stream is
// derived, never shared: it is named by a purpose and ids, its numbers are a
// pure function of that name and a position, and so results do not depend on
// the order, the batch or the number of workers in which they are computed.
//
// It knows nothing of what the numbers are for. Package numpy below it repeats
// NumPy's generator for the published evaluation sets.
package rng

// Constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011): the two multipliers and the Weyl increments of the key.
const (
	philoxM0     = 0xD2511F53
	philoxM1     = 0xCD9E8D57
	philoxW0     = 0x9E3779B9
	philoxW1     = 0xBB67AE85
	philoxRounds = 10
)

// Philox is the block function Philox4x32-10 with the key words lo(key),
// hi(key) and the counter words lo(block), hi(block), 0, 0. Devices implement
// the same function, so the integers agree everywhere.
func Philox(key, block uint64) [4]uint32 {
	return philox([2]uint32{uint32(key), uint32(key >> 32)},
		[4]uint32{uint32(block), uint32(block >> 32), 0, 0})
}

func philox(key [2]uint32, ctr [4]uint32) [4]uint32 {
	k0, k1 := key[0], key[1]
	c0, c1, c2, c3 := ctr[0], ctr[1], ctr[2], ctr[3]
	for range philoxRounds {
		p0, p1 := philoxM0*uint64(c0), philoxM1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += philoxW0
		k1 += philoxW1
	}
	return [4]uint32{c0, c1, c2, c3}
}
