package pusht

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
)

func TestConformance(t *testing.T) { envtest.Run(t, "pusht") }

func setGoal(t *testing.T, e *env, goal vector) {
	t.Helper()
	if err := e.SetGoal(envs.Row{"state": goal[:]}); err != nil {
		t.Fatal(err)
	}
}

func observe(t *testing.T, e *env, column string) []float64 {
	t.Helper()
	c, _ := spec.Column(column)
	v := make([]float64, c.Width)
	if err := e.Observe(column, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The rule of docs/sources.md#push-t-success, with the angle modulo a full turn, as in
// stable-worldmodel since release 0.1.1.
func TestSuccess(t *testing.T) {
	here := vector{100, 100, 300, 200, 1.25, 0, 0}
	for _, c := range []struct {
		what string
		goal vector
		want bool
	}{
		{"the same", here, true},
		{"other velocity", vector{100, 100, 300, 200, 1.25, 400, 0}, true},
		{"20 px of the agent", vector{112, 116, 300, 200, 1.25, 0, 0}, false},
		{"a little less", vector{112, 115.999, 300, 200, 1.25, 0, 0}, true},
		{"10 px four times", vector{110, 110, 310, 210, 1.25, 0, 0}, false},
		{"9.9 px four times", vector{109.9, 109.9, 309.9, 209.9, 1.25, 0, 0}, true},
		{"20 degrees", vector{100, 100, 300, 200, 1.25 + math.Pi/9 + 1e-12, 0, 0}, false},
		{"19.9 degrees", vector{100, 100, 300, 200, 1.25 - math.Pi/9 + 1e-3, 0, 0}, true},
		{"three turns more", vector{100, 100, 300, 200, 1.25 + 6*math.Pi, 0, 0}, true},
		{"a turn less and 19 degrees", vector{100, 100, 300, 200, 1.25 - 2*math.Pi - 0.33, 0, 0}, true},
		{"half a turn", vector{100, 100, 300, 200, 1.25 + math.Pi, 0, 0}, false},
	} {
		e := at(t, nil, here[:]...)
		setGoal(t, e, c.goal)
		if e.Solved() != c.want {
			t.Errorf("%s: solved is %v", c.what, !c.want)
		}
		if st := step(t, e, 0, 0); st.Terminated != c.want || st.Truncated || st.Substeps != 10 {
			t.Errorf("%s: %+v", c.what, st)
		}
	}
}

// The reward includes velocities. The other columns agree with the state.
func TestColumns(t *testing.T) {
	e := at(t, nil, 100, 120, 300, 310, -1, 0, 0)
	if r := observe(t, e, "reward")[0]; r == r {
		t.Errorf("the reward of row 0 is %g", r)
	}
	setGoal(t, e, vector{100, 120, 300, 310, 2*math.Pi - 1, 300, -400})
	if st := step(t, e, 0, 0); math.Abs(st.Reward+500) > 1e-9 || !st.Terminated {
		t.Errorf("%+v", st)
	}
	if a := observe(t, e, "state")[4]; math.Abs(a-(2*math.Pi-1)) > 1e-12 {
		t.Errorf("the state's angle is %g", a)
	}
	if a := observe(t, e, "block_pose")[2]; a != -1 {
		t.Errorf("the pose's angle is %g", a)
	}
	for column, want := range map[string][]float64{
		"pos_agent": {100, 120}, "vel_agent": {0, 0}, "proprio": {100, 120, 0, 0},
		"goal_pose": {256, 256, math.Pi / 4}, "goal_proprio": {100, 120, 300, -400},
		"goal_state": {100, 120, 300, 310, 2*math.Pi - 1, 300, -400},
		"n_contacts": {0}, "terminated": {1}, "restart_mode": {0}, "restart_start_state": {100, 120, 300, 310, -1, 0, 0},
	} {
		for i, v := range observe(t, e, column) {
			if v != want[i] {
				t.Errorf("%s[%d] is %v, want %v", column, i, v, want[i])
			}
		}
	}
}

func TestQs(t *testing.T) {
	row := envs.Row{"state": {1, 2, 3, 4, math.Pi / 6, 7, 8}}
	c, s := math.Sqrt(3)/2, 0.5
	want := map[string][]float64{"full": {1, 2, 3, 4, c, s}, "half": {3, 4, c, s}, "native": {1, 2, 3, 4, c, s, 7, 8}}
	for _, q := range spec.Qs {
		got := make([]float64, len(q.Parts))
		q.Of(row, got)
		for i, v := range want[q.Name] {
			if math.Abs(got[i]-v) > 1e-15 {
				t.Errorf("%s: %v, want %v", q.Name, got, want[q.Name])
			}
		}
		if len(got) != len(want[q.Name]) {
			t.Errorf("%s has %d numbers", q.Name, len(got))
		}
	}
}

// Contacts are counted over set-states until the first step, then step by step:
// one overlapping sub-step gives 1 point, rounded up from a tenth.
func TestContactsOfRowZero(t *testing.T) {
	e := at(t, nil, 256, 262, 256, 256, 0, 0, 0)
	if n := observe(t, e, "n_contacts")[0]; n != 1 {
		t.Errorf("row 0: %g", n)
	}
	far := envs.Row{"state": {60, 60, 256, 256, 0, 0, 0}}
	if err := e.SetState(far); err != nil {
		t.Fatal(err)
	}
	if n := observe(t, e, "n_contacts")[0]; n != 1 {
		t.Errorf("after another set-state: %g", n)
	}
	step(t, e, 0, 0)
	if n := observe(t, e, "n_contacts")[0]; n != 0 {
		t.Errorf("after a step without contact: %g", n)
	}
}

// 100 x action is a float32 product for float32 numbers, a float64 one for
// others and where actions are float64 (docs/sources.md#push-t-step).
func TestActionProduct(t *testing.T) {
	narrow := float32(0.1234567)
	a := float64(narrow)
	for _, c := range []struct {
		option string
		a      float64
		want   float64
	}{
		{typeFloat32, a, float64(narrow * 100)},
		{typeFloat32, 0.123456, 0.123456 * 100},
		{typeFloat64, a, a * 100},
	} {
		e := at(t, envs.Options{actionDType: c.option}, 0, 0, 300, 300, 0, 0, 0)
		if got := e.s.world.target([]float64{c.a, 0}, e.wideAction); got.x != c.want {
			t.Errorf("%s %v: %v, want %v", c.option, c.a, got.x, c.want)
		}
	}
	if float64(narrow*100) == a*100 {
		t.Error("the case does not tell the products apart")
	}
}

// A reset can be repeated from the columns that it reports, including the velocities that its
// goal state left over.
func TestRestartRetellsReset(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	moved := 0
	for range 60 {
		e, again := at(t, nil, 0, 0, 300, 300, 0, 0, 0), at(t, nil, 9, 9, 200, 200, 1, 5, 5)
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		row := envs.Row{}
		for _, c := range spec.Columns {
			row[c.Name] = observe(t, e, c.Name)
		}
		if err := again.Restart(row, true); err != nil {
			t.Fatal(err)
		}
		if row["block_pose"][0] != row["restart_start_state"][2] {
			moved++
		}
		for range 5 {
			step(t, e, 0.3, -0.4)
			step(t, again, 0.3, -0.4)
			if e.vector() != again.vector() {
				t.Fatalf("%v and %v", e.vector(), again.vector())
			}
		}
		if err := again.Restart(row, false); !errors.Is(err, envs.ErrNotExact) {
			t.Fatalf("a later row: %v", err)
		}
	}
	if moved == 0 {
		t.Error("nothing leaked in any reset")
	}
}

// Rows without restart columns give a new space with the bodies at the row's pose, without a
// physics step. Left-over velocities can be given.
func TestRestartPlain(t *testing.T) {
	e := at(t, nil, 0, 0, 300, 300, 0, 0, 0)
	row := envs.Row{"state": {100, 120, 300, 310, 1, 250, -70}, "block_pose": {300, 310, 1 + 4*math.Pi}}
	if err := e.Restart(row, true); err != nil {
		t.Fatal(err)
	}
	if v := e.vector(); v[0] != 100 || v[5] != 250 || math.Abs(v[2]-300) > 1e-12 || e.s.world.block.a != 1+4*math.Pi || e.s.world.stamp != 0 {
		t.Errorf("%v", v)
	}
	row["restart_block_bias_velocity"] = []float64{50, 0}
	row["restart_block_angular_velocity"] = []float64{2}
	if err := e.Restart(row, true); err != nil {
		t.Fatal(err)
	}
	e.s.world.step()
	if b := e.s.world.block; math.Abs(b.a-1-4*math.Pi-0.02) > 1e-12 || math.Abs(b.p.x-300+45*math.Sin(1)-0.5) > 1e-9 {
		t.Errorf("moved to %v, %v", b.p, b.a)
	}
}

func TestRestartRefuses(t *testing.T) {
	five, seven := []float64{1, 2, 300, 300, 0}, []float64{1, 2, 300, 300, 0, 0, 0}
	full := func() envs.Row {
		return envs.Row{"restart_mode": {2}, "restart_setup_pose": five, "restart_goal_state": seven,
			"restart_start_state": seven, "restart_eval_state": five, "state": seven}
	}
	e := at(t, nil, 0, 0, 300, 300, 0, 0, 0)
	if err := e.Restart(full(), true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		column string
		v      []float64
		want   string
	}{
		{"restart_mode", []float64{3}, "restart_mode is 3"},
		{"restart_mode", []float64{0.5}, "restart_mode is 0.5"},
		{"restart_mode", []float64{math.NaN()}, "restart_mode[0] is NaN"},
		{"restart_mode", []float64{1, 1}, "restart_mode has 2"},
		{"restart_setup_pose", seven, "restart_setup_pose has 7"},
		{"restart_setup_pose", nil, "no column restart_setup_pose"},
		{"restart_eval_state", nil, "no column restart_eval_state"},
		{"restart_goal_state", []float64{1, 2, math.Inf(1), 300, 0}, "restart_goal_state[2] is +Inf"},
		{"restart_start_state", []float64{1}, "restart_start_state has 1"},
	} {
		row := full()
		row[c.column] = c.v
		if c.v == nil {
			delete(row, c.column)
		}
		before := e.s
		if err := e.Restart(row, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v", c.column, c.v, err)
		}
		if e.s != before {
			t.Errorf("%s %v: the world has changed", c.column, c.v)
		}
	}
	row := full()
	row["restart_mode"] = []float64{unknownOrigin}
	if err := e.Restart(row, true); !errors.Is(err, envs.ErrNotExact) {
		t.Errorf("unknown origin: %v", err)
	}
	bad := envs.Row{"state": seven, "restart_block_velocity": {1}}
	if err := e.Restart(bad, true); err == nil || !strings.Contains(err.Error(), "restart_block_velocity has 1") {
		t.Errorf("%v", err)
	}
}

// Any finite state is accepted, as by the reference implementation, and nothing breaks.
func TestAnyFiniteState(t *testing.T) {
	frame := make([]byte, envs.FrameBytes)
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var v vector
		for i := range v {
			v[i] = r.NormFloat64() * math.Pow(10, 12*r.Float64()-2)
			if r.IntN(30) == 0 {
				v[i] *= 1e250
			}
		}
		e := at(t, nil, 0, 0, 300, 300, 0, 0, 0)
		if err := e.SetState(envs.Row{"state": v[:]}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step([]float64{1e300 * r.NormFloat64(), 3}); err != nil {
			t.Fatal(err)
		}
		if err := e.Frame(frame); err != nil {
			t.Fatal(err)
		}
	}
}

// Resets fill the ranges of docs/sources.md#push-t-reset. With goal=drawn, the goal's block is at
// the drawn pose and its agent clear of it; with goal=sampled, they are anywhere.
func TestReset(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	drawn, sampled := made(t, nil), made(t, envs.Options{goalSwitch: goalSampled})
	low, high := vector{}, vector{}
	for k := range low {
		low[k], high[k] = math.Inf(1), math.Inf(-1)
	}
	crowded := 0
	for range 4000 {
		if err := errors.Join(drawn.Reset(r), sampled.Reset(r)); err != nil {
			t.Fatal(err)
		}
		for _, v := range []vector{drawn.s.origin.start, sampled.s.origin.start, sampled.s.goal} {
			for k, x := range v {
				low[k], high[k] = min(low[k], x), max(high[k], x)
			}
		}
		if g := drawn.s.goal; [3]float64(g[2:5]) != plain.pose || g.tooClose(15) {
			t.Fatalf("drawn goal %v", g)
		}
		if sampled.s.goal.tooClose(15) {
			crowded++
		}
	}
	for k, want := range [5][2]float64{{50, 450}, {50, 450}, {100, 400}, {100, 400}, {-2 * math.Pi, 2 * math.Pi}} {
		tol := (want[1] - want[0]) / 500
		if low[k] < want[0] || high[k] > want[1] || low[k] > want[0]+tol || high[k] < want[1]-tol {
			t.Errorf("state[%d] from %g to %g", k, low[k], high[k])
		}
	}
	if crowded < 100 || crowded > 800 {
		t.Errorf("%d of 4000 sampled goals are crowded", crowded)
	}
}
