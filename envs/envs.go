// Package envs says what a task is: a simulated world that is stepped on
// actions, drawn as a 224-pixel frame and judged by a success rule. One folder
// below it holds one task; the package itself knows none of them.
//
// A task never makes randomness: it is handed its *rand.Rand. It knows nothing
// of files, models or planners.
package envs

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// FrameSize is the edge in pixels of every task's frame, and FrameBytes the
// size of one frame: row-major RGB, one byte a channel.
const (
	FrameSize  = 224
	FrameBytes = FrameSize * FrameSize * 3
)

// DefaultMaxSteps is how many steps a collected episode has at most where the task does
// not say it.
const DefaultMaxSteps = 200

// ErrNotExact is returned by Restarter.Restart for a row that does not carry
// enough hidden state to continue exactly as the original did.
var ErrNotExact = errors.New("envs: the row does not hold enough state to restart exactly")

// ErrDiverged is wrapped by Env.Step's error where the numbers of the simulation
// went out of bounds: the episode is over. The world is whole again after the next
// Reset, SetState or Restore.
var ErrDiverged = errors.New("the simulation diverged")

// Row is one row of a data set by column name. float32 columns are widened
// exactly; a task that computes in float32 narrows them again.
type Row map[string][]float64

// First finds the first of the columns that the row has and checks that it
// holds width finite numbers.
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

// Column describes a numeric column of a data set: a value that a task reports
// after every reset and step, or what a file says of a stored one, which is its
// first four fields.
type Column struct {
	Name  string `json:"name"`  // as in the published files
	DType string `json:"dtype"` // float32, float64, int32, int64 or uint8 (booleans); in files also float16 and other integers
	Width int    `json:"width"` // numbers a row
	// Matrix says that a column of Width 1 is stored as rows x 1 and not as rows. It
	// changes nothing but a file's layout.
	Matrix bool `json:"-"`
	// Into marks a value that belongs to the step into the row (reward,
	// terminated, substeps, ...), so that row 0 of an episode is not compared.
	Into bool   `json:"into,omitempty"`
	Doc  string `json:"doc"` // unit and meaning, one line
	// Angle lists the entries that live on a circle of 2 pi.
	Angle []int `json:"-"`
	// Goal marks a value that depends on the goal; it means nothing in a
	// recording that does not say its goal.
	Goal bool `json:"-"`
}

// Switch is a named choice between the readings of the original that exist
// (numeric mode, contact profile, target sampler). The first value is the default.
type Switch struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	Doc    string   `json:"doc"`
}

// Q is one choice of the task-relevant state q (paper section 5.1,
// docs/sources.md#task-state-q), computed from raw columns of a row.
type Q struct {
	Name    string                       `json:"name"` // full, half or native
	Columns []string                     `json:"-"`
	Parts   []string                     `json:"parts"` // name of each entry, for tables; len(Parts) = d_q
	Of      func(row Row, dst []float64) `json:"-"`
	Printed bool                         `json:"-"` // the paper prints this one, though it used the first
}

// Spec is what a task says of itself; the same value is shared by all its Envs
// and, once Register has filled in what a task left out, is never changed.
type Spec struct {
	Name      string // tworoom
	ID        string // swm/TwoRoom-v1; Name where it is left out
	Title     string // Two-Room; Name where it is left out
	ActionDim int
	// ActionLow and ActionHigh are the bounds of the original's action space; -1 and 1
	// where they are left out.
	ActionLow, ActionHigh []float64
	ActionDType           string // float32 where it is left out
	Columns               []Column
	// GoalColumns are read by SetGoal, in order of preference. The goal of an
	// evaluation is "goal_"+name of the first that the data set has.
	StateColumns, GoalColumns []string
	// GoalAliases are columns of a recording that hold its goal under another
	// name than "goal_"+column; SetGoal takes their values as GoalColumns[0].
	GoalAliases []string
	// GoalDistance is how far values of a goal column are from the goal's, in the task's
	// physical measure (docs/sources.md#rollout-quality); the Euclidean distance where it
	// is left out.
	GoalDistance func(now, goal []float64) float64
	MaxSteps     int // of a collected episode; DefaultMaxSteps where it is left out
	Qs           []Q // Qs[0] is the default
	Switches     []Switch
	Factors      []Factor // what may vary, in the order in which it is drawn; empty where the original has nothing
	Policies     []string // names in envs/policy; the first is the default of collect
	Success      string   // the rule in one line
	Source       string   // what the numbers were checked against
}

