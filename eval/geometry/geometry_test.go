package geometry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/dataset/rng/torch"
	"scalewm/model/objective"
)

// reference is a case of testdata/reference.json, which testdata/fixture.py computed
// with SciPy, scikit-learn and PyTorch. null means NaN.
type reference struct {
	Name          string
	Z, Q          [][]float64
	Order         []int
	Spearman      float64
	Pearson       float64
	Eigenvalues   []float64
	Participation float64 `json:"participation_ratio"`
	EffectiveRank float64 `json:"effective_rank"`
	Ridge         map[string][]*float64
	RidgeLast     map[string][]*float64 `json:"ridge_last"`
	MLP           []*float64
}

func references(t testing.TB) []reference {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, b)
}

func decoded(t testing.TB, b []byte) (out []reference) {
	t.Helper()
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func samples[T float32 | float64](rows [][]float64) Samples[T] {
	s := Samples[T]{N: len(rows), D: len(rows[0])}
	for _, row := range rows {
		for _, v := range row {
			s.X = append(s.X, T(v))
		}
	}
	return s
}

// distances returns the squared distances of samples that are not wide.
func distances[T float32 | float64](s Samples[T]) []float64 { return SquaredDistances(s, Components{}) }

// near compares numbers with a relative tolerance, which is absolute below 1.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > tol*max(1, math.Abs(want)) {
		t.Errorf("%s: %.15g, want %.15g", what, got, want)
	}
}

func nearAll(t *testing.T, what string, got []float64, want []*float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if w == nil {
			w = new(float64)
			*w = math.NaN()
		}
		near(t, fmt.Sprintf("%s [%d]", what, i), got[i], *w, tol)
	}
}

func TestReference(t *testing.T) { compareWith(t, references(t)) }

// The same comparison with the installed SciPy, scikit-learn and PyTorch, on the same
// numbers.
func TestPeersReference(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with SciPy, scikit-learn and PyTorch")
	}
	b, err := exec.Command(python, "testdata/fixture.py").Output()
	if err != nil {
		t.Fatalf("running the fixture's script: %v", err)
	}
	fresh := decoded(t, b)
	for i, c := range references(t) {
		if !reflect.DeepEqual(c.Z, fresh[i].Z) || !reflect.DeepEqual(c.Q, fresh[i].Q) || !slices.Equal(c.Order, fresh[i].Order) {
			t.Errorf("%s: the script makes other inputs than testdata/reference.json has", c.Name)
		}
	}
	compareWith(t, fresh)
}

func compareWith(t *testing.T, cases []reference) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			z, q := samples[float32](c.Z), samples[float64](c.Q)
			a := Compare(distances(z), q, make([]int, z.N)).Align(0, nil)
			near(t, "spearman", a.Spearman, c.Spearman, 1e-10)
			near(t, "pearson", a.Pearson, c.Pearson, 1e-10)
			p, err := Analyse(z)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Eigenvalues) != len(c.Eigenvalues) {
				t.Fatalf("%d components, want %d", len(p.Eigenvalues), len(c.Eigenvalues))
			}
			for i, v := range p.Eigenvalues {
				if math.Abs(v-c.Eigenvalues[i]) > 1e-9*c.Eigenvalues[0] {
					t.Errorf("eigenvalue %d: %v, want %v", i, v, c.Eigenvalues[i])
				}
			}
			near(t, "participation ratio", p.ParticipationRatio(), c.Participation, 1e-9)
			near(t, "effective rank", objective.EffectiveRank(p.Eigenvalues), c.EffectiveRank, 1e-9)
			for text, want := range c.Ridge {
				k, _ := strconv.Atoi(text)
				got, err := p.Linear(q, c.Order, k)
				if err != nil {
					t.Fatal(err)
				}
				nearAll(t, "ridge of the first "+text, got, want, 1e-8)
				if got, err = p.LinearOfLast(q, c.Order, k); err != nil {
					t.Fatal(err)
				}
				nearAll(t, "ridge of the last "+text, got, c.RidgeLast[text], 1e-8)
			}
			layers := DefaultLayers(len(p.Eigenvalues), q.D, torch.New(0).Uniform)
			got, err := p.MLP(q, c.Order, layers)
			if err != nil {
				t.Fatal(err)
			}
			nearAll(t, "probe with a hidden layer", got, c.MLP, 1e-5)
		})
	}
}

// The mean squared distance of pairs equals twice the sum of the eigenvalues
// (docs/sources.md#latent-analyses).
func TestLeverage(t *testing.T) {
	for _, c := range references(t) {
		p, err := Analyse(samples[float32](c.Z))
		if err != nil {
			t.Fatal(err)
		}
		var mean, sum float64
		d := distances(samples[float32](c.Z))
		for _, v := range d {
			mean += v / float64(len(d))
		}
		for _, v := range p.Eigenvalues {
			sum += v
		}
		near(t, c.Name, mean, 2*sum, 1e-9)
	}
}

