package device

// Memory moves numbers between host and device.
type Memory interface {
	// Alloc is zeroed memory for n numbers: Float32, or what Traits names for activations.
	Alloc(n int, e Elem) Buffer
	Free(Block)
	// Freeze promises that the numbers of b stay until they are uploaded anew:
	// products may keep what they make of weights in it.
	Freeze(b Buffer)
	Upload(dst Mat, src []float32)
	Download(dst []float32, src Mat)
	Upload64(dst Mat, src []float64)
	Download64(dst []float64, src Mat)
	AllocInts(n int) Ints
	UploadInts(dst Ints, src []int32)
	DownloadInts(dst []int32, src Ints)
	AllocBytes(n int) Bytes
	UploadBytes(dst Bytes, src []byte) // len(src) <= dst.Len()
	Sending

	Fill(dst Mat, v float64)
	Copy(dst, src Mat)
	// CopyBlocks copies, for every block i, `rows` rows: dst row i*dstBlock+r
	// from src row i*srcBlock+r (+= if add). Blocks are counted by the shorter
	// of the two; offsets are taken by RowRange before. srcBlock 0 repeats the same rows.
	CopyBlocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int, add bool)
}

// Sending is the way of frames, beside the kernels.
type Sending interface {
	// Room is how many bytes the device has for keeping frames; 0 where its memory
	// is the host's, which has them already.
	Room() int
	// AllocHost is memory of the host that SendBytes reads fast; FreeHost gives it back.
	AllocHost(n int) []byte
	FreeHost([]byte)
	// SendBytes begins to copy src to the bytes of dst from `at` on, behind the kernels
	// asked for so far and beside those asked for next; none of these may use dst
	// before AwaitSent has been called. src must not change before Sync, or before a
	// result is here of a kernel asked for after AwaitSent.
	SendBytes(dst Bytes, at int, src []byte)
	// AwaitSent makes the kernels asked for next wait for the bytes that were sent.
	AwaitSent()
}

// Op says which factors of a product are transposed: A is M x K (T: K x M),
// B is K x N (T: N x K).
type Op int

const (
	NN Op = iota
	NT    // y = x W^T, W stored (out, in) as PyTorch does
	TN    // dW = dY^T X
)

// Act is an element-wise non-linearity.
type Act int

const (
	Identity Act = iota
	GELU         // exact, by erf
	SiLU
	ReLU
)

// Epilogue is what a product does with each element before it is stored:
// v = a.b * Scale[col] + Bias[col]; Pre = v if given; v = Act(v), or v * Act'(Grad) if that
// is given; v = dropout(v) by Drop, element row*N+col; Ungated = v and v = v * Gate
// if given; dst = v or dst += v.
type Epilogue struct {
	Scale, Bias Mat // 1 x N
	Act         Act
	Pre         Mat // M x N, the value before Act, which its gradient needs
	Grad        Mat // M x N, what Pre was: v is a gradient on its way back through Act
	Drop        Dropout
	// Gate (M x N, or one row for all: Mat.Repeated), and Ungated, which its gradient needs.
	Gate, Ungated Mat
	Add           bool
	// SumA (1 x M; TN only) += the sums of A's columns, as they are or as the product
	// rounds them: a bias gradient beside its weights'.
	SumA Mat
}

// Products are matrix products; fp32 accumulation at least.
type Products interface {
	Gemm(op Op, dst, a, b Mat, ep Epilogue)
}

// Dropout is inverted dropout whose mask is a function of (Key, element
// index), so that the backward pass makes it again: element i is kept iff
// uniform(Key, i) >= P, uniform = (philox word >> 8) * 2^-24, and then scaled by 1/(1-P). P = 0 keeps all.
type Dropout struct {
	P   float32
	Key uint64
}

// Pointwise are element-wise and row-wise helpers.
type Pointwise interface {
	Activate(dst, x Mat, act Act)                      // dst may be x
	ActivateGrad(dx, dy, pre Mat, act Act)             // dx = dy * act'(pre); dx may be dy
	Axpy(dst Mat, alpha float64, x Mat)                // dst += alpha x
	GateGrad(dy, dgate, dout, gate, y Mat)             // of gate*y: dy = dout*gate, dgate = dout*y
	ModulateGrad(dx, dscale, dshift, dy, x, scale Mat) // of x*(1+scale) + shift: dx = dy(1+scale), dscale = dy*x, dshift = dy
	AddRepeated(dst, a, b Mat)                         // dst[r] = a[r/n] + b[r/m]: their rows one after another, each so often that they fill dst
	// Tokens: dst, blocks of table.Rows (at least 2) rows each, is a table's row plus
	// first (1 x Cols) in a block's first row, plus the next of rows in the others.
	Tokens(dst, first, table, rows Mat)
	SumTable(table, src Mat)            // table[p] += sum of src[r] over r = p mod table.Rows
	DropoutApply(dst, x Mat, d Dropout) // dst may be x; also its own gradient
	NormalizeColumns(dst, src Mat)      // each column divided by its L2 norm
}

