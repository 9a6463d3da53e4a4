package stats

// Verdict is what an interval says of a difference A - B beside a margin that
// was fixed in advance (docs/sources.md#equivalence).
type Verdict string

const (
	Equivalent  Verdict = "equivalent"  // the difference lies within the margin, either way
	NonInferior Verdict = "noninferior" // A is at most the margin below B
	Inferior    Verdict = "inferior"    // A is more than the margin below B
	Undecided   Verdict = "undecided"
)

// EquivalenceLevel is the level of the interval whose place within the margins
// is two one-sided tests at 5 % (TOST).
const EquivalenceLevel = 0.90

// Margin is how far apart, in points, two success rates may be and still count
// as equivalent (docs/sources.md#equivalence); it was fixed before any evaluation.
const Margin = 5

// Judge places an interval of level EquivalenceLevel against a margin > 0 in
// the interval's unit.
func (iv Interval) Judge(margin float64) Verdict {
	switch {
	case iv.Lo > -margin && iv.Hi < margin:
		return Equivalent
	case iv.Lo > -margin:
		return NonInferior
	case iv.Hi < -margin:
		return Inferior
	}
	return Undecided
}
