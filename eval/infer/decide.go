package infer

import (
	"math"

	"scalewm/eval/stats"
)

// Range is what a claim allows a number to be, without its ends.
type Range struct{ Lo, Hi float64 }

// Verdict is what numbers say of a claim.
type Verdict string

// Verdicts of a claim.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "fails"
	Undecided Verdict = "undecided"
)

// Need says which of its numbers a claim is about.
type Need string

// Needs of a claim.
const (
	All    Need = ""        // all of them
	Most   Need = "most"    // more than half
	NotAll Need = "not all" // at least one is otherwise
)

// Stand is how an estimate stands to what is claimed of it, one of several numbers:
// Holds where its 95 % interval lies in the range, Fails where it lies outside
// even when it is widened to cover all the numbers at once (Bonferroni, by the normal law).
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

// Decide is the verdict on a claim from how its numbers stand, those that are missing
// being Undecided. All holds only where each number does, which needs no correction for
// their number: a claim that is false of one of them passes with that one's 2.5 %.
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

// MeanOf is the mean of independent units, such as training seeds or starts, with
// Student's interval; the interval is NaN of fewer than two.
func MeanOf(x []float64) Estimate {
	mean, _ := stats.MeanSD(x)
	iv := stats.StudentMean(x, 0.95)
	return Estimate{mean, iv.Lo, iv.Hi}
}

// Minus is the difference of two estimates as if they were independent (square-and-add,
// docs/sources.md#newcombe), which is too wide where they have the frames or episodes in common.
func (e Estimate) Minus(o Estimate) Estimate {
	d := e.Value - o.Value
	return Estimate{d, d - math.Hypot(e.Value-e.Lo, o.Hi-o.Value), d + math.Hypot(e.Hi-e.Value, o.Value-o.Lo)}
}
