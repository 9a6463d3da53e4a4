package pusht

import (
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

func made(t testing.TB, o envs.Options) *env {
	t.Helper()
	e, err := newEnv(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// at returns a world after one set-state in a new space.
func at(t *testing.T, o envs.Options, state ...float64) *env {
	t.Helper()
	e := made(t, o)
	e.begin(origin{mode: 0, setup: vector{256, 400, 400, 100}, start: vector(state)})
	return e
}

func step(t *testing.T, e *env, action ...float64) envs.Step {
	t.Helper()
	st, err := e.Step(action)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

var goldenActions = [][]float64{{0.5, 0}, {1, 0.25}, {1, 0.5}, {0.5, -1}, {-0.25, -1}, {-1, -0.5},
	{-1, 0.75}, {0.25, 1}, {1, 1}, {1, 0}, {1, -0.5}, {0.75, -1}}

// The trajectory of docs/sources.md#push-t-golden, computed there with two versions of the C library.
func TestGoldenTrajectory(t *testing.T) {
	type row struct {
		after                       int
		agentX, agentY, x, y, angle float64
		points                      int
	}
	for mode, want := range map[string][]row{
		modeFloat64: {
			{1, 194.7835892956721, 300, 265.00906183017565, 299.35663225917153, 0.6153960923537608, 10},
			{3, 270.6796331694992, 324.97511331080102, 323.51397083882478, 323.20542067116099, 0.95317122405247745, 20},
			{5, 294.72376560102964, 260.18638332553388, 358.49903560643423, 327.93019320075808, 1.2946980653649911, 4},
			{9, 250.27907318749803, 329.63972014276442, 358.49903560643423, 327.93019320075808, 1.2946980653649911, 1},
			{12, 365.02058958219334, 290.74297119700572, 410.40516380271106, 346.17867674403055, 1.513118692249664, 9},
		},
		modeFloat32PD: {{12, 365.02057994842534, 290.74295011520366, 410.40514528677369, 346.17868201678175, 1.5131188749762359, 9}},
	} {
		e := at(t, envs.Options{numericMode: mode}, 180, 300, 256, 300, 0.5, 0, 0)
		got := map[int]row{}
		for i, a := range goldenActions {
			step(t, e, a...)
			w := &e.s.world
			got[i+1] = row{i + 1, w.agent.p.x, w.agent.p.y, w.block.origin.x, w.block.origin.y, w.block.a, w.points}
		}
		for _, r := range want {
			if got[r.after] != r {
				t.Errorf("%s: after %d:\n%+v, want\n%+v", mode, r.after, got[r.after], r)
			}
		}
		if v := e.s.world.agent.v; mode == modeFloat64 && v != (vec{278.17516044466231, -372.9219905699544}) {
			t.Errorf("velocity %v", v)
		}
	}
}

// A set-state's sub-step moves the agent by 0.01 of its velocity and a free
// block by no more than rounding.
func TestSetStateMovesOn(t *testing.T) {
	e := at(t, nil, 100, 120, 300, 310, 1, 250, -70)
	v := e.vector()
	for i, want := range []float64{102.5, 119.3, 300, 310, 1, 250, -70} {
		if math.Abs(v[i]-want) > 1e-12 {
			t.Errorf("state[%d] is %v, want %v", i, v[i], want)
		}
	}
}

// Velocities left over from one set-state act in the next: after a state with an overlap of
// 15 pixels the block moves by about a pixel (docs/sources.md#push-t-set-state). In a new space
// it does not.
func TestVelocityLeaks(t *testing.T) {
	free := envs.Row{"state": {100, 100, 300, 300, 0, 0, 0}}
	drift := func(e *env) float64 {
		if err := e.SetState(free); err != nil {
			t.Fatal(err)
		}
		v := e.vector()
		return math.Hypot(v[2]-300, v[3]-300)
	}
	if d := drift(at(t, nil, 100, 100, 300, 300, 0, 0, 0)); d > 1e-12 {
		t.Errorf("without contact before: %g px", d)
	}
	leaky := at(t, nil, 300, 300, 300, 300, 0, 0, 0)
	if d := drift(leaky); d < 0.3 || d > 2 {
		t.Errorf("after an overlap: %g px", d)
	}
	if d := drift(leaky); d > 1e-12 {
		t.Errorf("a step later: %g px", d)
	}
}

// A block that nothing touches does not move, bit for bit, and nothing pushes the agent.
func TestUntouchedBlockRests(t *testing.T) {
	e := at(t, nil, 60, 60, 300, 300, 0.7, 0, 0)
	block := e.s.world.block
	for range 20 {
		step(t, e, -0.3, 0.2)
	}
	if b := e.s.world.block; b.p != block.p || b.a != block.a {
		t.Errorf("from %v %v to %v %v", block.p, block.a, b.p, b.a)
	}
	if e.s.world.agent.p.x > 0 {
		t.Error("the agent did not go through the wall")
	}
}

// A block set into two walls is pushed out of them, up to the solver's slop.
func TestWallsPushOut(t *testing.T) {
	e := at(t, nil, 250, 250, 455, 455, 1.2, 0, 0)
	inside := func() (deepest float64) {
		for _, part := range e.s.world.block.corner {
			for _, c := range part {
				deepest = max(deepest, c.x-(506-wallRadius), c.y-(506-wallRadius))
			}
		}
		return deepest
	}
	before := inside()
	for range 60 {
		step(t, e, 0, 0)
	}
	if after := inside(); before < 15 || after > 2*slop || e.s.world.points == 0 {
		t.Errorf("%g px deep, then %g, with %d contacts", before, after, e.s.world.points)
	}
}

// Mirrored worlds move nearly mirrored: only the solver's order prefers a direction.
func TestMirror(t *testing.T) {
	a, b := at(t, nil, 230, 200, 256, 256, 0, 0, 0), at(t, nil, 512-230, 200, 256, 256, 0, 0, 0)
	for range 12 {
		step(t, a, 0.05, 0.3)
		step(t, b, -0.05, 0.3)
	}
	va, vb := a.vector(), b.vector()
	if math.Abs(va[2]+vb[2]-512) > 1e-6 || math.Abs(va[3]-vb[3]) > 1e-6 || math.Abs(math.Remainder(va[4]+vb[4], 2*math.Pi)) > 1e-8 || math.Abs(va[3]-256) < 5 {
		t.Errorf("%v and %v", va, vb)
	}
}

// The tree's boxes contain those below them, and its lists the right pairs, for random
// movements.
func TestTreeStaysWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := at(t, nil, 180, 300, 256, 300, 0.5, 0, 0)
	for range 3000 {
		e.s.world.agent.v = vec{900 * r.NormFloat64(), 900 * r.NormFloat64()}
		if p := &e.s.world.agent.p; r.IntN(20) == 0 || math.Abs(p.x) > 900 || math.Abs(p.y) > 900 {
			*p = vec{512 * r.Float64(), 512 * r.Float64()}
		}
		e.s.world.step()
		checkTree(t, &e.s.world)
	}
}

func checkTree(t *testing.T, w *world) {
	t.Helper()
	tr := &w.tree
	boxes := [leaves]*box{&w.block.box[0], &w.block.box[1], &w.agent.box}
	found := 0
	var walk func(i int8)
	walk = func(i int8) {
		n := &tr.node[i]
		if tr.isLeaf(i) {
			found++
			if !n.box.contains(boxes[i]) {
				t.Fatalf("leaf %d: %+v does not hold %+v", i, n.box, *boxes[i])
			}
			return
		}
		for _, c := range []int8{n.a, n.b} {
			if tr.node[c].up != i || !n.box.contains(&tr.node[c].box) {
				t.Fatalf("node %d and its child %d: %+v", i, c, n)
			}
			walk(c)
		}
	}
	walk(tr.root)
	if found != leaves || tr.spare != 0 {
		t.Fatalf("%d leaves, %d spare joints", found, tr.spare)
	}
	for leaf := range int8(2) {
		for _, p := range tr.node[leaf].pair[:tr.node[leaf].listed] {
			if int8(p)/partners != leaf {
				t.Fatalf("leaf %d lists pair %d", leaf, p)
			}
		}
	}
}
