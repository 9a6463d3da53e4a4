// Package mjenv is what the tasks that MuJoCo simulates share, after dm_control's
// split into Environment and Task. A task supplies a Task, which says how its scene
// is compiled, and a World with the laws of one running world: where an episode
// begins, what an action does, when the goal is met. Env does all else that
// envs.Env asks for. Package pendulum shows the whole of a task.
//
// It knows no task, no data set and no policy.
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

// Columns that Env reports for every task whose Spec lists them; besides these, qpos,
// qvel, time, reward, terminated and substeps.
const (
	ControlColumn   = "sim_ctrl"           // what moved the motors in the step into the row
	WarmstartColumn = "sim_qacc_warmstart" // where MuJoCo's constraint solver starts in the next step
)

// Task says what all worlds of a task share. It is used by its address and not changed.
type Task struct {
	Spec   *envs.Spec
	Camera string // the camera of the model that draws the frames
	// Compile makes the model of a scene with this look. It is called once for every
	// look in use, from any goroutine.
	Compile func(Look) (*mujoco.Model, error)
	// Hidden are the columns beyond Spec.StateColumns without which a row inside an
	// episode does not continue exactly: arrays that the task or Env shows.
	Hidden []string
	// Extra are columns that World.Set reads where a row has them.
	Extra []string

	stages stages
	once   sync.Once
	usual  *stage // the scene without variation, which stays
	err    error  // of making it
}

// World is the laws of one running world. It is used by one goroutine at a time.
type World interface {
	// Enter takes up the physics that the world lives in: once, and again where a change
	// of factors makes another model. The data are in the model's initial state. It
	// fetches the arrays that the world reads and writes, and shows its columns.
	Enter(*Physics) error
	// Start puts things where an episode begins, all draws from r. They are in the
	// model's initial state, at rest and without a goal.
	Start(r *rand.Rand) error
	// Control writes to Physics.Ctrl what an action asks of the motors.
	Control(action []float64) error
	// Drive makes the env step that Physics.Ctrl moves.
	Drive() (envs.Step, error)
	// Solved says whether there is a goal and it is met now.
	Solved() bool
}

// Setter is implemented by a World that reads more than state columns: Set is called
// by SetState after the physics is set, with the row's columns of Task.Extra checked.
type Setter interface {
	Set(row envs.Row) error
}

// Look is what a scene is written with: the value of each factor, by its name.
type Look map[string]Numbers

// Numbers prints as MJCF writes numbers: with spaces between them.
type Numbers []float64

func (n Numbers) String() string {
	parts := make([]string, len(n))
	for i, x := range n {
		parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(parts, " ")
}

// Template compiles looks to a scene of MJCF that needs no other file: a text/template
// over a Look, as in rgba="{{index . "agent.color"}} 1". It panics where the text is no template.
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

// keptRenderers is how many looks can be drawn in turn at full speed.
const keptRenderers = 8

// pen draws all worlds of the process.
var pen = render.NewCache(keptRenderers, envs.FrameSize, envs.FrameSize)

// stage is the scene with these values of the factors: the one in use, or a new one.
func (t *Task) stage(vary *envs.Variation, values []float64) (*stage, error) {
	return t.stages.of(values, func() (*stage, error) {
		look := Look{}
		for _, f := range t.Spec.Factors {
			look[f.Name] = vary.Of(values, f.Name)
		}
		m, err := t.Compile(look)
		if err != nil {
			return nil, fmt.Errorf("%s: making the scene: %w", t.Spec.Name, err)
		}
		camera, err := m.ID(mujoco.ObjCamera, t.Camera)
		if err != nil {
			return nil, err
		}
		return &stage{t, values, m, camera}, nil
	})
}

// New makes a world with these options, whose laws are w.
func (t *Task) New(o envs.Options, w World) (*Env, error) {
	if _, err := t.Spec.Resolve(o); err != nil {
		return nil, err
	}
	vary, err := t.Spec.Variation(o)
	if err != nil {
		return nil, err
	}
	t.once.Do(func() {
		if usual, err := t.Spec.Variation(nil); err != nil {
			t.err = err
		} else {
			t.usual, t.err = t.stage(usual, usual.Start())
		}
	})
	if t.err != nil {
		return nil, t.err
	}
	goal, _ := t.Spec.Column(t.Spec.GoalColumns[0])
	e := &Env{task: t, world: w, p: Physics{Goal: make([]float64, goal.Width), vary: vary}}
	return e, e.change(vary.Start())
}
