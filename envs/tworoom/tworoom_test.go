package tworoom

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/policy"
)

func TestConformance(t *testing.T) { envtest.Run(t, "tworoom") }

func made(t testing.TB, o envs.Options) *env {
	t.Helper()
	e, err := newEnv(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func at(t *testing.T, x, y float64) *env {
	t.Helper()
	e := made(t, nil)
	if err := e.SetState(envs.Row{"state": {x, y}}); err != nil {
		t.Fatal(err)
	}
	return e
}

// The walk of docs/sources.md#two-room-golden, computed there with stable-worldmodel's formulas: into
// the wall, along it, through the door, and out of the door's band inside the passage.
func TestGoldenWalk(t *testing.T) {
	e := at(t, 60, 112)
	for _, leg := range []struct {
		ax, ay float64
		n      int
		x, y   float64 // where the leg ends
	}{
		{1, 0, 8, 100, 112},
		{0.7, 0.1, 1, 99.5, 112.5},
		{0, -1, 9, 99.5, 67.5},
		{0.33, -0.9, 1, 101.1500015258789, 63},
		{0.33, -0.9, 1, 102.80000305175781, 58.5},
		{1, 0.2, 4, 122.80000305175781, 62.5},
		{0.1, 1, 1, 124.5, 67.5},
		{0.1, 1, 1, 125, 72.5},
	} {
		for range leg.n {
			if _, err := e.Step([]float64{leg.ax, leg.ay}); err != nil {
				t.Fatal(err)
			}
		}
		if e.s.agent != (point{float32(leg.x), float32(leg.y)}) {
			t.Fatalf("after %d x (%g, %g): at %v, want (%v, %v)", leg.n, leg.ax, leg.ay, e.s.agent, leg.x, leg.y)
		}
	}
}

// Pixels of docs/sources.md#two-room-golden, on white, of an agent at (60.3, 111.6).
func TestGoldenPixels(t *testing.T) {
	frame := make([]byte, envs.FrameBytes)
	if err := at(t, 60.3, 111.6).Frame(frame); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y int
		want [3]byte
	}{
		{60, 112, [3]byte{255, 0, 0}}, {67, 112, [3]byte{255, 93, 93}}, {60, 105, [3]byte{255, 91, 91}},
		{64, 117, [3]byte{255, 89, 89}}, {74, 112, [3]byte{255, 217, 217}}, {80, 112, [3]byte{255, 250, 250}},
		{90, 112, [3]byte{255, 254, 254}},
		// Walls, from their extents in 2.3: the dividing wall with its door, the outer lines.
		{112, 150, [3]byte{}}, {107, 34, [3]byte{}}, {106, 150, [3]byte{255, 255, 255}}, {117, 64, [3]byte{}}, {118, 150, [3]byte{255, 255, 255}},
		{112, 35, [3]byte{255, 255, 255}}, {112, 63, [3]byte{255, 255, 255}}, {10, 0, [3]byte{}}, {13, 223, [3]byte{}},
		{14, 20, [3]byte{255, 255, 255}}, {210, 50, [3]byte{}}, {213, 50, [3]byte{}}, {214, 50, [3]byte{255, 255, 255}}, {5, 12, [3]byte{}},
	} {
		o := (c.y*envs.FrameSize + c.x) * 3
		if got := [3]byte(frame[o : o+3]); got != c.want {
			t.Errorf("pixel (%d, %d) is %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

func TestTermination(t *testing.T) {
	for _, c := range []struct {
		x    float32 // of the target; the agent is at (60, 112)
		want bool
	}{{60, true}, {75, true}, {math.Nextafter32(76, 0), true}, {76, false}, {77, false}} {
		e := at(t, 60, 112)
		if err := e.SetGoal(envs.Row{"state": {float64(c.x), 112}}); err != nil {
			t.Fatal(err)
		}
		st, err := e.Step([]float64{0, 0})
		if err != nil || st.Terminated != c.want || e.Solved() != c.want || st.Reward != 0 || st.Truncated {
			t.Errorf("target at %v: %+v, %v; want terminated %v", c.x, st, err, c.want)
		}
	}
}

// Comparison of fma32 with exact arithmetic, with addends for which float64 sums are inexact.
func TestFMA32IsRoundedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 20000 {
		x := float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(40)-20)))
		z := float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(80)-40)))
		exact := new(big.Float).SetPrec(500).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(x)))
		want, _ := exact.Add(exact, big.NewFloat(float64(z))).Float32()
		if got := fma32(x, x, z); got != want {
			t.Fatalf("%v² + %v = %v, exactly rounded %v", x, z, got, want)
		}
	}
	// x*y + z is 2^-54 below a float32 tie. A float64 sum rounds it to the tie, and then,
	// wrongly, up.
	x, y := float32(math.Ldexp(1+math.Ldexp(1, -20), -7)), float32(math.Ldexp(1-math.Ldexp(1, -20), -7))
	z := float32(math.Ldexp(1+math.Ldexp(1, -23), 10))
	if got := fma32(x, y, z); got != z {
		t.Errorf("%v*%v + %v = %v", x, y, z, got)
	}
	if twice := float32(float64(x)*float64(y) + float64(z)); twice == z {
		t.Error("the case does not tell one rounding from two")
	}
	if got := fma32(-x, y, -z); got != -z {
		t.Errorf("negative: %v", got)
	}
}

