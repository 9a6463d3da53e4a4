package device

// Memory allocates device memory and moves numbers between host and device. Uploads,
// downloads and copies run in order with the kernels queued before them. Uploads read
// src, and downloads fill dst, before they return.
type Memory interface {
	// Alloc returns zeroed memory for n numbers. e is Float32 or the element type
	// that Traits names for activations.
	Alloc(n int, e Elem) Buffer
	// Free returns a Buffer, Ints or Bytes to the device. The block must not be used
	// afterwards; kernels queued before the call still may.
	Free(Block)
	// Freeze promises that the numbers in b do not change until the next upload to b.
	// GEMMs may then cache packed or rounded copies of weights in b.
	Freeze(b Buffer)
	// Upload and its relatives convert between the host's numbers and the format that
	// the device stores. The host side is dense and row-major: len(src) must be
	// dst.Len().
	Upload(dst Mat, src []float32)
	Download(dst []float32, src Mat)
	Upload64(dst Mat, src []float64)
	Download64(dst []float64, src Mat)
	AllocInts(n int) Ints
	UploadInts(dst Ints, src []int32)
	DownloadInts(dst []int32, src Ints)
	AllocBytes(n int) Bytes
	UploadBytes(dst Bytes, src []byte) // len(src) <= dst.Len(); the rest of dst stays
	FrameTransfer

	// Fill sets every element of dst to v.
	Fill(dst Mat, v float64)
	// Copy copies src to dst of the same shape. Either may be stored as bf16.
	Copy(dst, src Mat)
	// CopyBlocks copies `rows` rows of every block i: row i*srcBlock+r of src to row
	// i*dstBlock+r of dst (+= if add), for 0 <= r < rows. The number of blocks is the
	// smaller of what dst and src hold (see Blocks). Callers choose the first row
	// with RowRange. srcBlock 0 copies the same rows into every block.
	CopyBlocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int, add bool)
}

// FrameTransfer transfers frames to the device while kernels run. On a GPU it uses
// page-locked host memory and a second stream.
type FrameTransfer interface {
	// FreeBytes returns the number of bytes that are free on the device for caching
	// frames. It is 0 where device memory is host memory, which holds the frames
	// already.
	FreeBytes() int
	// AllocHost returns n bytes of host memory from which SendBytes copies fast
	// (page-locked on a GPU). FreeHost releases it.
	AllocHost(n int) []byte
	FreeHost([]byte)
	// SendBytes starts to copy src to dst from byte `at` on. The copy waits for the
	// kernels queued so far and runs concurrently with those queued next, none of
	// which may use dst before WaitSent has been called. src must not change before
	// Sync, or before the caller has downloaded the result of a kernel that was
	// queued after WaitSent.
	SendBytes(dst Bytes, at int, src []byte)
	// WaitSent makes the kernels queued next wait until all sent bytes have arrived.
	// It does not block the caller.
	WaitSent()
}

// Op says which factors of a GEMM are transposed: A is M x K (for TN: K x M), B is K
// x N (for NT: N x K).
type Op int

const (
	NN Op = iota // gradient of inputs: dX = dY W
	NT           // forward: y = x W^T, with W stored (out, in) as in PyTorch
	TN           // gradient of weights: dW = dY^T X
)

// Act is an element-wise activation function.
type Act int

const (
	Identity Act = iota
	GELU         // the exact form, x Phi(x), not the tanh approximation
	SiLU
	ReLU
)

// Epilogue describes what a GEMM does with each element of the product before it
// stores it. Fusing these steps saves a pass over memory for each of them. The steps
// are, in this order, and each is skipped if its matrix is not given:
//
//  1. v = (a.b) * Scale[col] + Bias[col]
//  2. Pre = v
//  3. v = Act(v), or v * Act'(Grad) if Grad is given
//  4. v = dropout(v) by Drop, with element index row*N + col
//  5. Ungated = v, then v = v * Gate
//  6. dst = v, or dst += v if Add
//
// The zero Epilogue stores the plain product.
type Epilogue struct {
	Scale, Bias Mat // 1 x N
	Act         Act
	// Pre receives the value before Act, which the backward pass needs. M x N.
	Pre Mat
	// Grad is the Pre of the forward pass. If given, the product is a gradient that
	// flows back through Act. M x N.
	Grad Mat
	Drop Dropout
	// Gate is M x N, or one row for all rows (Mat.Repeated). Ungated (M x N) receives
	// the value before the gate, which the gradient of the gate needs.
	Gate, Ungated Mat
	// Add accumulates into dst, which must then be stored as Float32.
	Add bool
	// SumA (1 x M, only for TN) += the sums of A's columns. With A = dY this is the
	// gradient of the bias, computed along with that of the weights. A backend may
	// sum A's numbers as stored, or as the GEMM rounds them.
	SumA Mat
}

