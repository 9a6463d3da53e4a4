package devicetest

import (
	"fmt"
	"math"

	"scalewm/dataset/rng"
	"scalewm/model/device"
)

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

func attentions() []testCase {
	list := []testCase{{"Attention/byToken", byToken}}
	for _, h := range shapesOfHeads {
		name := fmt.Sprintf("Attention/%d/%dx%d/block%d/drop%g/queries%d", h.Len, h.Heads, h.Dim, h.Block, h.Drop.P, h.Queries)
		list = append(list, testCase{name, func(k *kit) { attention(k, h, false) }})
	}
	return list
}

func attention(k *kit, h device.Heads, bf16 bool) {
	h.Seqs = k.batch(h.Seqs)
	in, out, factor := k.in, k.out, 1.0
	if bf16 {
		// Probabilities and the gradients of scores are rounded too.
		in, out, factor = k.bf16, k.bf16Out, 2*bf16Factor
	}
	queries, rows, inner := h.Seqs*h.QueryCount(), h.Seqs*h.Len, h.Heads*h.Dim
	q, kv, dq, dkv := in(queries, inner), in(rows, 2*inner), out(queries, inner), out(rows, 2*inner)
	key, v := kv.Columns(0, inner), kv.Columns(inner, inner)
	y, lse, dy := out(queries, inner), k.out(h.Seqs*h.Heads, h.QueryCount()), in(queries, inner)
	k.Attention(y, lse, q, key, v, h)
	k.keep("out", y, true, factor)
	k.rows("lse", lse)
	k.AttentionGrad(dq, dkv.Columns(0, inner), dkv.Columns(inner, inner), dy, y, lse, q, key, v, h)
	k.keep("dq", dq, true, factor)
	k.keep("dkv", dkv, true, factor)
	k.Attention(dy, device.Mat{}, q, key, v, h)
	k.keep("out without lse", dy, true, factor)
}

// byToken: the other order of rows gives the same numbers.
func byToken(k *kit) {
	for _, h := range []device.Heads{
		{Seqs: k.batch(5), Len: 3, Heads: 4, Dim: 32, Block: 1, Queries: 1, ByToken: true},
		{Seqs: k.batch(3), Len: 20, Heads: 2, Dim: 16, Block: 5, Queries: 5, ByToken: true},
	} {
		attentionByToken(k, h, false)
	}
}

func attentionByToken(k *kit, h device.Heads, bf16 bool) {
	in, result, factor, inner := k.in, k.out, 1.0, h.Heads*h.Dim
	if bf16 {
		in, result, factor = k.bf16, k.bf16Out, 2*bf16Factor
	}
	mats := []device.Mat{in(h.Seqs*h.Queries, inner), in(h.Seqs*h.Len, inner), in(h.Seqs*h.Len, inner)}
	out, turned, back := result(h.Seqs*h.Queries, inner), result(h.Seqs*h.Queries, inner), result(h.Seqs*h.Queries, inner)
	k.Attention(out, device.Mat{}, mats[0], mats[1], mats[2], h)
	plain := h
	plain.ByToken = false
	for i, m := range mats {
		mats[i] = result(m.Rows, inner)
		turn(k, mats[i], m, m.Rows/h.Seqs)
	}
	k.Attention(turned, device.Mat{}, mats[0], mats[1], mats[2], plain)
	turn(k, back, out, h.Queries)
	k.keep("in the usual order", turned, false, factor)
	k.keep("by token", back, false, factor)
}

// turn copies rows by token, tokens of them a sequence, to rows by sequence.
func turn(k *kit, dst, src device.Mat, tokens int) {
	seqs := src.Rows / tokens
	for t := range tokens {
		k.Upload64(dst.Every(t, tokens), k.values(src.RowRange(t*seqs, seqs)))
	}
}

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
		for _, spread := range []float64{0, 1e-5, 1, 4, 12} {
			name := fmt.Sprintf("SIGReg/%dx%dx%d/%g", s[0], s[1], s[2], spread)
			list = append(list, testCase{name, func(k *kit) {
				u, du, loss := k.zero(s[0]*s[1], s[2]), k.out(s[0]*s[1], s[2]), k.out(1, 1)
				k.Axpy(u, spread, k.in(s[0]*s[1], s[2]))
				k.SIGReg(loss, du, u, s[1], 0.09)
				k.all("loss", loss)
				k.keep("du", du, false, 4) // turned 16 times
			}})
		}
	}
	return list
}

