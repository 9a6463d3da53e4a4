// args.cuh: the structures of arguments, one per family of kernels.
//
// args_test.go generates cuda/args_gen.go from this file. Every field is 8 bytes wide,
// so that C and Go lay out the structures identically; counts and flags are therefore
// i64. A line inside a structure must be a list of fields with at most a trailing
// comment, since the generator parses it. A Mat without an address (p is NULL) stands
// for an optional matrix that the caller did not give.
#ifndef ARGS_CUH
#define ARGS_CUH
#include "common.cuh"

// EachArgs are the arguments of element-wise kernels; each kernel says what its inputs
// and outputs are. alpha is a scalar factor (of dropout: the probability), key that of
// the random stream, act a device.Act; add adds to the outputs instead of overwriting
// them.
struct EachArgs {
	Mat out[3], in[5];
	double alpha;
	u64 key;
	i64 act, add;
};

// ColumnArgs are the arguments of the kernels that sum src over rows into table. With
// more than one chunk of rows, part (chunks x table.rows x cols) receives each chunk's
// sums, which a second kernel adds in order.
struct ColumnArgs {
	Mat table, src;
	float *part;
	i64 chunks;
};

// NormArgs are the arguments of LayerNorm: y, and where given xhat (the normalized
// rows) and rstd (rows x 1), from x, gamma and beta (1 x cols).
struct NormArgs {
	Mat y, xhat, rstd, x, gamma, beta;
	double eps;
};

// AdaLNArgs are the arguments of y = LN((1 + scale) LN(x) + shift) gamma + beta.
// "outer" is the first normalization, of x, and "inner" the second. The normalized rows
// and reciprocal deviations of both are stored where given, for the backward pass.
struct AdaLNArgs {
	Mat y, x, scale, shift, gamma, beta, outer, outer_inv, inner, inner_inv;
	double outer_eps, inner_eps;
};

// NormGradArgs are the arguments of the gradients of LayerNorm and BatchNorm. rounded,
// where given, receives a bf16 copy of dx for the GEMM that reads it next. part (2 x
// chunks x cols) receives the partial sums of dgamma and dbeta.
struct NormGradArgs {
	Mat dx, dgamma, dbeta, dy, xhat, rstd, gamma, rounded;
	float *part;
	i64 chunks, add;
};

// BatchArgs are the arguments of BatchNorm over the rows of x; mean and variance are
// the running statistics (1 x cols).
struct BatchArgs {
	Mat y, xhat, rstd, x, gamma, beta, mean, variance;
	double momentum, eps;
};

// GemmArgs are the arguments of all GEMM kernels, dst = epilogue(A B), with dst m x n
// and an inner dimension (K) of k. The fields from scale to ungated and act to drop_key
// are those of device.Epilogue. sum_a (1 x m, TN only) gets the column sums of A added
// to it.
//
// K is divided into chunks of `span`. If splits is 1, a block computes all chunks of
// its tile. Otherwise there are `splits` chunks, and separate blocks write the m x n
// partial sums of their chunk to part (split-K); behind them follow the column sums of
// A of each chunk (splits x m). gemm_add then adds the chunks in order and applies the
// epilogue.
//
// vec, vec_a and vec_b say that all matrices of the epilogue, A, and B allow aligned
// access to four elements at a time.
struct GemmArgs {
	Mat dst, a, b, scale, bias, pre, grad, gate, ungated, sum_a;
	float *part;
	i64 m, n, k, act, add, splits, span, vec, vec_a, vec_b;
	double drop;
	u64 drop_key;
};

// AttentionArgs are the arguments of the attention kernels. out, q, k, v and their
// gradients have one row per token and heads*dim columns; lse (seqs*heads x queries)
// holds the log-sum-exp of each query's scores. len is the number of keys of a
// sequence. queries is the number of queries of a sequence, which are its last tokens.
// block is 0 (no mask) or the block size of the block-causal mask; by_token selects the
// row order of device.Heads.ByToken. vec says that rows allow 16-byte access. p and key
// are dropout's. The gradients do not use out. delta (seqs*heads x queries) is scratch
// of the float32 gradients (attention.cu).
struct AttentionArgs {
	Mat out, lse, q, k, v, dq, dk, dv, dout;
	float *delta;
	i64 seqs, len, heads, dim, block, queries, by_token, vec;
	double p;
	u64 key;
};

// PatchArgs are the arguments of the kernels that turn uint8 RGB frames at px, of size
// x size pixels, into rows of patches: dst = byte * scale[channel] + shift[channel].
// list holds the indices of the frames to convert, or is NULL for all frames in order.
// A kernel sets *fault to 1 if an index is not within [0, frames).
struct PatchArgs {
	Mat dst;
	const u8 *px;
	const int *list;
	int *fault;
	i64 frames, size, patch;
	double scale[3], shift[3];
};

// MSEArgs are the arguments of the mean squared error. part holds one double per block.
struct MSEArgs {
	Mat loss, dpred, dtarget, pred, target;
	double *part;
	double weight;
	i64 chunks;
};

// SIGRegArgs are the arguments of SIGReg of projections u; du is overwritten where
// given. Row b*frames+t of u belongs to frame t of clip b.
struct SIGRegArgs {
	Mat loss, du, u;
	double *part;
	i64 frames;
	double weight;
};

// SumArgs are the arguments of sums: kernels write `chunks` partial sums of x to part,
// and add_up adds those in order and writes scale times the total to dst.
struct SumArgs {
	Mat dst, x;
	double *part;
	i64 chunks;
	double scale;
};

// DistanceArgs are the arguments of squared distances between `count` pairs of rows of
// z. pairs holds the first indices of all pairs, then the second ones. A kernel sets
// *fault to 1 if an index is out of range.
struct DistanceArgs {
	Mat dst, ddist, z;
	const int *pairs;
	int *fault;
	i64 count;
};

// CorrelationArgs are the arguments of 1 - corr(x, y); paper selects the divisor of the
// deviations (device.CorrelationForm).
struct CorrelationArgs {
	Mat result, dx, x, y;
	double weight;
	i64 paper;
};

// CostArgs are the arguments of the planners' cost, the squared distance of predictions
// and goals, or its mean over a candidate's numbers if mean is set.
struct CostArgs {
	Mat dst, pred, goal;
	i64 mean;
};

// AdamArgs are the arguments of one AdamW update of parameters p with moments m and v.
// sumsq (1 x 1) is the sum of squares of all gradients, for clipping to max_norm;
// correct1 and correct2 are the bias corrections 1 - beta^step.
struct AdamArgs {
	Mat p, g, m, v, sumsq;
	double lr, beta1, beta2, eps, decay, max_norm, correct1, correct2;
};

// The number of random streams of one launch. 256 keys fit into the 4 KiB of arguments
// that every driver accepts.
enum { KEYS = 256 };

// NormalArgs are the arguments of normal: each `group` consecutive rows of dst are
// filled from their own key, starting at number `offset` of its stream.
struct NormalArgs {
	Mat dst;
	u64 offset;
	i64 group;
	u64 keys[KEYS];
};

// EliteArgs are the arguments of the kernels that select and combine the best
// candidates; each kernel says what mean, std and cand hold. idx (episodes x k) holds
// the chosen candidates of each episode, best first. first is the number of them that
// gather copies. A kernel sets *fault to 1 if an index is out of range.
struct EliteArgs {
	Mat mean, std, cand, costs;
	int *idx, *fault;
	i64 k, first;
	double temperature;
};

#endif
