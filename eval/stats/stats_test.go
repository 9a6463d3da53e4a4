package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"scalewm/dataset/rng"
	. "scalewm/eval/stats"
)

// Expected numbers are those of docs/sources.md#statistics, unless a case states
// another source.
func TestSignFlipVectors(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []float64
		want float64
	}{
		{"push-t CEM per set", []float64{0, .6, 3.6, 7.0, 5.4, 3.6}, .0625},
		{"push-t iCEM per set", []float64{2.8, 3.4, 4.0, 7.4, 3.4, 4.8}, .03125},
		{"five of one sign", []float64{-1, -2, -3, -1, -9}, .0625},
		{"all zero", []float64{0, 0, 0}, 1},
		{"none", nil, 1},
		{"ten of one sign", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 2.0 / 1024},
	} {
		near(t, c.name, signFlipSums(c.d), c.want, 1e-15)
		tenths := make([]int, len(c.d))
		for i, v := range c.d {
			tenths[i] = int(math.Round(10 * v))
		}
		near(t, c.name+" in integers", SignFlipExact(tenths), c.want, 1e-15)
	}
}

// signFlipSums returns the exact p-value that SignFlip estimates, for up to about 40
// differences, by a meet-in-the-middle enumeration of sign vectors. Sums that agree to
// 1e-12 of the sum of magnitudes count as equal.
func signFlipSums(d []float64) float64 {
	var sum, weight float64
	for _, v := range d {
		sum += v
		weight += math.Abs(v)
	}
	least := math.Abs(sum) - 1e-12*weight
	if least <= 0 {
		return 1
	}
	left, right := signedSums(d[:len(d)/2]), signedSums(d[len(d)/2:])
	slices.Sort(left)
	slices.Sort(right)
	var hits float64
	j := len(right)
	for _, l := range left { // ascending, so that ever more of right suffice
		for j > 0 && l+right[j-1] >= least {
			j--
		}
		hits += float64(len(right) - j)
	}
	return 2 * hits * math.Pow(0.5, float64(len(d)))
}

// signedSums returns the sums of all sign vectors of d.
func signedSums(d []float64) []float64 {
	sums := []float64{0}
	for _, v := range d {
		n := len(sums)
		for _, s := range sums[:n] {
			sums = append(sums, s-v)
		}
		for i := range n {
			sums[i] += v
		}
	}
	return sums
}

// Both ways to count sign vectors must agree with a full enumeration.
func TestSignFlipAgainstEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		d := make([]int, 1+r.IntN(10))
		f := make([]float64, len(d))
		for i := range d {
			d[i] = r.IntN(9) - 4
			f[i] = float64(d[i]) / 10
		}
		hits := 0
		for mask := range 1 << len(d) {
			var s, sum int
			for i, v := range d {
				sum += v
				if mask>>i&1 == 1 {
					v = -v
				}
				s += v
			}
			if max(s, -s) >= max(sum, -sum) {
				hits++
			}
		}
		want := float64(hits) / float64(int(1)<<len(d))
		near(t, "exact", SignFlipExact(d), want, 1e-15)
		near(t, "sums", signFlipSums(f), want, 1e-15)
	}
}

func TestMcNemarVectors(t *testing.T) {
	for _, c := range []struct {
		b, c       int
		exact, mid float64
	}{
		{7, 1, .0703125, .0390625}, {8, 1, .0390625, .0214844}, {12, 8, .5034447, .3833103}, // mid-p: docs/sources.md#mcnemar
		{52, 34, .0661526, .0530031}, {0, 0, 1, 1}, {5, 5, 1, 1},
	} {
		exact, mid := McNemar(c.b, c.c)
		near(t, "exact", exact, c.exact, 5.1e-8)
		near(t, "mid-p", mid, c.mid, 5.1e-8)
		if e, m := McNemar(c.c, c.b); e != exact || m != mid {
			t.Errorf("McNemar(%d, %d) depends on the order of the arms", c.b, c.c)
		}
	}
	if exact, mid := McNemar(40000, 39000); !(exact > 3e-4 && exact < 5e-4 && mid < exact) { // normal law: z = 3.56
		t.Errorf("many pairs: exact %v, mid-p %v", exact, mid)
	}
}

