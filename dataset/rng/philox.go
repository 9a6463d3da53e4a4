// Package rng derives every random number of the program from a name.
//
// A stream is identified by a purpose and a list of ids ("collect", task, episode),
// and number i of a stream is a pure function of that name and i. Nothing is shared
// or advanced globally, so results do not depend on the order of the work, the batch
// size or the number of workers, and an interrupted run that resumes draws the same
// numbers.
//
// The generator is counter-based (Philox4x32-10), keyed with a hash of the name.
// [Stream] returns a sequential source for math/rand/v2. [Key] and [Normal] give
// random access to standard normals, which is what devices need to fill a tensor in
// parallel.
//
// The package does not know what its numbers are used for. The packages numpy and
// torch below it reproduce the generators of NumPy and PyTorch, for published data
// only.
package rng

// Constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011): the two multipliers, the Weyl increments of the key, and the authors'
// default number of rounds.
const (
	philoxM0     = 0xD2511F53
	philoxM1     = 0xCD9E8D57
	philoxW0     = 0x9E3779B9
	philoxW1     = 0xBB67AE85
	philoxRounds = 10
)

// Philox returns block number block of the stream key. It is the block function
// Philox4x32-10 with the key words lo(key), hi(key) and the counter words lo(block),
// hi(block), 0, 0. The kernels of all devices implement the same function, so their
// integers agree bit for bit.
func Philox(key, block uint64) [4]uint32 {
	return philox([2]uint32{uint32(key), uint32(key >> 32)},
		[4]uint32{uint32(block), uint32(block >> 32), 0, 0})
}

// philox is Philox4x32-10 on all four counter words, as the published test vectors
// need it.
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
