package reacher

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/mjenv"
	"scalewm/envs/policy"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

// testWorld is an Env with access to its World.
type testWorld struct {
	*mjenv.Env
	w *world
}

func open(o envs.Options) (*testWorld, error) {
	w := &world{}
	e, err := task.New(o, w)
	return &testWorld{e, w}, err
}

// made returns a new world; it skips the test if the library is missing.
func made(t testing.TB) *testWorld {
	t.Helper()
	e, err := open(nil)
	if errors.Is(err, mujoco.ErrNoLibrary) {
		t.Skip("mujoco: library not fetched")
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// needOpenGL skips the test if nothing can draw.
func needOpenGL(t testing.TB, e *testWorld) {
	t.Helper()
	err := e.Frame(make([]byte, envs.FrameBytes))
	if errors.Is(err, render.ErrNoOpenGL) {
		t.Skipf("render: no OpenGL: %v", err)
	}
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// at returns a world in a state.
func at(t testing.TB, qpos, qvel [2]float64) *testWorld {
	t.Helper()
	e := made(t)
	must(t, e.SetState(envs.Row{"qpos": qpos[:], "qvel": qvel[:]}))
	return e
}

func step(t testing.TB, e *testWorld, shoulder, wrist float64) envs.Step {
	t.Helper()
	s, err := e.Step([]float64{shoulder, wrist})
	must(t, err)
	return s
}

func see(t testing.TB, e *testWorld, column string) []float64 {
	t.Helper()
	c, _ := spec.Column(column)
	v := make([]float64, c.Width)
	must(t, e.Observe(column, v))
	return v
}

func TestConformance(t *testing.T) {
	needOpenGL(t, made(t))
	envtest.Run(t, "reacher")
}

// Without the library the task is registered, and the error of New has a hint.
func TestWithoutTheLibrary(t *testing.T) {
	const child = "REACHER_TEST_WITHOUT_LIBRARY"
	if os.Getenv(child) != "" {
		task, err := envs.Lookup("reacher")
		must(t, err)
		_, err = task.New(nil)
		if !errors.Is(err, mujoco.ErrNoLibrary) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("New: %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutTheLibrary$")
	cmd.Env = append(os.Environ(), child+"=1", mujoco.Variable+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The run of docs/sources.md#reacher-golden: MuJoCo 3.3.7, 3.11.0 and 3.12.0, ctrl = action.
func TestGoldenRun(t *testing.T) {
	e := at(t, [2]float64{0.5, -1}, [2]float64{0.3, -0.2})
	actions := [][2]float64{{1, 0}, {-1, 0.5}, {0.25, -1}, {0, 0}, {1, 1}}
	want := [][6]float64{
		{.55382008788315784, -1.0318664922084146, 1.6238697663687374, -.83277745638902623, .2086100345615805, .0079073591765114887},
		{.53650753589235911, -.92278928166956919, -.88473651536735876, 3.1802993987786254, .21429784182126349, .01612687170271547},
		{.57422856512962994, -1.0557740293857694, 1.1708059842279566, -4.1716316427510742, .20710701436457046, .0096045365097174387},
		{.58312369587916646, -1.0909707644559399, .099170195091165647, -.43869373599080286, .20502482496501381, .0077204347117128258},
		{.59857901445669537, -.97824376205876717, .59033545259500864, 3.3438358844827389, .21059112786426926, .023143200266570199},
	}
	for i, a := range actions {
		if s := step(t, e, a[0], a[1]); s.Substeps != 2 || s.Terminated {
			t.Errorf("step %d: %+v", i, s)
		}
		got := slices.Concat(see(t, e, "qpos"), see(t, e, "qvel"), see(t, e, "finger_pos"))
		if !slices.Equal(got, want[i][:]) {
			t.Errorf("after step %d: %.17g, MuJoCo %.17g", i+1, got, want[i])
		}
	}
}

// The control is -1 + (a + 1), which is not a: 1e-17 is lost in it. Nothing is clipped
// before MuJoCo, which clips the force.
func TestControlOfAnAction(t *testing.T) {
	e := at(t, [2]float64{}, [2]float64{})
	for _, c := range [][2]float64{{1e-17, 0}, {0.1, 0.10000000000000009}, {250, 250}} {
		step(t, e, c[0], 0)
		if got := see(t, e, mjenv.ControlColumn); got[0] != c[1] || got[1] != 0 {
			t.Errorf("action %g gives control %v, want %g", c[0], got, c[1])
		}
	}
	a, b := at(t, [2]float64{}, [2]float64{}), at(t, [2]float64{}, [2]float64{})
	step(t, a, 250, -7)
	if _, err := b.StepControl([]float64{1, -1}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(see(t, a, "qpos"), see(t, b, "qpos")) {
		t.Error("controls beyond ±1 push harder")
	}
	if _, err := b.StepControl([]float64{math.NaN(), 0}); err == nil {
		t.Error("a control that is not a number is taken")
	}
}

// The goal is met if both joints differ by less than 0.05, and the step ends there.
func TestSuccess(t *testing.T) {
	below, above := math.Nextafter(0.05, 0), math.Nextafter(0.05, 1)
	for _, c := range []struct {
		goal [2]float64
		want bool
	}{{[2]float64{0, 0}, true}, {[2]float64{0.05, 0}, false}, {[2]float64{below, -below}, true}, {[2]float64{0, above}, false},
		{[2]float64{0, -0.05}, false}, {[2]float64{2 * math.Pi, 0}, false}} {
		e := at(t, [2]float64{}, [2]float64{})
		if e.Solved() {
			t.Error("solved without a goal")
		}
		must(t, e.SetGoal(envs.Row{"qpos": c.goal[:]}))
		n := 2
		if c.want {
			n = 1
		}
		if s := step(t, e, 0, 0); e.Solved() != c.want || s.Terminated != c.want || s.Substeps != n || see(t, e, "substeps")[0] != float64(n) {
			t.Errorf("goal %v: %+v, want terminated %v", c.goal, s, c.want)
		}
		must(t, e.SetState(envs.Row{"qpos": {0, 0}, "qvel": {0, 0}}))
		if e.Solved() != c.want || see(t, e, "terminated")[0] != 0 {
			t.Errorf("goal %v: after a set-state solved %v", c.goal, e.Solved())
		}
		must(t, e.Reset(rand.New(rand.NewPCG(1, 1))))
		if e.w.HasGoal {
			t.Error("a reset keeps the goal")
		}
	}
}

// With substeps=all an env step always makes both physics steps, and the state after the second
// one decides: an arm that passes the goal in the first is not there any more.
func TestAllSubsteps(t *testing.T) {
	first := made(t)
	all, err := newEnv(envs.Options{substepsSwitch: substepsAll})
	must(t, err)
	defer all.Close()
	for _, c := range []struct {
		goal, velocity float64
		first, all     bool
	}{{0.04, 3, true, false}, {0.11, 3, true, true}, {0.06, 1, true, true}, {0.5, 1, false, false}} {
		var got [2]envs.Step
		for i, e := range []envs.Env{first, all} {
			must(t, e.SetState(envs.Row{"qpos": {0, 0}, "qvel": {c.velocity, 0}}))
			must(t, e.SetGoal(envs.Row{"qpos": {c.goal, 0}}))
			s, err := e.Step([]float64{0, 0})
			must(t, err)
			got[i] = s
		}
		if got[0].Terminated != c.first || got[1].Terminated != c.all || got[1].Substeps != 2 {
			t.Errorf("goal %g: %+v, want %v and %v", c.goal, got, c.first, c.all)
		}
	}
	// Data sets do not record the default.
	if o, err := spec.Resolve(envs.Options{substepsSwitch: substepsFirst}); err != nil || len(o) != 0 {
		t.Errorf("recorded: %v, %v", o, err)
	}
}

// The reward counts the physics steps that end with the finger within 0.025 of the target.
func TestReward(t *testing.T) {
	for target, want := range map[[2]float64]float64{{0.24, 0}: 2, {0.2151, 0}: 2, {0.24, 0.0251}: 0, {0.24, -0.0249}: 2} {
		e := made(t)
		must(t, e.SetState(envs.Row{"qpos": {0, 0}, "qvel": {0, 0}, "target_pos": target[:]}))
		if r := see(t, e, "reward")[0]; !math.IsNaN(r) {
			t.Errorf("reward %g before a step", r)
		}
		if s := step(t, e, 0, 0); s.Reward != want || see(t, e, "reward")[0] != want {
			t.Errorf("target %v: reward %g, want %g", target, s.Reward, want)
		}
	}
}

// The target of a recording is read from target_pos, or computed from the observation.
func TestTarget(t *testing.T) {
	e := made(t)
	row := envs.Row{"qpos": {0, 0}, "qvel": {0, 0}, "observation": {0, 0, -0.125, 0.0625, 0, 0}}
	must(t, e.SetState(row))
	if got := see(t, e, "target_pos"); math.Abs(got[0]-0.115) > 1e-15 || got[1] != 0.0625 {
		t.Errorf("target %v from the observation", got)
	}
	row["target_pos"] = []float64{0.1, -0.2}
	must(t, e.SetState(row))
	if got := see(t, e, "target_pos"); !slices.Equal(got, row["target_pos"]) {
		t.Errorf("target %v, want %v", got, row["target_pos"])
	}
	delete(row, "target_pos")
	delete(row, "observation")
	must(t, e.SetState(row))
	if got := see(t, e, "target_pos"); got[0] != 0.1 || got[1] != -0.2 {
		t.Errorf("a row without a target moved it to %v", got)
	}
	for _, bad := range []envs.Row{{"qpos": {0, 0}}, {"qpos": {0, 0}, "qvel": {0, 0}, "target_pos": {1}},
		{"qpos": {0, 0}, "qvel": {0, 0}, "observation": {0, 0, math.NaN(), 0, 0, 0}}} {
		if err := e.SetState(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// With the wrist pressed against its limit, the solver's warm start matters: rows inside an
// episode restart exactly with it; without it, Restart returns ErrNotExact.
func TestRestartNeedsTheSolversStart(t *testing.T) {
	e := at(t, [2]float64{0, 2.7}, [2]float64{0, 3})
	for range 6 {
		step(t, e, 0, 1)
	}
	row := envs.Row{"qpos": see(t, e, "qpos"), "qvel": see(t, e, "qvel")}
	if err := e.Restart(row, false); !errors.Is(err, envs.ErrNotExact) {
		t.Errorf("restart without the solver's start: %v", err)
	}
	must(t, made(t).Restart(row, true))
	row["sim_qacc_warmstart"] = see(t, e, "sim_qacc_warmstart")
	w := made(t)
	must(t, w.Restart(row, false))
	step(t, e, 0.3, 1)
	step(t, w, 0.3, 1)
	if a, b := see(t, e, "qvel"), see(t, w, "qvel"); !slices.Equal(a, b) {
		t.Errorf("restarted %v, went on %v", b, a)
	}
	if e.w.QPos[1] < wristLimit {
		t.Errorf("the wrist is at %g: the limit was not reached", e.w.QPos[1])
	}
	row["sim_qacc_warmstart"] = []float64{math.Inf(1), 0}
	if err := w.Restart(row, false); err == nil || errors.Is(err, envs.ErrNotExact) {
		t.Errorf("an infinite start: %v", err)
	}
}

// A world that diverges returns an error, and is usable again after the next reset.
func TestDivergence(t *testing.T) {
	e := at(t, [2]float64{}, [2]float64{})
	if err := e.SetState(envs.Row{"qpos": {0, 0}, "qvel": {1e300, 0}}); err == nil {
		_, err = e.Step([]float64{0, 0})
		if !errors.Is(err, envs.ErrDiverged) || !errors.Is(err, mujoco.ErrDiverged) || !strings.Contains(err.Error(), "reacher") {
			t.Errorf("a velocity of 1e300: %v", err)
		}
	}
	must(t, e.Reset(rand.New(rand.NewPCG(1, 1))))
	step(t, e, 1, 1)
}

// The published set, 10,000 episodes of 201 rows (docs/sources.md#reacher-data and the authors'
// cached statistics): means and standard deviations of cosine and sine of both
// joints, standard deviations of the finger, ranges. Episodes are
// independent; for 600 of them, standard errors are about 1.5 %.
func TestUniformMakesThePublishedMoments(t *testing.T) {
	const episodes = 600
	e, p := made(t), policy.NewUniform()
	var sum, sq [6]float64
	var far [joints]float64
	rows, action, q := 0.0, make([]float64, 2), make([]float64, 4)
	for i := range episodes {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		must(t, errors.Join(e.Reset(r), p.Reset(e, r)))
		for n := 0; ; n++ {
			rows++
			angles(q, e.w.QPos)
			for k, v := range append(q, e.w.finger...) {
				sum[k], sq[k] = sum[k]+v, sq[k]+v*v
			}
			far[0], far[1] = max(far[0], math.Abs(e.w.QPos[0])), max(far[1], math.Abs(e.w.QPos[1]))
			if n == spec.MaxSteps {
				break
			}
			must(t, p.Act(e, action))
			step(t, e, action[0], action[1])
		}
	}
	if rows != 201*episodes {
		t.Errorf("%g rows in %d episodes, the published set has 201 in each", rows, episodes)
	}
	mean := [6]float64{-.012982, -.010076, .134983, -.006901, 0, 0}
	sd := [6]float64{.705403, .708616, .656818, .741837, .128, .1275}
	for k := range mean {
		m := sum[k] / rows
		if s := math.Sqrt(sq[k]/rows - m*m); math.Abs(s/sd[k]-1) > 0.05 || math.Abs(m-mean[k]) > 0.1*sd[k] {
			t.Errorf("number %d has mean %.4f and standard deviation %.4f, published %.4f and %.4f", k, m, s, mean[k], sd[k])
		}
	}
	if far[0] < 5 || far[0] > 9 || far[1] < 2.85 || far[1] > 2.96 {
		t.Errorf("joints go as far as %v", far)
	}
}

func TestQ(t *testing.T) {
	row := envs.Row{"qpos": {math.Pi / 2, math.Pi}, "qvel": {3, 4}, "finger_pos": {0.5, 0.25}}
	want := map[string][]float64{"full": {0, 1, -1, 0}, "half": {0, 1}, "native": {0, 1, -1, 0, 3, 4, 0.5, 0.25}}
	for _, q := range spec.Qs {
		got := make([]float64, len(q.Parts))
		q.Of(row, got)
		for i, v := range want[q.Name] {
			if len(got) != len(want[q.Name]) || math.Abs(got[i]-v) > 1e-15 {
				t.Errorf("%s: %v, want %v", q.Name, got, want[q.Name])
				break
			}
		}
	}
}
