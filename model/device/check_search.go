package device

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
		k > 0 && idx.Len() == mean.Rows*k && (!std.Given() || k > 1), "Moments", mean, std, cand)
	c.Device.Moments(mean, std, cand, idx, k)
}

// groups says whether rows can be as many equal, non-empty groups.
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
