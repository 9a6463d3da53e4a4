package devicetest

import (
	"fmt"
	"math"
	"testing"

	"scalewm/model/device"
)

// planners returns the kernels that iCEM, MPPI and the gradient solver need in
// addition to CEM's.
func planners() []testCase {
	list := []testCase{{"Clip", clip}, {"Lerp", lerp}, {"Chosen", chosen}}
	for _, s := range [][3]int{{1, 2, 1}, {37, 5, 10}, {65, 4, 6}, {17, 5, 25}, {3, 9, 130}} {
		list = append(list, testCase{fmt.Sprintf("Color/%dx%dx%d", s[0], s[1], s[2]), func(k *kit) {
			rows, h, a := k.batch(s[0]), s[1], s[2]
			dst := k.out(rows, h*a)
			k.Color(dst, k.in(rows, h*a), k.in(1, h))
			// If the deviation of a series is small compared with its mean, the
			// division amplifies rounding errors.
			k.keep("dst", dst, true, 20)
		}})
	}
	return list
}

// clip tests bounds that differ by column.
func clip(k *kit) {
	for _, s := range sizes {
		rows, cols := k.batch(s[0]), s[1]
		dst, low := k.in(rows, cols), k.in(1, cols)
		high := k.in(1, cols)
		k.Fill(high, 0.7)
		k.Axpy(high, 1, low) // never below low
		k.Clip(dst, low, high)
		k.rows(fmt.Sprint("dst", s), dst)
	}
}

// lerp tests the weights 0 and 1, which must give x and dst themselves.
func lerp(k *kit) {
	for _, s := range sizes {
		for _, keep := range []float64{0, 0.1, 1} {
			dst := k.in(k.batch(s[0]), s[1])
			k.Lerp(dst, k.in(k.batch(s[0]), s[1]), keep)
			k.rows(fmt.Sprint("dst", s, keep), dst)
		}
	}
}

// chosen runs all kernels that work on the best of each episode's candidates.
func chosen(k *kit) {
	const count, width = 37, 53
	episodes := k.batch(6)
	cand, costs := k.in(episodes*count, width), k.in(episodes, count)
	for _, n := range []int{1, 9, count} {
		// The best one, some, and all candidates, in order of their costs.
		idx := k.AllocInts(episodes * n)
		k.SmallestK(idx, costs, n)
		// Low temperatures give all weight to the best, high ones nearly equal
		// weights.
		for _, temperature := range []float64{0.01, 0.5, 64} {
			weights, mean := k.out(episodes, n), k.out(episodes, width)
			k.Softmin(weights, costs, idx, temperature)
			k.WeightedMean(mean, cand, weights, idx)
			k.rows(fmt.Sprint("weights", n, temperature), weights)
			k.rows(fmt.Sprint("mean", n, temperature), mean)
		}
		// Gather may copy fewer than the chosen.
		for _, keep := range []int{1, (n + 1) / 2, n} {
			dst := k.out(episodes*keep, width)
			k.Gather(dst, cand, idx, n)
			k.rows(fmt.Sprint("gathered", n, keep), dst)
		}
	}
}

// infinite tests infinite costs and NaN, whose results are known.
func infinite(t *testing.T, k *kit) {
	inf, nan := math.Inf(1), math.NaN()
	// Weights of one episode whose candidates are all chosen.
	weights := func(temperature float64, costs ...float64) []float64 {
		n := len(costs)
		all := make([]int32, n)
		for i := range all {
			all[i] = int32(i)
		}
		w := k.out(1, n)
		k.Softmin(w, k.of(costs...), device.NewInts(k, all), temperature)
		return k.values(w)
	}
	expect(t, "weights of +Inf and a number", weights(0.5, inf, 2, inf), 0, 1, 0)
	expect(t, "weights of +Inf alone", weights(0.5, inf, inf), 0.5, 0.5)
	expect(t, "weights of -Inf", weights(0.5, 1, -inf, inf), 0, 1, 0)
	expect(t, "weights far apart", weights(0.5, 1e30, 1, 1), 0, 0.5, 0.5)

	// Clip limits infinities, and NaN stays NaN.
	x := k.of(nan, -2, inf, 0.5)
	k.Clip(x, k.of(-1, -1, -1, -1), k.of(1, 1, 1, 1))
	expect(t, "clipped", k.values(x), nan, -1, 1, 0.5)

	y := k.out(1, 3)
	k.Color(y, k.of(2, 2, 2), k.of(1, 0, 0)) // deviation 0: divided by 1e-8, float32 or not
	for i, v := range k.values(y) {
		if math.Abs(v/2e8-1) > 1e-6 {
			t.Errorf("a constant series: [%d] = %g, want 2e8", i, v)
		}
	}

	// -inf is the best cost of all, and is not counted.
	costs, counts := k.mat(3, 3, func(r, c int) float64 { return []float64{nan, 1, nan, 2, 3, 4, inf, -inf, 5}[3*r+c] }), k.zero(3, 1)
	k.NaNToInf(costs, counts)
	expect(t, "NaN and +Inf of each row", k.values(counts), 2, 0, 1)
	expect(t, "rows without NaN", k.values(costs), inf, 1, inf, 2, 3, 4, inf, -inf, 5)
	if !panics(func() { k.Gather(k.out(1, 2), k.zero(2, 2), device.NewInts(k, []int32{2}), 1); k.Sync() }) {
		t.Error("Gather took candidate 2 of 2")
	}
}

// panics reports whether f panics.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
