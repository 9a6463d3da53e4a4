// attention_few.cu: attention over at most four tokens, the window of the predictor.
//
// All tokens of a head fit in the registers of a few lanes. Softmax is exact in one
// pass, and nothing goes through shared memory: out = p v with p = softmax(q k^T /
// sqrt(dim)). The backward pass recomputes p from lse:
//    ds = p (dp - sum p dp) / sqrt(dim), dp = dout v^T
//    dq = ds k, dk = ds^T q, dv = p^T dout
//
// For heads of 64 bf16 columns, eight lanes share a head, eight columns each. Others of
// up to 128 columns take a warp, four columns a lane. The dot products of queries and
// keys, at most 16, are reduced over these lanes such that each lane ends up with one
// or two of them (reduce_scatter). The lanes then compute their exponentials and
// dropout factors in parallel instead of redundantly.
//
// Memory traffic: forward reads q, k and v once and writes out, and lse if given, once;
// backward reads q, k, v, dout and lse once and writes dq, dk and dv once.
#include "flash.cuh"

// The largest number of tokens, and of columns of a head.
enum { FEW = 4, WIDEST = 128 };

// Rows is the rows of one sequence in a matrix.
struct Rows {
	const Mat &m;
	i64 first;
	int tokens;
};

// Window is one head of one sequence, shared by L adjacent lanes with C adjacent
// columns each.
template <int L> struct Window {
	enum { C = L == 8 ? HEAD / L : WIDEST / L };
	const AttentionArgs &a;
	Head h;
	bool valid; // false for surplus lanes of the last warp, which store nothing
	int at; // this lane's index among the L

	DEVICE_METHOD Rows queries(const Mat &m) const { return {m, h.query, valid ? (int)a.queries : 0}; }
	DEVICE_METHOD Rows keys(const Mat &m) const { return {m, h.key, valid ? (int)a.len : 0}; }
	DEVICE_METHOD float scale() const { return L == 8 ? 0.125f : 1 / sqrtf((float)a.dim); }
};

// window_of returns the lane's window. Surplus lanes get a copy of the last one,
// without rows: they must take part in the shuffles.
template <int L> DEVICE Window<L> window_of(const AttentionArgs &a) {
	i64 i = (grid_warp() * WARP + lane()) / L, heads = a.seqs * a.heads;
	Window<L> w = {a, head_of(a, min64(i, heads - 1)), i < heads, lane() % L};
	return w;
}

// Tokens holds the lane's columns of the tokens of one matrix, with zeros for missing
// tokens and columns.
template <int L> struct Tokens {
	float v[FEW][Window<L>::C];
};

// load reads the rows r.
template <int L> DEVICE void load(Tokens<L> &x, const Window<L> &w, const Rows &r) {
	enum { C = Window<L>::C };
	Strip s = strip_of(r.m, r.first, w.h, w.a, r.tokens);
	UNROLL for (int t = 0; t < FEW; t++) {
		bool valid = t < r.tokens;
		if (L == 8) {
			uint4 none = {0, 0, 0, 0}, v = valid ? eight(s, t, C * w.at) : none;
			u32 words[4] = {v.x, v.y, v.z, v.w};
			UNROLL for (int c = 0; c < C; c++) x.v[t][c] = __int_as_float((int)(c % 2 ? words[c / 2] & 0xffff0000u : words[c / 2] << 16));
		} else {
			UNROLL for (int c = 0; c < C; c++) {
				i64 d = C * w.at + c;
				x.v[t][c] = valid && d < w.a.dim ? get(r.m, r.first + t * w.h.step, w.h.col + d) : 0;
			}
		}
	}
}

// store writes the lane's columns of token t, if there is such a token.
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

// reduce_scatter sums each of N numbers over the L lanes of a window and distributes
// the sums: lane l ends up with those of numbers l, l + L, ... in x[0], x[1], ... If
// there are more lanes than numbers, it gets the sum of number l % N.
//
// In each round of the butterfly a lane gives its partner one half of the numbers that
// it still has and receives the partner's share of the other half. This takes about N
// shuffles, instead of the N log2(L) that reducing each number on its own would take.
template <int L, int N> DEVICE void reduce_scatter(float *x) {
	UNROLL for (int mask = 1; mask < L; mask *= 2) {
		bool odd = lane() & mask;
		int left = N / mask;
		if (left > 1) {
			UNROLL for (int i = 0; i < left / 2; i++) {
				float other = __shfl_xor_sync(FULL, odd ? x[2 * i] : x[2 * i + 1], mask);
				x[i] = (odd ? x[2 * i + 1] : x[2 * i]) + other;
			}
		} else x[0] += __shfl_xor_sync(FULL, x[0], mask);
	}
}

