// Package mjenv is the base of the tasks that MuJoCo simulates. It follows dm_control's
// split into Environment and Task.
//
// A task supplies two things: a [Task], which says how its scene is compiled, and a
// [World], the rules of one running world: where an episode starts, what an action does,
// and when the goal is met. [Env] does everything else that envs.Env requires: columns,
// factors, set-state, snapshots and frames. Package pendulum is a complete example.
//
// The package contains nothing about specific tasks, data sets or policies.
package mjenv

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"scalewm/envs"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

// Columns that Env reports for every task whose Spec lists them, in addition to qpos, qvel,
// time, reward, terminated and substeps.
const (
	ControlColumn   = "sim_ctrl"           // MuJoCo's ctrl in the step that led to the row
	WarmstartColumn = "sim_qacc_warmstart" // the starting point of MuJoCo's constraint solver in the next step
)

// Task is what all worlds of a task share. It must not be copied or changed after first use.
type Task struct {
	Spec   *envs.Spec
	Camera string // name of the camera that draws the frames
	// Compile returns the model of a scene with this look. It is called once per look in
	// use, from any goroutine.
	Compile func(Look) (*mujoco.Model, error)
	// Hidden lists the columns, in addition to Spec.StateColumns, that a row in the middle
	// of an episode needs to continue exactly. The task or Env must report them as arrays.
	Hidden []string
	// Extra lists columns that Setter.Set reads if the row has them.
	Extra []string

	stages stages
	once   sync.Once
	base   *stage // the scene without variation; holding it here keeps it in the cache
	err    error  // of creating base
}

// World is the rules of one running world. It is used by one goroutine at a time.
type World interface {
	// Enter receives the simulation. It is called once, and again when a change of
	// factors gives another model. The data is in the model's initial state. Enter
	// fetches the arrays that the world uses and declares its columns with Physics.Show
	// and Physics.Compute.
	Enter(*Physics) error
	// Start sets the state at the start of an episode, with all draws from r. Before the
	// call, the data is in the model's initial state, at rest and without a goal.
	Start(r *rand.Rand) error
	// Control converts an action to Physics.Ctrl.
	Control(action []float64) error
	// Drive makes one env step with the current Physics.Ctrl.
	Drive() (envs.Step, error)
	// Solved reports whether there is a goal and the current state meets it.
	Solved() bool
}

// Setter is implemented by a World that reads more than state columns. SetState calls Set
// after it has set the simulation. The row's columns in Task.Extra are already checked.
type Setter interface {
	Set(row envs.Row) error
}

// GoalSetter is implemented by a World whose goal is more than Physics.Goal. SetGoal calls it
// before it sets the goal; after an error the goal stays.
type GoalSetter interface {
	SetGoal(row envs.Row) error
}

// Look is the values of all factors by name, with which a scene is written.
type Look map[string]Numbers

// Numbers prints in MJCF's notation: numbers separated by spaces.
type Numbers []float64

// String writes each number with as many digits as needed to read it back exactly.
func (n Numbers) String() string {
	parts := make([]string, len(n))
	for i, x := range n {
		parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(parts, " ")
}

// Template returns a Compile function for an MJCF scene without other files. The text is a
// text/template over a Look, for example rgba="{{index . "agent.color"}} 1". Template
// panics if the text is not a valid template.
func Template(mjcf string) func(Look) (*mujoco.Model, error) {
	scene := template.Must(template.New("scene").Parse(mjcf))
	return func(l Look) (*mujoco.Model, error) {
		var xml strings.Builder
		if err := scene.Execute(&xml, l); err != nil {
			return nil, err
		}
		return mujoco.LoadXML(xml.String(), nil)
	}
}

// maxRenderers is the number of looks that can be drawn alternately without recreating
// renderers. Each renderer holds a context and a thread.
const maxRenderers = 8

// renderers draws all worlds of the process.
var renderers = render.NewCache(maxRenderers, envs.FrameSize, envs.FrameSize)

// stage returns the compiled scene for the given factor values.
func (t *Task) stage(vary *envs.Variation, values []float64) (*stage, error) {
	return t.stages.get(values, func() (*stage, error) {
		look := Look{}
		for _, f := range t.Spec.Factors {
			look[f.Name] = vary.Of(values, f.Name)
		}
		m, err := t.Compile(look)
		if err != nil {
			return nil, fmt.Errorf("%s: compiling the scene: %w", t.Spec.Name, err)
		}
		camera, err := m.ID(mujoco.ObjCamera, t.Camera)
		if err != nil {
			return nil, err
		}
		return &stage{t, values, m, camera}, nil
	})
}

// New returns a world with these options and the rules w.
func (t *Task) New(o envs.Options, w World) (*Env, error) {
	if _, err := t.Spec.Resolve(o); err != nil {
		return nil, err
	}
	vary, err := t.Spec.Variation(o)
	if err != nil {
		return nil, err
	}
	t.once.Do(func() {
		if base, err := t.Spec.Variation(nil); err != nil {
			t.err = err
		} else {
			t.base, t.err = t.stage(base, base.Start())
		}
	})
	if t.err != nil {
		return nil, t.err
	}
	goal, _ := t.Spec.Column(t.Spec.GoalColumns[0])
	e := &Env{task: t, world: w, p: Physics{Goal: make([]float64, goal.Width), vary: vary}}
	return e, e.setFactors(vary.Start())
}
