package devicetest

import (
	"fmt"
	"math"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

// shapesOfHeads are attentions with one and with few tokens, more than a vector or a
// strip, odd widths, masks, dropout, and fewer queries than tokens.
var shapesOfHeads = []device.Heads{
	{Seqs: 3, Len: 1, Heads: 2, Dim: 16},
	{Seqs: 5, Len: 3, Heads: 4, Dim: 64, Block: 1},
	{Seqs: 5, Len: 3, Heads: 4, Dim: 64, Block: 1, Queries: 1},
	{Seqs: 4, Len: 17, Heads: 3, Dim: 32},
	{Seqs: 3, Len: 17, Heads: 2, Dim: 24, Drop: device.Dropout{P: 0.2, Key: 99}},
	{Seqs: 2, Len: 65, Heads: 3, Dim: 64},
	{Seqs: 2, Len: 65, Heads: 3, Dim: 64, Queries: 1},
	{Seqs: 2, Len: 12, Heads: 1, Dim: 7, Block: 4, Drop: device.Dropout{P: 0.1, Key: 7}},
	{Seqs: 2, Len: 12, Heads: 1, Dim: 7, Block: 4, Queries: 5, Drop: device.Dropout{P: 0.1, Key: 7}},
	{Seqs: 1, Len: 257, Heads: 1, Dim: 64},
}

// nameOf returns the name of a case of attention.
func nameOf(kind string, h device.Heads) string {
	return fmt.Sprintf("%s/%d/%dx%d/block%d/drop%g/queries%d", kind, h.Len, h.Heads, h.Dim, h.Block, h.Drop.P, h.Queries)
}

// attentions returns the cases of both orders of rows.
func attentions() []testCase {
	list := []testCase{{"Attention/byToken", byToken}}
	for _, h := range shapesOfHeads {
		list = append(list, testCase{nameOf("Attention", h), func(k *kit) { attention(k, h, false) }})
	}
	return list
}

// attention tests the forward pass, with and without lse, and the backward pass.
func attention(k *kit, h device.Heads, bf16 bool) {
	h.Seqs = k.batch(h.Seqs)
	in, out, factor := k.in, k.out, 1.0
	if bf16 {
		// Backends round probabilities and gradients of scores to bf16 too.
		in, out, factor = k.bf16, k.bf16Out, 2*bf16Factor
	}
	queries, rows, inner := h.Seqs*h.QueryCount(), h.Seqs*h.Len, h.Heads*h.Dim
	// k and v are columns of one matrix, as models store them.
	q, kv, dq, dkv := in(queries, inner), in(rows, 2*inner), out(queries, inner), out(rows, 2*inner)
	key, v := kv.Columns(0, inner), kv.Columns(inner, inner)
	y, lse, dy := out(queries, inner), k.out(h.Seqs*h.Heads, h.QueryCount()), in(queries, inner)
	k.Attention(y, lse, q, key, v, h)
	k.keep("out", y, true, factor)
	k.rows("lse", lse)
	k.AttentionGrad(dq, dkv.Columns(0, inner), dkv.Columns(inner, inner), dy, lse, q, key, v, h)
	k.keep("dq", dq, true, factor)
	k.keep("dkv", dkv, true, factor)
	k.Attention(dy, device.Mat{}, q, key, v, h)
	k.keep("out without lse", dy, true, factor)
}

// byToken checks that rows ordered by token give the same results as rows ordered by
// sequence.
func byToken(k *kit) {
	for _, h := range []device.Heads{
		{Seqs: k.batch(5), Len: 3, Heads: 4, Dim: 32, Block: 1, Queries: 1, ByToken: true},
		{Seqs: k.batch(3), Len: 20, Heads: 2, Dim: 16, Block: 5, Queries: 5, ByToken: true},
	} {
		attentionByToken(k, h, false)
	}
}

// attentionByToken runs an attention by token, and the same attention on reordered
// rows. Both results are compared with the reference.
func attentionByToken(k *kit, h device.Heads, bf16 bool) {
	in, result, factor, inner := k.in, k.out, 1.0, h.Heads*h.Dim
	if bf16 {
		in, result, factor = k.bf16, k.bf16Out, 2*bf16Factor
	}
	mats := []device.Mat{in(h.Seqs*h.Queries, inner), in(h.Seqs*h.Len, inner), in(h.Seqs*h.Len, inner)}
	out, turned, back := result(h.Seqs*h.Queries, inner), result(h.Seqs*h.Queries, inner), result(h.Seqs*h.Queries, inner)
	k.Attention(out, device.Mat{}, mats[0], mats[1], mats[2], h)
	// plain is the same attention with rows ordered by sequence; mats become its
	// inputs.
	plain := h
	plain.ByToken = false
	for i, m := range mats {
		mats[i] = result(m.Rows, inner)
		reorderRows(k, mats[i], m, m.Rows/h.Seqs)
	}
	k.Attention(turned, device.Mat{}, mats[0], mats[1], mats[2], plain)
	reorderRows(k, back, out, h.Queries)
	k.keep("in the usual order", turned, false, factor)
	k.keep("by token", back, false, factor)
}

// reorderRows copies rows ordered by token, with `tokens` tokens per sequence, to rows
// ordered by sequence.
func reorderRows(k *kit, dst, src device.Mat, tokens int) {
	seqs := src.Rows / tokens
	for t := range tokens {
		k.Upload64(dst.Every(t, tokens), k.values(src.RowRange(t*seqs, seqs)))
	}
}

// losses returns the kernels of device.Losses, and SIGReg for inputs from all zeros
// to far outside of the normal's range.
func losses() []testCase {
	list := []testCase{{"MSE", func(k *kit) {
		for _, s := range [][2]int{{1, 1}, {65, 193}, {3, 9000}} {
			x, y, loss := k.in(s[0], s[1]), k.in(s[0], s[1]), k.out(1, 1)
			dx, dy := k.in(s[0], s[1]), k.in(s[0], s[1])
			k.MSE(loss, dx, dy, x, y, 30)
			k.all("loss", loss)
			k.all("dpred", dx)
			k.all("dtarget", dy)
			k.MSE(loss, device.Mat{}, device.Mat{}, x, y, 1)
			k.all("loss alone", loss)
		}
	}}, {"PairDistance", pairDistance}, {"Correlation", correlation}, {"LatentCost", latentCost}, {"Patches", patches}}
	for _, s := range [][3]int{{16, 4, 33}, {2, 1, 5}, {128, 1, 20}, {5, 3, 16}} {
		// spread is the standard deviation of u. At 12, t_k u goes through many
		// periods.
		for _, spread := range []float64{0, 1e-5, 1, 4, 12} {
			name := fmt.Sprintf("SIGReg/%dx%dx%d/%g", s[0], s[1], s[2], spread)
			list = append(list, testCase{name, func(k *kit) {
				u, du, loss := k.zero(s[0]*s[1], s[2]), k.out(s[0]*s[1], s[2]), k.out(1, 1)
				k.Axpy(u, spread, k.in(s[0]*s[1], s[2]))
				k.SIGReg(loss, du, u, s[1], 0.09)
				k.all("loss", loss)
				k.keep("du", du, false, 4) // backends may compute 16 knots by repeated rotation
			}})
		}
	}
	return list
}

// pairDistance uses each row in many pairs, so that the gradient accumulates.
func pairDistance(k *kit) {
	// 301 pairs of 40 rows: each row is in about 15 of them.
	z, pairs := k.in(40, 49), k.ints(2*301, 40)
	dst, dz := k.out(1, 301), k.in(40, 49)
	k.PairDistance(dst, z, pairs)
	k.PairDistanceGrad(dz, k.in(1, 301), z, pairs)
	k.all("distance", dst)
	k.all("dz", dz)
}

// correlation tests both forms on correlated inputs.
func correlation(k *kit) {
	for _, n := range []int{2, 65, 4096} {
		for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
			x, y := k.in(1, n), k.in(1, n)
			k.Axpy(x, 0.7, y)
			result, dx := k.out(1, 2), k.out(1, n)
			k.Correlation(result, dx, x, y, form, 0.1)
			k.all("result", result)
			if n > 2 { // two points always correlate fully; the gradient is rounding noise
				k.all("dx", dx)
			}
		}
	}
}

