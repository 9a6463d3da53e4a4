// epilogue.cuh: the epilogue of a GEMM (device.Epilogue), applied to tiles of sums that
// the kernels leave in shared memory.
//
// Going through shared memory decouples the epilogue from the accumulators' register
// layout: a thread processes four adjacent columns at a time (a quad), so that global
// memory is accessed by 8 or 16 bytes per thread and adjacent threads touch adjacent
// addresses.
//
// All GEMM kernels share this code. Its additions are explicitly fused (fmaf) or
// explicitly not (__fadd_rn), so the compiler cannot contract them differently in
// different instantiations: an element has the same bits whichever tile and form
// computed it.
#ifndef EPILOGUE_CUH
#define EPILOGUE_CUH
#include "args.cuh"

// Quad is four adjacent elements of a row as stored: four words of float32, or two of
// bf16.
struct Quad {
	u32 w[4];
};

// Spot is the position of a quad in the result. count is the number of its columns that
// exist; full says that all four do and that every matrix allows aligned vector access.
struct Spot {
	int r, c, count;
	bool full;
};

DEVICE Spot spot(const GemmArgs &a, int r, int c) {
	int left = (int)a.n - c;
	Spot s = {r, c, r < (int)a.m ? (left < 4 ? left : 4) : 0, a.vec && left >= 4};
	return s;
}

// address returns the address of element (r, c). Row indices and row sizes in bytes fit
// in 32 bits, so one 32 x 32 -> 64-bit multiplication suffices. The column's term comes
// first since threads walk down columns: the compiler hoists it out of the loop over
// rows.
DEVICE char *address(const Mat &m, int r, int c) {
	u32 width = m.bf16 ? 2 : 4;
	return (char *)m.p + (u64)(u32)c * width + (u64)(u32)r * ((u32)m.stride * width);
}

// fetch4 reads a quad as stored; load4 reads and widens one. Missing columns read as
// zeros.
DEVICE Quad fetch4(const Mat &m, int r, const Spot &s) {
	const char *p = address(m, r, s.c);
	Quad q = {{0, 0, 0, 0}};
	if (s.full && m.bf16) {
		uint2 h = *(const uint2 *)p;
		q.w[0] = h.x, q.w[1] = h.y;
	} else if (s.full) {
		uint4 f = *(const uint4 *)p;
		q.w[0] = f.x, q.w[1] = f.y, q.w[2] = f.z, q.w[3] = f.w;
	} else if (m.bf16) {
		UNROLL for (int j = 0; j < 4; j++) q.w[j / 2] |= (j < s.count ? (u32)((const u16 *)p)[j] : 0) << j % 2 * 16;
	} else {
		UNROLL for (int j = 0; j < 4; j++) q.w[j] = j < s.count ? ((const u32 *)p)[j] : 0;
	}
	return q;
}

DEVICE void widen4(float *v, const Quad &q, bool bf16) {
	UNROLL for (int j = 0; j < 4; j++)
		v[j] = !bf16 ? __int_as_float((int)q.w[j]) : j % 2 ? __int_as_float((int)(q.w[j / 2] & 0xffff0000u)) : widen(q.w[j / 2]);
}

DEVICE void load4(float *v, const Mat &m, int r, const Spot &s) { widen4(v, fetch4(m, r, s), m.bf16); }

// store4 writes a quad, rounding if m is bf16.
DEVICE void store4(const Mat &m, const Spot &s, const float *v) {
	char *p = address(m, s.r, s.c);
	if (s.full && m.bf16) {
		uint2 h = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3])};
		*(uint2 *)p = h;
	} else if (s.full) {
		float4 f = {v[0], v[1], v[2], v[3]};
		*(float4 *)p = f;
	} else {
		UNROLL for (int j = 0; j < 4; j++) {
			if (j >= s.count) continue;
			if (m.bf16) ((u16 *)p)[j] = (u16)pack_bf16(v[j], 0);
			else ((float *)p)[j] = v[j];
		}
	}
}

// dropout4 multiplies by the dropout factors of elements i to i+3. If i is a multiple
// of 4, one Philox block holds all four.
DEVICE void dropout4(float *v, float p, u64 key, u64 i) {
	if (i % 4 == 0) {
		Words x = philox(key, i / 4);
		UNROLL for (int j = 0; j < 4; j++) v[j] *= dropout_factor(p, x.w[j]);
	} else {
		UNROLL for (int j = 0; j < 4; j++) v[j] *= dropout_at(p, key, i + j);
	}
}

