// k_stream.h: rows of numbers from a random stream, wherever in it they begin.
//
// Idea: number i is made of word i%4 of Philox's block i/4, so that any part of a stream can be made by itself and
// bits do not depend on tasks. VL blocks are made at a time, a lane each.
// Memory traffic: each number is written once, nothing is read.

// A Stream makes 4*VL numbers in a row of words; where first lies within a block, by way of a copy.
typedef void (*Stream)(uint64_t key, uint64_t block, float p, float *dst);

INLINED void stream(Stream make, float *dst, i64 n, float p, uint64_t key,
	uint64_t first) {
	enum { WORDS = 4 * VL };
	for (i64 i = 0; i < n;) {
		i64 skip = (i64)((first + i) % 4), count = least(WORDS - skip, n - i);
		float here[WORDS];
		make(key, (first + i) / 4, p, here);
		memcpy(dst + i, here + skip, count * sizeof(float));
		i += count;
	}
}

static inline void keep_words(uint64_t key, uint64_t block, float p, float *dst) {
	vu words[4];
	vf keep[4];
	vphilox(key, block, words);
	for (int w = 0; w < 4; w++) {
		vf uniform = __builtin_convertvector((vi)(words[w] >> 8), vf) * vset(0x1p-24f);
		keep[w] = vless(uniform, vset(p), vset(0.0f), vset(1.0f / (1.0f - p)));
	}
	vweave(keep);
	for (int w = 0; w < 4; w++) vstore(dst + w * VL, keep[w]);
}

// keep_factors writes what dropout multiplies elements first.. by: 0 or 1/(1-p).
static void keep_factors(float *dst, i64 n, float p, uint64_t key, uint64_t first) {
	stream(keep_words, dst, n, p, key, first);
}
