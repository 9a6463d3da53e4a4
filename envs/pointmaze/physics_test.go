package pointmaze

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The gradient of the function that contactForce minimises vanishes at its solution, for any
// contacts.
func TestContactForceIsTheMinimum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pressing := [maxContacts + 1]int{}
	for range 20000 {
		cs := make([]contact, r.IntN(maxContacts+1))
		for i := range cs {
			sin, cos := math.Sincos(2 * math.Pi * r.Float64())
			cs[i] = contact{vec{cos, sin}, 100 * r.NormFloat64(), 0.005 + 0.02*r.Float64()}
		}
		free := vec{30 * r.NormFloat64(), 30 * r.NormFloat64()}
		force := contactForce(cs, free)
		a := free.add(force.times(1 / mass))
		var want vec
		n := 0
		for _, c := range cs {
			if short := c.aref - c.n.dot(a); short > 0 {
				want = want.add(c.n.times(short / c.r))
				n++
			}
		}
		pressing[n]++
		if d := force.sub(want); math.Sqrt(d.dot(d)) > 1e-9*(1+math.Sqrt(want.dot(want))) {
			t.Fatalf("contacts %v, free acceleration %v: force %v, at its acceleration the contacts give %v", cs, free, force, want)
		}
	}
	for n, times := range pressing {
		if times < 100 {
			t.Errorf("only %d of the cases have %d contacts that press", times, n)
		}
	}
}

// Directions and distances from a wall of half side 0.5. Those for a centre
// inside were read from MuJoCo 4.0.0's contacts.
func TestFromWall(t *testing.T) {
	for _, c := range []struct {
		at, n vec
		d     float64
	}{
		{vec{0.7, 0.2}, vec{1, 0}, 0.1},
		{vec{-0.55, -0.5}, vec{-1, 0}, -0.05},
		{vec{0.1, -0.61}, vec{0, -1}, 0.01},
		{vec{0.53, 0.54}, vec{0.6, 0.8}, -0.05},  // a corner
		{vec{0.45, 0}, vec{1, 0}, -0.15},         // inside, near a side
		{vec{-0.4, 0.3}, vec{-1, 0}, -0.2},       // inside
		{vec{0.05, 0.45}, vec{0, 1}, -0.15},      // inside
		{vec{0.25, 0}, vec{}, -0.3},              // deeper than the wall's half height
		{vec{0, 0}, vec{}, -0.3},                 // the centre
		{vec{0.5, 0.3}, vec{1, 0}, -0.1},         // on a side
		{vec{-0.45, -0.45}, vec{-1, 0}, -0.15},   // equally near to two sides
		{vec{0.5 + 1e-16, 0}, vec{1, 0}, -0.1},   // MuJoCo's smallest length
		{vec{0.5 + 1e-12, 0.1}, vec{1, 0}, -0.1}, // just outside
	} {
		n, d := fromWall(c.at)
		if off := n.sub(c.n); math.Abs(d-c.d) > 1e-11 || off.dot(off) > 1e-24 {
			t.Errorf("ball at %v: direction %v, distance %g, want %v, %g", c.at, n, d, c.n, c.d)
		}
	}
}

// The acceleration of a ball at rest with its centre in a wall, computed by MuJoCo 2.3.7,
// 3.3.7 and 4.0.0. A depth of more than 0.2 has no effect.
func TestCentreInsideAWall(t *testing.T) {
	for _, c := range []struct {
		profile string
		x, a    float64
	}{
		{profile21, 0.25, 259.3220339}, {profile21, 0.2, 259.3220339}, {profile21, 0.05, 0},
		{profile30, 0.25, 380}, {profile30, 0.29, 280},
		{profile35, 0.25, 385}, {profile35, 0.29, 285}, {profile35, 0.05, 0},
	} {
		p := profiles[c.profile]
		_, v := p.substep(vec{c.x, 1.8}, vec{}, vec{})
		if want := c.a * timestep * mass / dampedMass; math.Abs(v.x-want) > 1e-7 || v.y != 0 {
			t.Errorf("profile %s, x = %g: velocity %v after a sub-step, want %g", c.profile, c.x, v, want)
		}
	}
}

// The impedance of docs/sources.md#pointmaze-contacts, at its knots and between them.
func TestImpedance(t *testing.T) {
	for x, want := range map[float64]float64{0: 0.9, 0.25: 0.90625, 0.5: 0.925, 0.75: 0.94375, 1: 0.95, 60: 0.95} {
		if got := impedance(x); math.Abs(got-want) > 1e-15 {
			t.Errorf("impedance(%g) = %g, want %g", x, got, want)
		}
	}
}

// Free cells as docs/sources.md#pointmaze-world lists them, in qpos; the ball at a cell's centre touches nothing.
func TestMaze(t *testing.T) {
	free := map[vec]bool{{0.8, 0.8}: true, {0.8, 1.8}: true, {0.8, 2.8}: true, {1.8, 2.8}: true, {2.8, 0.8}: true, {2.8, 1.8}: true, {2.8, 2.8}: true}
	p := profiles[profile35]
	for w := range 7 {
		for h := range 7 {
			q := vec{float64(w) - 1.2, float64(h) - 1.2}
			outside := w < 1 || w > 5 || h < 1 || h > 5
			if got := walled(toWorld(q)); got == (free[q] || outside) {
				t.Errorf("qpos %v: wall %v", q, got)
			}
			var near [maxContacts]contact
			if cs := p.contacts(q, vec{}, &near); free[q] && len(cs) > 0 {
				t.Errorf("qpos %v: contacts %v", q, cs)
			}
		}
	}
	for _, far := range []float64{1e300, -1e300, 1e10, -200, math.Inf(1)} {
		if walled(vec{far, 1}) || walled(vec{1, far}) {
			t.Errorf("a wall at %g", far)
		}
	}
}

// The centre of a ball never enters a wall (qpos 0.3), however long the ball is pushed in one
// direction. The published positions start at 0.342.
func TestWallsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, p := range profiles {
		q, v := drawStart(r)
		var u vec
		for i := range 20000 {
			if i%(8*substeps) == 0 {
				u = vec{2*r.Float64() - 1, 2*r.Float64() - 1}
			}
			if i%substeps == 0 {
				v = v.clamp(-maxVelocity, maxVelocity)
			}
			if q, v = p.substep(q, v, u); walled(toWorld(q)) {
				t.Fatalf("profile %s: centre in a wall at %v", name, q)
			}
		}
	}
}
