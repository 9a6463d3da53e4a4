// epilogue.cuh: what a product does with its sums (device.Epilogue), for four
// neighbouring columns at a time, so that memory is read and written 8 or 16 bytes
// at once. Kernels leave a tile of sums in shared memory first. Every operation is
// written as one fused or one plain instruction: the kernels that share this give
// the same bits.
#ifndef EPILOGUE_CUH
#define EPILOGUE_CUH
#include "args.cuh"

// Quad is four neighbours of a row as they are stored: in four words, or, of bf16, in two.
struct Quad {
	u32 w[4];
};

// Spot is where four neighbours lie; `full` of them at once, where all are there and
// every matrix is aligned.
struct Spot {
	int r, c, count;
	bool full;
};

DEVICE Spot spot(const GemmArgs &a, int r, int c) {
	int left = (int)a.n - c;
	Spot s = {r, c, r < (int)a.m ? (left < 4 ? left : 4) : 0, a.vec && left >= 4};
	return s;
}

// address is that of an element; rows and bytes of a row have at most 32 bits each. What
// depends on the column alone comes first: threads go down columns.
DEVICE char *address(const Mat &m, int r, int c) {
	u32 width = m.bf16 ? 2 : 4;
	return (char *)m.p + (u64)(u32)c * width + (u64)(u32)r * ((u32)m.stride * width);
}

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

// keep4 multiplies by dropout's factors of elements i to i+3.
DEVICE void keep4(float *v, float p, u64 key, u64 i) {
	if (i % 4 == 0) { // one block of random numbers
		Words x = philox(key, i / 4);
		UNROLL for (int j = 0; j < 4; j++) v[j] *= kept(p, x.w[j]);
	} else {
		UNROLL for (int j = 0; j < 4; j++) v[j] *= keep(p, key, i + j);
	}
}

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

// Above is what four columns have in common.
struct Above {
	float scale[4], bias[4];
};

DEVICE Above above(const GemmArgs &a, const Spot &s) {
	Above b = {{1, 1, 1, 1}, {0, 0, 0, 0}};
	if (a.scale.p) load4(b.scale, a.scale, 0, s);
	if (a.bias.p) load4(b.bias, a.bias, 0, s);
	return b;
}

// Beside is what an element needs that memory is slow to give: what is added to,
// and what Pre was or else the gate. It is asked for ahead.
struct Beside {
	Quad old, other;
};

DEVICE Beside beside(const GemmArgs &a, const Spot &s) {
	Beside b = {};
	if (a.add) b.old = fetch4(a.dst, s.r, s);
	if (a.grad.p) b.other = fetch4(a.grad, s.r, s);
	else if (a.gate.p) b.other = fetch4(a.gate, s.r, s);
	return b;
}