// activate4 and act_grad4 apply an activation, or multiply by its derivative at x. The
// loop of GELU, by far the most used, is unrolled; the others are not, to keep the
// kernels small.
DEVICE void activate4(i64 act, float *v) {
	if (act == IDENTITY) return;
	if (act == GELU) {
		UNROLL for (int j = 0; j < 4; j++) v[j] = gelu(v[j]);
	} else {
		for (int j = 0; j < 4; j++) v[j] = activate(act, v[j]);
	}
}

DEVICE void act_grad4(i64 act, float *v, const float *x) {
	if (act == GELU) {
		UNROLL for (int j = 0; j < 4; j++) v[j] *= gelu_grad(x[j]);
	} else {
		for (int j = 0; j < 4; j++) v[j] *= act_grad(act, x[j]);
	}
}

// PerColumn holds the epilogue's inputs that depend on the column only: a thread reads
// them once for all the rows of its columns.
struct PerColumn {
	float scale[4], bias[4];
};

DEVICE PerColumn per_column(const GemmArgs &a, const Spot &s) {
	PerColumn b = {{1, 1, 1, 1}, {0, 0, 0, 0}};
	if (a.scale.p) load4(b.scale, a.scale, 0, s);
	if (a.bias.p) load4(b.bias, a.bias, 0, s);
	return b;
}

// Prefetched holds the epilogue's inputs that depend on the element: the old value of
// dst if it is added to, and the value before the activation (grad) or else the gate.
// Kernels issue these loads before they need the values, to hide the latency of device
// memory.
struct Prefetched {
	Quad old, other;
};

DEVICE Prefetched prefetch(const GemmArgs &a, const Spot &s) {
	Prefetched b = {};
	if (a.add) b.old = fetch4(a.dst, s.r, s);
	if (a.grad.p) b.other = fetch4(a.grad, s.r, s);
	else if (a.gate.p) b.other = fetch4(a.gate, s.r, s);
	return b;
}

// epilogue4 applies the epilogue to the four sums v and stores the results. The order
// of the operations is that of device.Epilogue. If the epilogue has both grad and gate,
// only grad was prefetched.
DEVICE void epilogue4(const GemmArgs &a, const Spot &s, float *v, const PerColumn &columns, const Prefetched &b) {
	if (a.scale.p) {
		UNROLL for (int j = 0; j < 4; j++) v[j] = fmaf(v[j], columns.scale[j], columns.bias[j]);
	} else if (a.bias.p) {
		UNROLL for (int j = 0; j < 4; j++) v[j] = __fadd_rn(v[j], columns.bias[j]);
	}
	if (a.pre.p) store4(a.pre, s, v);
	if (a.grad.p) {
		float x[4];
		widen4(x, b.other, a.grad.bf16);
		act_grad4(a.act, v, x);
	} else {
		activate4(a.act, v);
	}
	if (a.drop != 0) dropout4(v, (float)a.drop, a.drop_key, (u64)s.r * a.n + s.c);
	if (a.ungated.p) store4(a.ungated, s, v);
	if (a.gate.p) {
		float gate[4];
		if (a.grad.p) load4(gate, a.gate, s.r, s);
		else widen4(gate, b.other, a.gate.bf16);
		UNROLL for (int j = 0; j < 4; j++) v[j] = __fmul_rn(v[j], gate[j]);
	}
	if (a.add) {
		float old[4];
		widen4(old, b.old, a.dst.bf16);
		UNROLL for (int j = 0; j < 4; j++) v[j] = __fadd_rn(v[j], old[j]);
	}
	store4(a.dst, s, v);
}

// epilogue_any applies any epilogue to a ROWS x COLS tile whose first element is (r0,
// c0). sums(r, c) returns the float4 of columns c to c+3 in row r of the tile. The tile
// is shared by TEAM threads, of which this is number `thread`: THREADS_X of them cover
// a row, the rest successive rows.
template <int ROWS, int COLS, int TEAM, class Sums> DEVICE void epilogue_any(const GemmArgs &a, int r0, int c0, Sums sums, int thread) {
	enum { THREADS_X = COLS < 64 ? COLS / 4 : 16, THREADS_Y = TEAM / THREADS_X };
	ROLLED for (int c = thread % THREADS_X * 4; c < COLS; c += 4 * THREADS_X) {
		Spot s = spot(a, r0, c0 + c);
		if (s.count <= 0) return;
		PerColumn columns = per_column(a, s);
		ROLLED for (int r = thread / THREADS_X; r < ROWS && r0 + r < (int)a.m; r += THREADS_Y) {
			s.r = r0 + r;
			float4 x = sums(r, c);
			float v[4] = {x.x, x.y, x.z, x.w};
			epilogue4(a, s, v, columns, prefetch(a, s));
		}
	}
}