// latentCost tests one and several patches per frame.
func latentCost(k *kit) {
	const episodes, candidates = 3, 21
	for _, s := range [][2]int{{1, 192}, {5, 17}} {
		for _, mean := range []bool{false, true} {
			dst, pred := k.out(episodes, candidates), k.in(episodes*candidates*s[0], s[1])
			k.LatentCost(dst, pred, k.in(episodes*s[0], s[1]), mean)
			k.all("cost", dst)
		}
	}
}

// patches tests frames and patches of even and odd size, with an edge that belongs to
// no patch; all frames, a list with repetitions and without order from its second
// entry on, and frames from the middle.
func patches(k *kit) {
	for _, s := range []struct{ size, patch int }{{12, 4}, {15, 5}, {20, 6}, {56, 14}} {
		const count = 4
		f := device.Frames{Size: s.size, Patch: s.patch, Mean: [3]float64{0.485, 0.456, 0.406}, Std: [3]float64{0.229, 0.224, 0.225}}
		px := make([]byte, count*f.Bytes())
		for i := range px {
			px[i] = byte(rng.Philox(5, uint64(i))[0])
		}
		b := k.AllocBytes(len(px))
		k.UploadBytes(b, px)
		// With a list, the frames are those from its second entry (First = 1) on.
		for _, list := range [][]int32{nil, {1, 3, 0, 0, 2, 3}} {
			f.Count, f.First, f.List = k.batch(count), 0, nil
			if list != nil {
				f.Count, f.First, f.List = k.batch(len(list)-1), 1, device.NewInts(k, list)
			}
			rows, cols := f.Count*f.Grid(), 3*f.Patch*f.Patch
			dst := k.out(rows, cols)
			k.Patches(dst, b, f)
			k.rows("patches", dst)
			// Rows that begin at multiples of 8 numbers, as tensor cores need, and rows
			// that do not.
			for _, pad := range []int{0, (8 - cols%8) % 8} {
				stored := k.bf16Out(rows, cols+pad).Columns(0, cols)
				k.Patches(stored, b, f)
				k.keep("stored", stored, true, bf16Factor)
			}
		}
		f.Count, f.First, f.List = 2, 1, nil
		middle := k.out(2*f.Grid(), 3*f.Patch*f.Patch)
		k.Patches(middle, b, f)
		k.all("middle", middle)
	}
}