// finish4 is the epilogue of four sums.
DEVICE void finish4(const GemmArgs &a, const Spot &s, float *v, const Above &columns, const Beside &b) {
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
	if (a.drop != 0) keep4(v, (float)a.drop, a.drop_key, (u64)s.r * a.n + s.c);
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

// finish_all finishes a tile whose first element is (r0, c0). sums(r, c) is the float4 of
// columns c to c+3 in row r of the tile. thread is which of the TEAM that share the tile.
template <int ROWS, int COLS, int TEAM, class Sums> DEVICE void finish_all(const GemmArgs &a, int r0, int c0, Sums sums, int thread) {
	enum { SIDE = COLS < 64 ? COLS / 4 : 16, DOWN = TEAM / SIDE }; // threads beside and below each other
	ROLLED for (int c = thread % SIDE * 4; c < COLS; c += 4 * SIDE) {
		Spot s = spot(a, r0, c0 + c);
		if (s.count <= 0) return;
		Above columns = above(a, s);
		ROLLED for (int r = thread / SIDE; r < ROWS && r0 + r < (int)a.m; r += DOWN) {
			s.r = r0 + r;
			float4 x = sums(r, c);
			float v[4] = {x.x, x.y, x.z, x.w};
			finish4(a, s, v, columns, beside(a, s));
		}
	}
}

// partial is the arguments of a piece's sums: they go to part, with nothing done to them.
DEVICE GemmArgs partial(const GemmArgs &a, i64 piece) {
	GemmArgs p = {};
	p.dst.p = a.part + piece * a.m * a.n;
	p.dst.stride = p.n = a.n;
	p.m = a.m;
	p.vec = a.n % 4 == 0;
	return p;
}

// The epilogues that models use most, as arguments and types in which the compiler sees what is
// not there. They are the same operations as all others.
enum Form { PLAIN, PLAIN_BF16, ADDED, GATED, ACTIVATED, ACT_GRAD, ANY };

DEVICE Form form_of(const GemmArgs &a) {
	if (a.drop != 0 || a.scale.p || a.ungated.p) return ANY;
	if (a.grad.p) return a.act == GELU && a.dst.bf16 && a.grad.bf16 && !a.add && !a.bias.p && !a.pre.p && !a.gate.p ? ACT_GRAD : ANY;
	if (a.act == GELU) return a.dst.bf16 && (!a.pre.p || a.pre.bf16) && !a.add && !a.gate.p ? ACTIVATED : ANY;
	if (a.act != IDENTITY || a.pre.p) return ANY;
	if (a.gate.p) return a.add && a.gate.bf16 && !a.dst.bf16 ? GATED : ANY;
	return a.add ? a.dst.bf16 ? ANY : ADDED : a.dst.bf16 ? PLAIN_BF16 : PLAIN;
}

// Four neighbours of a row of whole fours, as floats and as bf16.
DEVICE float4 four(const char *p) { return *(const float4 *)p; }
DEVICE float4 widened(uint2 h) {
	float4 v = {widen(h.x), __int_as_float((int)(h.x & 0xffff0000u)), widen(h.y), __int_as_float((int)(h.y & 0xffff0000u))};
	return v;
}
DEVICE void set_four(char *p, float4 v) { *(float4 *)p = v; }
DEVICE void set_four_bf16(char *p, float4 v) {
	uint2 h = {pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)};
	*(uint2 *)p = h;
}

// Column goes down a matrix from an element on, AT_ONCE rows at a time; where there are fewer
// rows it stays at the last.
struct Column {
	char *p;
	u32 pitch; // bytes of a row

	DEVICE_METHOD void start(const Mat &m, int r0, int c) {
		u32 width = m.bf16 ? 2 : 4;
		pitch = (u32)m.stride * width;
		p = (char *)m.p + (u64)(u32)c * width + (u64)(u32)r0 * pitch;
	}
	DEVICE_METHOD char *at(int r) const { return p + (u64)(u32)r * pitch; }
};

