package devicetest

import (
	"math"
	"testing"

	"scalewm/model/device"
)

// edges runs kernels on inputs at which formulas break down, and compares with values
// that are known.
func edges(t *testing.T, d device.Device) {
	k := &kit{Device: d, t: t, name: "edges"}
	t.Run("constant rows and columns", func(t *testing.T) { constant(t, k) })
	t.Run("collapse", func(t *testing.T) { collapse(t, k) })
	t.Run("guard", func(t *testing.T) { guard(t, k) })
	t.Run("costs", func(t *testing.T) { costs(t, k) })
	t.Run("planners", func(t *testing.T) { infinite(t, k) })
	t.Run("NaN", func(t *testing.T) { nanPropagates(t, k) })
	t.Run("frames", func(t *testing.T) { missingFrames(t, k) })
	t.Run("empty", func(t *testing.T) {
		// An empty inner dimension: every sum is zero, and += leaves dst as it is.
		dst := k.in(3, 4)
		before := k.values(dst)
		k.Gemm(device.TN, dst, device.NewMat(d, 0, 3), device.NewMat(d, 0, 4), device.Epilogue{Add: true})
		expect(t, "a product without terms, added", k.values(dst), before...)
	})
}

// values downloads a matrix.
func (k *kit) values(m device.Mat) []float64 {
	v := make([]float64, m.Len())
	k.Download64(v, m)
	return v
}

// of returns a matrix of one row.
func (k *kit) of(v ...float64) device.Mat {
	return k.mat(1, len(v), func(_, c int) float64 { return v[c] })
}

// expect compares numbers exactly; NaN equals NaN.
func expect(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	for i, w := range want {
		if got[i] != w && !(math.IsNaN(w) && math.IsNaN(got[i])) {
			t.Errorf("%s: [%d] = %g, want %g", what, i, got[i], w)
		}
	}
}

// constant normalises constant rows and columns: the variance is 0, and eps alone
// keeps the result finite.
func constant(t *testing.T, k *kit) {
	x := k.mat(4, 5, func(int, int) float64 { return 0.7 })
	y, rstd, none := k.out(4, 5), k.out(1, 5), device.Mat{}
	k.LayerNorm(y, none, none, x, none, none, 1e-12)
	for i, v := range k.values(y) {
		if math.Abs(v) > 0.1 { // the mean's last bit, divided by sqrt(eps) = 1e-6
			t.Errorf("LayerNorm of a constant row: [%d] = %g", i, v)
		}
	}
	bn := device.BatchNorm{Gamma: k.of(1, 1, 1, 1, 1), Beta: k.of(1, 2, 3, 4, 5), Mean: k.zero(1, 5), Var: k.zero(1, 5),
		Momentum: 1, Eps: 1e-5}
	k.BatchNorm(y, none, rstd, x, bn)
	expect(t, "BatchNorm of constant columns", k.values(y), 1, 2, 3, 4, 5)
	expect(t, "its variance", k.values(bn.Var), 0, 0, 0, 0, 0)
}

// collapse: SIGReg of zeros is 0.4020476 B (docs/sources.md#sigreg), and its gradient
// is zero.
func collapse(t *testing.T, k *kit) {
	u, du, loss := k.zero(128*4, 9), k.out(128*4, 9), k.out(1, 1)
	k.SIGReg(loss, du, u, 4, 1)
	if got := k.values(loss)[0] / 128; math.Abs(got-0.4020476) > 5e-7 {
		t.Errorf("SIGReg of zeros: %.8f B, want 0.4020476 B", got)
	}
	expect(t, "its gradient", k.values(du), make([]float64, 9)...)
}

// guard: Correlation is skipped, with loss and gradient exactly 0, if a deviation is
// below 1e-6.
func guard(t *testing.T, k *kit) {
	x, same, close := k.of(1, 2, 3), k.of(5, 5, 5), k.of(1e-7, 2e-7, 3e-7)
	for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
		for _, pair := range [][2]device.Mat{{x, same}, {same, x}, {close, x}, {x, close}} {
			result, dx := k.out(1, 2), k.out(1, 3)
			k.Correlation(result, dx, pair[0], pair[1], form, 1)
			expect(t, "skipped", k.values(result), 0, 1)
			expect(t, "gradient", k.values(dx), 0, 0, 0)
		}
	}
	// Perfect correlation: the loss is 1/K in the authors' form, since the mean divides by
	// K and the deviations by K-1, and 0 in the paper's. The 1e-6 that is added to
	// deviations of about 0.8 moves both slightly.
	result := k.out(1, 2)
	k.Correlation(result, device.Mat{}, x, x, device.Authors, 1)
	if got := k.values(result)[0]; math.Abs(got-1.0/3) > 3e-6 {
		t.Errorf("the coded correlation of equals: %g, want 1/3", got)
	}
	k.Correlation(result, device.Mat{}, x, x, device.Paper, 1)
	if got := k.values(result)[0]; math.Abs(got) > 3e-6 {
		t.Errorf("the paper's correlation of equals: %g, want 0", got)
	}
}