// Norms are LayerNorm and BatchNorm over rows of features.
type Norms interface {
	// LayerNorm: xhat = (x-mean)/sqrt(var+eps) by row with the biased variance,
	// y = xhat*gamma + beta (gamma and beta 1 x Cols, or not given: y = xhat).
	// xhat and rstd (Rows x 1) are stored where given; y may be xhat without gamma, y may be x.
	LayerNorm(y, xhat, rstd, x, gamma, beta Mat, eps float64)
	// AdaLN is a LayerNorm of a modulated LayerNorm without affine part:
	// y = inner(outer(x)*(1+Scale) + Shift)*Gamma + Beta. y may not be x.
	AdaLN(y, x Mat, n AdaLN)
	// LayerNormGrad: dx = gradient (+= if add; dx may be dy if not add), dgamma += , dbeta += where given.
	LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat, add bool)
	// BatchNorm in training: statistics over rows (biased variance normalises),
	// running = (1-momentum)*running + momentum*batch (unbiased variance).
	BatchNorm(y, xhat, rstd, x Mat, bn BatchNorm)
	// BatchNormEval uses the running statistics.
	BatchNormEval(y, x Mat, bn BatchNorm)
	BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat)
}

// AdaLN is what modulates rows between two norms, and what is kept of the norms.
type AdaLN struct {
	Scale, Shift       Mat // as x
	Gamma, Beta        Mat // 1 x Cols, of the inner norm
	OuterEps, InnerEps float64
	// The normalised rows (as x) and 1/deviation (Rows x 1) of both, where given.
	Outer, OuterInv, Inner, InnerInv Mat
}

// BatchNorm is the state of one BatchNorm1d, each 1 x Cols.
type BatchNorm struct {
	Gamma, Beta, Mean, Var Mat
	Momentum, Eps          float64
}

// Heads is the shape of an attention: Seqs sequences of Len tokens (row =
// seq*Len + token), Heads heads of Dim columns each (head major).
// Block = 0: every token sees all; Block = n: tokens see their own and earlier
// blocks of n tokens (1 is the causal mask). Scale is 1/sqrt(Dim).
type Heads struct {
	Seqs, Len, Heads, Dim, Block int
	// Queries > 0: only the last so many tokens of a sequence are queries; q and out have
	// Seqs*Queries rows.
	Queries int
	// ByToken: row = token*Seqs + seq instead, so that tokens can be appended to
	// keys and values that are kept; not for AttentionGrad.
	ByToken bool
	Drop    Dropout // on probabilities, element ((seq*Heads+head)*Len+query)*Len+key
}

// QueryCount is the count of queries of a sequence.
func (h Heads) QueryCount() int {
	if h.Queries == 0 {
		return h.Len
	}
	return h.Queries
}

// Row is the row of token t of sequence seq, of `tokens` a sequence.
func (h Heads) Row(seq, t, tokens int) int {
	if h.ByToken {
		return t*h.Seqs + seq
	}
	return seq*tokens + t
}

// Attention is softmax(q k^T * scale) v by head.
type Attention interface {
	// lse (Seqs*Heads x queries) keeps each query's log of the sum of exponentials, where given.
	Attention(out, lse, q, k, v Mat, h Heads)
	// AttentionGrad recomputes the probabilities from lse. dq, dk, dv are overwritten.
	AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v Mat, h Heads)
}

// Frames are square uint8 RGB frames that are cut into patches.
type Frames struct {
	Count, Size, Patch int
	Mean, Std          [3]float64 // of pixel/255, by channel
	// List says which frames of the bytes, counted from 0: those of a batch out of a
	// whole data set. nil: all in order. Of either the Count from First on are cut.
	List  Ints
	First int
}

// Grid is the number of patches of a frame.
func (f Frames) Grid() int { return (f.Size / f.Patch) * (f.Size / f.Patch) }

// Bytes is the size of a frame.
func (f Frames) Bytes() int { return f.Size * f.Size * 3 }

// Vision turns frames into patch rows.
type Vision interface {
	// Patches: dst is (Count*Grid) x (3*Patch*Patch), columns in the order
	// (channel, y, x) of a convolution's weight, values (px/255 - Mean)/Std. What
	// Patch does not divide is left out at the right and bottom edge.
	Patches(dst Mat, px Bytes, f Frames)
}