func pairDistance(k *kit) {
	z, pairs := k.in(40, 49), k.ints(2*301, 40)
	dst, dz := k.out(1, 301), k.in(40, 49)
	k.PairDistance(dst, z, pairs)
	k.PairDistanceGrad(dz, k.in(1, 301), z, pairs)
	k.all("distance", dst)
	k.all("dz", dz)
}

func correlation(k *kit) {
	for _, n := range []int{2, 65, 4096} {
		for _, form := range []device.CorrelationForm{device.Authors, device.Paper} {
			x, y := k.in(1, n), k.in(1, n)
			k.Axpy(x, 0.7, y)
			result, dx := k.out(1, 2), k.out(1, n)
			k.Correlation(result, dx, x, y, form, 0.1)
			k.all("result", result)
			if n > 2 { // of two points the correlation is one and its gradient rounding noise
				k.all("dx", dx)
			}
		}
	}
}

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

// patches: of even and odd size, with an edge that belongs to none; all frames, and
// all but the first of a list with the last one, repetitions and no order; and those in the middle.
func patches(k *kit) {
	for _, s := range []struct{ size, patch int }{{12, 4}, {15, 5}, {20, 6}, {56, 14}} {
		const there = 4
		f := device.Frames{Size: s.size, Patch: s.patch, Mean: [3]float64{0.485, 0.456, 0.406}, Std: [3]float64{0.229, 0.224, 0.225}}
		px := make([]byte, there*f.Bytes())
		for i := range px {
			px[i] = byte(rng.Philox(5, uint64(i))[0])
		}
		b := k.AllocBytes(len(px))
		k.UploadBytes(b, px)
		for _, list := range [][]int32{nil, {1, 3, 0, 0, 2, 3}} {
			f.Count, f.First, f.List = k.batch(there), 0, nil
			if list != nil {
				f.Count, f.First, f.List = k.batch(len(list)-1), 1, device.NewInts(k, list)
			}
			rows, cols := f.Count*f.Grid(), 3*f.Patch*f.Patch
			dst := k.out(rows, cols)
			k.Patches(dst, b, f)
			k.rows("patches", dst)
			// Tensor cores want rows that begin at multiples of 8 numbers.
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

func search() []testCase {
	return []testCase{{"Normal", normal}, {"Planner", planner}, {"AdamW", adamW}, {"SumSquares", func(k *kit) {
		for _, s := range [][2]int{{1, 1}, {65, 193}, {1, 100000}} {
			dst := k.out(1, 1)
			k.SumSquares(dst, k.in(s[0], s[1]))
			k.all("sum", dst)
		}
	}}}
}

func normal(k *kit) {
	keys := []uint64{1, 0xdeadbeefcafe, math.MaxUint64}
	for _, offset := range []uint64{0, 3, 1 << 34} {
		dst := k.out(len(keys)*5, 1001)
		k.Normal(dst, keys, offset)
		k.all(fmt.Sprint("normal", offset), dst)
	}
}

func planner(k *kit) {
	const episodes, count, width, elites = 3, 60, 50, 9
	mean, std, cand := k.in(episodes, width), k.in(episodes, width), k.out(episodes*count, width)
	k.Candidates(cand, mean, std, k.in(episodes*count, width))
	k.all("candidates", cand)
	costs, idx := k.in(episodes, count), k.AllocInts(episodes*elites)
	k.SmallestK(idx, costs, elites)
	list := make([]int32, episodes*elites)
	k.DownloadInts(list, idx)
	k.all("elites", k.mat(1, len(list), func(_, c int) float64 { return float64(list[c]) }))
	k.Moments(mean, std, cand, idx, elites)
	k.all("mean", mean)
	k.all("std", std)
	k.Moments(mean, device.Mat{}, cand, idx, elites)
	k.all("mean alone", mean)
}

func adamW(k *kit) {
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
