package devicetest

import (
	"fmt"

	"scalewm/model/device"
)

// cases returns the cases for a precision: all kernels for fp32, and for bf16 only
// those that depend on it.
func cases(p device.Precision) []testCase {
	all := append(gemms(), testCase{"Gemm/frozen", frozen}, testCase{"Gemm/drop", dropped}, testCase{"Gemm/gate", gated},
		testCase{"Gemm/sums", func(k *kit) { columnSums(k, p) }}, testCase{"Gemm/updated", func(k *kit) { updated(k, p) }})
	if p == device.BF16 {
		return append(append(all, testCase{"Gemm/rounding", rounding}), bf16s()...)
	}
	for _, group := range [][]testCase{pointwise(), norms(), attentions(), losses(), search(), planners()} {
		all = append(all, group...)
	}
	return all
}

// shapes of GEMMs, M x N x K: single elements, odd sizes, single rows, more than one
// block in each direction, and widths of the models.
var shapes = [][3]int{
	{1, 1, 1}, {1, 17, 65}, {17, 65, 193}, {65, 193, 17}, {193, 17, 65}, {5, 96, 48}, {33, 48, 96},
	{200, 300, 270}, {100, 600, 20}, {3, 192, 1030}, {260, 64, 2},
}

// gemms returns plain GEMMs of every operation and shape, and each activation in the
// epilogue, with and without accumulation.
func gemms() []testCase {
	var list []testCase
	ops := map[device.Op]string{device.NN: "NN", device.NT: "NT", device.TN: "TN"}
	for _, op := range []device.Op{device.NN, device.NT, device.TN} {
		for _, s := range shapes {
			list = append(list, testCase{fmt.Sprintf("Gemm/%s/%dx%dx%d", ops[op], s[0], s[1], s[2]), func(k *kit) {
				a, b := factors(k, op, k.batch(s[0]), s[1], s[2])
				dst := k.out(k.batch(s[0]), s[1])
				k.Gemm(op, dst, a, b, device.Epilogue{})
				k.rows("dst", dst)
			}})
		}
	}
	for act := device.Identity; act <= device.ReLU; act++ {
		for _, add := range []bool{false, true} {
			list = append(list, epilogue(act, add))
		}
	}
	return list
}

// factors returns random a and b for a GEMM of m x n with the given inner dimension.
func factors(k *kit, op device.Op, m, n, inner int) (a, b device.Mat) {
	switch op {
	case device.NT:
		return k.short(m, inner), k.short(n, inner)
	case device.TN:
		return k.short(inner, m), k.short(inner, n)
	}
	return k.short(m, inner), k.short(inner, n)
}

// epilogue tests bias, activation, Pre and Add, and then the backward form, which
// multiplies by the activation's derivative at Pre.
func epilogue(act device.Act, add bool) testCase {
	return testCase{fmt.Sprintf("Gemm/act%d/add=%v", act, add), func(k *kit) {
		// 77 columns are not a multiple of any vector or tile, and more than a block
		// of some.
		m, n := k.batch(65), 77
		a, b := factors(k, device.NT, m, n, 21)
		// dst has old contents, which count only if the epilogue adds to them.
		dst, pre := k.in(m, n), k.out(m, n)
		k.Gemm(device.NT, dst, a, b, device.Epilogue{Bias: k.in(1, n), Act: act, Pre: pre, Add: add})
		k.rows("dst", dst)
		k.rows("pre", pre)
		k.Gemm(device.NT, dst, a, b, device.Epilogue{Act: act, Grad: pre, Add: add})
		k.rows("grad", dst)
	}}
}