// Gemms is matrix multiplication.
type Gemms interface {
	// Gemm computes dst = epilogue(op(a, b)), accumulating in fp32 or wider.
	Gemm(op Op, dst, a, b Mat, ep Epilogue)
}

// Dropout is inverted dropout whose mask is a pure function of Key and the element
// index, so that the backward pass recomputes the mask instead of storing it. Element
// i is kept if and only if uniform(Key, i) >= P, and is then scaled by 1/(1-P);
// uniform is (Philox word i >> 8) * 2^-24. P = 0 keeps all elements.
type Dropout struct {
	P   float32
	Key uint64
}

// Pointwise are element-wise and row-wise kernels.
type Pointwise interface {
	// Activate: dst = act(x). dst may be x.
	Activate(dst, x Mat, act Act)
	// ActivateGrad: dx = dy * act'(pre). dx may be dy.
	ActivateGrad(dx, dy, pre Mat, act Act)
	// Axpy: dst += alpha x.
	Axpy(dst Mat, alpha float64, x Mat)
	// GateGrad is the gradient of gate*y: dy = dout*gate, dgate = dout*y.
	GateGrad(dy, dgate, dout, gate, y Mat)
	// ModulateGrad is the gradient of x*(1+scale) + shift:
	// dx = dy*(1+scale), dscale = dy*x, dshift = dy.
	ModulateGrad(dx, dscale, dshift, dy, x, scale Mat)
	// AddRepeated: dst[r] = a[r/n] + b[r/m], where n = dst.Rows/a.Rows and
	// m = dst.Rows/b.Rows: each row of a and b is repeated n and m times in a row.
	AddRepeated(dst, a, b Mat)
	// Tokens assembles the input of a vision transformer. dst consists of blocks of
	// table.Rows rows (at least 2), one block per frame. The first row of a block is
	// `first` (1 x Cols, the class token) plus row 0 of table; the others are the
	// next rows of `rows` (patches) plus their row of table (position embeddings).
	Tokens(dst, first, table, rows Mat)
	// SumTable: table[p] += the sum of src[r] over all r with r mod table.Rows = p.
	// It is the gradient of a table that was added to every block, or of a bias.
	SumTable(table, src Mat)
	// DropoutApply: dst = dropout(x). dst may be x. Applied to the gradient of dst it
	// gives the gradient of x.
	DropoutApply(dst, x Mat, d Dropout)
	// NormalizeColumns divides each column by its L2 norm.
	NormalizeColumns(dst, src Mat)
}

// Norms are LayerNorm over the columns of each row and BatchNorm over the rows of
// each column, with their gradients.
type Norms interface {
	// LayerNorm: xhat = (x - mean)/sqrt(var + eps) for each row, with the biased
	// variance; y = xhat*gamma + beta. gamma and beta (1 x Cols) are both given or
	// both missing; if missing, y = xhat. xhat and rstd = 1/sqrt(var + eps) (Rows x
	// 1) are stored if given, for the backward pass. y may be xhat if gamma is
	// missing, and y may be x.
	LayerNorm(y, xhat, rstd, x, gamma, beta Mat, eps float64)
	// AdaLN is a LayerNorm of a modulated LayerNorm without affine part: y =
	// inner(outer(x)*(1+Scale) + Shift)*Gamma + Beta. y must not be x.
	AdaLN(y, x Mat, n AdaLN)
	// LayerNormGrad computes dx (+= if add), and dgamma += and dbeta += if given. dx
	// may be dy unless add is set.
	LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat, add bool)
	// BatchNorm is the training mode: statistics are taken over the rows and
	// normalise with the biased variance. The running statistics are updated with the
	// unbiased variance: running = (1-momentum)*running + momentum*batch. xhat and
	// rstd (1 x Cols) are stored if given.
	BatchNorm(y, xhat, rstd, x Mat, bn BatchNorm)
	// BatchNormEval is the evaluation mode, which uses the running statistics.
	BatchNormEval(y, x Mat, bn BatchNorm)
	// BatchNormGrad is the gradient of the training mode: dx is overwritten, dgamma
	// and dbeta are accumulated into.
	BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat)
}

// AdaLN holds the modulation between two norms, and receives what the backward pass
// needs of the norms.
type AdaLN struct {
	Scale, Shift       Mat // Rows x Cols, as x
	Gamma, Beta        Mat // 1 x Cols, of the inner norm
	OuterEps, InnerEps float64
	// Outer and Inner receive the normalised rows (shaped as x), OuterInv and
	// InnerInv 1/sqrt(var + eps) of each row (Rows x 1). Each is optional.
	Outer, OuterInv, Inner, InnerInv Mat
}

