// k_stream.h: rows of random numbers, from any position of a stream on.
//
// Number i of a stream is derived from word i%4 of Philox's block i/4, so that any
// part of a stream can be generated on its own and the numbers do not depend on the
// division into tasks. VL blocks are generated at a time, one per lane.
//
// Memory traffic: each number is written once, and nothing is read.

// A Stream writes 4*VL consecutive numbers, from Philox block `block` on, to dst. p
// is a parameter of the distribution.
typedef void (*Stream)(uint64_t key, uint64_t block, float p, float *dst);

// stream writes n numbers of the stream, from number `first` on, to dst. Blocks begin
// at multiples of 4, so that numbers go through a buffer, from which up to three are
// skipped.
INLINED void stream(Stream make, float *dst, i64 n, float p, uint64_t key,
	uint64_t first) {
	enum { WORDS = 4 * VL };
	for (i64 i = 0; i < n;) {
		i64 skip = (i64)((first + i) % 4), count = imin(WORDS - skip, n - i);
		float words[WORDS];
		make(key, (first + i) / 4, p, words);
		memcpy(dst + i, words + skip, count * sizeof(float));
		i += count;
	}
}

// keep_words generates dropout factors: 0 where uniform < p, else 1/(1-p). uniform
// has 24 bits, as many as a float holds exactly.
static inline void keep_words(uint64_t key, uint64_t block, float p, float *dst) {
	vu words[4];
	vf keep[4];
	vphilox(key, block, words);
	for (int w = 0; w < 4; w++) {
		vf uniform = __builtin_convertvector((vi)(words[w] >> 8), vf) * vset(0x1p-24f);
		keep[w] = vless(uniform, vset(p), vset(0.0f), vset(1.0f / (1.0f - p)));
	}
	vinterleave4(keep);
	for (int w = 0; w < 4; w++) vstore(dst + w * VL, keep[w]);
}

// keep_factors writes the dropout factors of n elements, from element `first` on.
static void keep_factors(float *dst, i64 n, float p, uint64_t key, uint64_t first) {
	stream(keep_words, dst, n, p, key, first);
}
