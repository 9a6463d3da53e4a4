package stats_test

import (
	"math"
	"math/rand/v2"
	"os"
	. "scalewm/eval/stats"
	"strconv"
	"testing"
)

// repetitions returns the number of repetitions of a simulation: few in a test, 20,000
// in `make campaign-stats`.
func repetitions(t *testing.T) int {
	if v := os.Getenv("SCALEWM_REPETITIONS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 600
}

// pairedSets draws six sets of 100 paired outcomes. B succeeds with probability p, the
// arms differ with probability q, and A is better by diff.
func pairedSets(p, q, diff float64, r *rand.Rand) (bySet [][]float64, f Fourfold) {
	onlyA, onlyB := (q+diff)/2, (q-diff)/2
	both := p - onlyB
	for range 6 {
		var d []float64
		for range 100 {
			switch u := r.Float64(); {
			case u < onlyA:
				d = append(d, 1)
				f.OnlyA++
			case u < onlyA+onlyB:
				d = append(d, -1)
				f.OnlyB++
			case u < onlyA+onlyB+both:
				d = append(d, 0)
				f.Both++
			default:
				d = append(d, 0)
				f.Neither++
			}
		}
		bySet = append(bySet, d)
	}
	return bySet, f
}

func setSums(bySet [][]float64) (sums []int) {
	for _, set := range bySet {
		s := 0.0
		for _, d := range set {
			s += d
		}
		sums = append(sums, int(s))
	}
	return sums
}

// TestSizeUnderTheNull checks that two arms without a difference are distinguished at 5 % in
// at most 5 % of the evaluations (issue: 5.5 % in 20,000 repetitions; with
// fewer three standard errors are allowed for).
func TestSizeUnderTheNull(t *testing.T) {
	n := repetitions(t)
	slack := max(0.005, 3*math.Sqrt(.05*.95/float64(n)))
	for _, c := range []struct{ p, q float64 }{{.8, .2}, {.95, .08}, {.5, .3}} {
		r := rand.New(rand.NewPCG(11, uint64(100*c.p)))
		rejected := map[string]int{}
		for range n {
			bySet, f := pairedSets(c.p, c.q, 0, r)
			exact, mid := McNemar(int(f.OnlyA), int(f.OnlyB))
			flip := heldFlip(bySet, 999, r)
			iv := Newcombe(f, 0.95)
			for name, hit := range map[string]bool{"McNemar": exact <= .05, "mid-p": mid <= .05, "sets": SignFlipExact(setSums(bySet)) <= .05,
				"episodes": flip <= .05, "Newcombe excludes 0": iv.Lo > 0 || iv.Hi < 0} {
				if hit {
					rejected[name]++
				}
			}
		}
		for name, k := range rejected {
			share := float64(k) / float64(n)
			t.Logf("p %.2f, q %.2f: %s rejects in %.4f", c.p, c.q, name, share)
			if share > .05+slack {
				t.Errorf("p %.2f, q %.2f: %s rejects a true null in %.4f of %d evaluations", c.p, c.q, name, share, n)
			}
		}
		if rejected["episodes"] == 0 {
			t.Errorf("p %.2f: the episodes' sign flip never rejects", c.p)
		}
	}
}

// heldFlip is the sign-flip test by episode with few draws, as a family of one
// hypothesis.
func heldFlip(bySet [][]float64, draws int, r *rand.Rand) float64 {
	var h Hypothesis
	for _, set := range bySet {
		for _, d := range set {
			h.Units, h.Diff = append(h.Units, len(h.Units)), append(h.Diff, int(d))
		}
	}
	return StepDown([]Hypothesis{h}, draws, r)[0]
}

// TestCoverage: 95 % intervals of the difference hold it in 94 to 97 % of the
// evaluations at p = .8, q = .2 (issue); where nearly all succeed they may be wider.
func TestCoverage(t *testing.T) {
	n := repetitions(t)
	for _, c := range []struct{ p, q, diff, most float64 }{
		{.8, .2, .04, .97}, {.8, .2, 0, .97}, {.95, .06, .02, 1}, {.998, .003, .001, 1},
	} {
		r := rand.New(rand.NewPCG(13, uint64(1000*c.p)))
		newcombe, boot := 0, 0
		boots := min(n/3, 2000) // the slow one
		for i := range n {
			bySet, f := pairedSets(c.p, c.q, c.diff, r)
			if iv := Newcombe(f, .95); iv.Lo <= c.diff && c.diff <= iv.Hi {
				newcombe++
			}
			if i < boots {
				if iv := InnerBootstrap(bySet, 400, r).Interval(.95); iv.Lo <= c.diff && c.diff <= iv.Hi {
					boot++
				}
			}
		}
		a, b := float64(newcombe)/float64(n), float64(boot)/float64(boots)
		t.Logf("p %.3f, q %.3f, difference %.3f: Newcombe covers %.4f of %d, InnerBootstrap %.4f of %d", c.p, c.q, c.diff, a, n, b, boots)
		if slack := 3 * math.Sqrt(.05*.95/float64(n)); a < .94-slack || a > c.most+slack {
			t.Errorf("Newcombe's interval covers %.4f at p = %.3f", a, c.p)
		}
		if slack := 3 * math.Sqrt(.05*.95/float64(boots)); c.p == .8 && (b < .94-slack || b > .97+slack) {
			t.Errorf("the InnerBootstrap's interval covers %.4f at p = %.3f", b, c.p)
		}
	}
}

// TestPower compares the power of the tests with docs/sources.md#power. A difference of
// +4 points at q = .20 with six sets of 100 episodes is detected by the sign flip over
// sets in 24 % of the cases, and by McNemar's test in 56 %.
func TestPower(t *testing.T) {
	n := repetitions(t)
	r := rand.New(rand.NewPCG(17, 18))
	sets, episodes := 0, 0
	for range n {
		bySet, f := pairedSets(.8, .2, .04, r)
		if SignFlipExact(setSums(bySet)) <= .05 {
			sets++
		}
		if p, _ := McNemar(int(f.OnlyA), int(f.OnlyB)); p <= .05 {
			episodes++
		}
	}
	slack := 3*math.Sqrt(.25/float64(n)) + 3*math.Sqrt(.25/600) // theirs are of 600 repetitions
	near(t, "power over sets", float64(sets)/float64(n), .24, slack)
	near(t, "power of McNemar", float64(episodes)/float64(n), .56, slack)
}

// TestFewDifferences checks the coverage of Newcombe's interval of outcomes that are averaged
// over five tiers, where about three of 60 episodes differ: at least 95 %. An episode succeeds
// at a tier with probability .6 or .95, and the other arm differs with probability .01, so the
// true difference is .01 (2 .775 - 1).
func TestFewDifferences(t *testing.T) {
	const episodes, tiers, flips = 60, 5, .01
	truth := flips * (2*.775 - 1)
	n, covered, few := repetitions(t), 0, 0
	r := rand.New(rand.NewPCG(5, 6))
	for range n {
		var f Fourfold
		differing := 0
		for range episodes {
			p, differs := []float64{.6, .95}[r.IntN(2)], false
			for range tiers {
				a := r.Float64() < p
				b := a != (r.Float64() < flips)
				differs = differs || a != b
				switch {
				case a && b:
					f.Both += 1. / tiers
				case a:
					f.OnlyA += 1. / tiers
				case b:
					f.OnlyB += 1. / tiers
				default:
					f.Neither += 1. / tiers
				}
			}
			if differs {
				differing++
			}
		}
		if differing < 10 {
			few++
		}
		if iv := Newcombe(f, .95); iv.Lo <= truth && truth <= iv.Hi {
			covered++
		}
	}
	share := float64(covered) / float64(n)
	t.Logf("covers in %.4f of %d, fewer than ten differ in %d", share, n, few)
	if share < .95-3*math.Sqrt(.95*.05/float64(n)) || few < n*9/10 {
		t.Errorf("covers in %.4f of %d evaluations, fewer than ten differ in %d", share, n, few)
	}
}
