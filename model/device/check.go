package device

import (
	"fmt"
	"strings"
)

// Checked returns d with argument validation before each kernel: shapes fit, views
// lie within their buffers, options are in range. Backends return checked devices, so
// that their kernels contain no checks and all backends reject the same calls with
// the same message.
func Checked(d Device) Device { return checked{d} }

// Argument is a matrix parameter of a kernel.
type Argument struct {
	Name string
	// BF16: the argument may be stored as bf16. Together: it must be stored as bf16 if
	// and only if the kernel's other arguments with Together are.
	BF16, Together bool
}

// arguments lists the matrix parameters of each kernel. A name with * may be stored
// as bf16. Those with + may be stored as bf16, but only all of a call together. Gemm
// requires a Float32 dst if the epilogue adds to it.
var arguments = parsed(map[string]string{
	"Upload": "dst*", "Upload64": "dst*", "Download": "src*", "Download64": "src*",
	"UploadInts": "", "DownloadInts": "", "UploadBytes": "", "SendBytes": "",
	"Fill": "dst", "Copy": "dst* src*", "CopyBlocks": "dst src",
	"Gemm":     "dst* a* b* scale bias pre* grad* gate* ungated sumA",
	"Activate": "dst x", "ActivateGrad": "dx dy pre", "Axpy": "dst x", "Lerp": "dst x",
	"GateGrad": "dy dgate dout gate y", "ModulateGrad": "dx dscale dshift dy x scale",
	"Tokens": "dst first table rows", "AddRepeated": "dst a b", "SumTable": "table src*",
	"DropoutApply": "dst* x*", "NormalizeColumns": "dst src",
	"LayerNorm":     "y* xhat* rstd x gamma beta",
	"AdaLN":         "y* x scale* shift* gamma beta outer outerInv inner* innerInv",
	"LayerNormGrad": "dx dgamma dbeta dy* xhat* rstd gamma",
	"BatchNorm":     "y xhat rstd x gamma beta mean var", "BatchNormEval": "y x gamma beta mean var",
	"BatchNormGrad": "dx dgamma dbeta dy xhat rstd gamma",
	"Attention":     "out+ lse q+ k+ v+", "AttentionGrad": "dq+ dk+ dv+ dout+ lse q+ k+ v+",
	"Patches": "dst*", "MSE": "loss dpred dtarget pred target", "SIGReg": "loss du u",
	"PairDistance": "dst z", "PairDistanceGrad": "dz ddist z", "Correlation": "result dx x y",
	"LatentCost": "dst pred goal", "SumSquares": "dst x", "AdamW": "p g m v sumsq",
	"Normal": "dst", "Color": "dst noise taps", "Candidates": "dst mean std noise", "Clip": "dst low high",
	"NaNToInf": "x count", "SmallestK": "costs", "Moments": "mean std cand", "Softmin": "weights costs",
	"WeightedMean": "mean cand weights", "Gather": "dst cand",
})

// parsed converts the notation above to Arguments.
func parsed(table map[string]string) map[string][]Argument {
	out := map[string][]Argument{}
	for kernel, list := range table {
		out[kernel] = nil
		for _, f := range strings.Fields(list) {
			name := strings.TrimRight(f, "*+")
			out[kernel] = append(out[kernel], Argument{name, name != f, strings.HasSuffix(f, "+")})
		}
	}
	return out
}

// Arguments returns the matrix parameters of each kernel, in the order of its
// signature followed by the fields of its options.
func Arguments() map[string][]Argument { return arguments }

// checked implements Device: it validates, then calls the embedded device. Methods
// that have nothing to validate are promoted from it.
type checked struct{ Device }

// inside panics unless every given view lies within its buffer.
func inside(kernel string, ms ...Mat) {
	for _, m := range ms {
		if !m.IsSet() {
			continue
		}
		last := m.Off + (m.Rows-1)*m.Stride + m.Cols
		if m.Rows < 0 || m.Cols < 0 || m.Off < 0 || (m.Rows > 1 && m.Stride < m.Cols) ||
			(m.Len() > 0 && last > m.Buf.Len()) {
			panic(fmt.Sprintf("device: %s: view %s at %d of a buffer of %d", kernel, m, m.Off, m.Buf.Len()))
		}
	}
}