// Losses hold the objectives' kernels. Each loss is written to a 1x1 Mat, and
// gradients are added times weight.
type Losses interface {
	// MSE: loss = mean of (pred-target)^2; dpred += weight*grad, dtarget -= the same (where given).
	MSE(loss, dpred, dtarget, pred, target Mat, weight float64)
	// SIGReg (docs/sources.md#sigreg) of projections u, (B*T) x M with row b*T+t:
	// loss = mean over T*M of B*sum_k w_k[(mean_b cos t_k u - phi)^2 + (mean_b sin t_k u)^2];
	// du = weight*grad where given (overwritten).
	SIGReg(loss, du, u Mat, t int, weight float64)
	// PairDistance: dst[k] (1 x K) = squared distance of rows pairs[k] and pairs[K+k] of z.
	PairDistance(dst, z Mat, pairs Ints)
	// PairDistanceGrad: dz rows += ddist[k] * 2 (z_i - z_j) and its negative.
	PairDistanceGrad(dz, ddist, z Mat, pairs Ints)
	// Correlation is SCALE's 1 - corr(x, y) of two 1 x K rows. result is 1 x 2:
	// the loss, and 1 if the guard skipped it (a deviation below 1e-6; then loss
	// and gradient are 0). dx = weight*grad where given (overwritten).
	Correlation(result, dx, x, y Mat, form CorrelationForm, weight float64)
	// LatentCost: dst (E x C)[e,c] = sum (or mean) over the P*D numbers of
	// (pred row-block e*C+c - goal row-block e)^2; pred is (E*C*P) x D, goal (E*P) x D.
	LatentCost(dst, pred, goal Mat, mean bool)
}

// CorrelationForm: the authors' code divides the deviations by K-1, the paper's
// formula by K. Both add 1e-6 to them (the paper's epsilon).
type CorrelationForm int

const (
	Authors CorrelationForm = iota
	Paper
)

// AdamW are the numbers of one update (PyTorch's order: decay, then moments).
type AdamW struct {
	LR, Beta1, Beta2, Eps, Decay float64
	MaxNorm                      float64 // 0: no clipping
	Step                         int     // 1 at the first update
}

// Optimizer works on all parameters at once, seen as one 1 x n Mat.
type Optimizer interface {
	// SumSquares writes the sum of squares of x into the 1x1 dst, in fixed chunks.
	SumSquares(dst, x Mat)
	// AdamW updates p, m, v from g scaled by min(1, MaxNorm/(sqrt(sumsq)+1e-6)). Until the next
	// update or upload nothing else may change p: products may keep what they make of it.
	AdamW(p, g, m, v, sumsq Mat, o AdamW)
}

// Search holds the planners' kernels on E episodes side by side, C candidates
// each, of W = H*A numbers. Nothing in it waits for the host.
type Search interface {
	// Normal fills dst, of len(keys) equal groups of rows: element i (row-major) of
	// group e is standard normal number offset+i of stream keys[e] (rng.Normal).
	Normal(dst Mat, keys []uint64, offset uint64)
	// Color filters noise, rows of H blocks of A numbers, along the blocks: of each
	// row and column a of a block, the series x of H numbers becomes y_i = sum over
	// j of taps[(i-j) mod H] x_j, divided by its own deviation (divisor H-1; at
	// least 1e-8). taps is 1 x H, H at least 2. dst may not be noise.
	Color(dst, noise, taps Mat)
	// Candidates: dst (E*C x W) = mean[e] + std[e]*noise; candidate 0 of each
	// episode is the mean itself. dst may be noise.
	Candidates(dst, mean, std, noise Mat)
	// Clip brings every row of dst into [low, high], both 1 x W; NaN stays NaN.
	Clip(dst, low, high Mat)
	// NaNToInf replaces NaN by +Inf and adds the number of costs in each row of x (E x C)
	// that were NaN or +Inf to count (E x 1).
	NaNToInf(x, count Mat)
	// SmallestK: for each row of costs (E x C), the k lowest, best first, ties by
	// the lower index, into idx (E*k).
	SmallestK(idx Ints, costs Mat, k int)
	// Moments of the k chosen candidates of each episode: mean (E x W) and, where
	// given, std with divisor k-1, both about the mean just computed.
	Moments(mean, std, cand Mat, idx Ints, k int)
	// Softmin: weights (E x k) of the k chosen of each episode, proportional to
	// exp(-(cost - lowest)/temperature), sum 1. A cost equal to the lowest counts
	// exp(0), also where it is infinite.
	Softmin(weights, costs Mat, idx Ints, temperature float64)
	// WeightedMean: mean (E x W) = sum of weights (E x k) times chosen candidates.
	WeightedMean(mean, cand, weights Mat, idx Ints)
	// Gather copies the first n <= k chosen candidates of each episode: row e*n+i
	// of dst (E*n x W) is candidate idx[e*k+i] of cand (E*C x W).
	Gather(dst, cand Mat, idx Ints, k int)
	// Lerp: dst = keep*dst + (1-keep)*x.
	Lerp(dst, x Mat, keep float64)
}

// TokensByParts is Pointwise.Tokens made of other kernels, for a backend without one of its own.
func TokensByParts(d Device, dst, first, table, rows Mat) {
	n := table.Rows
	d.CopyBlocks(dst.RowRange(1, dst.Rows-1), n, rows, n-1, n-1, false)
	d.CopyBlocks(dst, n, first, 0, 1, false)
	d.CopyBlocks(dst, n, table, 0, n, true)
}
