package pointmaze

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/policy"
)

func TestConformance(t *testing.T) { envtest.Run(t, "pointmaze") }

// at returns a world with the ball at q with velocity v.
func at(t *testing.T, q, v vec) *env {
	t.Helper()
	e := newEnv(profile21)
	if err := e.SetState(envs.Row{"state": {q.x, q.y, v.x, v.y}}); err != nil {
		t.Fatal(err)
	}
	return e
}

func step(t *testing.T, e *env, x, y float64) envs.Step {
	t.Helper()
	s, err := e.Step([]float64{x, y})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The run of docs/sources.md#pointmaze-golden: MuJoCo 2.2.2 for profile 2.1, 3.3.7 for 3.0 and 3.11.0 for 3.5.
func TestGoldenRun(t *testing.T) {
	actions := [][2]float64{{1, .5}, {1, .5}, {1, 1}, {.25, 1}, {0, 1}, {-.5, 1}, {1, 1}, {1, 1}, {1, -.25}, {1, .5}, {1, -1}, {-1, -1}}
	for name, want := range map[string]map[int][4]float64{
		profile21: {
			1:  {0.88525522112230237, 2.3929837239058216, 2.1733088883902045, 0.098506049128336604},
			6:  {1.909257321927796, 3.0429445270423132, 4.0177550223518095, 5.314818666527076},
			7:  {2.1443256313332855, 3.202298563690821, 5.1552986704318169, -0.1295737468138497},
			8:  {2.4281563990769088, 3.1992703607566466, 6.1259024686572667, -0.031531197910876309},
			11: {3.212436813637034, 3.1680956266325779, -0.59528639841723141, -0.91933533324965577},
			12: {3.1472731486795773, 3.0868449130835196, -1.7733917925245013, -2.0936002274022565},
		},
		profile30: {12: {3.1539544457958586, 3.0861823220091602, -1.6626995926588184, -2.0983057801659895}},
		profile35: {12: {3.15097935397164, 3.0827125741005097, -1.7119893418038803, -2.1067934388516454}},
	} {
		e := newEnv(name)
		e.put(vec{0.8, 2.4}, vec{1, -0.5})
		for i, a := range actions {
			step(t, e, a[0], a[1])
			w, ok := want[i+1]
			if !ok {
				continue
			}
			for k, got := range [4]float64{e.s.q.x, e.s.q.y, e.s.v.x, e.s.v.y} {
				if math.Abs(got-w[k]) > 2e-13 {
					t.Errorf("profile %s, number %d after step %d: %.17g, MuJoCo %.17g", name, k, i+1, got, w[k])
				}
			}
		}
	}
}

// Actions are clipped to ±1 and velocities to ±5 before a step, not after it.
func TestClips(t *testing.T) {
	a, b := at(t, vec{0.8, 1.8}, vec{50, -7}), at(t, vec{0.8, 1.8}, vec{5, -5})
	step(t, a, 30, -1.5)
	step(t, b, 1, -1)
	if a.s != b.s {
		t.Errorf("clipped %+v, within the bounds %+v", a.s, b.s)
	}
	c := at(t, vec{0.8, 1}, vec{0, 5})
	step(t, c, 0, 1)
	if c.s.v.y < 6 || c.s.v.y > 6.13 { // the largest of docs/sources.md#pointmaze-world
		t.Errorf("velocity %g after a step from 5 at full thrust", c.s.v.y)
	}
}

// The goal is met at a distance below 0.5 m, with the position in float32.
func TestSuccess(t *testing.T) {
	for _, c := range []struct {
		y, goal float64
		want    bool
	}{{1.75, 1.75, true}, {1.75, 1.25, false}, {1.75, math.Nextafter(1.25, 2), true}, {1.75, math.Nextafter(1.25, 0), false},
		{1.75 + 1e-9, 1.25, false}, {1.75 - 1e-9, 1.25, false}, {1.75 + 1e-6, 1.25, false}, {1.75 - 1e-6, 1.25, true}} {
		e := at(t, vec{0.75, c.y}, vec{})
		if e.Solved() {
			t.Error("solved without a goal")
		}
		if err := e.SetGoal(envs.Row{"state": {0.75, c.goal, 3, -3}}); err != nil {
			t.Fatal(err)
		}
		s := step(t, e, 0, 0)
		if s.Terminated != c.want || e.Solved() != c.want || s.Substeps != 5 || s.Reward != 0 || s.Truncated {
			t.Errorf("ball at y = %.10f, goal %.17g: %+v, want terminated %v", c.y, c.goal, s, c.want)
		}
		if err := e.SetState(envs.Row{"state": {0.75, c.y, 0, 0}}); err != nil || e.Solved() != c.want {
			t.Errorf("a set-state changed the goal: %v", err)
		}
		if err := e.Reset(rand.New(rand.NewPCG(1, 1))); err != nil || e.s.hasGoal {
			t.Errorf("a reset keeps the goal: %v", err)
		}
	}
}

func see(t *testing.T, e *env, column string, n int) []float64 {
	t.Helper()
	v := make([]float64, n)
	if err := e.Observe(column, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Restart needs the float64 columns; state alone is not exact.
func TestRestart(t *testing.T) {
	e := at(t, vec{0.8, 1.8}, vec{})
	if err := e.Restart(envs.Row{"state": {0.8, 1.8, 0, 0}}, true); !errors.Is(err, envs.ErrNotExact) {
		t.Errorf("restart from float32: %v", err)
	}
	exact := envs.Row{"qpos": {0.81, 1.79}, "qvel": {0.1, 0.2}, "state": {9, 9, 9, 9}}
	if err := e.Restart(exact, false); err != nil || e.s.q != (vec{0.81, 1.79}) || e.s.v != (vec{0.1, 0.2}) {
		t.Errorf("restart gives %+v, %v", e.s, err)
	}
	for name, bad := range map[string]envs.Row{
		"width": {"qpos": {1}, "qvel": {0, 0}},
		"NaN":   {"qpos": {1, 1}, "qvel": {0, math.NaN()}},
	} {
		if err := e.Restart(bad, false); err == nil || errors.Is(err, envs.ErrNotExact) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After a step the frame lags by one sub-step, after SetState it does not. A recording may
// give the drawn position relative to the origin of the world.
func TestDrawnLagsOneSubstep(t *testing.T) {
	e := at(t, vec{0.8, 1.8}, vec{1, 2})
	if d := see(t, e, "drawn_xy", 2); d[0] != 0.8 || d[1] != 1.8 {
		t.Errorf("after a set-state: drawn at %v", d)
	}
	step(t, e, 0.3, 0.4)
	d, q, v := see(t, e, "drawn_xy", 2), see(t, e, "qpos", 2), see(t, e, "qvel", 2)
	for i := range d {
		if math.Abs(q[i]-v[i]*timestep-d[i]) > 1e-15 {
			t.Errorf("after a step: drawn at %v, ball at %v with velocity %v", d, q, v)
		}
	}
	row := envs.Row{"qpos": q, "qvel": v, "drawn_xy": {d[0] + bodyAt, d[1] + bodyAt}}
	if err := e.Restart(row, false); err != nil {
		t.Fatal(err)
	}
	if w := see(t, e, "drawn_xy", 2); w[0] != q[0]+bodyAt || w[1] != q[1]+bodyAt {
		t.Errorf("in the world's coordinates: %v, ball at %v", w, q)
	}
}

// The published set has, of 200,000 rows, these standard deviations of the
// position and velocity, positions in [0.342, 3.250] x [0.344, 3.257] and |v| <=
// 6.1 (docs/sources.md#pointmaze-data). Episodes are independent: the standard error of a
// standard deviation over 1,500 of them is below 1 %.
func TestUniformMakesThePublishedMoments(t *testing.T) {
	const episodes = 1500
	e, p := newEnv(profile21), policy.NewUniform()
	var sum, sq, lo, hi [4]float64
	lo = [4]float64{9, 9, 9, 9}
	rows, action := 0.0, make([]float64, 2)
	for i := range episodes {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		if err := errors.Join(e.Reset(r), p.Reset(e, r)); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			rows++
			for k, v := range see(t, e, "state", 4) {
				sum[k], sq[k] = sum[k]+v, sq[k]+v*v
				lo[k], hi[k] = min(lo[k], v), max(hi[k], v)
			}
			if n == spec.MaxSteps {
				break
			}
			if err := p.Act(e, action); err != nil {
				t.Fatal(err)
			}
			step(t, e, action[0], action[1])
		}
	}
	if rows != 100*episodes {
		t.Errorf("%g rows in %d episodes, the published set has 100 in each", rows, episodes)
	}
	for k, want := range [4]float64{1.0055, 0.9630, 1.6803, 1.9319} {
		mean := sum[k] / rows
		if sd := math.Sqrt(sq[k]/rows - mean*mean); math.Abs(sd/want-1) > 0.03 {
			t.Errorf("standard deviation %d of the state is %.4f, published %.4f", k, sd, want)
		}
	}
	for k := range 2 {
		if lo[k] < 0.335 || lo[k] > 0.36 || hi[k] > 3.265 || hi[k] < 3.24 || hi[k+2] > 6.13 || lo[k+2] < -6.13 {
			t.Errorf("ranges %v to %v", lo, hi)
		}
	}
}

// The published file has state and pos, the release that it was made from only state. q can
// be computed from both: it is x and y of state.
func TestFullQNeedsOnlyState(t *testing.T) {
	q, got := spec.Qs[0], make([]float64, 2)
	if len(q.Columns) != 1 || q.Columns[0] != "state" {
		t.Fatalf("q reads %v", q.Columns)
	}
	q.Of(envs.Row{"state": {1.5, 2.5, -3, 4}}, got)
	if got[0] != 1.5 || got[1] != 2.5 {
		t.Errorf("q is %v", got)
	}
}