// gated tests Scale and Gate, by element and by a repeated row, each alone and with
// all other steps of the epilogue.
func gated(k *kit) {
	m, n := k.batch(65), 77
	a, b := factors(k, device.NT, m, n, 21)
	dst, gate, scale := k.in(m, n), k.in(m, n), k.in(1, n)
	k.Gemm(device.NT, dst, a, b, device.Epilogue{Gate: gate, Add: true})
	k.rows("gated", dst)
	k.Gemm(device.NT, dst, a, b, device.Epilogue{Gate: scale.Repeated(m), Bias: k.in(1, n), Add: true})
	k.rows("gated by a row", dst)
	k.Gemm(device.NT, dst, a, b, device.Epilogue{Scale: scale})
	k.rows("scaled", dst)
	pre, ungated := k.out(m, n), k.out(m, n)
	k.Gemm(device.NT, dst, a, b, device.Epilogue{Scale: scale, Bias: k.in(1, n), Pre: pre, Act: device.GELU,
		Drop: device.Dropout{P: 0.3, Key: 7}, Gate: gate, Ungated: ungated, Add: true})
	k.rows("all", dst)
	k.rows("pre", pre)
	k.rows("ungated", ungated)
}

// dropped checks that the epilogue's dropout uses the mask of DropoutApply: both are
// compared with the reference, and the second key has bits in its upper half.
func dropped(k *kit) {
	m, n := k.batch(65), 77
	a, b := factors(k, device.NN, m, n, 21)
	for _, d := range []device.Dropout{{P: 0.1, Key: 5}, {P: 0.6, Key: 0xfeedface12345678}} {
		// Grad multiplies by the derivative before the dropout.
		dst, apart, sum := k.out(m, n), k.out(m, n), k.in(m, n)
		k.Gemm(device.NN, dst, a, b, device.Epilogue{Act: device.SiLU, Drop: d})
		k.rows("dst", dst)
		k.Gemm(device.NN, apart, a, b, device.Epilogue{Act: device.SiLU})
		k.DropoutApply(apart, apart, d)
		k.rows("apart", apart)
		k.Gemm(device.NN, sum, a, b, device.Epilogue{Grad: apart, Act: device.GELU, Drop: d, Add: true})
		k.rows("sum", sum)
	}
}

// rounded returns the factor of tolerances for GEMMs of numbers that bf16 does not
// represent exactly.
func rounded(p device.Precision) float64 {
	if p == device.BF16 {
		return bf16Factor
	}
	return 1
}

// columnSums tests SumA for factors with more rows and columns than any block, in
// GEMMs that are wide, long, or both.
func columnSums(k *kit, p device.Precision) {
	for _, s := range [][3]int{{300, 17, 1100}, {5, 300, 33}, {300, 230, 1100}, {150, 384, 600}} {
		// a has numbers that bf16 rounds: the sums may be those of a as stored or as
		// rounded.
		a, b, dst, sum := k.in(s[2], s[0]), k.short(s[2], s[1]), k.out(s[0], s[1]), k.in(1, s[0])
		k.Gemm(device.TN, dst, a, b, device.Epilogue{SumA: sum})
		k.keep("sum", sum, false, rounded(p))
		k.keep("dst", dst, false, rounded(p))
	}
}

// updated multiplies by weights between steps of the optimiser, after each of which
// copies that a GEMM caches of them are stale. The weights begin at multiples of 16
// bytes, and elsewhere.
func updated(k *kit, p device.Precision) {
	// The second weight begins `first` numbers after the end of the first.
	const n, inner, first = 24, 40, 5
	a := k.short(k.batch(33), inner)
	// All parameters are one row, as the optimiser requires, and weights are views of
	// it.
	list := func() device.Mat { return k.in(1, first+2*n*inner) }
	v, g, m, second, sum := list(), list(), list(), k.mat(1, first+2*n*inner, func(int, int) float64 { return 1 }), k.of(4)
	for step := range 3 {
		k.AdamW(v, g, m, second, sum, device.AdamW{LR: 0.5, Beta1: 0.9, Beta2: 0.99, Eps: 1e-3, Step: step + 1})
		for i, at := range []int{0, first + n*inner} {
			w, dst := v.Columns(at, n*inner).Reshape(n, inner), k.out(a.Rows, n)
			k.Gemm(device.NT, dst, a, w, device.Epilogue{})
			k.keep(fmt.Sprint("product ", step, i), dst, true, rounded(p))
		}
	}
}