// Every draw of the constrained sampler satisfies the rule of docs/sources.md#two-room-data;
// the free sampler often violates it. Positions fill the published range 14.02..208.98.
func TestSamplers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	lo, hi := point{300, 300}, point{}
	kept := 0
	for range 3000 {
		e := made(t, nil)
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		a, g := e.s.agent, e.s.target
		way := math.Hypot(float64(a.x)-112, float64(a.y)-49) + math.Hypot(float64(g.x)-112, float64(g.y)-49)
		if (a.x < 112) == (g.x < 112) || way < 125 || 100 <= g.x && g.x <= 124 || 100 <= a.x && a.x <= 124 {
			t.Fatalf("agent %v, target %v", a, g)
		}
		lo, hi = point{min(lo.x, a.x), min(lo.y, g.y)}, point{max(hi.x, a.x), max(hi.y, g.y)}
		f := made(t, envs.Options{"sampler": free})
		if err := f.Reset(r); err != nil {
			t.Fatal(err)
		}
		if f.s.look.farEnough(f.s.agent, f.s.target) {
			kept++
		}
	}
	if lo.x < 14 || lo.x > 14.5 || lo.y > 14.5 || hi.x > 209 || hi.x < 208.5 || hi.y < 208.5 {
		t.Errorf("places from %v to %v", lo, hi)
	}
	if kept == 0 || kept > 1500 {
		t.Errorf("%d of 3000 free targets keep the constrained rule", kept)
	}
}

// The published set has 920,809 rows in 10,000 episodes, mean 92.08
// (docs/sources.md#two-room-data), including the row of the reset. A length has standard deviation 14.6,
// so two such means differ by 0.2. The moments of the set are not published; those here were
// computed from 50,000 other episodes of this implementation.
func TestExpertMakesThePublishedLengths(t *testing.T) {
	const episodes = 10_000
	rows, sum, sq := 0.0, [2]float64{}, [2]float64{}
	e, p := made(t, nil), policy.NewDoorExpert(actionNoise)
	for i := range episodes {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		if err := p.Reset(e, r); err != nil {
			t.Fatal(err)
		}
		a := make([]float64, 2)
		for n, done := 0, false; ; n++ {
			rows++
			for k, v := range [2]float64{float64(e.s.agent.x), float64(e.s.agent.y)} {
				sum[k] += v
				sq[k] += v * v
			}
			if done || n == spec.MaxSteps {
				break
			}
			if err := p.Act(e, a); err != nil {
				t.Fatal(err)
			}
			st, err := e.Step(a)
			if err != nil {
				t.Fatal(err)
			}
			done = st.Terminated
		}
	}
	near := func(what string, got, want, tol float64) {
		if math.Abs(got-want) > tol {
			t.Errorf("%s is %.2f, want %.2f ± %g", what, got, want, tol)
		}
	}
	near("mean length", rows/episodes, 92.08, 1)
	for k, want := range [2][2]float64{{111.8, 36.9}, {85.0, 38.2}} {
		mean := sum[k] / rows
		near("mean place", mean, want[0], 1)
		near("sd of the place", math.Sqrt(sq[k]/rows-mean*mean), want[1], 0.5)
	}
}
