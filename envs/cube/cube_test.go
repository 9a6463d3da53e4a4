package cube

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
	"scalewm/envs/cube/oracle"
	"scalewm/envs/envtest"
	"scalewm/envs/mjenv"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

var (
	_ oracle.World    = (*env)(nil)
	_ envs.Controlled = (*env)(nil)
	_ envs.Restarter  = (*env)(nil)
)

// made returns a new world; it skips the test if the library or model files are missing.
func made(t testing.TB) *env {
	t.Helper()
	e, err := newEnv(nil)
	if errors.Is(err, mujoco.ErrNoLibrary) || errors.Is(err, ErrNoFiles) {
		t.Skip("mujoco: library or OGBench's model files not fetched")
	}
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// started returns a world after a reset.
func started(t testing.TB, seed uint64) *env {
	t.Helper()
	e := made(t)
	must(t, e.Reset(rand.New(rand.NewPCG(seed, 1))))
	return e
}

// needOpenGL skips the test if nothing can draw.
func needOpenGL(t testing.TB, e *env) {
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

func step(t testing.TB, e *env, action ...float64) envs.Step {
	t.Helper()
	s, err := e.Step(action)
	must(t, err)
	return s
}

func see(t testing.TB, e *env, column string) []float64 {
	t.Helper()
	c, _ := spec.Column(column)
	v := make([]float64, c.Width)
	must(t, e.Observe(column, v))
	return v
}

// still is an action without effect.
var still = []float64{0, 0, 0, 0, 0}

// lean is the task with a scene without the parts that are slow in software OpenGL: the arm's
// meshes, large shadow maps and multisampling. The suite draws hundreds of frames, whose
// contents do not matter.
var lean = func() *mjenv.Task {
	s := *spec
	s.Name = "cube-lean"
	return &mjenv.Task{Spec: &s, Camera: task.Camera, Hidden: task.Hidden, Extra: task.Extra, Compile: func(l mjenv.Look) (*mujoco.Model, error) {
		m, err := compile(l)
		if err != nil {
			return nil, err
		}
		group, faces := mujoco.Array[int32](m, "geom_group"), mujoco.Array[int32](m, "mesh_facenum")
		mujoco.Array[int32](m, "vis.quality.shadowsize")[0], mujoco.Array[int32](m, "vis.quality.offsamples")[0] = 64, 0
		for g, id := range mujoco.Array[int32](m, "geom_dataid") {
			if group[g] == 2 && id >= 0 && faces[id] > 3000 {
				group[g] = 5
			}
		}
		return m, nil
	}}
}()

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needOpenGL(t, made(t))
	registered, err := envs.Lookup("cube")
	must(t, err)
	registered.Spec = lean.Spec
	registered.New = func(o envs.Options) (envs.Env, error) {
		w := &world{}
		e, err := lean.New(o, w)
		return &env{e, w}, err
	}
	envs.Register(registered)
	envtest.Run(t, lean.Spec.Name)
}

// Without the library or the model files the task is registered, and the error of New has a
// hint.
func TestWithoutWhatIsFetched(t *testing.T) {
	const child = "CUBE_TEST_WITHOUT"
	if which := os.Getenv(child); which != "" {
		task, err := envs.Lookup("cube")
		must(t, err)
		want := map[string]error{mujoco.Variable: mujoco.ErrNoLibrary, Variable: ErrNoFiles}[which]
		if _, err = task.New(nil); !errors.Is(err, want) || !strings.Contains(err.Error(), "(hint: correct or unset "+which) {
			t.Errorf("New: %v", err)
		}
		return
	}
	made(t)
	for _, variable := range []string{mujoco.Variable, Variable} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutWhatIsFetched$")
		cmd.Env = append(os.Environ(), child+"="+variable, variable+"="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// The run of docs/sources.md#cube-golden: MuJoCo 3.11.0, effector, yaw, opening
// and contact after some steps. The fingers close on each other, which amplifies the
// last bit of a control to 1e-5 in the opening and 0.01 in the contact within a step.
func TestGoldenRun(t *testing.T) {
	e := made(t)
	start := []float64{-1.891558487, -1.773761573, 1.897744594, -1.694779348, -1.570796327, -.320762160}
	q := make([]float64, nq)
	copy(q, start)
	copy(q[cubeAt:], []float64{.425, .1, .02, 1, 0, 0, 0})
	must(t, e.SetState(envs.Row{"qpos": q, "qvel": make([]float64, nv)}))
	want := map[int][6]float64{
		1:  {.425283, .020291, .273438, .022764, .001424, 0},
		4:  {.438240, .039998, .232477, .049789, .003130, 0},
		8:  {.457725, .035636, .148122, .049913, .003620, 0},
		16: {.438213, .019137, .170509, .052579, .975661, .2989},
		24: {.424169, -.019123, .241227, .057592, .152198, 0},
	}
	n := 0
	for _, part := range []struct {
		times  int
		action []float64
	}{{2, []float64{0, 1, 0, 0, -1}}, {6, []float64{0, 0, -1, 0, -1}}, {6, []float64{0, 0, 0, 0, 1}}, {6, []float64{0, -.5, 1, .2, 1}}, {4, []float64{0, 0, 0, 0, -1}}} {
		for range part.times {
			step(t, e, part.action...)
			n++
			got := slices.Concat(see(t, e, "proprio_effector_pos"), see(t, e, "proprio_effector_yaw"), see(t, e, "proprio_gripper_opening"), see(t, e, "proprio_gripper_contact"))
			for i, v := range want[n] {
				if tolerance := []float64{2e-6, 2e-6, 2e-6, 2e-6, 5e-5, 1e-2}[i]; want[n] != [6]float64{} && math.Abs(got[i]-v) > tolerance {
					t.Errorf("after step %d: %.7g, MuJoCo %v", n, got, want[n])
					break
				}
			}
		}
	}
}

// After a reset the effector is above the middle of the table and points down, and the
// joints are those that OGBench's controller computes from home: with yaw 0 those of
// docs/sources.md#cube-golden.
func TestReset(t *testing.T) {
	e := made(t)
	q := home
	must(t, e.w.hand.reach(transform{downward, vec3{.425, 0, .275}}.of(e.w.flangeFromPinch), q[:]))
	for i, want := range []float64{-1.891558487, -1.773761573, 1.897744594, -1.694779348, -1.570796327, -.320762160} {
		if math.Abs(q[i]-want) > 1e-9 {
			t.Errorf("joint %d is %.9f, the original's %.9f", i, q[i], want)
		}
	}
	for seed := range uint64(20) {
		must(t, e.Reset(rand.New(rand.NewPCG(seed, 2))))
		at, block, target := see(t, e, "proprio_effector_pos"), see(t, e, "privileged_block_0_pos"), see(t, e, "privileged_target_block_pos")
		if norm([]float64{at[0] - .425, at[1], at[2] - .275}) > 1e-4 { // the controller's tolerance
			t.Errorf("the effector is at %v", at)
		}
		for _, p := range [][]float64{block, target} {
			if p[0] < .3 || p[0] > .55 || math.Abs(p[1]) > .3 || p[2] != .02 {
				t.Errorf("cube or target at %v", p)
			}
		}
		if e.Solved() || slices.Equal(block, target) {
			t.Error("a reset sets a goal")
		}
	}
}

// The controller scales actions as NumPy does in their type. The target is clamped to the
// workspace and the gripper's range; the action itself is not clipped.
func TestControlOfAnAction(t *testing.T) {
	e := started(t, 3)
	third, ctrl := 1.0/3, see(t, e, "qpos")[driver]
	for _, c := range []struct {
		float64 bool
		action  float64
		want    float64
	}{{false, third, float64(0.5*(float32(third)+1))*2 - 1}, {true, third, 0.5*(third+1)*2 - 1}, {true, -7, 0}, {true, 9, 1}} {
		e.w.float64 = c.float64
		must(t, e.w.Control([]float64{0, 0, 0, 0, c.action}))
		if want := 255 * min(max(ctrl/driverRange+c.want, 0), 1); e.w.Ctrl[joints] != want {
			t.Errorf("action %g as float64 %v: gripper %.17g, want %.17g", c.action, c.float64, e.w.Ctrl[joints], want)
		}
	}
	e.w.float64 = false
	for range 30 { // towards a point far outside: stops at the corner of the workspace
		step(t, e, 9, 9, -9, 0, 0)
	}
	at := see(t, e, "proprio_effector_pos")
	if math.Abs(at[0]-.6) > .01 || math.Abs(at[1]-.35) > .01 || math.Abs(at[2]-.02) > .01 {
		t.Errorf("the effector ends at %v", at)
	}
	for _, bad := range [][]float64{{0, 0, 0}, {0, 0, 0, 0, 0, 0, math.NaN()}} {
		if _, err := e.StepControl(bad); err == nil {
			t.Errorf("control %v is taken", bad)
		}
	}
}

// The goal is met if the cube's centre is within 0.04 m, whatever its rotation. A reset
// removes the goal, SetState does not.
func TestSuccess(t *testing.T) {
	e := started(t, 4)
	row := envs.Row{"qpos": see(t, e, "qpos"), "qvel": see(t, e, "qvel")}
	for _, c := range []struct {
		by   float64
		want bool
	}{{0, true}, {.0399, true}, {.0401, false}} {
		must(t, e.SetState(row))
		goal := see(t, e, "privileged_block_0_pos")
		goal[1] += c.by
		must(t, e.SetGoal(envs.Row{"privileged_block_0_pos": goal}))
		if e.Solved() != c.want || see(t, e, "terminated")[0] != 0 || !math.IsNaN(see(t, e, "reward")[0]) {
			t.Errorf("%g m away, before a step: solved %v", c.by, e.Solved())
		}
		reward := 0.0
		if c.want {
			reward = 1
		}
		if s := step(t, e, still...); s != (envs.Step{Reward: reward, Terminated: c.want, Substeps: 25}) || see(t, e, "reward")[0] != reward {
			t.Errorf("%g m away: %+v", c.by, s)
		}
		must(t, e.SetState(row))
		if e.Solved() != c.want {
			t.Error("a set-state changes the goal")
		}
	}
	must(t, e.Reset(rand.New(rand.NewPCG(4, 4))))
	if e.w.HasGoal {
		t.Error("a reset keeps the goal")
	}
}

// Rows inside an episode restart exactly if they have the solver's warm start and the
// effector's lagging pose; otherwise Restart returns ErrNotExact.
func TestRestart(t *testing.T) {
	e := started(t, 5)
	p := oracle.NewPlan()
	must(t, p.Reset(e, rand.New(rand.NewPCG(5, 5))))
	action := make([]float64, actionDim)
	for range 12 {
		must(t, p.Act(e, action))
		step(t, e, action...)
	}
	row := envs.Row{}
	for _, c := range []string{"qpos", "qvel", "time", "sim_qacc_warmstart", "sim_pinch_xpos", "sim_pinch_xmat"} {
		row[c] = see(t, e, c)
	}
	step(t, e, action...)
	for missing, exact := range map[string]bool{"": true, "sim_qacc_warmstart": false, "sim_pinch_xpos": false} {
		w := made(t)
		r := envs.Row{}
		for k, v := range row {
			if k != missing {
				r[k] = v
			}
		}
		err := w.Restart(r, false)
		if !exact {
			if !errors.Is(err, envs.ErrNotExact) {
				t.Errorf("without %s: %v", missing, err)
			}
			must(t, w.Restart(r, true))
			continue
		}
		must(t, err)
		step(t, w, action...)
		for _, c := range []string{"qpos", "qvel", "sim_ctrl", "time", "proprio_effector_pos"} {
			if a, b := see(t, e, c), see(t, w, c); !slices.Equal(a, b) {
				t.Errorf("%s: restarted %v, went on %v", c, b, a)
			}
		}
	}
	for _, column := range []string{"qvel", "time", "sim_qacc_warmstart", "sim_pinch_xpos", "sim_pinch_xmat"} {
		good := row[column]
		row[column] = []float64{math.Inf(1)}
		if err := e.Restart(row, false); err == nil || errors.Is(err, envs.ErrNotExact) {
			t.Errorf("a wrong %s: %v", column, err)
		}
		row[column] = good
	}
}

// A goal row with the cube's rotation turns the target. No frame and no outcome depends on it.
func TestGoalRotation(t *testing.T) {
	e := started(t, 3)
	needOpenGL(t, e)
	at := see(t, e, "privileged_block_0_pos")
	at[0] += reach / 2
	start := e.Snapshot()
	var yaw [2]float64
	var seen [2][]byte
	for i, row := range []envs.Row{{"privileged_block_0_pos": at}, {"privileged_block_0_pos": at, quatColumn: {math.Sqrt(.5), 0, 0, math.Sqrt(.5)}}} {
		must(t, e.Restore(start))
		must(t, e.SetGoal(row))
		seen[i] = make([]byte, envs.FrameBytes)
		s := step(t, e, 0, 0, -1, 0, 0)
		must(t, e.Frame(seen[i]))
		if !s.Terminated || !e.Solved() {
			t.Errorf("goal %v: %+v", row, s)
		}
		yaw[i] = see(t, e, "privileged_target_block_yaw")[0]
	}
	if math.Abs(yaw[1]-math.Pi/2) > 1e-12 || yaw[0] == yaw[1] {
		t.Errorf("the target's yaw is %v", yaw)
	}
	if !slices.Equal(seen[0], seen[1]) {
		t.Error("the target's rotation changes the frame")
	}
	for _, q := range [][]float64{{1, 0, 0}, {0, 0, 0, 0}, {math.NaN(), 0, 0, 1}} {
		if err := e.SetGoal(envs.Row{"privileged_block_0_pos": {0, 0, 0}, quatColumn: q}); err == nil {
			t.Errorf("rotation %v is taken", q)
		}
		if !slices.Equal(see(t, e, "privileged_target_block_pos"), at) || see(t, e, "privileged_target_block_yaw")[0] != yaw[1] {
			t.Errorf("rotation %v changed the goal", q)
		}
	}
}

// A world that diverges returns an error, others are not affected, and it is usable again
// after the next reset.
func TestDivergence(t *testing.T) {
	e, other := started(t, 6), started(t, 7)
	v := make([]float64, nv)
	v[0] = 1e300
	if err := e.SetState(envs.Row{"qpos": see(t, e, "qpos"), "qvel": v}); err == nil {
		_, err = e.Step(still)
		if !errors.Is(err, envs.ErrDiverged) || !errors.Is(err, mujoco.ErrDiverged) || !strings.Contains(err.Error(), "cube") {
			t.Errorf("a velocity of 1e300: %v", err)
		}
	}
	step(t, other, still...)
	must(t, e.Reset(rand.New(rand.NewPCG(6, 1))))
	step(t, e, still...)
}

func TestQ(t *testing.T) {
	row := envs.Row{"proprio_effector_pos": {1, 2, 3}, "proprio_effector_yaw": {math.Pi / 6}, "proprio_gripper_opening": {4}, "privileged_block_0_pos": {5, 6, 7},
		"proprio_gripper_contact": {8}, "proprio_joint_pos": {0, math.Pi / 2, math.Pi, -math.Pi / 2, 9, 0}, "privileged_block_0_yaw": {math.Pi / 4}}
	full := []float64{1, 2, 3, .5, math.Sqrt(.75), 4, 5, 6, 7}
	want := map[string][]float64{"full": full, "half": full[:5], "native": append(full[:9:9], 8, 1, 0, 0, 1, -1, 0, 0, -1, 1, 0, -1, 0)}
	for _, q := range spec.Qs {
		got := make([]float64, len(q.Parts))
		q.Of(row, got)
		if !slices.EqualFunc(got, want[q.Name], func(a, b float64) bool { return math.Abs(a-b) < 1e-15 }) {
			t.Errorf("%s: %v, want %v", q.Name, got, want[q.Name])
		}
	}
}
