// Package envs defines what a task is: a simulated world that is stepped with actions,
// drawn as a 224-pixel frame and judged by a success rule.
//
// Its main types are [Spec], the description of a task; [Env], one running world; and
// [Factor], a property of the world that may vary. Each task is a package in a folder
// below this one, which calls [Register] from its init function. Callers find tasks
// with [Lookup] and create worlds with Task.New. This package itself knows no task.
//
// A task never creates randomness: the caller passes a *rand.Rand, so that a seed
// determines an episode. Tasks contain nothing about files, models or planners.
//
// Most tasks reproduce an environment of another project, their reference
// implementation: stable-worldmodel, gymnasium-robotics, dm_control or OGBench. Their
// numbers are tested against recordings of it, often to the last bit.
package envs

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// FrameSize is the width and height in pixels of every task's frame. FrameBytes is the
// size of one frame: row-major RGB, one byte per channel, top row first.
const (
	FrameSize  = 224
	FrameBytes = FrameSize * FrameSize * 3
)

// DefaultMaxSteps is the maximum number of steps of a collected episode if the task's
// Spec does not set one.
const DefaultMaxSteps = 200

// ErrNotExact is returned by Restarter.Restart for a row that does not contain enough
// hidden state to continue exactly as the recorded world did.
var ErrNotExact = errors.New("envs: the row does not hold enough state to restart exactly")

// ErrDiverged is wrapped by the error of Env.Step if the simulation produced NaN or huge
// values. The episode is over. The world is usable again after the next Reset, SetState
// or Restore.
var ErrDiverged = errors.New("the simulation diverged")

// Row is one row of a data set: the values of each column by name. float32 columns are
// widened exactly; a task that computes in float32 narrows them again without loss.
type Row map[string][]float64

// First returns the values and the name of the first of the columns that the row has.
// It returns an error if the row has none of them, or if the values are not width
// finite numbers.
func (r Row) First(columns []string, width int) (v []float64, name string, err error) {
	for _, name := range columns {
		v, ok := r[name]
		if !ok {
			continue
		}
		if len(v) != width {
			return nil, name, fmt.Errorf("column %s has %d numbers, not %d", name, len(v), width)
		}
		for i, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, name, fmt.Errorf("%s[%d] is %g", name, i, x)
			}
		}
		return v, name, nil
	}
	return nil, "", fmt.Errorf("the row has none of the columns %s", strings.Join(columns, ", "))
}

// Column describes a numeric column of a data set. For a task, it is a value reported
// after every reset and step. For a file, only the first four fields are set.
type Column struct {
	Name  string `json:"name"`  // as in the published files
	DType string `json:"dtype"` // float32, float64, int32, int64 or uint8 (booleans); in files also float16 and other integers
	Width int    `json:"width"` // numbers per row
	// Matrix says that a column of Width 1 is stored with shape rows x 1 instead of
	// rows. It affects only the layout of the file.
	Matrix bool `json:"-"`
	// Into marks a value of the step that led to the row (reward, terminated, substeps,
	// ...). Row 0 of an episode has no such step, so comparisons skip it.
	Into bool   `json:"into,omitempty"`
	Doc  string `json:"doc"` // unit and meaning, one line
	// Angle lists the entries that are angles in radians, which are compared modulo 2 pi.
	Angle []int `json:"-"`
	// Goal marks a value that depends on the goal. It is meaningless in a recording that
	// does not contain its goal.
	Goal bool `json:"-"`
}

// Switch is a named choice between variants of the reference implementation (numeric
// mode, contact profile, target sampler). The first value is the default.
type Switch struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	Doc    string   `json:"doc"`
	// Implied says that Resolve leaves the default out, so that data sets record only another
	// value. A switch that a task gains later needs it: data sets without the switch stay
	// equal to those that are collected with its default.
	Implied bool `json:"-"`
}

// Q is one definition of the task-relevant state q (paper section 5.1,
// docs/sources.md#task-state-q), computed from the columns of a row.
type Q struct {
	Name    string                       `json:"name"` // full, half or native
	Columns []string                     `json:"-"`
	Parts   []string                     `json:"parts"` // names of the entries, for tables; len(Parts) = d_q
	Of      func(row Row, dst []float64) `json:"-"`     // writes q to dst, of length d_q
	Printed bool                         `json:"-"`     // the paper prints this definition, although its numbers are of Qs[0]
}

// Spec describes a task. All Envs of the task share one Spec. Register fills in the
// defaults of omitted fields; after that it is never changed.
type Spec struct {
	Name      string // for example tworoom
	ID        string // for example swm/TwoRoom-v1; default Name
	Title     string // for example Two-Room; default Name
	ActionDim int
	// ActionLow and ActionHigh are the bounds of the reference implementation's action
	// space; default -1 and 1.
	ActionLow, ActionHigh []float64
	ActionDType           string // default float32
	Columns               []Column
	// GoalColumns are the columns that SetGoal reads, in order of preference. An evaluation
	// takes its goal from "goal_"+name of the first one that the data set has.
	StateColumns, GoalColumns []string
	// Velocities gives the range [from, to) of the entries of state columns that are
	// velocities. It is empty if the state has none, and nil if that is unknown.
	Velocities map[string][2]int
	// GoalAliases are columns of a recording that contain its goal under a name other than
	// "goal_"+column. SetGoal uses their values as those of GoalColumns[0].
	GoalAliases []string
	// GoalDistance returns the distance between values of a goal column and the goal, in
	// the task's physical unit (docs/sources.md#rollout-quality); default Euclidean.
	GoalDistance func(now, goal []float64) float64
	MaxSteps     int      // of a collected episode; default DefaultMaxSteps
	Qs           []Q      // Qs[0] is the default
	Switches     []Switch // nil if there is nothing to choose
	Factors      []Factor // what may vary, in the order in which it is drawn; nil if the reference implementation varies nothing
	Policies     []string // names in envs/policy; the first is the default of collect
	Success      string   // the success rule in one line
	Source       string   // what the numbers were checked against
}