// partial returns the arguments with which one chunk of K writes its sums to part: a
// plain store, without an epilogue.
DEVICE GemmArgs partial(const GemmArgs &a, i64 piece) {
	GemmArgs p = {};
	p.dst.p = a.part + piece * a.m * a.n;
	p.dst.stride = p.n = a.n;
	p.m = a.m;
	p.vec = a.n % 4 == 0;
	return p;
}

// The epilogues that models use most. For each, epilogue_form is instantiated with the
// unused inputs known to be absent, so that the compiler removes their tests and
// registers. The operations are the same as those of epilogue_any.
//
//    PLAIN, PLAIN_BF16  dst = v + bias, stored as float32 or bf16
//    ADDED              dst += v + bias, float32
//    GATED              dst += (v + bias) * gate, float32 with a bf16 gate
//    ACTIVATED          dst = gelu(v + bias), bf16; the value before goes to pre if given
//    ACT_GRAD           dst = v * gelu'(grad), all bf16
//    ANY                everything else
enum Form { PLAIN, PLAIN_BF16, ADDED, GATED, ACTIVATED, ACT_GRAD, ANY };

// classify returns the form of a.
DEVICE Form classify(const GemmArgs &a) {
	if (a.drop != 0 || a.scale.p || a.ungated.p) return ANY;
	if (a.grad.p) return a.act == GELU && a.dst.bf16 && a.grad.bf16 && !a.add && !a.bias.p && !a.pre.p && !a.gate.p ? ACT_GRAD : ANY;
	if (a.act == GELU) return a.dst.bf16 && (!a.pre.p || a.pre.bf16) && !a.add && !a.gate.p ? ACTIVATED : ANY;
	if (a.act != IDENTITY || a.pre.p) return ANY;
	if (a.gate.p) return a.add && a.gate.bf16 && !a.dst.bf16 ? GATED : ANY;
	return a.add ? a.dst.bf16 ? ANY : ADDED : a.dst.bf16 ? PLAIN_BF16 : PLAIN;
}

// Aligned access to a quad of float32 or bf16, at an address in bytes.
DEVICE float4 load_float4(const char *p) { return *(const float4 *)p; }
DEVICE float4 widen_bf16x4(uint2 h) {
	float4 v = {widen(h.x), __int_as_float((int)(h.x & 0xffff0000u)), widen(h.y), __int_as_float((int)(h.y & 0xffff0000u))};
	return v;
}
DEVICE void store_float4(char *p, float4 v) { *(float4 *)p = v; }
DEVICE void store_bf16x4(char *p, float4 v) {
	uint2 h = {pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)};
	*(uint2 *)p = h;
}

// Column addresses one quad column of a matrix, row by row, with the row size in bytes
// computed once.
struct Column {
	char *p;
	u32 pitch; // bytes from a row to the next

	DEVICE_METHOD void start(const Mat &m, int r0, int c) {
		u32 width = m.bf16 ? 2 : 4;
		pitch = (u32)m.stride * width;
		p = (char *)m.p + (u64)(u32)c * width + (u64)(u32)r0 * pitch;
	}
	DEVICE_METHOD char *at(int r) const { return p + (u64)(u32)r * pitch; }
};