func TestNewcombeVectors(t *testing.T) {
	for _, c := range []struct {
		both, a, b, none int
		lo, hi           float64
	}{
		{90, 7, 1, 2, .0002, .1299}, {95, 0, 0, 5, -.0385, .0385}, {100, 0, 0, 0, -.0370, .0370}, // +-3.7 points
	} {
		iv := Newcombe(Fourfold{float64(c.both), float64(c.a), float64(c.b), float64(c.none)}, 0.95)
		near(t, "lower", iv.Lo, c.lo, 5.1e-5)
		near(t, "upper", iv.Hi, c.hi, 5.1e-5)
		back := Newcombe(Fourfold{float64(c.both), float64(c.b), float64(c.a), float64(c.none)}, 0.95)
		near(t, "mirrored", back.Lo, -iv.Hi, 1e-15)
	}
}

// For one tier the sign-flip test by episode equals McNemar's test
// (docs/sources.md#mcnemar), up to Monte Carlo error: five standard errors here.
func TestSignFlipIsMcNemarForOneTier(t *testing.T) {
	for _, c := range [][2]int{{12, 8}, {52, 34}, {7, 1}, {0, 0}} {
		var d []float64
		for range c[0] {
			d = append(d, 1)
		}
		for range c[1] {
			d = append(d, -1)
		}
		want, _ := McNemar(c[0], c[1])
		got := SignFlip([][]float64{d, {0, 0, 0}}, rand.New(rand.NewPCG(3, 4)))
		near(t, "p", got, want, 5*math.Sqrt(want*(1-want)/SignFlips)+2.0/SignFlips)
	}
}

// For averages over tiers, the exact distribution of three magnitudes is compared with
// the draws.
func TestSignFlipOfAverages(t *testing.T) {
	d := []float64{.2, .2, .6, -.2, 1, .4, -.6, .8, .2, 0, .4, .4}
	want := signFlipSums(d)
	got := SignFlip([][]float64{d[:5], d[5:]}, rand.New(rand.NewPCG(5, 6)))
	near(t, "p", got, want, 5*math.Sqrt(want*(1-want)/SignFlips))
	if again := SignFlip([][]float64{d[:5], d[5:]}, rand.New(rand.NewPCG(5, 6))); again != got {
		t.Error("the same stream gives another p")
	}
}

func TestHeadsIsBinomial(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 63, 64, 65, 200} {
		var sum, square float64
		const draws = 20000
		for range draws {
			h := float64(Heads(n, r))
			sum += h / draws
			square += h * h / draws
		}
		near(t, "mean", sum, float64(n)/2, 5*math.Sqrt(float64(n)/4/draws))
		near(t, "variance", square-sum*sum, float64(n)/4, 5*math.Sqrt2*float64(n)/4/math.Sqrt(draws))
	}
}

// The percentile interval of a mean of n = 600 coin differences is close to the
// normal one; sets keep their sizes.
func TestBootstrap(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var bySet [][]float64
	var all []float64
	for range 6 {
		set := make([]float64, 100)
		for i := range set {
			set[i] = float64(r.IntN(3) - 1)
		}
		bySet = append(bySet, set)
		all = append(all, set...)
	}
	mean, sd := MeanSD(all)
	iv := Bootstrap(bySet, r).Interval(.95)
	half := 1.96 * sd / math.Sqrt(600)
	near(t, "lower", iv.Lo, mean-half, 0.15*half)
	near(t, "upper", iv.Hi, mean+half, 0.15*half)
	if same := Bootstrap([][]float64{{1, 1}, {1}}, r).Interval(.95); same != (Interval{1, 1}) {
		t.Errorf("without variance the interval is %v", same)
	}
	// Two sets without variance within: resampling within sets gives no variance.
	if within := Bootstrap([][]float64{{0, 0, 0}, {1, 1, 1}}, r).Interval(.95); within != (Interval{0.5, 0.5}) {
		t.Errorf("episodes moved between sets: %v", within)
	}
}

// A Resampler gives Bootstrap's bits: for sizes that it has met and for new ones, for more of
// them than it keeps, for too many episodes to keep, and to goroutines that ask at once.
func TestResampler(t *testing.T) {
	stream := func() *rand.Rand { return rand.New(rand.NewPCG(11, 12)) }
	r, values := NewResampler(stream), stream()
	differences := func(sizes ...int) (bySet [][]float64) {
		for _, n := range sizes {
			set := make([]float64, n)
			for i := range set {
				set[i] = float64(values.IntN(7)-3) / 3
			}
			bySet = append(bySet, set)
		}
		return bySet
	}
	cases := [][][]float64{differences(5, 3, 8), differences(5, 3, 8), differences(8, 3, 5), differences(1), differences(50, 0, 2), differences(3400)}
	for n := range 4 {
		cases = append(cases, differences(900+n)) // three fill what it keeps
	}
	cases = append(cases, differences(5, 3, 8))
	var all sync.WaitGroup
	for _, bySet := range cases {
		want := Bootstrap(bySet, stream())
		for range 2 {
			all.Go(func() {
				if got := r.Bootstrap(bySet); !slices.Equal(got, want) {
					t.Errorf("%d sets of %d and more: the means differ from Bootstrap's", len(bySet), len(bySet[0]))
				}
			})
		}
	}
	all.Wait()
}