// frozen checks products of frozen weights: repeatedly, when the packed form is
// cached; after an upload, which must invalidate it; and for a view of the weights,
// whose packed form is another.
func frozen(k *kit) {
	a, b, twice := k.short(k.batch(65), 300), k.short(77, 300), k.short(90, 300)
	k.Freeze(b.Buf)
	for i := range 2 {
		for _, op := range []device.Op{device.NT, device.NN} {
			dst, w := k.out(a.Rows, 77), b
			// NN multiplies by the same weights in the other direction.
			x := a
			if op == device.NN {
				dst, x = k.out(a.Rows, 300), a.Columns(0, 77)
			}
			k.Gemm(op, dst, x, w, device.Epilogue{})
			k.Gemm(op, dst, x, w, device.Epilogue{Add: true})
			k.rows(fmt.Sprint("product ", op, i), dst)
		}
		k.Upload64(b, k.values(twice)[:b.Len()])
		k.Freeze(b.Buf)
	}
	part := k.out(a.Rows, 20)
	k.Gemm(device.NT, part, a, b.RowRange(30, 20), device.Epilogue{})
	k.rows("part of the weights", part)
}

// rounding: inputs that bf16 does not represent exactly are rounded by up to half a
// unit of the eighth bit each.
func rounding(k *kit) {
	dst := k.out(65, 77)
	k.Gemm(device.NT, dst, k.in(65, 130), k.in(77, 130), device.Epilogue{})
	k.keep("dst", dst, true, 0x1p-8/fp32Tolerance)
}

// sizes of matrices for kernels other than GEMMs: below and above a vector, with and
// without a remainder, and one long row.
var sizes = [][2]int{{1, 1}, {17, 3}, {65, 193}, {193, 17}, {40, 48}, {1, 20000}}

// pointwise returns the element-wise kernels in all sizes, and the others of
// device.Pointwise.
func pointwise() []testCase {
	var list []testCase
	for _, s := range sizes {
		size := fmt.Sprintf("/%dx%d", s[0], s[1])
		for name, run := range pointwiseKernels {
			list = append(list, testCase{name + size, func(k *kit) { run(k, k.batch(s[0]), s[1]) }})
		}
		list = append(list, testCase{"Activations" + size, func(k *kit) {
			m, n := k.batch(s[0]), s[1]
			for act := device.Identity; act <= device.ReLU; act++ {
				x, dy, y, dx := k.in(m, n), k.in(m, n), k.out(m, n), k.out(m, n)
				k.Axpy(x, 2, x) // standard deviation 3, so that x reaches the tails
				k.Activate(y, x, act)
				k.ActivateGrad(dx, dy, x, act)
				k.rows(fmt.Sprint("y", act), y)
				k.rows(fmt.Sprint("dx", act), dx)
				k.Activate(x, x, act)
				k.rows(fmt.Sprint("in place", act), x)
			}
		}})
	}
	return append(list, testCase{"CopyBlocks", copyBlocks}, testCase{"Tables", tables}, testCase{"AddRepeated", repeated}, testCase{"Tokens", tokens}, testCase{"Dropout", dropout},
		testCase{"NormalizeColumns", func(k *kit) {
			dst := k.out(48, 100)
			k.NormalizeColumns(dst, k.in(48, 100))
			k.all("dst", dst)
		}})
}

