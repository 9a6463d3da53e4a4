// attention_few.cu: attention over the few tokens of the predictor's window: a
// warp is one head of one sequence, whose columns lie on the lanes.
#include "args.cuh"

enum { FEW = 4, HEAD = 128, PARTS = HEAD / WARP };

typedef float Tokens[FEW][PARTS];

struct Place {
	i64 index, query, key, step, col; // query, key: rows of the sequence's first ones; step: to its next
};

DEVICE Place place_of(const AttentionArgs &a) {
	i64 i = grid_warp();
	i64 seq = i / a.heads;
	Place h = {i, seq * a.asking, seq * a.len, 1, i % a.heads * a.dim};
	if (a.by_token) h.query = h.key = seq, h.step = a.seqs;
	return h;
}

DEVICE bool sees(const AttentionArgs &a, int query, int key) {
	i64 token = query + a.len - a.asking;
	return query < a.asking && key < (a.block == 0 ? a.len : least(a.len, (token / a.block + 1) * a.block));
}

DEVICE float keep_of(const AttentionArgs &a, const Place &h, int query, int key) {
	return keep((float)a.p, a.key, (u64)((h.index * a.len + query + a.len - a.asking) * a.len + key));
}

DEVICE void load(Tokens x, const Mat &m, i64 first, i64 tokens, const AttentionArgs &a, const Place &h) {
	UNROLL for (int t = 0; t < FEW; t++) {
		UNROLL for (int p = 0; p < PARTS; p++) {
			i64 d = p * WARP + lane();
			x[t][p] = t < tokens && d < a.dim ? get(m, first + t * h.step, h.col + d) : 0;
		}
	}
}

DEVICE void store(const Mat &m, i64 first, i64 tokens, const Tokens x, const AttentionArgs &a, const Place &h) {
	UNROLL for (int t = 0; t < FEW; t++) {
		UNROLL for (int p = 0; p < PARTS; p++) {
			i64 d = p * WARP + lane();
			if (t < tokens && d < a.dim) set(m, first + t * h.step, h.col + d, x[t][p]);
		}
	}
}

DEVICE float dot(const float *x, const float *y) {
	float sum = 0;
	UNROLL for (int p = 0; p < PARTS; p++) sum = fmaf(x[p], y[p], sum);
	return warp_sum(sum);
}

DEVICE void add(float *sum, float w, const float *x) {
	UNROLL for (int p = 0; p < PARTS; p++) sum[p] = fmaf(w, x[p], sum[p]);
}

KERNEL(attention_few, AttentionArgs, THREADS) {
	Place h = place_of(a);
	if (h.index >= a.seqs * a.heads) return;
	Tokens q, k, v, out = {};
	load(q, a.q, h.query, a.asking, a, h);
	load(k, a.k, h.key, a.len, a, h);
	load(v, a.v, h.key, a.len, a, h);
	UNROLL for (int i = 0; i < FEW; i++) {
		float s[FEW], top = -INFINITE, total = 0;
		UNROLL for (int j = 0; j < FEW; j++) {
			s[j] = dot(q[i], k[j]) / sqrtf((float)a.dim);
			if (sees(a, i, j)) top = fmaxf(top, s[j]);
		}
		UNROLL for (int j = 0; j < FEW; j++) {
			s[j] = sees(a, i, j) ? expf(s[j] - top) : 0;
			total += s[j];
		}
		UNROLL for (int j = 0; j < FEW; j++) {
			if (sees(a, i, j)) add(out[i], s[j] / total * keep_of(a, h, i, j), v[j]);
		}
		if (a.lse.p && i < a.asking && lane() == 0) at(a.lse, h.index, i) = top + logf(total);
	}
	store(a.out, h.query, a.asking, out, a, h);
}

KERNEL(attention_few_grad, AttentionArgs, THREADS) {
	Place h = place_of(a);
	if (h.index >= a.seqs * a.heads) return;
	Tokens q, k, v, out, dout, dq = {}, dk = {}, dv = {};
	load(q, a.q, h.query, a.asking, a, h);
	load(k, a.k, h.key, a.len, a, h);
	load(v, a.v, h.key, a.len, a, h);
	load(out, a.out, h.query, a.asking, a, h);
	load(dout, a.dout, h.query, a.asking, a, h);
	float scale = 1 / sqrtf((float)a.dim);
	UNROLL for (int i = 0; i < FEW; i++) {
		float delta = dot(dout[i], out[i]), lse = i < a.asking ? at(a.lse, h.index, i) : 0;
		UNROLL for (int j = 0; j < FEW; j++) {
			float s = dot(q[i], k[j]), dp = dot(dout[i], v[j]);
			if (!sees(a, i, j)) continue;
			float p = expf(s * scale - lse), kept = keep_of(a, h, i, j), ds = p * (kept * dp - delta) * scale;
			add(dv[j], p * kept, dout[i]);
			add(dq[i], ds, k[j]);
			add(dk[j], ds, q[i]);
		}
	}
	store(a.dq, h.query, a.asking, dq, a, h);
	store(a.dk, h.key, a.len, dk, a, h);
	store(a.dv, h.key, a.len, dv, a, h);
}