// Two latents that vary independently by 1 and 3, of which only the first is the task
// state: it carries 1/10 of the squared distance, and its component reads it alone. The
// state itself carries all of a latent that holds nothing else.
func TestReadout(t *testing.T) {
	z, q := Samples[float64]{N: 8, D: 2}, Samples[float64]{N: 8, D: 1}
	order := []int{0, 1, 2, 3, 4, 5, 6, 7} // both halves have every combination
	for i := range z.N {
		a, b := float64(1-i&2), float64(1-i&1*2)
		z.X, q.X = append(z.X, a, 3*b), append(q.X, a)
	}
	p, err := Analyse(z)
	if err != nil {
		t.Fatal(err)
	}
	// Sums of squares 72 and 8 over N-1 = 7.
	nearAll(t, "leverage", p.Leverage(), []*float64{new(2 * 72.0 / 7), new(2 * 8.0 / 7)}, 1e-12)
	share, err := p.Readout(q, order)
	near(t, "share of the readout", share, 0.1, 1e-12)
	due, err2 := p.Explained(q)
	if near(t, "share due to the state", due, 0.1, 1e-12); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for k, want := range []float64{0, 1} {
		r2, err2 := p.LinearOfOne(q, order, k)
		if near(t, fmt.Sprint("R2 of component ", k), r2[0], want, 1e-4); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	only, err := Analyse(q)
	if err != nil {
		t.Fatal(err)
	}
	share, err = only.Readout(q, order)
	if near(t, "share of the only direction", share, 1, 1e-12); err != nil {
		t.Fatal(err)
	}
	// Half of what another state says about it: q plus an independent b of equal variance.
	// A component that does not vary says nothing.
	other := Samples[float64]{N: 8, D: 2}
	for i := range z.N {
		other.X = append(other.X, q.X[i]+z.Row(i)[1]/3, 7)
	}
	due, err = only.Explained(other)
	if near(t, "share due to a noisy state", due, 0.5, 1e-12); err != nil {
		t.Fatal(err)
	}
	if due, err = only.Explained(Samples[float64]{N: 8, D: 1, X: make([]float64, 8)}); due != 0 || err != nil {
		t.Errorf("a constant state explains %v, %v", due, err)
	}
}

// Five samples on a line in both spaces, each of another episode. Percentiles are
// compared with counts of shorter distances.
func TestContrasts(t *testing.T) {
	z, q := Samples[float64]{N: 5, D: 1, X: []float64{0, 1, 2, 10, 11}}, Samples[float64]{N: 5, D: 1, X: []float64{0, 9, 1, 2, 20}}
	near, far := Compare(distances(z), q, []int{0, 1, 2, 3, 4}).Contrasts(2)
	percentile := func(x []float64, a, b int) float64 {
		below, equal := 0.0, -1.0
		for i := range x {
			for j := range x[:i] {
				switch d, own := math.Abs(x[i]-x[j]), math.Abs(x[a]-x[b]); {
				case d < own:
					below++
				case d == own:
					equal++
				}
			}
		}
		return 100 * (below + equal/2) / 9
	}
	for _, c := range append(near, far...) {
		a, b := c.Samples[0], c.Samples[1]
		if math.Abs(c.Z-percentile(z.X, a, b)) > 1e-4 || math.Abs(c.Q-percentile(q.X, a, b)) > 1e-4 {
			t.Errorf("pair %v has percentiles %v and %v, want %v and %v", c.Samples, c.Z, c.Q, percentile(z.X, a, b), percentile(q.X, a, b))
		}
	}
	// 3 and 4 differ by 1 and 18, 0 and 1 by 1 and 9; 0 and 3 by 10 and 2, 2 and 4 by 9 and 19.
	if len(near) != 2 || near[0].Samples != [2]int{3, 4} || near[1].Samples != [2]int{0, 1} || len(far) == 0 || far[0].Samples != [2]int{0, 3} {
		t.Errorf("near %v, far %v", near, far)
	}
}

// The distances of wide samples, which come from dot products, are compared with
// plain sums.
func TestWideDistances(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := Samples[float32]{N: rows + 5, D: wideSamples + 13}
	for range s.N * s.D {
		s.X = append(s.X, float32(r.NormFloat64()))
	}
	p, err := Analyse(s)
	if err != nil || p.products == nil {
		t.Fatal(p.products, err)
	}
	for k, want := range distances(s) {
		near(t, fmt.Sprint("pair ", k), SquaredDistances(s, p)[k], want, 1e-11)
	}
}

// z = q gives a rank correlation of 1. A direction of q that is among the smallest
// ones of z can still be predicted, although distances do not show it.
func TestKnownGeometry(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := 400
	q, hidden := Samples[float64]{N: n, D: 2}, Samples[float32]{N: n, D: 8}
	order := r.Perm(n)
	for range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		q.X = append(q.X, a, b)
		for range 6 {
			hidden.X = append(hidden.X, float32(1000*r.NormFloat64()))
		}
		hidden.X = append(hidden.X, float32(a), float32(b))
	}
	same := Compare(distances(Standardised(q)), q, order).Align(0, nil)
	near(t, "z = q", same.Spearman, 1, 1e-12)
	if rho := Compare(distances(hidden), q, order).Align(0, nil).Spearman; math.Abs(rho) > 0.05 {
		t.Errorf("distances of a hidden q correlate: %v", rho)
	}
	p, err := Analyse(hidden)
	if err != nil {
		t.Fatal(err)
	}
	r2, err := p.Linear(q, order, 8)
	if err != nil || slices.Min(r2) < 0.999 {
		t.Errorf("a hidden q is read with R2 %v, %v, want 1", r2, err)
	}
	if r2, _ = p.Linear(q, order, 6); slices.Max(r2) > 0.05 {
		t.Errorf("the large components read q with R2 %v, want 0", r2)
	}
}

