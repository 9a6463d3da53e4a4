// rows.cuh: a warp has a row of up to NARROW columns in its registers: lane l
// columns 2l and 2l+1 of every 64, in whatever way memory lets them be read, so
// that sums are made in one order. Columns beyond the row are zeros.
#ifndef ROWS_CUH
#define ROWS_CUH
#include "common.cuh"

enum { SPANS = 3, PART = 2 * SPANS, NARROW = SPANS * 2 * WARP }; // pairs and numbers of a lane

enum { RESIDENT = 4 }; // blocks of a multiprocessor, of kernels whose grid is all blocks that run at a time

// Layout is how a row's pairs lie in memory: apart, as two floats, or as two bf16 in a word.
enum Layout { SINGLES, PAIRS, BF16_PAIRS };

struct alignas(8) Two {
	float x, y;
};

DEVICE Layout layout(const Mat &m) {
	if ((m.cols | m.stride) % 2 || (u64)m.p % (m.bf16 ? 4 : 8)) return SINGLES;
	return m.bf16 ? BF16_PAIRS : PAIRS;
}

// column is the first of a lane's i-th pair.
DEVICE int column(int i) { return 2 * lane() + i * 2 * WARP; }

template <Layout F> DEVICE void load_row(float *v, const Mat &m, i64 r) {
	int cols = (int)m.cols;
	i64 first = r * m.stride;
	if (F == SINGLES) {
		UNROLL
		for (int i = 0; i < PART; i++) {
			int c = column(i / 2) + i % 2;
			v[i] = c < cols ? get(m, r, c) : 0;
		}
	} else if (F == PAIRS) {
		UNROLL
		for (int i = 0; i < SPANS; i++) {
			Two x = {0, 0};
			if (column(i) < cols) x = *(const Two *)(m.p + first + column(i));
			v[2 * i] = x.x;
			v[2 * i + 1] = x.y;
		}
	} else {
		u32 words[SPANS];
		UNROLL
		for (int i = 0; i < SPANS; i++) words[i] = column(i) < cols ? *(const u32 *)((const u16 *)m.p + first + column(i)) : 0;
		UNROLL
		for (int i = 0; i < SPANS; i++) {
			v[2 * i] = widen(words[i] & 0xffff);
			v[2 * i + 1] = __int_as_float((int)(words[i] & 0xffff0000u));
		}
	}
}

// load_row in any layout; not where several rows should be on their way at once.
DEVICE void load_row(float *v, const Mat &m, i64 r) {
	switch (layout(m)) {
	case SINGLES: return load_row<SINGLES>(v, m, r);
	case PAIRS: return load_row<PAIRS>(v, m, r);
	case BF16_PAIRS: return load_row<BF16_PAIRS>(v, m, r);
	}
}

template <Layout F> DEVICE void store_row(const Mat &m, i64 r, const float *v) {
	int cols = (int)m.cols;
	i64 first = r * m.stride;
	UNROLL
	for (int i = 0; i < SPANS; i++) {
		int c = column(i);
		if (c >= cols) continue;
		if (F == BF16_PAIRS) {
			*(u32 *)((u16 *)m.p + first + c) = pack_bf16(v[2 * i], v[2 * i + 1]);
		} else if (F == PAIRS) {
			Two x = {v[2 * i], v[2 * i + 1]};
			*(Two *)(m.p + first + c) = x;
		} else {
			set(m, r, c, v[2 * i]);
			if (c + 1 < cols) set(m, r, c + 1, v[2 * i + 1]);
		}
	}
}

DEVICE void store_row(const Mat &m, i64 r, const float *v) {
	switch (layout(m)) {
	case SINGLES: return store_row<SINGLES>(m, r, v);
	case PAIRS: return store_row<PAIRS>(m, r, v);
	case BF16_PAIRS: return store_row<BF16_PAIRS>(m, r, v);
	}
}

// four_layout is how four columns of a row, from a multiple of 4 on, lie in memory: PAIRS are four floats here.
DEVICE Layout four_layout(const Mat &m) {
	if ((m.rows > 1 && m.stride % 4) || (u64)m.p % (m.bf16 ? 8 : 16)) return SINGLES;
	return m.bf16 ? BF16_PAIRS : PAIRS;
}

// load_four reads columns c.. of row r; zeros beyond the row.
template <Layout F> DEVICE void load_four(float *v, const Mat &m, i64 r, i64 c) {
	i64 at = r * m.stride + c;
	if (F == SINGLES || c + 4 > m.cols) {
		UNROLL
		for (int e = 0; e < 4; e++) v[e] = c + e < m.cols ? get(m, r, c + e) : 0;
	} else if (F == PAIRS) {
		float4 x = *(const float4 *)(m.p + at);
		v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
	} else {
		uint2 x = *(const uint2 *)((const u16 *)m.p + at);
		v[0] = widen(x.x & 0xffff), v[1] = __int_as_float((int)(x.x & 0xffff0000u));
		v[2] = widen(x.y & 0xffff), v[3] = __int_as_float((int)(x.y & 0xffff0000u));
	}
}

DEVICE void load_four(float *v, const Mat &m, i64 r, i64 c) {
	switch (four_layout(m)) {
	case SINGLES: return load_four<SINGLES>(v, m, r, c);
	case PAIRS: return load_four<PAIRS>(v, m, r, c);
	case BF16_PAIRS: return load_four<BF16_PAIRS>(v, m, r, c);
	}
}

DEVICE void store_four(const Mat &m, i64 r, i64 c, const float *v) {
	i64 at = r * m.stride + c;
	Layout f = four_layout(m);
	if (f == SINGLES || c + 4 > m.cols) {
		for (int e = 0; e < 4 && c + e < m.cols; e++) set(m, r, c + e, v[e]);
	} else if (f == PAIRS) {
		float4 x = {v[0], v[1], v[2], v[3]};
		*(float4 *)(m.p + at) = x;
	} else {
		uint2 x = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3])};
		*(uint2 *)((u16 *)m.p + at) = x;
	}
}

// Norm is what normalises a row: (x - mean) * inv.
struct Norm {
	float mean, inv;
};

DEVICE float inverse_deviation(float squares, i64 cols, double eps) { return 1 / sqrtf(squares * (1 / (float)cols) + (float)eps); }

// clear_beyond makes zeros again of what lies beyond the row.
DEVICE void clear_beyond(float *v, i64 cols) {
	UNROLL
	for (int i = 0; i < PART; i++) v[i] = column(i / 2) + i % 2 < (int)cols ? v[i] : 0;
}

// norm_of is that of a row in registers.
DEVICE Norm norm_of(const float *v, i64 cols, double eps) {
	float sum = 0, squares = 0;
	UNROLL
	for (int i = 0; i < PART; i++) sum += v[i];
	Norm m = {warp_sum(sum) / (float)cols, 0};
	UNROLL
	for (int i = 0; i < PART; i++) {
		float d = column(i / 2) + i % 2 < (int)cols ? v[i] - m.mean : 0;
		squares = fmaf(d, d, squares);
	}
	m.inv = inverse_deviation(warp_sum(squares), cols, eps);
	return m;
}

#endif