// need panics unless ok, every matrix is stored in a format that the kernel accepts
// (see arguments) and every view lies within its buffer. ms are in the order of the
// table.
func need(ok bool, kernel string, ms ...Mat) {
	args := arguments[kernel]
	together, alone := false, false
	for i, a := range args {
		switch m := ms[i]; {
		case !m.IsSet():
		case a.Together:
			together, alone = together || m.BF16(), alone || !m.BF16()
		default:
			ok = ok && (a.BF16 || !m.BF16())
		}
	}
	if ok && !(together && alone) {
		inside(kernel, ms...)
		return
	}
	text := "device: " + kernel + ": arguments do not fit:"
	for i, m := range ms {
		text += " " + args[i].Name + " " + m.String()
	}
	panic(text)
}

// like reports whether want is given and every given m has its shape.
func like(want Mat, ms ...Mat) bool {
	for _, m := range ms {
		if m.IsSet() && (m.Rows != want.Rows || m.Cols != want.Cols) {
			return false
		}
	}
	return want.IsSet()
}

// given reports whether all matrices are given.
func given(ms ...Mat) bool {
	for _, m := range ms {
		if !m.IsSet() {
			return false
		}
	}
	return true
}

// shaped reports whether every given m is rows x cols.
func shaped(rows, cols int, ms ...Mat) bool {
	for _, m := range ms {
		if m.IsSet() && (m.Rows != rows || m.Cols != cols) {
			return false
		}
	}
	return true
}

func (c checked) Alloc(n int, e Elem) Buffer {
	if n < 0 || e != Float32 && e != c.Traits().Activations {
		panic(fmt.Sprintf("device: Alloc: %d numbers of element type %d, which %s does not store", n, e, c.Kind()))
	}
	return c.Device.Alloc(n, e)
}

func (c checked) Upload(dst Mat, src []float32) {
	need(len(src) == dst.Len(), "Upload", dst)
	c.Device.Upload(dst, src)
}

func (c checked) Download(dst []float32, src Mat) {
	need(len(dst) == src.Len(), "Download", src)
	c.Device.Download(dst, src)
}

func (c checked) Upload64(dst Mat, src []float64) {
	need(len(src) == dst.Len(), "Upload64", dst)
	c.Device.Upload64(dst, src)
}

func (c checked) Download64(dst []float64, src Mat) {
	need(len(dst) == src.Len(), "Download64", src)
	c.Device.Download64(dst, src)
}

func (c checked) UploadInts(dst Ints, src []int32) {
	need(len(src) == dst.Len(), "UploadInts")
	c.Device.UploadInts(dst, src)
}

func (c checked) DownloadInts(dst []int32, src Ints) {
	need(len(dst) == src.Len(), "DownloadInts")
	c.Device.DownloadInts(dst, src)
}

func (c checked) UploadBytes(dst Bytes, src []byte) {
	need(len(src) <= dst.Len(), "UploadBytes")
	c.Device.UploadBytes(dst, src)
}

func (c checked) SendBytes(dst Bytes, at int, src []byte) {
	need(at >= 0 && at+len(src) <= dst.Len(), "SendBytes")
	c.Device.SendBytes(dst, at, src)
}

func (c checked) Fill(dst Mat, v float64) {
	need(dst.IsSet(), "Fill", dst)
	c.Device.Fill(dst, v)
}

func (c checked) Copy(dst, src Mat) {
	need(like(dst, src) && src.IsSet(), "Copy", dst, src)
	c.Device.Copy(dst, src)
}

func (c checked) CopyBlocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int, add bool) {
	need(given(dst, src) && dst.Cols == src.Cols && rows > 0 && dstBlock >= rows && srcBlock >= 0,
		"CopyBlocks", dst, src)
	c.Device.CopyBlocks(dst, dstBlock, src, srcBlock, rows, add)
}

