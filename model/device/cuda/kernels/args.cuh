// args.cuh: the kernels' arguments, of which args_test.go makes cuda/args_gen.go; all
// fields are 8 bytes wide, so that both sides lay them out alike.
#ifndef ARGS_CUH
#define ARGS_CUH
#include "common.cuh"

// EachArgs are those of element-wise kernels: what out and in hold is said by the kernel.
struct EachArgs {
	Mat out[3], in[5];
	double alpha;
	u64 key;
	i64 act, add;
};

// ColumnArgs are those of sums over rows: src (and other) in `chunks` chunks of
// rows, each chunk's sums in part (chunks x table.rows x cols).
struct ColumnArgs {
	Mat table, src;
	float *part;
	i64 chunks;
};

struct NormArgs {
	Mat y, xhat, rstd, x, gamma, beta;
	double eps;
};

struct AdaLNArgs {
	Mat y, x, scale, shift, gamma, beta, outer, outer_inv, inner, inner_inv;
	double outer_eps, inner_eps;
};

// NormGradArgs: rounded, where given, gets dx as well.
struct NormGradArgs {
	Mat dx, dgamma, dbeta, dy, xhat, rstd, gamma, rounded;
	float *part;
	i64 chunks, add;
};

struct BatchArgs {
	Mat y, xhat, rstd, x, gamma, beta, mean, variance;
	double momentum, eps;
};

// GemmArgs: the inner dimension is cut into `splits` pieces of `span`; with more
// than one, each piece's m x n sums go to part, and behind them those of A's columns.
// vec: all of the epilogue's matrices allow access to four numbers at a time; vec_a
// and vec_b: so do the factors.
struct GemmArgs {
	Mat dst, a, b, scale, bias, pre, grad, gate, ungated, sum_a;
	float *part;
	i64 m, n, k, act, add, splits, span, vec, vec_a, vec_b;
	double drop;
	u64 drop_key;
};

struct AttentionArgs {
	Mat out, lse, q, k, v, dq, dk, dv, dout;
	float *delta; // seqs*heads x queries: dout . out of each query
	i64 seqs, len, heads, dim, block, queries, by_token, vec; // queries: queries of a sequence
	double p;
	u64 key;
};

struct PatchArgs {
	Mat dst;
	const u8 *px;
	const int *list; // NULL: frames in order
	int *fault;      // set where a frame is not there
	i64 frames, size, patch;
	double scale[3], shift[3];
};

struct MSEArgs {
	Mat loss, dpred, dtarget, pred, target;
	double *part;
	double weight;
	i64 chunks;
};

struct SIGRegArgs {
	Mat loss, du, u;
	double *part;
	i64 frames;
	double weight;
};

// SumArgs adds `chunks` numbers of part, in order, times scale.
struct SumArgs {
	Mat dst, x;
	double *part;
	i64 chunks;
	double scale;
};

struct DistanceArgs {
	Mat dst, ddist, z;
	const int *pairs;
	int *fault; // set where an index is out of range
	i64 count;
};

struct CorrelationArgs {
	Mat result, dx, x, y;
	double weight;
	i64 paper;
};

struct CostArgs {
	Mat dst, pred, goal;
	i64 mean;
};

struct AdamArgs {
	Mat p, g, m, v, sumsq;
	double lr, beta1, beta2, eps, decay, max_norm, correct1, correct2;
};

enum { KEYS = 256 }; // streams in one launch

struct NormalArgs {
	Mat dst;
	u64 offset;
	i64 group; // rows of each key
	u64 keys[KEYS];
};

// EliteArgs: what mean, std and cand hold is said by the kernel. first: of the k chosen, for gather.
struct EliteArgs {
	Mat mean, std, cand, costs;
	int *idx, *fault;
	i64 k, first;
	double temperature;
};

#endif