// dot returns the lane's share of the dot product of token i of x and token j of y.
template <int L> DEVICE float dot(const Tokens<L> &x, int i, const Tokens<L> &y, int j) {
	float sum = 0;
	UNROLL for (int c = 0; c < Window<L>::C; c++) sum = fmaf(x.v[i][c], y.v[j][c], sum);
	return sum;
}

// Pairs holds one number for each pair of one of the first A tokens and any token,
// distributed by reduce_scatter: pair (i, j) is number i*FEW + j. A quad of lanes has
// the pairs of one row i.
template <int L, int A> struct Pairs {
	enum { N = A * FEW, EACH = N > L ? N / L : 1 };
	float v[N]; // after dot_rows a lane has EACH of them

	// dot_rows computes the dot products of all pairs of tokens of x and y.
	DEVICE_METHOD void dot_rows(const Tokens<L> &x, const Tokens<L> &y) {
		UNROLL for (int i = 0; i < N; i++) v[i] = dot(x, i / FEW, y, i % FEW);
		reduce_scatter<L, N>(v);
	}
	// row and col return which pair the lane's number e is.
	DEVICE_METHOD static int row(const Window<L> &w, int e) { return (w.at + e * L) / FEW % A; }
	DEVICE_METHOD static int col(const Window<L> &w) { return w.at % FEW; }
	// of broadcasts the number of pair (i, j) to all lanes of the window.
	DEVICE_METHOD float of(const Window<L> &w, int i, int j) const {
		int n = i * FEW + j;
		return __shfl_sync(FULL, v[n / L], lane() - w.at + n % L);
	}
};

// add adds weight * x to sum, over the lane's columns.
template <int L> DEVICE void add(float *sum, float weight, const float *x) {
	UNROLL for (int c = 0; c < Window<L>::C; c++) sum[c] = fmaf(weight, x[c], sum[c]);
}

// attend computes the first A queries. A rollout has a single query, which takes a
// quarter of the work.
template <int L, int A> DEVICE void attend(const Window<L> &w) {
	typedef Pairs<L, A> S;
	const AttentionArgs &a = w.a;
	Tokens<L> q, k, v;
	load(q, w, w.queries(a.q)), load(k, w, w.keys(a.k)), load(v, w, w.keys(a.v));
	S s;
	s.dot_rows(q, k);
	int j = S::col(w);
	UNROLL for (int e = 0; e < S::EACH; e++) {
		int i = S::row(w, e);
		bool seen = j < seen_by(a, i);
		float x = s.v[e] * w.scale(), top = quad_max(seen ? x : -INFINITE), p = seen ? expf(x - top) : 0, total = quad_sum(p);
		if (a.lse.p && w.valid && j == 0 && i < a.queries) at(a.lse, w.h.index, i) = top + logf(total);
		s.v[e] = p / total * (a.p != 0 ? attention_dropout(a, w.h, i, j) : 1);
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

KERNEL(attention_few, AttentionArgs, BLOCK_WARPS *WARP) { forward<8>(a); }
KERNEL(attention_few_any, AttentionArgs, BLOCK_WARPS *WARP) { forward<WARP>(a); }

// backward computes all gradients.
template <int L> DEVICE void backward(const AttentionArgs &a) {
	typedef Pairs<L, FEW> S;
	Window<L> w = window_of<L>(a);
	Tokens<L> q, k, v, dout;
	S ds, p;
	load(q, w, w.queries(a.q)), load(dout, w, w.queries(a.dout)), load(k, w, w.keys(a.k)), load(v, w, w.keys(a.v));
	p.dot_rows(q, k), ds.dot_rows(dout, v);
	int j = S::col(w);
	UNROLL for (int e = 0; e < S::EACH; e++) {
		int i = S::row(w, e);
		bool seen = w.valid && i < a.queries && j < seen_by(a, i);
		float dropout = a.p != 0 ? attention_dropout(a, w.h, i, j) : 1;
		float exact = seen ? expf(p.v[e] * w.scale() - at(a.lse, w.h.index, i)) : 0;
		p.v[e] = exact * dropout;
		float delta = quad_sum(p.v[e] * ds.v[e]); // the quad has the keys of query i
		ds.v[e] = exact * (dropout * ds.v[e] - delta) * w.scale();
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

KERNEL(attention_few_grad, AttentionArgs, BLOCK_WARPS *WARP) { backward<8>(a); }
KERNEL(attention_few_any_grad, AttentionArgs, BLOCK_WARPS *WARP) { backward<WARP>(a); }
