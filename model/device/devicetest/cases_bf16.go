package devicetest

import (
	"fmt"

	"scalewm/model/device"
)

// bf16Factor widens the tolerance to one unit in the last of bf16's eight bits.
const bf16Factor = 0x1p-8 / fp32Tolerance

// bf16s returns the kernels that accept bf16, on numbers that bf16 represents
// exactly.
func bf16s() []testCase {
	list := []testCase{{"bf16/LayerNorm", bf16Norm}, {"bf16/rest", bf16Rest}, {"bf16/residual", residual}, {"bf16/Patches", patches}}
	for op := device.NN; op <= device.TN; op++ {
		for _, s := range [][3]int{{1, 17, 65}, {65, 193, 17}, {200, 300, 270}, {100, 64, 192}, {260, 64, 2}} {
			list = append(list, testCase{fmt.Sprintf("bf16/Gemm%d/%dx%dx%d", op, s[0], s[1], s[2]), func(k *kit) {
				bf16Gemm(k, op, k.batch(s[0]), s[1], s[2])
			}})
		}
	}
	for _, h := range append(shapesOfBF16Heads, shapesOfHeads...) {
		list = append(list, testCase{nameOf("bf16/Attention", h), func(k *kit) { attention(k, h, true) }})
	}
	for _, h := range shapesOfSimilarValues {
		list = append(list, testCase{nameOf("bf16/Attention/similar values", h), func(k *kit) { similarValues(k, h) }})
	}
	return append(list, testCase{"bf16/Attention/byToken", func(k *kit) {
		for _, h := range bf16ByToken {
			h.Seqs = k.batch(h.Seqs)
			attentionByToken(k, h, true)
		}
	}})
}

// shapesOfBF16Heads are attentions that fit tensor cores, with everything on which
// their kernels' choice depends: few and many tokens, masks, dropout, fewer queries
// than keys, and more rows than a GPU's thread block processes.
var shapesOfBF16Heads = []device.Heads{
	{Seqs: 3, Len: 4, Heads: 2, Dim: 64, Block: 1, Drop: device.Dropout{P: 0.3, Key: 5}},
	{Seqs: 3, Len: 2, Heads: 2, Dim: 128},
	{Seqs: 3, Len: 33, Heads: 2, Dim: 64, Drop: device.Dropout{P: 0.1, Key: 3}},
	{Seqs: 3, Len: 40, Heads: 1, Dim: 64, Block: 10, Queries: 20},
	{Seqs: 2, Len: 150, Heads: 2, Dim: 64},
	{Seqs: 1, Len: 291, Heads: 1, Dim: 64, Block: 97},
	{Seqs: 1, Len: 291, Heads: 1, Dim: 64, Queries: 140},
}

// shapesOfSimilarValues have one shape for each implementation of attention's gradient.
var shapesOfSimilarValues = []device.Heads{
	{Seqs: 3, Len: 4, Heads: 2, Dim: 64},
	{Seqs: 3, Len: 4, Heads: 2, Dim: 24},
	{Seqs: 3, Len: 8, Heads: 2, Dim: 32},
	{Seqs: 3, Len: 20, Heads: 2, Dim: 32},
	{Seqs: 2, Len: 33, Heads: 2, Dim: 64, Queries: 20},
	{Seqs: 2, Len: 40, Heads: 1, Dim: 64, Block: 10},
}

// similarValues tests attention's gradient where the values of a sequence's keys are nearly
// equal, so that the gradients of the scores are small differences. Those of queries and
// keys must be as precise as the stored numbers. Taking the mean of a query's gradients
// from the result stored as bf16 made them wrong by 24 to 75 %.
func similarValues(k *kit, h device.Heads) {
	h.Seqs = k.batch(h.Seqs)
	queries, rows, inner := h.Seqs*h.QueryCount(), h.Seqs*h.Len, h.Heads*h.Dim
	q, key, dy, v := k.bf16(queries, inner), k.bf16(rows, inner), k.bf16(queries, inner), k.bf16(rows, inner)
	values := k.values(v)
	for i := range values {
		values[i] = shorten(float32(1+i%inner) + float32(values[i])/100)
	}
	k.Upload64(v, values)
	y, lse := k.bf16Out(queries, inner), k.out(h.Seqs*h.Heads, h.QueryCount())
	k.Attention(y, lse, q, key, v, h)
	dq, dk, dv := k.bf16Out(queries, inner), k.bf16Out(rows, inner), k.bf16Out(rows, inner)
	k.AttentionGrad(dq, dk, dv, dy, lse, q, key, v, h)
	k.keep("dq", dq, true, 2*bf16Factor)
	k.keep("dk", dk, true, 2*bf16Factor)
}

// bf16ByToken are attentions whose rows are ordered by token.
var bf16ByToken = []device.Heads{
	{Seqs: 5, Len: 3, Heads: 4, Dim: 64, Block: 1, Queries: 1, ByToken: true},
	{Seqs: 3, Len: 20, Heads: 2, Dim: 64, Block: 5, Queries: 5, ByToken: true},
}