// Euclidean is the distance of two points.
func Euclidean(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// Turn is the angle between two directions, in [0, pi].
func Turn(a, b float64) float64 { return math.Abs(math.Remainder(a-b, 2*math.Pi)) }

// CheckAction says what is wrong with an action, so that every task refuses the
// same things in the same words: a wrong length, NaN and infinities.
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

// Step is the outcome of one env step.
type Step struct {
	Reward     float64
	Terminated bool
	Truncated  bool
	Substeps   int // physics steps taken, 0 where the task has none
}

// Outcome is the last step of an episode; the zero value is that of no step, after a reset or
// a set-state.
type Outcome struct {
	Step
	Stepped bool
}

// Observe writes the column reward, which is NaN without a step, or the column terminated.
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

// Env is one running world. It is used by one goroutine at a time. A new one
// needs a Reset or a SetState before it is stepped or drawn.
type Env interface {
	Spec() *Spec
	// Reset starts an episode as the original's reset does, all draws from r.
	Reset(r *rand.Rand) error
	// Step applies one action of Spec.ActionDim numbers. A NaN or infinite
	// action is an error and leaves the world as it was.
	Step(action []float64) (Step, error)
	// Observe writes the present value of a column of Spec.Columns or of a Factor.
	Observe(column string, dst []float64) error
	// Frame draws what the original would show now, its lag included, into dst
	// of FrameBytes.
	Frame(dst []byte) error
	// SetState puts the world where the original's set-state puts it, from the
	// first of Spec.StateColumns that row has. Columns of Factors that it has are
	// taken over too.
	SetState(row Row) error
	// SetGoal sets the goal from the first of Spec.GoalColumns that row has
	// (column names without the prefix goal_).
	SetGoal(row Row) error
	// Solved says whether the goal is met now by the rule of Spec.Success, before
	// any step: evaluations count such starts and the strict protocol leaves them out.
	Solved() bool
	// Snapshot and Restore save and restore all state, hidden state included;
	// a Snapshot stays valid after further steps.
	Snapshot() Snapshot
	Restore(Snapshot) error
	Close() error
}

// Snapshot is an opaque copy of a world's whole state.
type Snapshot any

// Restarter is implemented by tasks whose hidden state is more than
// Spec.StateColumns: Restart continues from a recorded row (first says whether
// it is row 0 of an episode) or returns ErrNotExact.
type Restarter interface {
	Restart(row Row, first bool) error
}

// Controlled is implemented by tasks whose actions pass through a controller:
// StepControl is a Step with the controller left out. ControlColumn names the
// column of a recording that holds what the controller computed for the step into the row.
type Controlled interface {
	ControlColumn() string
	StepControl(control []float64) (Step, error)
}

// Drawer is implemented by tasks that OpenGL draws. In software it draws one frame at
// a time in a process, whatever the number of worlds, so that processes draw on all cores.
type Drawer interface {
	// OneCore is the environment of a process that draws on one core; nil where a
	// graphics card draws. It is known after a frame.
	OneCore() []string
}

// Policy acts in an Env: collection and the random baseline.
type Policy interface {
	// Reset is called after the Env's own Reset, with the policy's own stream.
	Reset(e Env, r *rand.Rand) error
	// Act writes the next action.
	Act(e Env, dst []float64) error
}
