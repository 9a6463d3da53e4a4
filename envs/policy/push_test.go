package policy

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// board is an Env that only reports positions.
type board struct {
	envs.Env
	state, goal [7]float64
}

func (b *board) Observe(column string, dst []float64) error {
	switch column {
	case "state":
		copy(dst, b.state[:])
	case "goal_state":
		copy(dst, b.goal[:])
	default:
		return errors.New("no column " + column)
	}
	return nil
}

// Distances from a T at the origin, computed by hand.
func TestTeeGap(t *testing.T) {
	for _, c := range []struct {
		tee  tee
		p    place
		want float64
	}{
		{tee{}, place{0, -10}, 10}, {tee{}, place{30, 15}, 0}, {tee{}, place{63, 34}, 5}, {tee{}, place{40, 60}, 25},
		{tee{}, place{18, 124}, 5}, {tee{}, place{20, 33}, 3},
		{tee{place{100, 200}, math.Pi / 2}, place{100 - 130, 200}, 10}, {tee{place{100, 200}, math.Pi}, place{100, 207}, 7},
	} {
		if got := c.tee.gap(c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v to %v: %g, want %g", c.tee, c.p, got, c.want)
		}
	}
}

// The gain and the best distance of a push, computed by hand. Through the centre of gravity
// it does not turn the T; with a lever of 60, each pixel turns it by 60/3000.
func TestPushGain(t *testing.T) {
	middle := push{place{0, 0}, place{0, 1}}
	if gain, far := middle.gain(miss{place{3, 20}, 0}); far != 20 || math.Abs(gain-(math.Sqrt(409)-3)) > 1e-9 {
		t.Errorf("%g by %g", gain, far)
	}
	if gain, far := middle.gain(miss{place{0, -20}, 0}); gain != 0 || far != 0 {
		t.Errorf("away: %g by %g", gain, far)
	}
	side := push{place{-15, 105}, place{1, 0}} // lever -60
	if gain, far := side.gain(miss{place{10, 0}, -10.0 * 60 / 3000}); math.Abs(far-10) > 1e-9 || math.Abs(gain-10*math.Sqrt(1+3600.0/3000)) > 1e-6 {
		t.Errorf("turn: %g by %g", gain, far)
	}
	for _, p := range pushes {
		out := (&tee{}).gap(p.at.plus(p.in, -16))
		if math.Abs(out-16) > 1e-9 || (&tee{}).gap(p.at) > 0 {
			t.Errorf("push %v does not stand on the border", p)
		}
	}
}

// For every error, some push reduces it.
func TestSomePushAlwaysHelps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 2000 {
		m := miss{place{r.NormFloat64(), r.NormFloat64()}, r.NormFloat64() / 50}
		best := 0.0
		for _, p := range pushes {
			gain, _ := p.gain(m)
			best = max(best, gain/m.size())
		}
		if best < 0.1 {
			t.Fatalf("%+v: %g", m, best)
		}
	}
}

func act(t *testing.T, p envs.Policy, b *board) place {
	t.Helper()
	a := make([]float64, 2)
	if err := errors.Join(p.Reset(b, rand.New(rand.NewPCG(2, 2))), p.Act(b, a)); err != nil {
		t.Fatal(err)
	}
	return place{a[0], a[1]}
}

func TestPusherDirections(t *testing.T) {
	home := [7]float64{100, 100, 256, 256, 0, 0, 0}
	for _, c := range []struct {
		what         string
		agent, block place
		angle        float64
		want         place // a direction
	}{
		{"placed: to the agent's place", place{300, 100}, place{256, 256}, 0, place{-1, 0}},
		{"behind the bar: push down", place{256, 176}, place{256, 196}, 0, place{0, 1}},
		{"turned block, behind it: push right", place{176, 256}, place{196, 256}, -math.Pi / 2, place{1, 0}},
	} {
		b := &board{goal: home, state: [7]float64{c.agent.x, c.agent.y, c.block.x, c.block.y, c.angle}}
		b.goal[4] = c.angle
		if a := act(t, NewPusher(), b); a.dot(c.want) < 0.7*a.size() || a.size() < 0.05 {
			t.Errorf("%s: %v", c.what, a)
		}
	}
	// The path to the other side leads around the block.
	b := &board{goal: [7]float64{0, 0, 256, 156}, state: [7]float64{256, 200, 256, 256}}
	if a := act(t, NewPusher(), b); a.y > 0.9*a.size() {
		t.Errorf("straight through the block: %v", a)
	}
}

func TestPushersNeedTheirColumns(t *testing.T) {
	for _, p := range []envs.Policy{NewPusher(), NewWeakPusher()} {
		if err := p.Act(&blindRoom{}, make([]float64, 2)); err == nil {
			t.Errorf("%T acts blindly", p)
		}
	}
}

// The weak policy with the block far to the right: the target's x is clamped to 100 pixels
// left of it, which is out of reach, so the action is 1; y is uniform.
func TestWeakPusher(t *testing.T) {
	p, b, a := NewWeakPusher(), &board{state: [7]float64{100, 300, 400, 300}}, make([]float64, 2)
	if err := p.Reset(b, rand.New(rand.NewPCG(4, 4))); err != nil {
		t.Fatal(err)
	}
	sum, squares := 0.0, 0.0
	const n = 20000
	for range n {
		if err := p.Act(b, a); err != nil {
			t.Fatal(err)
		}
		if a[0] != 1 || a[1] != float64(float32(a[1])) || math.Abs(a[1]) > 1 {
			t.Fatalf("%v", a)
		}
		sum += a[1]
		squares += a[1] * a[1]
	}
	if math.Abs(sum/n) > 0.02 || math.Abs(squares/n-1.0/3) > 0.01 {
		t.Errorf("mean %g, mean square %g", sum/n, squares/n)
	}
}