// BatchNorm is the state of one BatchNorm1d. Gamma and Beta are its affine part, Mean
// and Var its running statistics, each 1 x Cols.
type BatchNorm struct {
	Gamma, Beta, Mean, Var Mat
	Momentum, Eps          float64
}

// Heads is the shape of an attention: Seqs sequences of Len tokens, stored with row
// index seq*Len + token, and Heads heads of Dim columns each, head by head. Scores
// are scaled by 1/sqrt(Dim).
type Heads struct {
	// Block = 0: every token attends to all tokens of its sequence. Block = n: a
	// token attends to its own block of n tokens and to earlier blocks (n = 1 is the
	// causal mask).
	Seqs, Len, Heads, Dim, Block int
	// Queries > 0: only the last Queries tokens of each sequence are queries. q and
	// out then have Seqs*Queries rows.
	Queries int
	// ByToken: the row index is token*Seqs + seq instead, so that new tokens can be
	// appended to cached keys and values. AttentionGrad does not support it.
	ByToken bool
	// Drop applies to the probabilities, with element index ((seq*Heads + head)*Len +
	// query)*Len + key, where query is the token's index in its sequence.
	Drop Dropout
}

// QueryCount returns the number of queries in each sequence.
func (h Heads) QueryCount() int {
	if h.Queries == 0 {
		return h.Len
	}
	return h.Queries
}

// Row returns the row index of token t of sequence seq, in a matrix that holds
// `tokens` tokens per sequence.
func (h Heads) Row(seq, t, tokens int) int {
	if h.ByToken {
		return t*h.Seqs + seq
	}
	return seq*tokens + t
}

// Attention is softmax(q k^T * scale) v for each head.
type Attention interface {
	// Attention stores in lse (Seqs*Heads x queries), if given, the log of the sum of
	// exponentials of each query's scores, from which AttentionGrad recomputes the
	// probabilities instead of reading them from memory.
	Attention(out, lse, q, k, v Mat, h Heads)
	// AttentionGrad overwrites dq, dk and dv. lse is that of the forward pass. The
	// forward result is no argument: the gradients of a query's scores need dout.out to
	// more digits than a result stored as bf16 has.
	AttentionGrad(dq, dk, dv, dout, lse, q, k, v Mat, h Heads)
}

// Frames describes square RGB frames of uint8, stored (y, x, channel), that are split
// into square patches.
type Frames struct {
	Count, Size, Patch int        // frames; pixels per side of a frame and of a patch
	Mean, Std          [3]float64 // of pixel/255, by channel
	// List holds indices of frames in the buffer, such as those of a batch within a
	// data set on the device; nil stands for all frames in order. In either case only
	// Count entries from First on are used.
	List  Ints
	First int
}

// Grid returns the number of patches in a frame.
func (f Frames) Grid() int { return (f.Size / f.Patch) * (f.Size / f.Patch) }

// Bytes returns the size of a frame in bytes.
func (f Frames) Bytes() int { return f.Size * f.Size * 3 }

// Vision converts frames to rows of patches.
type Vision interface {
	// Patches fills dst, (Count*Grid) x (3*Patch*Patch), with (px/255 - Mean)/Std.
	// The columns have the order (channel, y, x) of a convolution's weight, so that
	// the patch embedding is a GEMM. If Patch does not divide Size, the remainder at
	// the right and bottom edge is ignored. An index in f.List that is out of range
	// panics, on a GPU at the next Sync or download.
	Patches(dst Mat, px Bytes, f Frames)
}

// Losses are the kernels of the objectives. Each writes its loss to a 1x1 Mat, and
// its gradients are scaled by weight.
type Losses interface {
	// MSE: loss = mean of (pred-target)^2. dpred += weight*gradient and dtarget -=
	// the same, each if given.
	MSE(loss, dpred, dtarget, pred, target Mat, weight float64)
	// SIGReg (docs/sources.md#sigreg) of projections u, (B*T) x M with row index b*T
	// + t: loss = mean over T*M of B*sum_k w_k[(mean_b cos t_k u - phi)^2 + (mean_b
	// sin t_k u)^2]. If given, du = weight*gradient (overwritten).
	SIGReg(loss, du, u Mat, t int, weight float64)
	// PairDistance: dst[k] (1 x K) = the squared distance of rows pairs[k] and
	// pairs[K+k] of z. Indices out of range panic.
	PairDistance(dst, z Mat, pairs Ints)
	// PairDistanceGrad: row pairs[k] of dz += ddist[k] * 2 (z_i - z_j), and row
	// pairs[K+k] -= the same.
	PairDistanceGrad(dz, ddist, z Mat, pairs Ints)
	// Correlation is SCALE's 1 - corr(x, y) of two 1 x K rows. result is 1 x 2: the
	// loss, and 1 if the guard skipped it because a standard deviation is below 1e-6;
	// loss and gradient are then 0. If given, dx = weight*gradient (overwritten).
	Correlation(result, dx, x, y Mat, form CorrelationForm, weight float64)
	// LatentCost: dst[e,c] (E x C) = the sum, or the mean, over the P*D numbers of
	// (row block e*C+c of pred - row block e of goal)^2. pred is (E*C*P) x D and goal
	// (E*P) x D.
	LatentCost(dst, pred, goal Mat, mean bool)
}