// Known results for samples on a line, wide and narrow.
func TestComponentsDegenerate(t *testing.T) {
	for _, dims := range []int{2, 9} {
		z := make([][]float64, 5)
		for i := range z {
			z[i] = make([]float64, dims)
			z[i][1] = float64(i)
		}
		p, err := Analyse(samples[float64](z))
		if err != nil || len(p.Eigenvalues) != 1 {
			t.Fatalf("%d dims: %v, %v", dims, p.Eigenvalues, err)
		}
		near(t, "variance of 0..4", p.Eigenvalues[0], 2.5, 1e-12)
		near(t, "participation", p.ParticipationRatio(), 1, 1e-12)
		near(t, "length of a score", math.Abs(p.scores.At(0, 0)), 2, 1e-12)
	}
}

func TestConstant(t *testing.T) {
	if _, err := Analyse(Samples[float32]{N: 3, D: 2, X: []float32{1, 2, 1, 2, 1, 2}}); !errors.Is(err, ErrConstant) {
		t.Errorf("error %v, want ErrConstant", err)
	}
}

// The correlation of a bootstrap sample equals that of the data in which each episode
// is repeated as often as it was drawn, over all pairs of frames except those of two
// copies of one episode.
func TestResampledSpearman(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	n := 24
	z, q := Samples[float32]{N: n, D: 3}, Samples[float64]{N: n, D: 1}
	episode := make([]int, n)
	for i := range n {
		episode[i] = i / 4
		for range z.D {
			z.X = append(z.X, float32(r.IntN(3))) // with ties
		}
		q.X = append(q.X, float64(r.IntN(4)))
	}
	d := Compare(distances(z), q, episode)
	before, tables := make([]int, n/4), d.resamplers(1)[0]
	for trial := range 20 {
		counts := make([]int, n/4)
		for range counts {
			counts[r.IntN(len(counts))]++
		}
		var copies [][2]int // frame, and number of the copy of its episode
		for i := range n {
			for c := range counts[episode[i]] {
				copies = append(copies, [2]int{i, c})
			}
		}
		var dz, dq []float64
		std := Standardised(q)
		for a, x := range copies {
			for _, y := range copies[a+1:] {
				if i, j := x[0], y[0]; episode[i] != episode[j] || i != j && x[1] == y[1] {
					dz = append(dz, squared(z.Row(min(i, j)), z.Row(max(i, j))))
					dq = append(dq, squared(std.Row(min(i, j)), std.Row(max(i, j))))
				}
			}
		}
		want := spearman(dz, dq)
		near(t, fmt.Sprint("draw ", trial), d.spearman(counts), want, 1e-12)
		two := tables.spearman([2][]int{counts, before})
		near(t, fmt.Sprint("draw in buckets ", trial), two[0], want, 1e-6)
		near(t, fmt.Sprint("the draw beside it ", trial), two[1], d.spearman(before), 1e-6)
		before = counts
	}
}

func squared[T float32 | float64](a, b []T) (s float64) {
	for k := range a {
		s += (float64(a[k]) - float64(b[k])) * (float64(a[k]) - float64(b[k]))
	}
	return s
}

// spearman computes the rank correlation by its definition.
func spearman(x, y []float64) float64 {
	rank := func(x []float64) []float64 {
		out := make([]float64, len(x))
		for i, a := range x {
			for _, b := range x {
				if b < a {
					out[i]++
				} else if b == a {
					out[i] += 0.5
				}
			}
		}
		return out
	}
	rx, ry := rank(x), rank(y)
	var mx, my, xx, xy, yy float64
	for i := range rx {
		mx, my = mx+rx[i]/float64(len(rx)), my+ry[i]/float64(len(rx))
	}
	for i := range rx {
		xx, xy, yy = xx+(rx[i]-mx)*(rx[i]-mx), xy+(rx[i]-mx)*(ry[i]-my), yy+(ry[i]-my)*(ry[i]-my)
	}
	return xy / math.Sqrt(xx*yy)
}