// pointwiseKernels are run on m x n matrices.
var pointwiseKernels = map[string]func(k *kit, m, n int){
	"FillCopy": func(k *kit, m, n int) {
		a, b := k.out(m, n), k.out(m, n)
		k.Fill(a, 1.5)
		k.Copy(b, k.in(m, n))
		k.rows("fill", a)
		k.rows("copy", b)
	},
	"Axpy": func(k *kit, m, n int) {
		a, b := k.in(m, n), k.in(m, n)
		k.Axpy(a, -0.75, b)
		k.rows("axpy", a)
	},
	"Gate": func(k *kit, m, n int) {
		x, gate, y, dy, dgate := k.in(m, n), k.in(m, n), k.in(m, n), k.out(m, n), k.out(m, n)
		k.GateGrad(dy, dgate, x, gate, y)
		k.rows("dy", dy)
		k.rows("dgate", dgate)
	},
	"Modulate": func(k *kit, m, n int) {
		x, scale, dy := k.in(m, n), k.in(m, n), k.in(m, n)
		dx, dscale, dshift := k.out(m, n), k.out(m, n), k.out(m, n)
		k.ModulateGrad(dx, dscale, dshift, dy, x, scale)
		k.rows("dx", dx)
		k.rows("dscale", dscale)
		k.rows("dshift", dshift)
	},
}

// copyBlocks copies patches into blocks that begin with a row of their own, as a
// vision transformer's tokens do, and back; and every ninth row.
func copyBlocks(k *kit) {
	dst, src := k.in(5*17, 33), k.in(5*16, 33)
	k.CopyBlocks(dst.RowRange(1, 5*17-1), 17, src, 16, 16, false) // patches behind a CLS row
	k.CopyBlocks(dst, 17, k.in(1, 33), 0, 1, true)                // the same row into every block
	k.all("dst", dst)
	back := k.in(5*16, 33)
	k.CopyBlocks(back, 16, dst.RowRange(1, 5*17-1), 17, 16, true)
	k.all("back", back)
	every := k.out(9, 33)
	k.CopyBlocks(every, 1, src.Every(2, 9), 1, 1, false)
	k.all("every", every)
}

// tables tests SumTable on {rows of the table, rows of src, columns}, with many and
// with few blocks.
func tables(k *kit) {
	for _, s := range [][3]int{{1, 1100, 50}, {17, 17 * 40, 33}, {3, 3, 192}, {4, 4 * 70, 7}} {
		// The gradient of a table that is added to every block.
		table, x := k.in(s[0], s[2]), k.in(s[1], s[2])
		k.CopyBlocks(x, s[0], table, 0, s[0], true)
		k.all("x", x)
		k.SumTable(table, x)
		k.all("table", table)
	}
}

// tokens tests Tokens; s holds blocks, rows of each and columns.
func tokens(k *kit) {
	for _, s := range [][3]int{{3, 2, 5}, {5, 17, 192}, {2, 9, 1030}} {
		blocks := k.batch(s[0])
		dst := k.out(blocks*s[1], s[2])
		k.Tokens(dst, k.in(1, s[2]), k.in(s[1], s[2]), k.in(blocks*(s[1]-1), s[2]))
		k.rows("dst", dst)
	}
}

// repeated tests AddRepeated; s holds the rows of dst, a and b, and the columns.
func repeated(k *kit) {
	for _, s := range [][4]int{{6, 1, 1, 5}, {900, 3, 900, 192}, {1200, 4, 1, 33}, {35, 7, 5, 1030}} {
		a, b, dst := k.in(s[1], s[3]), k.in(s[2], s[3]), k.out(s[0], s[3])
		k.AddRepeated(dst, a, b)
		k.all("dst", dst)
	}
}

// dropout tests DropoutApply, also in place. P = 0 must keep everything.
func dropout(k *kit) {
	for _, p := range []float32{0, 0.1, 0.5} {
		x, y := k.in(k.batch(37), 77), k.out(k.batch(37), 77)
		d := device.Dropout{P: p, Key: 0xfeedface12345678}
		k.DropoutApply(y, x, d)
		k.DropoutApply(x, x, d)
		k.rows("y", y)
		k.rows("in place", x)
	}
}

// norms returns the norms in sizes up to more rows, and more columns, than any chunk
// or block of a backend.
func norms() []testCase {
	var list []testCase
	for _, s := range [][2]int{{5, 1}, {17, 5}, {65, 193}, {193, 96}, {1100, 48}, {70, 2050}} {
		size := fmt.Sprintf("/%dx%d", s[0], s[1])
		list = append(list,
			testCase{"LayerNorm" + size, func(k *kit) { layerNorm(k, k.batch(s[0]), s[1]) }},
			testCase{"AdaLN" + size, func(k *kit) { adaLN(k, k.batch(s[0]), s[1]) }},
			testCase{"BatchNorm" + size, func(k *kit) { batchNorm(k, s[0], s[1]) }})
	}
	return list
}

