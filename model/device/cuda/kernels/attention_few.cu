// attention_few.cu: attention over the few tokens (at most 4) of the predictor's window.
//
// Idea: all tokens of a head fit into the registers of a few lanes, so that softmax is exact in one pass and
// nothing goes through shared memory. out = p v with p = softmax(q k^T / sqrt(dim)); the backward pass takes p
// from lse: ds = p (dout v^T - dout.out) / sqrt(dim), dq = ds k, dk = ds^T q, dv = p^T dout.
// For heads of 64 bf16 columns eight lanes have a head, eight columns each, so that a plan's launch is few
// instructions; for others of up to 128 columns a warp, four columns a lane. The products of queries and keys
// (at most 16) are summed over the lanes such that each ends with one or two of them, and so
// computes one or two exponentials and factors of dropout.
// Memory traffic: q, k and v are read once and out is written once, with lse where it is asked for;
// backward reads q, k, v, out, dout and lse once and writes dq, dk and dv once.
#include "flash.cuh"

enum { FEW = 4, WIDEST = 128 };

// Rows are those of one sequence in a matrix.
struct Rows {
	const Mat &m;
	i64 first;
	int tokens;
};

// Window is a head of one sequence, of which L lanes have C neighbouring columns each.
template <int L> struct Window {
	enum { C = L == 8 ? HEAD / L : WIDEST / L };
	const AttentionArgs &a;
	Head h;
	bool there; // the last warp has lanes too many
	int at;     // the lane's place among the L

	DEVICE_METHOD Rows queries(const Mat &m) const { return {m, h.query, there ? (int)a.queries : 0}; }
	DEVICE_METHOD Rows keys(const Mat &m) const { return {m, h.key, there ? (int)a.len : 0}; }
	DEVICE_METHOD float scale() const { return L == 8 ? 0.125f : 1 / sqrtf((float)a.dim); }
};

template <int L> DEVICE Window<L> window_of(const AttentionArgs &a) {
	i64 i = (grid_warp() * WARP + lane()) / L, heads = a.seqs * a.heads;
	Window<L> w = {a, head_of(a, least(i, heads - 1)), i < heads, lane() % L};
	return w;
}

// Tokens are the lane's columns of a window's tokens.
template <int L> struct Tokens {
	float v[FEW][Window<L>::C];
};

template <int L> DEVICE void load(Tokens<L> &x, const Window<L> &w, const Rows &r) {
	enum { C = Window<L>::C };
	Strip s = strip_of(r.m, r.first, w.h, w.a, r.tokens);
	UNROLL for (int t = 0; t < FEW; t++) {
		bool there = t < r.tokens;
		if (L == 8) {
			uint4 none = {0, 0, 0, 0}, v = there ? eight(s, t, C * w.at) : none;
			u32 words[4] = {v.x, v.y, v.z, v.w};
			UNROLL for (int c = 0; c < C; c++) x.v[t][c] = __int_as_float((int)(c % 2 ? words[c / 2] & 0xffff0000u : words[c / 2] << 16));
		} else {
			UNROLL for (int c = 0; c < C; c++) {
				i64 d = C * w.at + c;
				x.v[t][c] = there && d < w.a.dim ? get(r.m, r.first + t * w.h.step, w.h.col + d) : 0;
			}
		}
	}
}

// store writes token t.
template <int L> DEVICE void store(const Window<L> &w, const Rows &r, int t, const float *x) {
	enum { C = Window<L>::C };
	if (L == 8) {
		u32 words[4];
		UNROLL for (int i = 0; i < 4; i++) words[i] = pack_bf16(x[2 * i % C], x[(2 * i + 1) % C]);
		uint4 v = {words[0], words[1], words[2], words[3]};
		set_eight(strip_of(r.m, r.first, w.h, w.a, r.tokens), t, C * w.at, v);
	} else {
		UNROLL for (int c = 0; c < C; c++) {
			i64 d = C * w.at + c;
			if (t < r.tokens && d < w.a.dim) set(r.m, r.first + t * w.h.step, w.h.col + d, x[c]);
		}
	}
}

// deal sums each of the N numbers over the L lanes; lane l gets the sums of numbers l, l + L, ..
// (with more lanes than numbers: of number l % N).
template <int L, int N> DEVICE void deal(float *x) {
	UNROLL for (int mask = 1; mask < L; mask *= 2) {
		bool odd = lane() & mask;
		int left = N / mask; // numbers that the lane still has
		if (left > 1) {
			UNROLL for (int i = 0; i < left / 2; i++) {
				float other = __shfl_xor_sync(FULL, odd ? x[2 * i] : x[2 * i + 1], mask);
				x[i] = (odd ? x[2 * i + 1] : x[2 * i]) + other;
			}
		} else x[0] += __shfl_xor_sync(FULL, x[0], mask);
	}
}

template <int L> DEVICE float dot(const Tokens<L> &x, int i, const Tokens<L> &y, int j) {
	float sum = 0;
	UNROLL for (int c = 0; c < Window<L>::C; c++) sum = fmaf(x.v[i][c], y.v[j][c], sum);
	return sum;
}

