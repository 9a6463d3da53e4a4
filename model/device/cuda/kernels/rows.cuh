// rows.cuh: loads and stores of rows, for kernels that work on rows or element by
// element.
//
// A warp holds a row of up to NARROW columns in registers: lane l has columns 2l and
// 2l+1 of every 64, and zeros beyond the last column. The assignment is the same
// however the row is stored, so a sum over the row is added in the same order for
// float32, bf16, aligned and unaligned matrices.
#ifndef ROWS_CUH
#define ROWS_CUH
#include "common.cuh"

// The pairs and the numbers of a row that a lane holds, and the widest row that fits:
// 192 columns, the model width of the published models.
enum { PAIRS_PER_LANE = 3, PER_LANE = 2 * PAIRS_PER_LANE, NARROW = PAIRS_PER_LANE * 2 * WARP };

// Resident blocks per SM of kernels whose grid is sized to fill the GPU once (resident
// in pointwise.go) and whose blocks then loop over the work.
enum { RESIDENT = 4 };

// Layout says how pairs of a row can be accessed: as separate elements (SINGLES), as
// two floats at once (PAIRS), or as two bf16 in one word (BF16_PAIRS).
enum Layout { SINGLES, PAIRS, BF16_PAIRS };

// FloatPair is a float2 without CUDA's headers.
struct alignas(8) FloatPair {
	float x, y;
};

// layout returns the widest access that the alignment of m allows. SINGLES handles
// everything else.
DEVICE Layout layout(const Mat &m) {
	if ((m.cols | m.stride) % 2 || (u64)m.p % (m.bf16 ? 4 : 8)) return SINGLES;
	return m.bf16 ? BF16_PAIRS : PAIRS;
}

// column returns the column of a lane's i-th pair.
DEVICE int column(int i) { return 2 * lane() + i * 2 * WARP; }

// load_row reads row r of m, with layout F, into the PER_LANE registers v.
template <Layout F> DEVICE void load_row(float *v, const Mat &m, i64 r) {
	int cols = (int)m.cols;
	i64 first = r * m.stride;
	if (F == SINGLES) {
		UNROLL
		for (int i = 0; i < PER_LANE; i++) {
			int c = column(i / 2) + i % 2;
			v[i] = c < cols ? get(m, r, c) : 0;
		}
	} else if (F == PAIRS) {
		UNROLL
		for (int i = 0; i < PAIRS_PER_LANE; i++) {
			FloatPair x = {0, 0};
			if (column(i) < cols) x = *(const FloatPair *)(m.p + first + column(i));
			v[2 * i] = x.x;
			v[2 * i + 1] = x.y;
		}
	} else {
		// All loads are issued before the first is unpacked.
		u32 words[PAIRS_PER_LANE];
		UNROLL
		for (int i = 0; i < PAIRS_PER_LANE; i++) words[i] = column(i) < cols ? *(const u32 *)((const u16 *)m.p + first + column(i)) : 0;
		UNROLL
		for (int i = 0; i < PAIRS_PER_LANE; i++) {
			v[2 * i] = widen(words[i] & 0xffff);
			v[2 * i + 1] = __int_as_float((int)(words[i] & 0xffff0000u));
		}
	}
}

// This overload chooses the layout at run time. The branch separates its loads from
// those of other rows; kernels that need several rows in flight at once use the
// template.
DEVICE void load_row(float *v, const Mat &m, i64 r) {
	switch (layout(m)) {
	case SINGLES: return load_row<SINGLES>(v, m, r);
	case PAIRS: return load_row<PAIRS>(v, m, r);
	case BF16_PAIRS: return load_row<BF16_PAIRS>(v, m, r);
	}
}

// store_row writes v to row r of m, leaving out the columns beyond the row.
template <Layout F> DEVICE void store_row(const Mat &m, i64 r, const float *v) {
	int cols = (int)m.cols;
	i64 first = r * m.stride;
	UNROLL
	for (int i = 0; i < PAIRS_PER_LANE; i++) {
		int c = column(i);
		if (c >= cols) continue;
		if (F == BF16_PAIRS) {
			*(u32 *)((u16 *)m.p + first + c) = pack_bf16(v[2 * i], v[2 * i + 1]);
		} else if (F == PAIRS) {
			FloatPair x = {v[2 * i], v[2 * i + 1]};
			*(FloatPair *)(m.p + first + c) = x;
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

// four_layout says how four columns of a row, starting at a multiple of 4, can be
// accessed: PAIRS stands for a float4 here, and BF16_PAIRS for two words.
DEVICE Layout four_layout(const Mat &m) {
	if ((m.rows > 1 && m.stride % 4) || (u64)m.p % (m.bf16 ? 8 : 16)) return SINGLES;
	return m.bf16 ? BF16_PAIRS : PAIRS;
}

// load_four reads columns c to c+3 of row r, with zeros beyond the row.
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

// store_four writes columns c to c+3 of row r, leaving out those beyond the row.
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

// Norm is the normalization of a row: xhat = (x - mean) * inv.
struct Norm {
	float mean, inv;
};

// inverse_deviation returns 1/sqrt(squares/cols + eps): the biased variance, as
// LayerNorm defines it.
DEVICE float inverse_deviation(float squares, i64 cols, double eps) { return 1 / sqrtf(squares * (1 / (float)cols) + (float)eps); }

// zero_tail restores the zeros beyond the row after an operation that may have changed
// them, so that sums over the registers stay sums over the row.
DEVICE void zero_tail(float *v, i64 cols) {
	UNROLL
	for (int i = 0; i < PER_LANE; i++) v[i] = column(i / 2) + i % 2 < (int)cols ? v[i] : 0;
}

// norm_of returns the normalization of a row in registers. It computes the variance in
// a second pass about the mean, which avoids the cancellation of E[x^2] - E[x]^2.
DEVICE Norm norm_of(const float *v, i64 cols, double eps) {
	float sum = 0, squares = 0;
	UNROLL
	for (int i = 0; i < PER_LANE; i++) sum += v[i];
	Norm m = {warp_sum(sum) / (float)cols, 0};
	UNROLL
	for (int i = 0; i < PER_LANE; i++) {
		float d = column(i / 2) + i % 2 < (int)cols ? v[i] - m.mean : 0;
		squares = fmaf(d, d, squares);
	}
	m.inv = inverse_deviation(warp_sum(squares), cols, eps);
	return m;
}

#endif