// epilogue_form is epilogue_any for one form. All columns of the tile must exist and
// allow vector access.
//
// A thread has ROWS_EACH rows and QUADS_EACH quads of each. It works on IN_FLIGHT rows
// at a time: it first issues the loads of all their quads, then computes and stores.
// IN_FLIGHT is limited by the registers that the loads occupy. Rows beyond the matrix
// are clamped to the last one instead of skipped, which keeps the loads free of
// branches; their results are not stored.
template <Form F, int ROWS, int COLS, int TEAM, class Sums> DEVICE void epilogue_form(const GemmArgs &a, int r0, int c0, Sums sums, int thread) {
	enum { THREADS_X = COLS < 64 ? COLS / 4 : 16, THREADS_Y = TEAM / THREADS_X, ROWS_EACH = ROWS / THREADS_Y, QUADS_EACH = COLS / 4 / THREADS_X };
	enum { DST_BYTES = F == PLAIN || F == ADDED || F == GATED ? 4 : 2 };
	enum { MAX_IN_FLIGHT = (F == ADDED || F == GATED) && QUADS_EACH > 1 ? 2 : 4, IN_FLIGHT = ROWS_EACH % MAX_IN_FLIGHT == 0 ? MAX_IN_FLIGHT : ROWS_EACH % 3 == 0 ? 3 : ROWS_EACH };
	static_assert(COLS / 4 % THREADS_X == 0 && ROWS % (THREADS_Y * IN_FLIGHT) == 0, "a tile is shared out evenly");
	int rows = (int)a.m - r0, first = thread / THREADS_X, c = thread % THREADS_X * 4;
	if (rows <= 0) return;
	Column to, pre = {}, operand = {};
	to.start(a.dst, r0, c0 + c);
	if (F == ACTIVATED) pre.start(a.pre, r0, c0 + c);
	if (F == ACT_GRAD) operand.start(a.grad, r0, c0 + c);
	if (F == GATED) operand.start(a.gate, r0, c0 + c);
	const char *bias = F != ACT_GRAD && a.bias.p ? address(a.bias, 0, c0 + c) : 0;
	// Without a bias add -0, which is neutral for every number: +0 would turn -0 into +0.
	float4 add[QUADS_EACH];
	UNROLL for (int x = 0; x < QUADS_EACH; x++) {
		add[x].x = add[x].y = add[x].z = add[x].w = -0.0f;
		if (bias) add[x] = a.bias.bf16 ? widen_bf16x4(*(const uint2 *)(bias + x * THREADS_X * 8)) : load_float4(bias + x * THREADS_X * 16);
	}
	ROLLED for (int u0 = 0; u0 < ROWS_EACH; u0 += IN_FLIGHT) {
		float4 old[IN_FLIGHT][QUADS_EACH] = {};
		uint2 other[IN_FLIGHT][QUADS_EACH] = {};
		UNROLL for (int u = 0; u < IN_FLIGHT; u++) {
			int r = min32(first + (u0 + u) * THREADS_Y, rows - 1);
			UNROLL for (int x = 0; x < QUADS_EACH; x++) {
				if (F == ADDED || F == GATED) old[u][x] = load_float4(to.at(r) + x * THREADS_X * 16);
				if (F == ACT_GRAD || F == GATED) other[u][x] = *(const uint2 *)(operand.at(r) + x * THREADS_X * 8);
			}
		}
		UNROLL for (int u = 0; u < IN_FLIGHT; u++) {
			int r = first + (u0 + u) * THREADS_Y;
			UNROLL for (int x = 0; x < QUADS_EACH; x++) {
				float4 v = sums(r, c + 4 * THREADS_X * x), o = widen_bf16x4(other[u][x]), w = old[u][x], b = add[x];
				if (F != ACT_GRAD) v.x = __fadd_rn(v.x, b.x), v.y = __fadd_rn(v.y, b.y), v.z = __fadd_rn(v.z, b.z), v.w = __fadd_rn(v.w, b.w);
				if (F == ACTIVATED) {
					if (a.pre.p && r < rows) store_bf16x4(pre.at(r) + x * THREADS_X * 8, v);
					v.x = gelu(v.x), v.y = gelu(v.y), v.z = gelu(v.z), v.w = gelu(v.w);
				}
				if (F == ACT_GRAD) v.x *= gelu_grad(o.x), v.y *= gelu_grad(o.y), v.z *= gelu_grad(o.z), v.w *= gelu_grad(o.w);
				if (F == GATED) v.x = __fmul_rn(v.x, o.x), v.y = __fmul_rn(v.y, o.y), v.z = __fmul_rn(v.z, o.z), v.w = __fmul_rn(v.w, o.w);
				if (F == ADDED || F == GATED) v.x = __fadd_rn(v.x, w.x), v.y = __fadd_rn(v.y, w.y), v.z = __fadd_rn(v.z, w.z), v.w = __fadd_rn(v.w, w.w);
				if (r >= rows) continue;
				if (DST_BYTES == 4) store_float4(to.at(r) + x * THREADS_X * 16, v);
				else store_bf16x4(to.at(r) + x * THREADS_X * 8, v);
			}
		}
	}
}

// epilogue_tile finishes a tile with TEAM threads: it applies the epilogue, or, under
// split-K, stores the sums of this chunk of K (`piece`) for gemm_add.
template <int ROWS, int COLS, int TEAM, class Sums> DEVICE void epilogue_tile(const GemmArgs &a, int piece, int r0, int c0, Sums sums, int thread = threadIdx.x) {
	bool inside = c0 + COLS <= (int)a.n;
	if (a.splits > 1) {
		GemmArgs p = partial(a, piece);
		if (inside && p.vec) epilogue_form<PLAIN, ROWS, COLS, TEAM>(p, r0, c0, sums, thread);
		else epilogue_any<ROWS, COLS, TEAM>(p, r0, c0, sums, thread);
		return;
	}
	switch (inside && a.vec ? classify(a) : ANY) {
	case PLAIN: return epilogue_form<PLAIN, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case PLAIN_BF16: return epilogue_form<PLAIN_BF16, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ADDED: return epilogue_form<ADDED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case GATED: return epilogue_form<GATED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ACTIVATED: return epilogue_form<ACTIVATED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ACT_GRAD: return epilogue_form<ACT_GRAD, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ANY: return epilogue_any<ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	}
}

#endif