// Pairs are numbers of pairs of the first A tokens and all, dealt: pair (i, j) is number i FEW + j.
template <int L, int A> struct Pairs {
	enum { N = A * FEW, EACH = N > L ? N / L : 1 };
	float v[N]; // of which the lane has EACH

	// times are the products of tokens.
	DEVICE_METHOD void times(const Tokens<L> &x, const Tokens<L> &y) {
		UNROLL for (int i = 0; i < N; i++) v[i] = dot(x, i / FEW, y, i % FEW);
		deal<L, N>(v);
	}
	DEVICE_METHOD static int row(const Window<L> &w, int e) { return (w.at + e * L) / FEW % A; }
	DEVICE_METHOD static int col(const Window<L> &w) { return w.at % FEW; }
	// of brings pair (i, j) to all lanes of the window.
	DEVICE_METHOD float of(const Window<L> &w, int i, int j) const {
		int n = i * FEW + j;
		return __shfl_sync(FULL, v[n / L], lane() - w.at + n % L);
	}
};

template <int L> DEVICE void add(float *sum, float weight, const float *x) {
	UNROLL for (int c = 0; c < Window<L>::C; c++) sum[c] = fmaf(weight, x[c], sum[c]);
}

// attend computes the first A queries.
template <int L, int A> DEVICE void attend(const Window<L> &w) {
	typedef Pairs<L, A> S;
	const AttentionArgs &a = w.a;
	Tokens<L> q, k, v;
	load(q, w, w.queries(a.q)), load(k, w, w.keys(a.k)), load(v, w, w.keys(a.v));
	S s;
	s.times(q, k);
	int j = S::col(w);
	UNROLL for (int e = 0; e < S::EACH; e++) {
		int i = S::row(w, e);
		bool seen = j < seen_by(a, i);
		float x = s.v[e] * w.scale(), top = quad_max(seen ? x : -INFINITE), p = seen ? expf(x - top) : 0, total = quad_sum(p);
		if (a.lse.p && w.there && j == 0 && i < a.queries) at(a.lse, w.h.index, i) = top + logf(total);
		s.v[e] = p / total * (a.p != 0 ? keep_of(a, w.h, i, j) : 1);
	}
	UNROLL for (int i = 0; i < A; i++) {
		float out[Window<L>::C] = {};
		UNROLL for (int j = 0; j < FEW; j++) add<L>(out, s.of(w, i, j), v.v[j]);
		store(w, w.queries(a.out), i, out);
	}
}

template <int L> DEVICE void forward(const AttentionArgs &a) {
	Window<L> w = window_of<L>(a);
	if (a.queries == 1) attend<L, 1>(w);
	else attend<L, FEW>(w);
}

KERNEL(attention_few, AttentionArgs, TEAM *WARP) { forward<8>(a); }
KERNEL(attention_few_any, AttentionArgs, TEAM *WARP) { forward<WARP>(a); }

template <int L> DEVICE void backward(const AttentionArgs &a) {
	typedef Pairs<L, FEW> S;
	Window<L> w = window_of<L>(a);
	Tokens<L> q, k, v, dout;
	S ds, p;
	float delta[FEW];
	load(v, w, w.queries(a.out)), load(dout, w, w.queries(a.dout)); // out in place of v
	UNROLL for (int i = 0; i < FEW; i++) delta[i] = dot(dout, i, v, i);
	deal<L, FEW>(delta);
	load(q, w, w.queries(a.q)), load(k, w, w.keys(a.k)), load(v, w, w.keys(a.v));
	p.times(q, k), ds.times(dout, v);
	int j = S::col(w);
	UNROLL for (int e = 0; e < S::EACH; e++) {
		int i = S::row(w, e);
		bool seen = w.there && i < a.queries && j < seen_by(a, i);
		float of_query = __shfl_sync(FULL, delta[0], lane() - w.at + i), kept = a.p != 0 ? keep_of(a, w.h, i, j) : 1;
		float exact = seen ? expf(p.v[e] * w.scale() - at(a.lse, w.h.index, i)) : 0;
		p.v[e] = exact * kept;
		ds.v[e] = exact * (kept * ds.v[e] - of_query) * w.scale();
	}
	UNROLL for (int t = 0; t < FEW; t++) {
		float dq[Window<L>::C] = {}, dk[Window<L>::C] = {}, dv[Window<L>::C] = {};
		UNROLL for (int i = 0; i < FEW; i++) {
			add<L>(dq, ds.of(w, t, i), k.v[i]);
			add<L>(dk, ds.of(w, i, t), q.v[i]);
			add<L>(dv, p.of(w, i, t), dout.v[i]);
		}
		store(w, w.queries(a.dq), t, dq), store(w, w.keys(a.dk), t, dk), store(w, w.keys(a.dv), t, dv);
	}
}

KERNEL(attention_few_grad, AttentionArgs, TEAM *WARP) { backward<8>(a); }
KERNEL(attention_few_any_grad, AttentionArgs, TEAM *WARP) { backward<WARP>(a); }