// costs tests the order of costs with NaN, infinities and ties, and NaNToInf.
func costs(t *testing.T, k *kit) {
	nan, inf := math.NaN(), math.Inf(1)
	c, count := k.of(3, nan, 1, 1, -inf, 2, nan, 1), k.zero(1, 1)
	// pick returns the indices of the n lowest costs.
	pick := func(m device.Mat, n int) []float64 {
		idx, got := k.AllocInts(n), make([]int32, n)
		k.SmallestK(idx, m, n)
		k.DownloadInts(got, idx)
		out := make([]float64, n)
		for i, v := range got {
			out[i] = float64(v)
		}
		return out
	}
	expect(t, "order with NaN", pick(c, 8), 4, 2, 3, 7, 5, 0, 1, 6)
	expect(t, "ties go to the lower index", pick(c, 3), 4, 2, 3)
	// The second call finds the two +Inf of the first, and counts them again.
	k.NaNToInf(c, count)
	k.NaNToInf(c, count)
	expect(t, "count of NaN, and of +Inf the second time", k.values(count), 4)
	expect(t, "without NaN", k.values(c), 3, inf, 1, 1, -inf, 2, inf, 1)
}

// missingFrames: a list with the index of a frame that does not exist panics, and the
// device works afterwards.
func missingFrames(t *testing.T, k *kit) {
	f := device.Frames{Count: 2, Size: 4, Patch: 4, Std: [3]float64{1, 1, 1}}
	px := k.AllocBytes(3 * f.Bytes())
	k.UploadBytes(px, make([]byte, px.Len()))
	for _, m := range []device.Mat{k.out(2, 48), k.bf16Out(2, 48)} {
		for _, wrong := range []int32{-1, 3} {
			// A GPU reports bad indices at the next Sync.
			f.List = device.NewInts(k, []int32{2, wrong})
			if !panics(func() { k.Patches(m, px, f); k.Sync() }) {
				t.Errorf("frame %d of 3: no panic", wrong)
			}
		}
		f.List = device.NewInts(k, []int32{2, 0})
		k.Patches(m, px, f)
		expect(t, "black frames", k.values(m), make([]float64, m.Len())...)
	}
}

// nanPropagates checks that NaN in an input reaches the result: it must not be hidden by a
// comparison or a clamp.
func nanPropagates(t *testing.T, k *kit) {
	nan := math.NaN()
	for act := device.Identity; act <= device.ReLU; act++ {
		y := k.out(1, 2)
		k.Activate(y, k.of(nan, 0), act)
		expect(t, "activation", k.values(y), nan, 0)
		k.ActivateGrad(y, k.of(nan, 0), k.of(1, 1), act)
		expect(t, "its gradient", k.values(y), nan, 0)
	}
	dst, a := k.out(2, 3), k.mat(2, 5, func(r, c int) float64 { return []float64{nan, 1}[r] })
	k.Gemm(device.NN, dst, a, k.mat(5, 3, func(int, int) float64 { return 1 }), device.Epilogue{})
	expect(t, "product", k.values(dst), nan, nan, nan, 5, 5, 5)
	out := k.out(2, 16)
	// Each sequence has one token, so its output is its value: NaN, and 1.
	qkv := k.mat(2, 16, func(r, _ int) float64 { return []float64{nan, 1}[r] })
	k.Attention(out, device.Mat{}, qkv, qkv, qkv, device.Heads{Seqs: 2, Len: 1, Heads: 1, Dim: 16})
	expect(t, "attention", k.values(out)[:1], nan)
	expect(t, "attention of the next sequence", k.values(out)[16:], 1)
}

// memory checks that numbers survive the round trip to the device, through views too,
// and that memory is zeroed.
func memory(t *testing.T, d device.Device) {
	k := &kit{Device: d, t: t, name: "memory", setting: setting{strided: true}}
	m := k.in(7, 9)
	// The matrices are strided views.
	half := make([]float32, m.Len())
	k.Download(half, m)
	n := k.out(7, 9)
	k.Upload(n, half)
	expect(t, "float32 there and back", k.values(n), k.values(m)...)
	ids := make([]int32, 3)
	k.DownloadInts(ids, device.NewInts(k, []int32{3, -1, 7}))
	expect(t, "ints", []float64{float64(ids[0]), float64(ids[1]), float64(ids[2])}, 3, -1, 7)
	if b := d.Alloc(5, device.Float32); b.Len() != 5 || k.values(device.Mat{Buf: b, Rows: 1, Cols: 5, Stride: 5})[4] != 0 {
		t.Error("Alloc(5, Float32) is not five zeros")
	}
	d.Free(device.NewInts(d, []int32{1}))
	d.Free(d.AllocBytes(1))
	d.Free(d.Alloc(1, d.Traits().Activations))
	sendBytes(t, k)
	for _, v := range k.views {
		k.untouched(v)
	}
}

// sendBytes checks SendBytes: the second of three frames arrives by WaitSent, the others
// stay, and after Sync the host's memory may be reused.
func sendBytes(t *testing.T, k *kit) {
	f := device.Frames{Count: 3, Size: 2, Patch: 2, Std: [3]float64{1. / 255, 1. / 255, 1. / 255}}
	px, host := k.AllocBytes(3*f.Bytes()), k.AllocHost(f.Bytes())
	k.UploadBytes(px, make([]byte, 3*f.Bytes()))
	dst, want := k.out(3, 12), make([]float64, 36)
	for turn := range 3 {
		for i := range host {
			host[i] = byte(10*turn + i%3) // every pixel has the same channels
			want[12+i] = float64(10*turn + i/4)
		}
		k.SendBytes(px, f.Bytes(), host)
		k.WaitSent()
		k.Patches(dst, px, f)
		k.Sync()
		// After Sync the device must not read host any more.
		host[0] = 99
		expect(t, "frames that were sent", k.values(dst), want...)
	}
	k.FreeHost(host)
	if d := k.FreeBytes(); d < 0 {
		t.Errorf("room for %d bytes", d)
	}
}
