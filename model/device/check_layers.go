package device

func (c checked) LayerNorm(y, xhat, rstd, x, gamma, beta Mat, eps float64) {
	need(shaped(x.Rows, 1, rstd) && shaped(1, x.Cols, gamma, beta) && gamma.Given() == beta.Given(),
		"LayerNorm", x, rstd, gamma, beta)
	needAny(given(x) && like(y, xhat, x), "LayerNorm", y, xhat, x)
	c.Device.LayerNorm(y, xhat, rstd, x, gamma, beta, eps)
}

func (c checked) AdaLN(y, x Mat, n AdaLN) {
	need(given(n.Gamma, n.Beta, n.Scale, n.Shift) && shaped(1, x.Cols, n.Gamma, n.Beta) && like(x, n.Scale, n.Shift, n.Outer) &&
		shaped(x.Rows, 1, n.OuterInv, n.InnerInv), "AdaLN", x, n.Gamma, n.Beta, n.Outer, n.OuterInv, n.InnerInv)
	needAny(like(y, n.Inner), "AdaLN", y, n.Inner)
	needAny(like(y, x), "AdaLN", y, x, n.Scale, n.Shift)
	c.Device.AdaLN(y, x, n)
}

func (c checked) LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma Mat, add bool) {
	need(given(rstd) && shaped(dy.Rows, 1, rstd) && shaped(1, dy.Cols, dgamma, dbeta, gamma),
		"LayerNormGrad", dx, dgamma, dbeta, rstd, gamma)
	needAny(given(dy, xhat) && like(dx, dy, xhat), "LayerNormGrad", dx, dy, xhat)
	c.Device.LayerNormGrad(dx, dgamma, dbeta, dy, xhat, rstd, gamma, add)
}

func (b BatchNorm) fits(cols int) bool {
	return given(b.Gamma, b.Beta, b.Mean, b.Var) && shaped(1, cols, b.Gamma, b.Beta, b.Mean, b.Var)
}

func (c checked) BatchNorm(y, xhat, rstd, x Mat, bn BatchNorm) {
	// One row has no unbiased variance, which the running one needs.
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

// fit says whether the views are those of heads h: queries have a row a query, keys a row a token.
func (h Heads) fit(lse Mat, queries, keys []Mat) bool {
	return h.Seqs >= 0 && h.Len > 0 && h.Heads > 0 && h.Dim > 0 && h.Block >= 0 && h.Drop.fits() &&
		h.Queries >= 0 && h.Queries <= h.Len && given(queries...) && given(keys...) &&
		shaped(h.Seqs*h.QueryCount(), h.Heads*h.Dim, queries...) && shaped(h.Seqs*h.Len, h.Heads*h.Dim, keys...) && alike(queries, keys) && shaped(h.Seqs*h.Heads, h.QueryCount(), lse) && !lse.Half()
}

// alike says whether all are stored in the same way.
func alike(lists ...[]Mat) bool {
	for _, list := range lists {
		for _, m := range list {
			if m.Half() != lists[0][0].Half() {
				return false
			}
		}
	}
	return true
}

// Keys is how many keys query i, counted from the first query, sees.
func (h Heads) Keys(i int) int {
	if h.Block == 0 {
		return h.Len
	}
	return min(h.Len, ((i+h.Len-h.QueryCount())/h.Block+1)*h.Block)
}

func (c checked) Attention(out, lse, q, k, v Mat, h Heads) {
	needAny(h.fit(lse, []Mat{out, q}, []Mat{k, v}), "Attention", out, lse, q, k, v)
	c.Device.Attention(out, lse, q, k, v, h)
}

func (c checked) AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v Mat, h Heads) {
	ok := h.fit(lse, []Mat{dq, dout, out, q}, []Mat{dk, dv, k, v}) && lse.Given() && !h.ByToken
	needAny(ok, "AttentionGrad", dq, dk, dv, dout, out, lse, q, k, v)
	c.Device.AttentionGrad(dq, dk, dv, dout, out, lse, q, k, v, h)
}

func (c checked) Patches(dst Mat, px Bytes, f Frames) {
	ok := f.Count >= 0 && f.Patch > 0 && f.Size >= f.Patch
	if f.List == nil {
		ok = ok && px.Len() >= f.Count*f.Bytes()
	} else {
		ok = ok && f.List.Len() >= f.Count
	}
	needAny(ok && given(dst) && shaped(f.Count*f.Grid(), 3*f.Patch*f.Patch, dst), "Patches", dst)
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
