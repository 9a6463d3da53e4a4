package ref

import (
	"math"

	"scalewm/model/device"
)

// head is one head of one sequence. Its part of q, k, v, ... is Dim columns of the
// sequence's rows.
type head struct {
	device.Heads
	index int // seq*Heads + head
}

// heads calls f for every head of every sequence.
func heads(h device.Heads, f func(head)) {
	for i := range h.Seqs * h.Heads {
		f(head{h, i})
	}
}

// part returns this head's columns of row r of m.
func (h head) part(m device.Mat, r int) []float64 {
	col := (h.index % h.Heads.Heads) * h.Dim
	return row(m, r)[col : col+h.Dim]
}

// query returns this head's numbers of query i in m, a matrix with one row per query;
// i is counted from the first query.
func (h head) query(m device.Mat, i int) []float64 {
	return h.part(m, h.Row(h.index/h.Heads.Heads, i, h.QueryCount()))
}

// key returns this head's numbers of token j in m, a matrix with one row per token.
func (h head) key(m device.Mat, j int) []float64 {
	return h.part(m, h.Row(h.index/h.Heads.Heads, j, h.Len))
}

// dot returns the dot product of a and b.
func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// addScaled: dst += alpha x.
func addScaled(dst []float64, alpha float64, x []float64) {
	for i, v := range x {
		dst[i] += alpha * v
	}
}

// scores returns q_i.k_j/sqrt(Dim) for the keys j that query i attends to.
func (h head) scores(q, k device.Mat, i int) []float64 {
	s := make([]float64, h.Keys(i))
	for j := range s {
		s[j] = dot(h.query(q, i), h.key(k, j)) / math.Sqrt(float64(h.Dim))
	}
	return s
}

// keep returns the dropout factor of query i and key j. The element index counts all
// tokens as queries, so that it does not depend on Queries.
func (h head) keep(i, j int) float64 {
	// Queries are the last tokens of a sequence.
	token := i + h.Len - h.QueryCount()
	return keep(h.Drop, uint64((h.index*h.Len+token)*h.Len+j))
}

// logSumExp returns log(sum of exp(s)). Subtracting the largest number first keeps
// the exponentials from overflowing.
func logSumExp(s []float64) float64 {
	top := math.Inf(-1)
	for _, v := range s {
		top = max(top, v)
	}
	var sum float64
	for _, v := range s {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// Attention: p_ij = exp(s_ij - lse_i), out_i = sum over j of p_ij keep_ij v_j.
func (engine) Attention(out, lse, q, k, v device.Mat, hs device.Heads) {
	heads(hs, func(h head) {
		for i := range h.QueryCount() {
			s := h.scores(q, k, i)
			l := logSumExp(s)
			if lse.IsSet() {
				row(lse, h.index)[i] = l
			}
			o := h.query(out, i)
			clear(o)
			for j := range s {
				addScaled(o, math.Exp(s[j]-l)*h.keep(i, j), h.key(v, j))
			}
		}
	})
}

// AttentionGrad recomputes p_ij = exp(s_ij - lse_i) from lse. With do_i the gradient
// of out_i and D_i = sum over j of p_ij keep_ij do_i.v_j, which is do_i.out_i:
//
//	dv_j  = sum over i of p_ij keep_ij do_i
//	ds_ij = p_ij (keep_ij do_i.v_j - D_i) / sqrt(Dim)
//	dq_i  = sum over j of ds_ij k_j
//	dk_j  = sum over i of ds_ij q_i
func (e engine) AttentionGrad(dq, dk, dv, dout, lse, q, k, v device.Mat, hs device.Heads) {
	// All three are sums over several (query, key) pairs, so they start at zero.
	for _, m := range []device.Mat{dq, dk, dv} {
		e.Fill(m, 0)
	}
	heads(hs, func(h head) {
		for i := range h.QueryCount() {
			do := h.query(dout, i)
			scores, d, l := h.scores(q, k, i), 0.0, row(lse, h.index)[i]
			for j, s := range scores {
				d += math.Exp(s-l) * h.keep(i, j) * dot(do, h.key(v, j))
			}
			for j, s := range scores {
				p, kept := math.Exp(s-l), h.keep(i, j)
				addScaled(h.key(dv, j), p*kept, do)
				ds := p * (kept*dot(do, h.key(v, j)) - d) / math.Sqrt(float64(h.Dim))
				addScaled(h.query(dq, i), ds, h.key(k, j))
				addScaled(h.key(dk, j), ds, h.query(q, i))
			}
		}
	})
}

// Patches: row r of dst is patch r%Grid of its frame, in row-major order of patches.
// Column i holds channel i/p^2 of pixel (i/p%p, i%p) of the patch.
func (engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	side, p := f.Size/f.Patch, f.Patch
	for r := range dst.Rows {
		// (py, x0) is the upper left pixel of the patch. Frames.List maps to frames
		// of px.
		frame, py, x0 := f.First+r/f.Grid(), r%f.Grid()/side*p, r%side*p
		if f.List != nil {
			frame = int(f.List.(ints)[frame])
		}
		out := row(dst, r)
		for i := range out {
			ch, y, x := i/(p*p), i/p%p, i%p
			b := px.(bytes)[((frame*f.Size+py+y)*f.Size+x0+x)*3+ch]
			out[i] = (float64(b)/255 - f.Mean[ch]) / f.Std[ch]
		}
	}
}
