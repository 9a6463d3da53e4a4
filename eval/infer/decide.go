package infer

import (
	"math"

	"scalewm/eval/stats"
)

// Range is the open interval of values that a claim allows for a number.
type Range struct{ Lo, Hi float64 }

// Verdict is the result of testing a claim.
type Verdict string

// Verdicts of a claim.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "fails"
	Undecided Verdict = "undecided"
)

// Need says how many of its numbers must be in range for a claim to hold.
type Need string

// Needs of a claim.
const (
	All    Need = ""        // all of them
	Most   Need = "most"    // more than half of them
	NotAll Need = "not all" // at least one is out of range
)

// Stand tests one of several numbers against its range. It Holds if its 95 % interval is within
// the range. It Fails if the interval is outside even after it was widened to cover all among
// numbers at once (Bonferroni, normal approximation): a claim about many numbers should not fail
// because one of them is out of range by chance. Without an interval it is Undecided.
func (e Estimate) Stand(r Range, among int) Verdict {
	if !(e.Lo <= e.Hi) {
		return Undecided // without an interval
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

// Decide returns the verdict on a claim from those on its numbers. A missing number is Undecided.
// All holds only if every number does. That needs no correction for several tests: a claim that
// is false for one number passes with at most the 2.5 % of that number.
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

// MeanOf returns the mean of independent units, such as training seeds or starts, with Student's
// interval, which is NaN for fewer than two.
func MeanOf(x []float64) Estimate {
	mean, _ := stats.MeanSD(x)
	iv := stats.StudentMean(x, 0.95)
	return Estimate{mean, iv.Lo, iv.Hi}
}

// Minus returns the difference of two estimates, treated as independent (square-and-add,
// docs/sources.md#newcombe). The interval is too wide if they share frames or episodes.
func (e Estimate) Minus(o Estimate) Estimate {
	d := e.Value - o.Value
	return Estimate{d, d - math.Hypot(e.Value-e.Lo, o.Hi-o.Value), d + math.Hypot(e.Hi-e.Value, o.Value-o.Lo)}
}