// search returns the kernels of the optimiser and of CEM.
func search() []testCase {
	return []testCase{{"Normal", normal}, {"Planner", planner}, {"AdamW", adamW}, {"SumSquares", func(k *kit) {
		for _, s := range [][2]int{{1, 1}, {65, 193}, {1, 100000}} {
			dst := k.out(1, 1)
			k.SumSquares(dst, k.in(s[0], s[1]))
			k.all("sum", dst)
		}
	}}}
}

// normal tests offsets that are not multiples of 4, and above 2^32.
func normal(k *kit) {
	keys := []uint64{1, 0xdeadbeefcafe, math.MaxUint64}
	for _, offset := range []uint64{0, 3, 1 << 34} {
		dst := k.out(len(keys)*5, 1001)
		k.Normal(dst, keys, offset)
		k.all(fmt.Sprint("normal", offset), dst)
	}
}

// planner runs an iteration of CEM: candidates, elites, and their moments.
func planner(k *kit) {
	const episodes, count, width, elites = 3, 60, 50, 9
	mean, std, cand := k.in(episodes, width), k.in(episodes, width), k.out(episodes*count, width)
	k.Candidates(cand, mean, std, k.in(episodes*count, width))
	k.all("candidates", cand)
	costs, idx := k.in(episodes, count), k.AllocInts(episodes*elites)
	k.SmallestK(idx, costs, elites)
	// Indices are recorded as numbers.
	list := make([]int32, episodes*elites)
	k.DownloadInts(list, idx)
	k.all("elites", k.mat(1, len(list), func(_, c int) float64 { return float64(list[c]) }))
	k.Moments(mean, std, cand, idx, elites)
	k.all("mean", mean)
	k.all("std", std)
	k.Moments(mean, device.Mat{}, cand, idx, elites)
	k.all("mean alone", mean)
}

// adamW runs three steps, with clipping from the second on.
func adamW(k *kit) {
	// n is prime, and larger than a task of device/cpu.
	const n = 20011
	p, m, v, sum := k.in(1, n), k.zero(1, n), k.zero(1, n), k.out(1, 1)
	for step := 1; step <= 3; step++ {
		g := k.in(1, n)
		k.SumSquares(sum, g)
		o := device.AdamW{LR: 5e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 1e-2, Step: step}
		if step > 1 {
			o.MaxNorm = 1
		}
		k.AdamW(p, g, m, v, sum, o)
		k.all("p", p)
		k.all("m", m)
		k.all("v", v)
	}
}
