// k_gemm_finish.h: what happens to the sums of a product on their way out: scale, bias,
// activation or its gradient, dropout, gate, addition, store.

// A Block is sums of rows x cols elements of the result from (r, c) on, PANEL apart, of which
// `done` rows are finished. It waits while the next block is multiplied, which finishes a few rows
// of it now and then: so the memory that it goes to is waited for beside the multiplications.
typedef struct { const GemmArgs *g; const float *sums; i64 r, c, rows, cols, done; } Block;

// ask_ahead asks for what a block that waits will read: its gate, and what it is added to.
static void ask_ahead(const Block *b) {
	const GemmArgs *g = b->g;
	for (i64 r = b->r; r < b->r + b->rows; r++) {
		if (g->gate.p) prefetch(part(g->gate, 0, b->c, 1, b->cols), r);
		if (g->add) prefetch(part(g->dst, 0, b->c, 1, b->cols), r);
	}
}

static inline __attribute__((always_inline)) void finish_row(const int act, const int back, const Block *b, i64 i) {
	const GemmArgs *g = b->g;
	const float *sums = b->sums + i * PANEL;
	i64 r = b->r + i;
	float keep[PANEL];
	if (g->drop_p > 0) keep_factors(keep, b->cols, g->drop_p, g->drop_key, (uint64_t)(r * g->dst.cols + b->c));
	for (i64 j = 0; j < b->cols; j += VL) {
		i64 c = b->c + j;
		vf v = vload(sums + j);
		if (g->scale.p) v *= mload(g->scale, 0, c);
		if (g->bias.p) v += mload(g->bias, 0, c);
		if (g->pre.p) mstore(g->pre, r, c, v);
		if (back) v *= vact_grad(act, mload(g->grad, r, c));
		else v = vact(act, v);
		if (g->drop_p > 0) v *= vload(keep + j);
		if (g->ungated.p) mstore(g->ungated, r, c, v);
		if (g->gate.p) v *= mload(g->gate, r, c);
		if (g->add) v += mload(g->dst, r, c);
		mstore(g->dst, r, c, v);
	}
}

#define FINISH(act, back) \
	static void finish_##act##_##back(const Block *b, i64 from, i64 to) { \
		for (i64 i = from; i < to; i++) finish_row(act, back, b, i); \
	}
FINISH(IDENTITY, 0) FINISH(GELU, 0) FINISH(SILU, 0) FINISH(RELU, 0) FINISH(GELU_SHORT, 0)
FINISH(IDENTITY, 1) FINISH(GELU, 1) FINISH(SILU, 1) FINISH(RELU, 1) FINISH(GELU_SHORT, 1)
#undef FINISH

// finish does up to n more rows of a block.
static void finish(Block *b, i64 n) {
	typedef void (*Finish)(const Block *, i64, i64);
	static const Finish kinds[2][ACTS] = {
		{finish_IDENTITY_0, finish_GELU_0, finish_SILU_0, finish_RELU_0, finish_GELU_SHORT_0},
		{finish_IDENTITY_1, finish_GELU_1, finish_SILU_1, finish_RELU_1, finish_GELU_SHORT_1},
	};
	i64 to = least(b->rows, b->done + n);
	if (b->done == to) return;
	int act = b->g->act == GELU && b->g->dst.bf16 ? GELU_SHORT : b->g->act;
	kinds[b->g->grad.p != NULL][act](b, b->done, to);
	b->done = to;
}
