// attention_few.cu: attention over the few tokens of the predictor's window: a
// warp is one head of one sequence. Columns lie on the lanes in pairs; the
// products of queries and keys are summed such that each lane ends with one of
// them, so that there is one exponential and one mask of dropout to compute.
#include "heads.cuh"

enum { FEW = 4 };

// Tokens are the lane's columns of the tokens of a window. PAIRS are 1 where heads
// have up to 64 columns, all bf16 in aligned pairs; else 2, for up to 128 of any kind.
template <int PAIRS> struct Tokens {
	float2 v[FEW][PAIRS];
};

// Window is the rows of a head's tokens in a matrix.
struct Window {
	const Mat &m;
	i64 at, pitch; // of the first number; from a row to the next
	int tokens, dim;
};

DEVICE Window window_of(const Mat &m, i64 first, i64 tokens, const AttentionArgs &a, const Head &h) {
	Window w = {m, first * m.stride + h.col, h.step * m.stride, (int)tokens, (int)a.dim};
	return w;
}

template <int PAIRS> DEVICE void load(Tokens<PAIRS> &x, const Window &w) {
	UNROLL for (int t = 0; t < FEW; t++) {
		UNROLL for (int p = 0; p < PAIRS; p++) {
			int d = 2 * (p * WARP + lane());
			i64 i = w.at + t * w.pitch + d;
			bool there = t < w.tokens && d < w.dim;
			if (PAIRS == 1) {
				u32 pair = there ? *(const u32 *)((const u16 *)w.m.p + i) : 0;
				x.v[t][p].x = widen(pair & 0xffff), x.v[t][p].y = widen(pair >> 16);
			} else {
				x.v[t][p].x = there ? get(w.m, 0, i) : 0;
				x.v[t][p].y = there && d + 1 < w.dim ? get(w.m, 0, i + 1) : 0;
			}
		}
	}
}

// store writes token t.
template <int PAIRS> DEVICE void store(const Window &w, int t, const float2 *x) {
	UNROLL for (int p = 0; p < PAIRS; p++) {
		int d = 2 * (p * WARP + lane());
		i64 i = w.at + t * w.pitch + d;
		if (t >= w.tokens || d >= w.dim) continue;
		if (PAIRS == 1) *(u32 *)((u16 *)w.m.p + i) = pack_bf16(x[p].x, x[p].y);
		else {
			set(w.m, 0, i, x[p].x);
			if (d + 1 < w.dim) set(w.m, 0, i + 1, x[p].y);
		}
	}
}

// deal sums each of the N numbers over the warp; lane l gets the sum of number l % N.
template <int N> DEVICE float deal(float *x) {
	UNROLL for (int n = N, mask = 1; n > 1; n /= 2, mask *= 2) {
		bool odd = lane() & mask;
		UNROLL for (int i = 0; i < n / 2; i++) {
			float other = __shfl_xor_sync(FULL, odd ? x[2 * i] : x[2 * i + 1], mask);
			x[i] = (odd ? x[2 * i + 1] : x[2 * i]) + other;
		}
	}
	UNROLL for (int mask = N; mask < WARP; mask *= 2) x[0] += __shfl_xor_sync(FULL, x[0], mask);
	return x[0];
}

template <int PAIRS> DEVICE float dot(const float2 *x, const float2 *y) {
	float sum = 0;
	UNROLL for (int p = 0; p < PAIRS; p++) sum = fmaf(x[p].y, y[p].y, fmaf(x[p].x, y[p].x, sum));
	return sum;
}

// scores are the products of the first A tokens of x with all of y, dealt: lane l has that of x's l / FEW % A and y's l % FEW.
template <int A, int PAIRS> DEVICE float scores(const Tokens<PAIRS> &x, const Tokens<PAIRS> &y) {
	float s[A * FEW];
	UNROLL for (int i = 0; i < A * FEW; i++) s[i] = dot<PAIRS>(x.v[i / FEW], y.v[i % FEW]);
	return deal<A * FEW>(s);
}