// Blocks returns the number of blocks that CopyBlocks copies. Block i needs rows
// [i*block, i*block+rows) on both sides, so that the last block may be shorter than
// block rows. srcBlock 0 repeats the same rows of src.
func Blocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int) int {
	if dst.Rows < rows || src.Rows < rows {
		return 0
	}
	n := (dst.Rows-rows)/dstBlock + 1
	if srcBlock > 0 {
		n = min(n, (src.Rows-rows)/srcBlock+1)
	}
	return n
}

// Dims returns M, N and K of a GEMM of a and b.
func (op Op) Dims(a, b Mat) (m, n, k int) {
	m, k, n = a.Rows, a.Cols, b.Cols
	if op == TN {
		m, k = a.Cols, a.Rows
	}
	if op == NT {
		n = b.Rows
	}
	return m, n, k
}

func (c checked) Gemm(op Op, dst, a, b Mat, ep Epilogue) {
	m, n, k := op.Dims(a, b)
	inner := b.Rows
	if op == NT {
		inner = b.Cols
	}
	ok := op >= NN && op <= TN && ep.Act >= Identity && ep.Act <= ReLU && given(dst, a, b) && k == inner
	ok = ok && shaped(m, n, dst, ep.Pre, ep.Grad, ep.Gate, ep.Ungated) && shaped(1, n, ep.Scale, ep.Bias) &&
		!(ep.Add && dst.BF16()) && ep.Drop.fits() && (!ep.SumA.IsSet() || op == TN) && shaped(1, m, ep.SumA)
	// A repeated row (Stride 0) would fail the check of strides in inside: check one row.
	gate := ep.Gate
	if gate.Stride == 0 {
		gate.Rows = min(gate.Rows, 1)
	}
	need(ok, "Gemm", dst, a, b, ep.Scale, ep.Bias, ep.Pre, ep.Grad, gate, ep.Ungated, ep.SumA)
	c.Device.Gemm(op, dst, a, b, ep)
}

func (c checked) Activate(dst, x Mat, act Act) {
	need(given(x) && like(dst, x) && act >= Identity && act <= ReLU, "Activate", dst, x)
	c.Device.Activate(dst, x, act)
}

func (c checked) ActivateGrad(dx, dy, pre Mat, act Act) {
	need(given(dy, pre) && like(dx, dy, pre) && act >= Identity && act <= ReLU, "ActivateGrad", dx, dy, pre)
	c.Device.ActivateGrad(dx, dy, pre, act)
}

func (c checked) Axpy(dst Mat, alpha float64, x Mat) {
	need(given(x) && like(dst, x), "Axpy", dst, x)
	c.Device.Axpy(dst, alpha, x)
}

func (c checked) GateGrad(dy, dgate, dout, gate, y Mat) {
	need(given(dgate, dout, gate, y) && like(dy, dgate, dout, gate, y), "GateGrad", dy, dgate, dout, gate, y)
	c.Device.GateGrad(dy, dgate, dout, gate, y)
}

func (c checked) ModulateGrad(dx, dscale, dshift, dy, x, scale Mat) {
	need(given(dscale, dshift, dy, x, scale) && like(dx, dscale, dshift, dy, x, scale),
		"ModulateGrad", dx, dscale, dshift, dy, x, scale)
	c.Device.ModulateGrad(dx, dscale, dshift, dy, x, scale)
}

func (c checked) Tokens(dst, first, table, rows Mat) {
	n := table.Rows
	need(given(dst, first, table, rows) && n > 1 && dst.Rows%n == 0 && rows.Rows == dst.Rows/n*(n-1) && first.Rows == 1 &&
		first.Cols == dst.Cols && table.Cols == dst.Cols && rows.Cols == dst.Cols, "Tokens", dst, first, table, rows)
	c.Device.Tokens(dst, first, table, rows)
}

func (c checked) AddRepeated(dst, a, b Mat) {
	fills := func(m Mat) bool { return m.Rows > 0 && m.Cols == dst.Cols && dst.Rows%m.Rows == 0 }
	need(given(dst, a, b) && fills(a) && fills(b), "AddRepeated", dst, a, b)
	c.Device.AddRepeated(dst, a, b)
}