// finish_form is finish_all of a form, all of whose columns are the matrix's and are accessed four at a time. What
// memory has to give for all of a thread's elements is asked for first.
template <Form F, int ROWS, int COLS, int TEAM, class Sums> DEVICE void finish_form(const GemmArgs &a, int r0, int c0, Sums sums, int thread) {
	enum { SIDE = COLS < 64 ? COLS / 4 : 16, DOWN = TEAM / SIDE, TIMES = ROWS / DOWN, ACROSS = COLS / 4 / SIDE };
	enum { WIDTH = F == PLAIN || F == ADDED || F == GATED ? 4 : 2 }; // bytes of a result
	enum { MOST = (F == ADDED || F == GATED) && ACROSS > 1 ? 2 : 4, AHEAD = TIMES % MOST == 0 ? MOST : TIMES % 3 == 0 ? 3 : TIMES }; // rows on their way at once
	static_assert(COLS / 4 % SIDE == 0 && ROWS % (DOWN * AHEAD) == 0, "a tile is shared out evenly");
	int rows = (int)a.m - r0, first = thread / SIDE, c = thread % SIDE * 4;
	if (rows <= 0) return;
	Column to, pre = {}, beside = {};
	to.start(a.dst, r0, c0 + c);
	if (F == ACTIVATED) pre.start(a.pre, r0, c0 + c);
	if (F == ACT_GRAD) beside.start(a.grad, r0, c0 + c);
	if (F == GATED) beside.start(a.gate, r0, c0 + c);
	const char *bias = F != ACT_GRAD && a.bias.p ? address(a.bias, 0, c0 + c) : 0;
	float4 add[ACROSS];
	UNROLL for (int x = 0; x < ACROSS; x++) {
		add[x].x = add[x].y = add[x].z = add[x].w = -0.0f; // which changes no number
		if (bias) add[x] = a.bias.bf16 ? widened(*(const uint2 *)(bias + x * SIDE * 8)) : four(bias + x * SIDE * 16);
	}
	ROLLED for (int u0 = 0; u0 < TIMES; u0 += AHEAD) {
		float4 old[AHEAD][ACROSS] = {};
		uint2 other[AHEAD][ACROSS] = {};
		UNROLL for (int u = 0; u < AHEAD; u++) {
			int r = lesser(first + (u0 + u) * DOWN, rows - 1);
			UNROLL for (int x = 0; x < ACROSS; x++) {
				if (F == ADDED || F == GATED) old[u][x] = four(to.at(r) + x * SIDE * 16);
				if (F == ACT_GRAD || F == GATED) other[u][x] = *(const uint2 *)(beside.at(r) + x * SIDE * 8);
			}
		}
		UNROLL for (int u = 0; u < AHEAD; u++) {
			int r = first + (u0 + u) * DOWN;
			UNROLL for (int x = 0; x < ACROSS; x++) {
				float4 v = sums(r, c + 4 * SIDE * x), o = widened(other[u][x]), w = old[u][x], b = add[x];
				if (F != ACT_GRAD) v.x = __fadd_rn(v.x, b.x), v.y = __fadd_rn(v.y, b.y), v.z = __fadd_rn(v.z, b.z), v.w = __fadd_rn(v.w, b.w);
				if (F == ACTIVATED) {
					if (a.pre.p && r < rows) set_four_bf16(pre.at(r) + x * SIDE * 8, v);
					v.x = gelu(v.x), v.y = gelu(v.y), v.z = gelu(v.z), v.w = gelu(v.w);
				}
				if (F == ACT_GRAD) v.x *= gelu_grad(o.x), v.y *= gelu_grad(o.y), v.z *= gelu_grad(o.z), v.w *= gelu_grad(o.w);
				if (F == GATED) v.x = __fmul_rn(v.x, o.x), v.y = __fmul_rn(v.y, o.y), v.z = __fmul_rn(v.z, o.z), v.w = __fmul_rn(v.w, o.w);
				if (F == ADDED || F == GATED) v.x = __fadd_rn(v.x, w.x), v.y = __fadd_rn(v.y, w.y), v.z = __fadd_rn(v.z, w.z), v.w = __fadd_rn(v.w, w.w);
				if (r >= rows) continue;
				if (WIDTH == 4) set_four(to.at(r) + x * SIDE * 16, v);
				else set_four_bf16(to.at(r) + x * SIDE * 8, v);
			}
		}
	}
}

// finish_tile is what TEAM threads do with a tile of sums: the epilogue, or,
// of one piece of several, keeping them for gemm_add.
template <int ROWS, int COLS, int TEAM, class Sums> DEVICE void finish_tile(const GemmArgs &a, int piece, int r0, int c0, Sums sums, int thread = threadIdx.x) {
	bool inside = c0 + COLS <= (int)a.n;
	if (a.splits > 1) {
		GemmArgs p = partial(a, piece);
		if (inside && p.vec) finish_form<PLAIN, ROWS, COLS, TEAM>(p, r0, c0, sums, thread);
		else finish_all<ROWS, COLS, TEAM>(p, r0, c0, sums, thread);
		return;
	}
	switch (inside && a.vec ? form_of(a) : ANY) {
	case PLAIN: return finish_form<PLAIN, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case PLAIN_BF16: return finish_form<PLAIN_BF16, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ADDED: return finish_form<ADDED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case GATED: return finish_form<GATED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ACTIVATED: return finish_form<ACTIVATED, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ACT_GRAD: return finish_form<ACT_GRAD, ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	case ANY: return finish_all<ROWS, COLS, TEAM>(a, r0, c0, sums, thread);
	}
}

#endif