// Distances that differ only in their last bits, or not at all, are sorted correctly.
func TestAscending(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	x := make([]float64, 3000)
	for i := range x {
		switch i % 3 {
		case 0:
			x[i] = r.ExpFloat64()
		case 1:
			x[i] = 1 + float64(r.IntN(50))*0x1p-52
		default:
			x[i] = float64(r.IntN(4))
		}
	}
	want := make([]int32, len(x))
	for i := range want {
		want[i] = int32(i)
	}
	slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(x[a], x[b]) })
	if got := sortPairs(x); !slices.Equal(got.pairs, want) {
		t.Errorf("%v, want %v", got.pairs, want)
	}
}

// Buckets change a correlation of the published size by less than 1e-6, which is far
// below the standard error of a bootstrap with a thousand draws.
func TestBuckets(t *testing.T) {
	z, q, episode := bigSample()
	for i := range z.N { // correlated, but not perfectly
		z.Row(i)[0], z.Row(i)[1] = 20*float32(q.Row(i)[0]), 20*float32(q.Row(i)[1])
	}
	d := Compare(distances(z), q, episode)
	r := rand.New(rand.NewPCG(9, 10))
	counts := make([]int, d.episodes)
	for range counts {
		counts[r.IntN(len(counts))]++
	}
	exact, near := d.spearman(counts), d.resamplers(1)[0].spearman([2][]int{counts, counts})[1]
	if math.Abs(exact-near) > 1e-6 || exact < 0.1 {
		t.Errorf("%.12f in buckets, %.12f exactly", near, exact)
	}
}

// The interval covers the correlation of the population about as often as it says, and
// its middle is near the estimate. The population has 20 episodes of 10 frames, which
// differ little within an episode, and latents that are the state plus noise. Its
// correlation is the mean over 400 other samples. With pairs of copies of one episode
// the middle would be 0.11 above the estimate, and all intervals that miss the
// correlation would be above it.
func TestIntervalIsCentred(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() *Distances {
		const episodes, frames, noise, within = 20, 10, 3, 0.2
		z, q := Samples[float32]{N: episodes * frames, D: 2}, Samples[float64]{N: episodes * frames, D: 2}
		var episode []int
		for e := range episodes {
			start, error := [2]float64{r.NormFloat64(), r.NormFloat64()}, [2]float64{noise * r.NormFloat64(), noise * r.NormFloat64()}
			for range frames {
				episode = append(episode, e)
				for k := range start {
					at := start[k] + within*r.NormFloat64()
					q.X, z.X = append(q.X, at), append(z.X, float32(at+error[k]+within*noise*r.NormFloat64()))
				}
			}
		}
		return Compare(distances(z), q, episode)
	}
	truth := 0.0
	for range 400 {
		truth += draw().spearman(nil) / 400
	}
	covers, above, off := 0, 0, 0.0
	const samples = 200
	for k := range samples {
		a := draw().Align(200, func(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(k), uint64(i))) })
		off += ((a.Lo+a.Hi)/2 - a.Spearman) / samples
		switch {
		case a.Lo > truth:
			above++
		case truth <= a.Hi:
			covers++
		}
	}
	if covers < samples*9/10 || above > samples/20 || math.Abs(off) > 0.02 {
		t.Errorf("%d of %d intervals cover %.3f and %d are above it; their middle is %.3f from the estimate", covers, samples, truth, above, off)
	}
}

// bigSample returns a sample of the published size.
func bigSample() (Samples[float32], Samples[float64], []int) {
	r := rand.New(rand.NewPCG(7, 8))
	z, q := Samples[float32]{N: 1500, D: 192}, Samples[float64]{N: 1500, D: 6}
	episode := make([]int, z.N)
	for i := range z.N {
		episode[i] = i / 15
		for range z.D {
			z.X = append(z.X, float32(r.NormFloat64()))
		}
		for range q.D {
			q.X = append(q.X, r.NormFloat64())
		}
	}
	return z, q, episode
}

func BenchmarkAlignment(b *testing.B) {
	z, q, episode := bigSample()
	b.Run("pairs", func(b *testing.B) {
		for b.Loop() {
			Compare(distances(z), q, episode).Align(0, nil)
		}
	})
	d := Compare(distances(z), q, episode)
	b.Run("draws=100", func(b *testing.B) {
		for b.Loop() {
			d.Align(100, func(i int) *rand.Rand { return rng.Stream("alignment", i) })
		}
	})
}