func (c checked) SumTable(table, src Mat) {
	need(given(table, src) && src.Cols == table.Cols && table.Rows > 0, "SumTable", table, src)
	c.Device.SumTable(table, src)
}

func (c checked) DropoutApply(dst, x Mat, d Dropout) {
	need(given(x) && like(dst, x) && d.fits(), "DropoutApply", dst, x)
	c.Device.DropoutApply(dst, x, d)
}

// fits reports whether P is a valid probability. P = 1 would scale by infinity.
func (d Dropout) fits() bool { return d.P >= 0 && d.P < 1 }

func (c checked) NormalizeColumns(dst, src Mat) {
	need(given(src) && like(dst, src), "NormalizeColumns", dst, src)
	c.Device.NormalizeColumns(dst, src)
}

func (c checked) LayerNorm(y, xhat, rstd, x, gamma, beta Mat, eps float64) {
	need(given(x) && like(y, xhat, x) && shaped(x.Rows, 1, rstd) && shaped(1, x.Cols, gamma, beta) &&
		gamma.IsSet() == beta.IsSet(), "LayerNorm", y, xhat, rstd, x, gamma, beta)
	c.Device.LayerNorm(y, xhat, rstd, x, gamma, beta, eps)
}

func (c checked) AdaLN(y, x Mat, n AdaLN) {
	need(given(n.Gamma, n.Beta, n.Scale, n.Shift) && shaped(1, x.Cols, n.Gamma, n.Beta) && like(x, n.Scale, n.Shift, n.Outer) &&
		shaped(x.Rows, 1, n.OuterInv, n.InnerInv) && like(y, x, n.Inner),
		"AdaLN", y, x, n.Scale, n.Shift, n.Gamma, n.Beta, n.Outer, n.OuterInv, n.Inner, n.InnerInv)
	c.Device.AdaLN(y, x, n)
}

func (c checked) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat, add bool) {
	need(given(dy, xhat, rstd) && like(dx, dy, xhat) && shaped(dy.Rows, 1, rstd) && shaped(1, dy.Cols, dgamma, dbeta, gamma),
		"LayerNormGrad", dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	c.Device.LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma, add)
}

// fits reports whether all matrices are given and 1 x cols.
func (b BatchNorm) fits(cols int) bool {
	return given(b.Gamma, b.Beta, b.Mean, b.Var) && shaped(1, cols, b.Gamma, b.Beta, b.Mean, b.Var)
}

func (c checked) BatchNorm(y, xhat, rstd, x Mat, bn BatchNorm) {
	// The running variance is unbiased, which needs at least two rows.
	need(given(x) && like(y, xhat, x) && shaped(1, x.Cols, rstd) && bn.fits(x.Cols) && x.Rows > 1,
		"BatchNorm", y, xhat, rstd, x, bn.Gamma, bn.Beta, bn.Mean, bn.Var)
	c.Device.BatchNorm(y, xhat, rstd, x, bn)
}

func (c checked) BatchNormEval(y, x Mat, bn BatchNorm) {
	need(given(x) && like(y, x) && bn.fits(x.Cols), "BatchNormEval", y, x, bn.Gamma, bn.Beta, bn.Mean, bn.Var)
	c.Device.BatchNormEval(y, x, bn)
}

func (c checked) BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat) {
	need(given(dgamma, dbeta, dy, xhat, rstd, gamma) && like(dx, dy, xhat) &&
		shaped(1, dy.Cols, dgamma, dbeta, rstd, gamma), "BatchNormGrad", dx, dgamma, dbeta, dy, xhat, rstd, gamma)
	c.Device.BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma)
}

// fit reports whether h is valid and the views have its shape: `queries` have one row
// for each query, `keys` one row for each token.
func (h Heads) fit(lse Mat, queries, keys []Mat) bool {
	return h.Seqs >= 0 && h.Len > 0 && h.Heads > 0 && h.Dim > 0 && h.Block >= 0 && h.Drop.fits() &&
		h.Queries >= 0 && h.Queries <= h.Len && given(queries...) && given(keys...) &&
		shaped(h.Seqs*h.QueryCount(), h.Heads*h.Dim, queries...) && shaped(h.Seqs*h.Len, h.Heads*h.Dim, keys...) && shaped(h.Seqs*h.Heads, h.QueryCount(), lse)
}

