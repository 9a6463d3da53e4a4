package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	. "scalewm/eval/stats"
)

// SciPy 1.16: nct.sf(c, n-1, d*sqrt(n)) + nct.cdf(-c, n-1, d*sqrt(n)) with c = t.ppf(.975, n-1).
// G*Power has .8078 for d = .5, n = 34.
func TestStudentPower(t *testing.T) {
	for _, c := range []struct {
		d    float64
		n    int
		want float64
	}{{.5, 34, .8077775012792738}, {.5, 33, .7953658414875041}, {1, 10, .8030968566327219}, {2, 4, .7549839171140108}, {2, 5, .9088848681009404}, {3, 3, .7452680070062837}, {5, 2, .4209614091495039}, {.1, 800, .8064984489568079}} {
		if got := StudentPower(c.d*3, 3, c.n); math.Abs(got-c.want) > 1e-8 {
			t.Errorf("d = %v, n = %d: %v, want %v", c.d, c.n, got, c.want)
		}
	}
	if n, m, k := StudentUnits(.5, 1, 1000), StudentUnits(1, 1, 1000), StudentUnits(.001, 1, 1000); n != 34 || m != 10 || k != 1000 {
		t.Errorf("%d, %d and %d units, want 34, 10 and the most", n, m, k)
	}
}

// Estimated components of simulated differences are those of the simulation, and a test
// with the number of episodes that they require has a power of 80 %.
func TestVarianceComponents(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	want := Components{Seed: 4, Set: 1, Episode: 30, Rest: 20}
	draw := func(seeds, sets, episodes int, effect float64) [][][]float64 {
		ofSet, ofEpisode := make([]float64, sets), make([][]float64, sets)
		for k := range ofSet {
			ofSet[k] = r.NormFloat64() * math.Sqrt(want.Set)
			for range episodes {
				ofEpisode[k] = append(ofEpisode[k], r.NormFloat64()*math.Sqrt(want.Episode))
			}
		}
		d := make([][][]float64, seeds)
		for s := range d {
			seed := r.NormFloat64() * math.Sqrt(want.Seed)
			for k := range sets {
				var set []float64
				for e := range episodes {
					set = append(set, effect+seed+ofSet[k]+ofEpisode[k][e]+r.NormFloat64()*math.Sqrt(want.Rest))
				}
				d[s] = append(d[s], set)
			}
		}
		return d
	}
	const n = 300
	var got Components
	for range n {
		c := VarianceComponents(draw(5, 6, 20, 3))
		got.Seed, got.Set, got.Episode, got.Rest = got.Seed+c.Seed/n, got.Set+c.Set/n, got.Episode+c.Episode/n, got.Rest+c.Rest/n
	}
	// The standard errors of the means over 300 draws are .17, .07, .36 and .08. Negative
	// estimates of the set component count as 0.
	for name, x := range map[string][2]float64{"seed": {got.Seed, 4}, "set": {got.Set, 1}, "episode": {got.Episode, 30}, "rest": {got.Rest, 20}} {
		if tol := map[string]float64{"seed": .6, "set": .3, "episode": 1.3, "rest": .4}[name]; math.Abs(x[0]-x[1]) > tol {
			t.Errorf("%s: %.2f, drawn with %v", name, x[0], x[1])
		}
	}
	one := VarianceComponents(draw(1, 6, 20, 3))
	if !math.IsNaN(one.Seed) || one.Rest != 0 || one.Seeds(2, 120, 100) != 0 {
		t.Errorf("one seed: %+v", one)
	}
	// (1.96 + .8416)² (30 + 20)/2² = 98.1 episodes without variance of sets: 10 sets of 10.
	c := Components{Episode: 30, Rest: 20}
	if e := c.Episodes(2, 10); e != 100 {
		t.Errorf("%d episodes, want 100", e)
	}
	found := 0
	for range 2000 {
		sum := 0.0
		for range c.Episodes(2, 10) {
			sum += 2 + r.NormFloat64()*math.Sqrt(50)
		}
		if math.Abs(sum/100) > 1.96*math.Sqrt(50.0/100) {
			found++
		}
	}
	if p := float64(found) / 2000; math.Abs(p-.807) > .03 {
		t.Errorf("power %v, want .807", p)
	}
	// Seeds with SD 2, each measured on 10 episodes with a residual variance of 10, have SD √5.
	// An effect of √5 needs 10 of them.
	if s := (Components{Seed: 4, Rest: 10}).Seeds(math.Sqrt(5), 10, 100); s != 10 {
		t.Errorf("%d seeds, want 10", s)
	}
}