// Euclidean returns the Euclidean distance between two points of the same dimension.
func Euclidean(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// Turn returns the absolute difference of two angles in radians, in [0, pi].
func Turn(a, b float64) float64 { return math.Abs(math.Remainder(a-b, 2*math.Pi)) }

// CheckAction returns an error if an action has the wrong length or contains NaN or
// infinities. All tasks call it, so that they reject the same actions with the same
// message.
func CheckAction(s *Spec, action []float64) error {
	if len(action) != s.ActionDim {
		return fmt.Errorf("task %s: an action has %d numbers, not %d", s.Name, s.ActionDim, len(action))
	}
	for i, v := range action {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("task %s: action[%d] is %g (hint: only the last row of an episode has no action)", s.Name, i, v)
		}
	}
	return nil
}

// Step is the result of one env step.
type Step struct {
	Reward     float64
	Terminated bool
	Truncated  bool
	Substeps   int // number of physics steps, 0 if the task has none
}

// Outcome is the result of the last step of an episode. The zero value means that there
// was no step, as after a reset or a SetState.
type Outcome struct {
	Step
	Stepped bool
}

// Observe writes the value of the column "reward" or "terminated" to dst[0]. Without a
// step, the reward is NaN and terminated is 0.
func (o Outcome) Observe(column string, dst []float64) {
	switch {
	case column == "terminated" && o.Terminated:
		dst[0] = 1
	case column == "terminated":
		dst[0] = 0
	case o.Stepped:
		dst[0] = o.Reward
	default:
		dst[0] = math.NaN()
	}
}

// Env is one running world. It must be used by one goroutine at a time. A new Env needs a
// Reset or a SetState before it is stepped or drawn.
type Env interface {
	// Spec returns the task's description, which must not be changed.
	Spec() *Spec
	// Reset starts an episode with the same distribution as the reference implementation's
	// reset. All random draws are from r.
	Reset(r *rand.Rand) error
	// Step applies one action of Spec.ActionDim numbers. For a NaN or infinite action it
	// returns an error and leaves the world unchanged.
	Step(action []float64) (Step, error)
	// Observe writes the current value of a column of Spec.Columns or of a Factor to dst,
	// whose length must be the column's width.
	Observe(column string, dst []float64) error
	// Frame draws the world into dst, which must have length FrameBytes. It shows what the
	// reference implementation would show, even if its image lags behind the state.
	Frame(dst []byte) error
	// SetState sets the state as the reference implementation's set-state does, from the
	// first of Spec.StateColumns that row has. It also sets the Factors that row has
	// columns for. The goal stays.
	SetState(row Row) error
	// SetGoal sets the goal from the first of Spec.GoalColumns that row has
	// (column names without the prefix goal_).
	SetGoal(row Row) error
	// Solved reports whether the current state meets the goal by the rule of Spec.Success,
	// without a step. Evaluations count starts for which this is true, and the strict
	// protocol excludes them.
	Solved() bool
	// Snapshot returns a copy of all state, hidden state included, for Restore. It stays
	// valid after further steps.
	Snapshot() Snapshot
	// Restore restores a Snapshot of a world of the same task.
	Restore(Snapshot) error
	// Close releases the world's resources.
	Close() error
}

// Snapshot is an opaque copy of a world's complete state.
type Snapshot any

// Restarter is implemented by tasks whose state is more than Spec.StateColumns, for example
// because a solver starts from its last solution. Restart continues from a recorded row, or
// returns ErrNotExact if the row lacks hidden columns. first says that the row is row 0 of
// an episode, where the hidden state is known.
type Restarter interface {
	Restart(row Row, first bool) error
}

// Controlled is implemented by tasks whose actions pass through a controller. StepControl
// is Step without the controller. ControlColumn returns the name of the column of a
// recording that contains the controller's output for the step that led to the row.
type Controlled interface {
	ControlColumn() string
	StepControl(control []float64) (Step, error)
}

// Drawer is implemented by tasks drawn with OpenGL. Software OpenGL draws one frame at a
// time per process, however many worlds there are, so callers use several processes to
// draw on all cores.
type Drawer interface {
	// OneCore returns environment variables for a process that draws on one core. It
	// returns nil if a graphics card draws, and before the first frame.
	OneCore() []string
}

// Policy chooses actions, for data collection and for the random baseline.
type Policy interface {
	// Reset starts an episode. It is called after the Env's Reset, with a separate stream.
	Reset(e Env, r *rand.Rand) error
	// Act writes the next action to dst, of length Spec.ActionDim.
	Act(e Env, dst []float64) error
}