// Ratio of Bootstrap's time to that of a Resampler that knows the sizes.
func BenchmarkResampler(b *testing.B) {
	stream := func() *rand.Rand { return rng.Stream("benchmark") }
	bySet := make([][]float64, 6)
	for s := range bySet {
		for e := range 50 {
			bySet[s] = append(bySet[s], float64((s+e)%3-1))
		}
	}
	r := NewResampler(stream)
	r.Bootstrap(bySet)
	var plain, kept time.Duration
	for b.Loop() {
		start := time.Now()
		Bootstrap(bySet, stream())
		plain += time.Since(start)
		start = time.Now()
		r.Bootstrap(bySet)
		kept += time.Since(start)
	}
	b.ReportMetric(float64(plain)/float64(kept), "times-as-fast")
}

// SciPy and the paper: six sets of one sign give 2/64 (docs/sources.md#significance).
func TestWilcoxonPublished(t *testing.T) {
	lewm := []float64{62.5, 68.8, 64.5, 62.2, 68.1, 64.7}
	scale := []float64{66.0, 72.0, 67.5, 68.5, 72.2, 69.2}
	d := make([]float64, 6)
	for i := range d {
		d[i] = scale[i] - lewm[i]
	}
	near(t, "p", SignedRankExact(d), 0.03125, 1e-15)
}

// By hand: of the six pairs of (1, 2, 3, 3) and (1, 3, 2, 4), four agree, one
// does not and one is tied in x: 3 / sqrt(5 * 6). What has no order has no tau.
func TestKendallByHand(t *testing.T) {
	near(t, "tau-b", KendallB([]float64{1, 2, 3, 3}, []float64{1, 3, 2, 4}), 3/math.Sqrt(30), 1e-15)
	for _, x := range [][]float64{{1}, {2, 2, 2}} {
		if r := KendallB(x, x); !math.IsNaN(r) {
			t.Errorf("%v has tau %v", x, r)
		}
	}
}

func TestMultiplicityKeepsOrderAndBounds(t *testing.T) {
	p := []float64{0.9, 0.001, 0.5, 0.02}
	holm, bh := Holm(p), BenjaminiHochberg(p)
	nearAll(t, "holm", holm, []float64{1, 0.004, 1, 0.06}, 1e-15) // by hand: 4p, 3p, 2p, p with running maximum
	nearAll(t, "bh", bh, []float64{0.9, 0.004, 2.0 / 3, 0.04}, 1e-15)
	if len(Holm(nil)) != 0 || len(BenjaminiHochberg(nil)) != 0 {
		t.Error("an empty family has p-values")
	}
}

func TestMeanSD(t *testing.T) {
	mean, sd := MeanSD([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	near(t, "mean", mean, 5, 0)
	near(t, "sd", sd, math.Sqrt(32.0/7), 1e-15)
	if m, s := MeanSD(nil); !math.IsNaN(m) || !math.IsNaN(s) {
		t.Errorf("no data: %v ± %v", m, s)
	}
	if _, s := MeanSD([]float64{3}); !math.IsNaN(s) {
		t.Errorf("one value has a spread %v", s)
	}
}

func TestRankMetricsExtremes(t *testing.T) {
	actual := []float64{3, 1, 2, 4, 5}
	best := RankMetrics(actual, actual, 2)
	if best.Regret != 0 || best.Overlap != 1 || best.ValueRegret != 0 || best.Tau != 1 {
		t.Errorf("a perfect ranking scores %+v", best)
	}
	reversed := RankMetrics([]float64{-3, -1, -2, -4, -5}, actual, 2)
	if reversed.Regret != 1 || reversed.Overlap != 0 || reversed.Tau != -1 || reversed.EliteRegret != 0.875 || reversed.ValueRegret != 2 {
		t.Errorf("a reversed ranking scores %+v", reversed)
	}
}

func BenchmarkSignFlip600Episodes(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	d := make([]float64, 600)
	for i := range d {
		d[i] = float64(r.IntN(5)-2) / 5
	}
	for b.Loop() {
		SignFlip([][]float64{d}, r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/SignFlips/600, "ns/flip")
}