// layerNorm tests LayerNorm with and without affine part, its gradient with and
// without accumulation, and the aliases that the contract allows.
func layerNorm(k *kit, m, n int) {
	x, gamma, beta := k.in(m, n), k.in(1, n), k.in(1, n)
	y, xhat, rstd := k.out(m, n), k.out(m, n), k.out(m, 1)
	k.LayerNorm(y, xhat, rstd, x, gamma, beta, 1e-5)
	k.rows("y", y)
	k.rows("xhat", xhat)
	k.rows("rstd", rstd)
	// Without gamma, y may be xhat.
	plain := k.out(m, n)
	k.LayerNorm(plain, plain, device.Mat{}, x, device.Mat{}, device.Mat{}, 1e-12)
	k.rows("plain", plain)
	dy, dx, dgamma, dbeta := k.in(m, n), k.in(m, n), k.in(1, n), k.in(1, n)
	k.LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma, true)
	k.rows("dx", dx)
	k.all("dgamma", dgamma)
	k.all("dbeta", dbeta)
	k.LayerNormGrad(dy, device.Mat{}, device.Mat{}, dy, xhat, rstd, device.Mat{}, false)
	k.rows("dx in place", dy)
	k.LayerNorm(x, device.Mat{}, device.Mat{}, x, gamma, beta, 1e-6)
	k.rows("y in place", x)
}

// adaLN tests AdaLN with and without the outputs for a backward pass.
func adaLN(k *kit, m, n int) {
	x := k.in(m, n)
	norm := device.AdaLN{Scale: k.in(m, n), Shift: k.in(m, n), Gamma: k.in(1, n), Beta: k.in(1, n), OuterEps: 1e-6, InnerEps: 1e-5}
	y := k.out(m, n)
	k.AdaLN(y, x, norm)
	k.rows("y", y)
	norm.Outer, norm.OuterInv, norm.Inner, norm.InnerInv = k.out(m, n), k.out(m, 1), k.out(m, n), k.out(m, 1)
	k.AdaLN(y, x, norm)
	k.rows("y and what is kept", y)
	k.rows("outer", norm.Outer)
	k.rows("outer inv", norm.OuterInv)
	k.rows("inner", norm.Inner)
	k.rows("inner inv", norm.InnerInv)
}

// batchNorm tests training, evaluation and gradient. In training every row depends on
// all rows, so that it always runs on the entire batch; only evaluation is tested on
// part of it.
func batchNorm(k *kit, m, n int) {
	x := k.in(m, n)
	bn := device.BatchNorm{Gamma: k.in(1, n), Beta: k.in(1, n), Mean: k.in(1, n), Var: k.zero(1, n), Momentum: 0.1, Eps: 1e-5}
	// A running variance is positive.
	k.Fill(bn.Var, 0.8)
	y, xhat, rstd := k.out(m, n), k.out(m, n), k.out(1, n)
	k.BatchNorm(y, xhat, rstd, x, bn)
	k.all("y", y)
	k.all("xhat", xhat)
	k.all("rstd", rstd)
	k.all("mean", bn.Mean)
	k.all("var", bn.Var)
	// x has all rows in every setting.
	part := k.batch(m)
	eval := k.out(part, n)
	k.BatchNormEval(eval, x.RowRange(0, part), bn)
	k.rows("eval", eval) // the running statistics are those of the entire batch
	dy, dx, dgamma, dbeta := k.in(m, n), k.out(m, n), k.in(1, n), k.in(1, n)
	k.BatchNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, bn.Gamma)
	k.all("dx", dx)
	k.all("dgamma", dgamma)
	k.all("dbeta", dbeta)
}
