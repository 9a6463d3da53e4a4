package infer

import (
	"math"

	"scalewm/eval/stats"
)

// Range is the open interval in which a claim expects a number.
type Range struct{ Lo, Hi float64 }

// Verdict is the outcome of comparing numbers with a claim.
type Verdict string

// Verdicts of a claim. Undecided means that the data are not precise enough, or missing.
//
// HoldsHere is Holds for the episodes of one training seed. A claim about methods needs
// several seeds.
const (
	Holds     Verdict = "holds"
	HoldsHere Verdict = "holds here, one training seed"
	Fails     Verdict = "fails"
	Undecided Verdict = "undecided"
)

// Need is the number of its numbers that must be in the range for a claim to hold.
type Need string

// Needs of a claim.
const (
	All    Need = ""        // all numbers are in the range
	Most   Need = "most"    // more than half are
	NotAll Need = "not all" // at least one is not
)

// Stand compares an estimate with the range that a claim states for it, as one of among
// numbers of that claim. The result is Holds if the 95 % interval is inside the range. It
// is Fails if the interval is outside the range even after it is widened so that it covers
// all numbers at once (Bonferroni, normal distribution). Without an interval, or with one
// that is a point, it is Undecided.
//
// Only refutations are corrected for the number of intervals, because one of them refutes
// a claim about all numbers; see Decide.
func (e Estimate) Stand(r Range, among int) Verdict {
	if !(e.Hi-e.Lo >= point) { // or NaN
		return Undecided
	}
	wide := stats.Together(among)
	lo, hi := e.Value-wide*(e.Value-e.Lo), e.Value+wide*(e.Hi-e.Value)
	switch {
	case e.Lo > r.Lo && e.Hi < r.Hi:
		return Holds
	case lo >= r.Hi || hi <= r.Lo:
		return Fails
	}
	return Undecided
}

// Decide returns the verdict on a claim, given those on its numbers. Missing numbers
// count as Undecided.
//
// All holds only if every number does. That needs no correction for the number of
// intervals (an intersection-union test): if the claim is false for one number, it
// passes with the 2.5 % of that number's interval at most.
func (n Need) Decide(stands []Verdict) Verdict {
	count := map[Verdict]int{}
	for _, s := range stands {
		count[s]++
	}
	all := len(stands)
	switch n {
	case Most:
		switch {
		case 2*count[Holds] > all:
			return Holds
		case 2*count[Fails] >= all && all > 0:
			return Fails
		}
		return Undecided
	case NotAll:
		switch {
		case count[Fails] > 0:
			return Holds
		case count[Holds] == all && all > 0:
			return Fails
		}
		return Undecided
	}
	switch {
	case count[Fails] > 0:
		return Fails
	case count[Holds] == all && all > 0:
		return Holds
	}
	return Undecided
}

// point is the largest width of an interval that rounding explains.
const point = 1e-9

// MeanOf returns the mean of independent units, such as training seeds or starts, with
// Student's 95 % interval. The interval is NaN if there are fewer than two, or if all are
// equal, which says nothing about their spread.
func MeanOf(x []float64) Estimate {
	mean, _ := stats.MeanSD(x)
	iv := stats.StudentMean(x, 0.95)
	return estimate(mean, iv)
}

// estimate returns a value with its interval, or without one if the interval is a point.
func estimate(value float64, iv stats.Interval) Estimate {
	if iv.Hi-iv.Lo < point {
		return pointEstimate(value)
	}
	return Estimate{value, iv.Lo, iv.Hi}
}

// Minus returns the difference of two estimates as if they were independent. It
// combines the distances of the limits in squares (docs/sources.md#newcombe). If both
// share frames or episodes, the interval is too wide.
func (e Estimate) Minus(o Estimate) Estimate {
	d := e.Value - o.Value
	return Estimate{d, d - math.Hypot(e.Value-e.Lo, o.Hi-o.Value), d + math.Hypot(e.Hi-e.Value, o.Value-o.Lo)}
}