// Keys returns the number of keys that query i attends to, where i is counted from
// the first query.
func (h Heads) Keys(i int) int {
	if h.Block == 0 {
		return h.Len
	}
	return min(h.Len, ((i+h.Len-h.QueryCount())/h.Block+1)*h.Block)
}

func (c checked) Attention(out, lse, q, k, v Mat, h Heads) {
	need(h.fit(lse, []Mat{out, q}, []Mat{k, v}), "Attention", out, lse, q, k, v)
	c.Device.Attention(out, lse, q, k, v, h)
}

func (c checked) AttentionGrad(dq, dk, dv, dout, lse, q, k, v Mat, h Heads) {
	ok := h.fit(lse, []Mat{dq, dout, q}, []Mat{dk, dv, k, v}) && lse.IsSet() && !h.ByToken
	need(ok, "AttentionGrad", dq, dk, dv, dout, lse, q, k, v)
	c.Device.AttentionGrad(dq, dk, dv, dout, lse, q, k, v, h)
}

func (c checked) Patches(dst Mat, px Bytes, f Frames) {
	ok := f.Count >= 0 && f.First >= 0 && f.Patch > 0 && f.Size >= f.Patch
	if f.List == nil {
		ok = ok && px.Len() >= (f.First+f.Count)*f.Bytes()
	} else {
		ok = ok && f.List.Len() >= f.First+f.Count
	}
	need(ok && given(dst) && shaped(f.Count*f.Grid(), 3*f.Patch*f.Patch, dst), "Patches", dst)
	c.Device.Patches(dst, px, f)
}

func (c checked) MSE(loss, dpred, dtarget, pred, target Mat, weight float64) {
	need(given(loss, target) && shaped(1, 1, loss) && like(pred, dpred, dtarget, target) && pred.Len() > 0,
		"MSE", loss, dpred, dtarget, pred, target)
	c.Device.MSE(loss, dpred, dtarget, pred, target, weight)
}

func (c checked) SIGReg(loss, du, u Mat, t int, weight float64) {
	need(given(loss) && shaped(1, 1, loss) && like(u, du) && t > 0 && u.Len() > 0 && u.Rows%t == 0,
		"SIGReg", loss, du, u)
	c.Device.SIGReg(loss, du, u, t, weight)
}

func (c checked) PairDistance(dst, z Mat, pairs Ints) {
	need(given(dst, z) && dst.Rows == 1 && pairs.Len() == 2*dst.Cols, "PairDistance", dst, z)
	c.Device.PairDistance(dst, z, pairs)
}

func (c checked) PairDistanceGrad(dz, ddist, z Mat, pairs Ints) {
	need(given(ddist, z) && like(dz, z) && ddist.Rows == 1 && pairs.Len() == 2*ddist.Cols,
		"PairDistanceGrad", dz, ddist, z)
	c.Device.PairDistanceGrad(dz, ddist, z, pairs)
}

func (c checked) Correlation(result, dx, x, y Mat, form CorrelationForm, weight float64) {
	need(given(result, y) && shaped(1, 2, result) && like(x, dx, y) && x.Rows == 1 && x.Cols > 1 &&
		(form == Authors || form == Paper), "Correlation", result, dx, x, y)
	c.Device.Correlation(result, dx, x, y, form, weight)
}

func (c checked) LatentCost(dst, pred, goal Mat, mean bool) {
	need(given(dst, pred, goal) && pred.Cols == goal.Cols && dst.Rows > 0 && goal.Rows%dst.Rows == 0 &&
		pred.Rows == goal.Rows*dst.Cols, "LatentCost", dst, pred, goal)
	c.Device.LatentCost(dst, pred, goal, mean)
}