// bf16Gemm tests GEMMs with bf16 factors: bf16 and float32 results, epilogues that
// read and write bf16, a float32 factor next to a bf16 one, and SumA.
func bf16Gemm(k *kit, op device.Op, m, n, inner int) {
	a, b := k.bf16(m, inner), k.bf16(inner, n)
	if op == device.NT {
		b = k.bf16(n, inner)
	}
	if op == device.TN {
		a = k.bf16(inner, m)
	}
	dst, stored, pre := k.out(m, n), k.bf16Out(m, n), k.bf16Out(m, n)
	k.Gemm(op, dst, a, b, device.Epilogue{})
	k.rows("dst", dst)
	k.Gemm(op, stored, a, b, device.Epilogue{Bias: k.in(1, n), Act: device.GELU, Pre: pre})
	k.keep("stored", stored, true, bf16Factor)
	k.keep("pre", pre, true, bf16Factor)
	grad := k.bf16(m, n)
	k.Gemm(op, dst, a, b, device.Epilogue{Act: device.GELU, Grad: grad})
	k.rows("grad", dst)
	k.Gemm(op, stored, a, b, device.Epilogue{Act: device.GELU, Grad: grad})
	k.keep("grad stored", stored, true, bf16Factor)
	k.Gemm(op, stored, a, b, device.Epilogue{Scale: k.in(1, n), Bias: k.in(1, n), Act: device.GELU})
	k.keep("scaled", stored, true, bf16Factor)
	k.Gemm(op, dst, a, b, device.Epilogue{Gate: k.bf16(m, n), Add: true})
	k.rows("gated", dst)
	k.Gemm(op, dst, a, k.short(b.Rows, b.Cols), device.Epilogue{Add: true})
	k.rows("mixed", dst)
	if op == device.TN {
		sum := k.in(1, m)
		k.Gemm(op, dst, a, b, device.Epilogue{SumA: sum})
		k.all("sum", sum)
	}
}

// bf16Norm tests norms that read or write bf16.
func bf16Norm(k *kit) {
	for _, s := range [][2]int{{17, 5}, {65, 193}, {193, 96}} {
		m, n := k.batch(s[0]), s[1]
		x, gamma, beta := k.in(m, n), k.in(1, n), k.in(1, n)
		y, xhat, rstd := k.bf16Out(m, n), k.bf16Out(m, n), k.out(m, 1)
		k.LayerNorm(y, xhat, rstd, x, gamma, beta, 1e-5)
		k.keep("y", y, true, bf16Factor)
		k.keep("xhat", xhat, true, bf16Factor)
		k.AdaLN(y, x, device.AdaLN{Scale: k.bf16(m, n), Shift: k.bf16(m, n), Gamma: gamma, Beta: beta,
			OuterEps: 1e-6, InnerEps: 1e-5, Inner: xhat})
		k.keep("modulated", y, true, bf16Factor)
		k.keep("inner", xhat, true, bf16Factor)
		dx, dgamma, dbeta := k.in(m, n), k.in(1, n), k.in(1, n)
		k.LayerNormGrad(dx, dgamma, dbeta, k.bf16(m, n), k.bf16(m, n), rstd, gamma, true)
		k.rows("dx", dx)
		k.all("dgamma", dgamma)
		k.all("dbeta", dbeta)
	}
}

// residual tests GEMMs on float32 gradients right after each kernel that writes such
// gradients: a backend may cache the rounded copy of a factor, and must notice that
// the factor has changed.
func residual(k *kit) {
	for _, s := range [][3]int{{65, 192, 40}, {33, 77, 20}} {
		m, n := k.batch(s[0]), s[1]
		dx, all, gathered, w := k.in(m, n), k.in(5*m, n), k.out(4*m, n), k.short(n, s[2])
		product := func(name string, a device.Mat) {
			dst, dw := k.out(a.Rows, s[2]), k.out(n, s[2])
			k.Gemm(device.TN, dw, a, k.short(a.Rows, s[2]), device.Epilogue{})
			k.Gemm(device.NN, dst, a, w, device.Epilogue{})
			k.keep(name, dst, true, bf16Factor)
			k.keep(name+", turned", dw, false, bf16Factor)
		}
		norm := func() {
			k.LayerNormGrad(dx, k.in(1, n), k.in(1, n), k.bf16(m, n), k.bf16(m, n), k.in(m, 1), k.in(1, n), true)
		}
		norm()
		product("after a norm", dx)
		k.DropoutApply(dx, dx, device.Dropout{P: 0.5, Key: 3})
		product("after dropout", dx)
		norm()
		k.Axpy(dx, 1, k.in(m, n))
		product("after a sum", dx)
		k.CopyBlocks(gathered, 4, all.RowRange(1, 5*m-1), 5, 4, false)
		product("after gathering", gathered)
	}
}

// bf16Rest tests the remaining kernels that accept bf16.
func bf16Rest(k *kit) {
	for _, s := range [][2]int{{1, 1}, {37, 77}, {300, 33}} {
		m, n := k.batch(s[0]), s[1]
		x, y, table := k.bf16(m, n), k.bf16Out(m, n), k.in(1, n)
		k.DropoutApply(y, x, device.Dropout{P: 0.5, Key: 3}) // times 2: exact
		k.rows("dropped", y)
		k.Copy(y, k.bf16(m, 3*n).Columns(n, n))
		k.rows("copied", y)
		k.SumTable(table, x)
		k.all("table", table)
	}
}