// CorrelationForm selects the divisor of the standard deviations: K-1 in the authors'
// code, K in the paper's formula. Both add 1e-6 to them, the paper's epsilon.
type CorrelationForm int

const (
	Authors CorrelationForm = iota
	Paper
)

// AdamW holds the hyperparameters of one update. As in PyTorch, the update applies
// weight decay first and the moments afterwards.
type AdamW struct {
	LR, Beta1, Beta2, Eps, Decay float64
	MaxNorm                      float64 // of the gradient's L2 norm; 0: no clipping
	Step                         int     // 1 at the first update; the bias correction depends on it
}

// Optimizer operates on all parameters at once, stored as one 1 x n Mat.
type Optimizer interface {
	// SumSquares writes the sum of squares of x to the 1x1 dst, with a fixed
	// chunking.
	SumSquares(dst, x Mat)
	// AdamW updates p and the moments m and v from g, scaled by min(1,
	// MaxNorm/(sqrt(sumsq)+1e-6)). Nothing else may change p before the next update
	// or upload: GEMMs may cache copies of the weights in it, as after Freeze.
	AdamW(p, g, m, v, sumsq Mat, o AdamW)
}

// Search are the planners' kernels. They work on E episodes at a time, with C
// candidates each, of W = H*A numbers. None of them waits for the host, so that an
// entire iteration can be queued at once.
type Search interface {
	// Normal fills dst, whose rows form len(keys) equal groups: element i (row-major)
	// of group e is the standard normal number offset+i of stream keys[e]
	// (rng.Normal).
	Normal(dst Mat, keys []uint64, offset uint64)
	// Color filters noise along the horizon. A row holds H blocks of A numbers; for
	// each column a of a block, the series x of H numbers becomes y_i = sum over j of
	// taps[(i-j) mod H] x_j, divided by the standard deviation of y (divisor H-1; at
	// least 1e-8). taps is 1 x H with H >= 2. dst must not be noise.
	Color(dst, noise, taps Mat)
	// Candidates: dst (E*C x W) = mean[e] + std[e]*noise. Candidate 0 of each episode
	// is the mean itself. dst may be noise.
	Candidates(dst, mean, std, noise Mat)
	// Clip limits every row of dst to [low, high], both 1 x W. NaN stays NaN.
	Clip(dst, low, high Mat)
	// NaNToInf replaces NaN by +Inf, so that the planners' comparisons order all
	// costs. It adds to count (E x 1) how many costs in each row of x (E x C) were
	// NaN or +Inf.
	NaNToInf(x, count Mat)
	// SmallestK writes to idx (E*k) the indices of the k lowest costs of each row of
	// costs (E x C), best first. Ties go to the lower index; NaN comes after every
	// number.
	SmallestK(idx Ints, costs Mat, k int)
	// Moments computes the mean (E x W) of the k chosen candidates of each episode,
	// and if given their standard deviation about that mean, with divisor k-1. idx
	// holds candidate indices in [0, C), as SmallestK writes them.
	Moments(mean, std, cand Mat, idx Ints, k int)
	// Softmin: weights (E x k) of the k chosen candidates of each episode are
	// proportional to exp(-(cost - lowest)/temperature) and sum to 1. A cost equal to
	// the lowest counts as exp(0), even if both are infinite and their difference is
	// NaN.
	Softmin(weights, costs Mat, idx Ints, temperature float64)
	// WeightedMean: mean (E x W) = the sum of the chosen candidates times weights (E
	// x k).
	WeightedMean(mean, cand, weights Mat, idx Ints)
	// Gather copies the first n <= k chosen candidates of each episode: row e*n+i
	// of dst (E*n x W) is candidate idx[e*k+i] of cand (E*C x W).
	Gather(dst, cand Mat, idx Ints, k int)
	// Lerp: dst = keep*dst + (1-keep)*x.
	Lerp(dst, x Mat, keep float64)
}

// TokensByCopy implements Pointwise.Tokens by CopyBlocks, for backends that have no
// kernel for it. The first row of dst belongs to a class token, so that the patches
// are copied to blocks that begin one row later.
func TokensByCopy(d Device, dst, first, table, rows Mat) {
	n := table.Rows
	d.CopyBlocks(dst.RowRange(1, dst.Rows-1), n, rows, n-1, n-1, false)
	d.CopyBlocks(dst, n, first, 0, 1, false)
	d.CopyBlocks(dst, n, table, 0, n, true)
}