func (c checked) SumSquares(dst, x Mat) {
	need(given(dst, x) && shaped(1, 1, dst), "SumSquares", dst, x)
	c.Device.SumSquares(dst, x)
}

func (c checked) AdamW(p, g, m, v, sumsq Mat, o AdamW) {
	need(given(g, m, v, sumsq) && like(p, g, m, v) && p.Rows == 1 && shaped(1, 1, sumsq) && o.Step >= 1,
		"AdamW", p, g, m, v, sumsq)
	c.Device.AdamW(p, g, m, v, sumsq, o)
}

func (c checked) Normal(dst Mat, keys []uint64, offset uint64) {
	need(given(dst) && len(keys) > 0 && dst.Rows%len(keys) == 0, "Normal", dst)
	c.Device.Normal(dst, keys, offset)
}

func (c checked) Candidates(dst, mean, std, noise Mat) {
	need(given(mean, std, noise) && like(dst, noise) && like(mean, std) && mean.Cols == dst.Cols &&
		mean.Rows > 0 && dst.Rows%mean.Rows == 0, "Candidates", dst, mean, std, noise)
	c.Device.Candidates(dst, mean, std, noise)
}

func (c checked) NaNToInf(x, count Mat) {
	need(given(x, count) && shaped(x.Rows, 1, count), "NaNToInf", x, count)
	c.Device.NaNToInf(x, count)
}

func (c checked) SmallestK(idx Ints, costs Mat, k int) {
	need(given(costs) && k > 0 && k <= costs.Cols && idx.Len() == costs.Rows*k, "SmallestK", costs)
	c.Device.SmallestK(idx, costs, k)
}

func (c checked) Moments(mean, std, cand Mat, idx Ints, k int) {
	need(given(mean, cand) && like(mean, std) && cand.Cols == mean.Cols && mean.Rows > 0 && cand.Rows%mean.Rows == 0 &&
		k > 0 && idx.Len() == mean.Rows*k && (!std.IsSet() || k > 1), "Moments", mean, std, cand)
	c.Device.Moments(mean, std, cand, idx, k)
}

// groups reports whether rows can be split into n equal, non-empty groups.
func groups(rows, n int) bool { return n > 0 && rows > 0 && rows%n == 0 }

func (c checked) Color(dst, noise, taps Mat) {
	need(given(noise, taps) && like(dst, noise) && taps.Rows == 1 && taps.Cols > 1 && groups(dst.Cols, taps.Cols),
		"Color", dst, noise, taps)
	c.Device.Color(dst, noise, taps)
}

func (c checked) Clip(dst, low, high Mat) {
	need(given(dst, low, high) && shaped(1, dst.Cols, low, high), "Clip", dst, low, high)
	c.Device.Clip(dst, low, high)
}

func (c checked) Softmin(weights, costs Mat, idx Ints, temperature float64) {
	need(given(weights, costs) && weights.Rows == costs.Rows && weights.Cols > 0 && idx.Len() == weights.Len() &&
		temperature > 0, "Softmin", weights, costs)
	c.Device.Softmin(weights, costs, idx, temperature)
}

func (c checked) WeightedMean(mean, cand, weights Mat, idx Ints) {
	need(given(mean, cand, weights) && mean.Cols == cand.Cols && weights.Rows == mean.Rows && weights.Cols > 0 &&
		groups(cand.Rows, mean.Rows) && idx.Len() == weights.Len(), "WeightedMean", mean, cand, weights)
	c.Device.WeightedMean(mean, cand, weights, idx)
}

func (c checked) Gather(dst, cand Mat, idx Ints, k int) {
	need(given(dst, cand) && dst.Cols == cand.Cols && k > 0 && groups(idx.Len(), k) && groups(dst.Rows, idx.Len()/k) &&
		groups(cand.Rows, idx.Len()/k) && dst.Rows <= idx.Len(), "Gather", dst, cand)
	c.Device.Gather(dst, cand, idx, k)
}

func (c checked) Lerp(dst, x Mat, keep float64) {
	need(given(x) && like(dst, x), "Lerp", dst, x)
	c.Device.Lerp(dst, x, keep)
}