// mixed is the sum of n tokens of x, token i weighted by w of lane `from` + i `step`.
template <int PAIRS> DEVICE void mixed(float2 *sum, const Tokens<PAIRS> &x, float w, int from, int step, int n) {
	UNROLL for (int p = 0; p < PAIRS; p++) sum[p].x = sum[p].y = 0;
	UNROLL for (int i = 0; i < n; i++) {
		float wi = __shfl_sync(FULL, w, from + i * step);
		UNROLL for (int p = 0; p < PAIRS; p++) {
			sum[p].x = fmaf(wi, x.v[i][p].x, sum[p].x);
			sum[p].y = fmaf(wi, x.v[i][p].y, sum[p].y);
		}
	}
}

// attend has the first A tokens ask.
template <int A, int PAIRS> DEVICE void attend(const AttentionArgs &a, const Head &h) {
	Tokens<PAIRS> q, k, v;
	Window out = window_of(a.out, h.query, a.asking, a, h);
	load(q, window_of(a.q, h.query, a.asking, a, h));
	load(k, window_of(a.k, h.key, a.len, a, h));
	load(v, window_of(a.v, h.key, a.len, a, h));
	int i = lane() / FEW % A, j = lane() % FEW;
	float s = scores<A>(q, k) / sqrtf((float)a.dim);
	bool seen = i < a.asking && j < keys_of(a, i);
	float top = quad_max(seen ? s : -INFINITE), p = seen ? expf(s - top) : 0, total = quad_sum(p);
	if (a.lse.p && lane() < A * FEW && j == 0 && i < a.asking) at(a.lse, h.index, i) = top + logf(total);
	p /= total;
	if (a.p != 0) p *= keep_of(a, h, i, j);
	UNROLL for (int t = 0; t < A; t++) {
		float2 sum[PAIRS];
		mixed(sum, v, p, FEW * t, 1, FEW);
		store<PAIRS>(out, t, sum);
	}
}

template <int PAIRS> DEVICE void forward(const AttentionArgs &a) {
	Head h = head_of(a, grid_warp());
	if (h.index >= a.seqs * a.heads) return;
	if (a.asking == 1) attend<1, PAIRS>(a, h);
	else attend<FEW, PAIRS>(a, h);
}

KERNEL(attention_few, AttentionArgs, THREADS) { forward<1>(a); }
KERNEL(attention_few_any, AttentionArgs, THREADS) { forward<2>(a); }

template <int PAIRS> DEVICE void backward(const AttentionArgs &a) {
	Head h = head_of(a, grid_warp());
	if (h.index >= a.seqs * a.heads) return;
	Tokens<PAIRS> q, k, v, out, dout;
	load(q, window_of(a.q, h.query, a.asking, a, h));
	load(k, window_of(a.k, h.key, a.len, a, h));
	load(v, window_of(a.v, h.key, a.len, a, h));
	load(out, window_of(a.out, h.query, a.asking, a, h));
	load(dout, window_of(a.dout, h.query, a.asking, a, h));
	int i = lane() / FEW % FEW, j = lane() % FEW;
	bool seen = i < a.asking && j < keys_of(a, i);
	float deltas[FEW], scale = 1 / sqrtf((float)a.dim);
	UNROLL for (int t = 0; t < FEW; t++) deltas[t] = dot<PAIRS>(out.v[t], dout.v[t]);
	float delta = __shfl_sync(FULL, deal<FEW>(deltas), i);
	float s = scores<FEW>(q, k), dp = scores<FEW>(dout, v);
	float p = seen ? expf(s * scale - at(a.lse, h.index, i)) : 0, kept = a.p != 0 ? keep_of(a, h, i, j) : 1;
	float ds = p * (kept * dp - delta) * scale;
	p *= kept;
	Window dq = window_of(a.dq, h.query, a.asking, a, h), dk = window_of(a.dk, h.key, a.len, a, h), dv = window_of(a.dv, h.key, a.len, a, h);
	UNROLL for (int t = 0; t < FEW; t++) {
		float2 sum[PAIRS];
		mixed(sum, k, ds, FEW * t, 1, FEW);
		store<PAIRS>(dq, t, sum);
		mixed(sum, q, ds, t, FEW, FEW);
		store<PAIRS>(dk, t, sum);
		mixed(sum, dout, p, t, FEW, FEW);
		store<PAIRS>(dv, t, sum);
	}
}

KERNEL(attention_few_grad, AttentionArgs, THREADS) { backward<1>(a); }
KERNEL(attention_few_any_grad, AttentionArgs, THREADS) { backward<2>(a); }
