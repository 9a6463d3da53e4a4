package ref

import (
	"math"

	"scalewm/model/device"
)

// head is one head of one sequence: q, k, v, ... are rows of Dim numbers by token.
type head struct {
	device.Heads
	index int // seq*Heads + head
}

func heads(h device.Heads, f func(head)) {
	for i := range h.Seqs * h.Heads {
		f(head{h, i})
	}
}

// part is what row r of m has in this head.
func (h head) part(m device.Mat, r int) []float64 {
	col := (h.index % h.Heads.Heads) * h.Dim
	return row(m, r)[col : col+h.Dim]
}

// query is what query i, counted from the first query, has in m; key what token j has.
func (h head) query(m device.Mat, i int) []float64 {
	return h.part(m, h.Row(h.index/h.Heads.Heads, i, h.QueryCount()))
}

func (h head) key(m device.Mat, j int) []float64 {
	return h.part(m, h.Row(h.index/h.Heads.Heads, j, h.Len))
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func addScaled(dst []float64, alpha float64, x []float64) {
	for i, v := range x {
		dst[i] += alpha * v
	}
}

// scores are the scaled products of query i with the keys that it sees.
func (h head) scores(q, k device.Mat, i int) []float64 {
	s := make([]float64, h.Keys(i))
	for j := range s {
		s[j] = dot(h.query(q, i), h.key(k, j)) / math.Sqrt(float64(h.Dim))
	}
	return s
}

// keep is the dropout factor of query i and key j.
func (h head) keep(i, j int) float64 {
	token := i + h.Len - h.QueryCount()
	return keep(h.Drop, uint64((h.index*h.Len+token)*h.Len+j))
}

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

func (engine) Attention(out, lse, q, k, v device.Mat, hs device.Heads) {
	heads(hs, func(h head) {
		for i := range h.QueryCount() {
			s := h.scores(q, k, i)
			l := logSumExp(s)
			if lse.Given() {
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

func (e engine) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v device.Mat, hs device.Heads) {
	for _, m := range []device.Mat{dq, dk, dv} {
		e.Fill(m, 0)
	}
	heads(hs, func(h head) {
		for i := range h.QueryCount() {
			do := h.query(dout, i)
			d := dot(do, h.query(out, i))
			for j, s := range h.scores(q, k, i) {
				p, kept := math.Exp(s-row(lse, h.index)[i]), h.keep(i, j)
				addScaled(h.key(dv, j), p*kept, do)
				ds := p * (kept*dot(do, h.key(v, j)) - d) / math.Sqrt(float64(h.Dim))
				addScaled(h.query(dq, i), ds, h.key(k, j))
				addScaled(h.key(dk, j), ds, h.query(q, i))
			}
		}
	})
}

func (engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	side, p := f.Size/f.Patch, f.Patch
	for r := range dst.Rows {
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
