// Package success judges episodes by the columns of their rows instead of by the env: by the
// rules that the tasks' reference implementations have, by those of CLEAR-LeWM
// (docs/sources.md#success-rules), and by variants of both.
//
// A [Rule] is the values of a rule. An [Episode] is the judge of one episode and holds what a
// rule remembers of it; it belongs to the episode, not to the world that simulates it, so an
// episode may continue in another world.
package success

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Rule is a rule of success: what has to be where, and for how long. The zero Rule is the
// upstream rule of any task, which the env itself reports. Every other Rule states all its
// numbers. Rules can be compared.
//
// Distance and turn must be smaller than their limits. Those of Finger and Cube may also equal
// them.
type Rule struct {
	// Of names what has to be near its goal: Agent (Two-Room), AgentAndBlock or Block (Push-T),
	// Joints or Finger (Reacher), Cube, Ball (PointMaze).
	Of string `json:"of,omitempty"`
	// Distance is the limit in the unit of the columns: pixels (Two-Room, Push-T), radians of
	// each joint, or metres.
	Distance float64 `json:"distance,omitempty"`
	// Turn limits the angle between block or cube and its goal, in degrees; 0 if it is free.
	Turn float64 `json:"turn,omitempty"`
	// Symmetric says that a cube may be turned onto itself: 24 rotations count as none.
	Symmetric bool `json:"symmetric,omitempty"`
	// Wrap names the joints whose full turns do not count: WrapShoulder, WrapAll, or none.
	Wrap string `json:"wrap,omitempty"`
	// Hold is the number of consecutive env steps after which the condition must be met.
	Hold int `json:"hold,omitempty"`
	// Route requires a valid route in Two-Room: no step through a wall, start and goal clear,
	// and a crossing through a door if they are in different rooms.
	Route bool `json:"route,omitempty"`
	// Side requires that the agent is on the goal's side of Two-Room's wall.
	Side bool `json:"side,omitempty"`
}

// Names of rules.
const (
	Upstream = "upstream"
	Moderate = "clear-moderate"
	Strict   = "clear-strict"
)

// Values of Rule.Of and Rule.Wrap.
const (
	Agent         = "agent"
	AgentAndBlock = "agent-and-block"
	Block         = "block"
	Joints        = "joints"
	Finger        = "finger"
	Cube          = "cube"
	Ball          = "ball"

	WrapShoulder = "shoulder"
	WrapAll      = "all"
)

// maxHold bounds Rule.Hold: far more steps than any episode has.
const maxHold = 1_000_000

// rules are the named rules of each task (docs/sources.md#success-rules).
var rules = map[string]map[string]Rule{
	"tworoom": {
		Upstream: {Of: Agent, Distance: 16, Hold: 1},
		Strict:   {Of: Agent, Distance: 8, Hold: 1, Route: true, Side: true},
	},
	"pusht": {
		Upstream: {Of: AgentAndBlock, Distance: 20, Turn: 20, Hold: 1},
		Strict:   {Of: Block, Distance: 10, Turn: 10, Hold: 3},
	},
	"reacher": {
		Upstream: {Of: Joints, Distance: .05, Hold: 1},
		Moderate: {Of: Joints, Distance: .05, Wrap: WrapShoulder, Hold: 1},
		Strict:   {Of: Finger, Distance: .01, Hold: 2},
	},
	"cube": {
		Upstream: {Of: Cube, Distance: .04, Hold: 1},
		Strict:   {Of: Cube, Distance: .03, Turn: 15, Symmetric: true, Hold: 3},
	},
	"pointmaze": {Upstream: {Of: Ball, Distance: .5, Hold: 1}},
}

// Named returns a rule by name for a task. A rule that a task does not change is its upstream
// rule: CLEAR-LeWM has none for PointMaze, and Two-Room's Moderate differs in physics only.
func Named(name, task string) (Rule, error) {
	if !slices.Contains([]string{Upstream, Moderate, Strict}, name) {
		return Rule{}, fmt.Errorf("no success rule named %q (hint: one of %s, %s, %s)", name, Upstream, Moderate, Strict)
	}
	if name != Upstream && rules[task] == nil {
		return Rule{}, fmt.Errorf("success rule %s has no values for task %s (hint: %s)", name, task, Upstream)
	}
	return rules[task][name].Normal(task), nil
}

// Explicit returns r with the values of the upstream rule written out if it is the zero Rule.
// For a task that this package does not know it is the zero Rule.
func Explicit(r Rule, task string) Rule {
	if r == (Rule{}) {
		return rules[task][Upstream]
	}
	return r
}

// Normal returns the zero Rule for a rule whose values are those of upstream, else r.
func (r Rule) Normal(task string) Rule {
	if r == rules[task][Upstream] {
		return Rule{}
	}
	return r
}

// Check returns an error for a rule that a task cannot be judged by. The zero Rule is valid
// for every task.
func (r Rule) Check(task string) error {
	if r == (Rule{}) {
		return nil
	}
	s, of := subjects[r.Of]
	names := subjectsOf(task)
	var err error
	switch {
	case names == nil:
		err = fmt.Errorf("the task has no values (hint: %s)", Upstream)
	case !of || s.task != task:
		err = fmt.Errorf("of is %q (hint: %s)", r.Of, strings.Join(names, " or "))
	case !(r.Distance > 0) || math.IsInf(r.Distance, 0):
		err = fmt.Errorf("distance is %g (hint: a number above 0, in %s)", r.Distance, s.unit)
	case r.Hold < 1 || r.Hold > maxHold:
		err = fmt.Errorf("hold is %d (hint: a number of env steps from 1)", r.Hold)
	case r.Turn != 0 && s.turn == nil:
		err = fmt.Errorf("turn is %g, but %s has no angle (hint: leave turn out)", r.Turn, s.words)
	case !(r.Turn >= 0 && r.Turn <= 180):
		err = fmt.Errorf("turn is %g (hint: degrees up to 180, or 0 for any)", r.Turn)
	case r.Symmetric && (r.Of != Cube || r.Turn == 0):
		err = fmt.Errorf("symmetric without a turn of a cube (hint: leave symmetric out, or set turn)")
	case r.Wrap != "" && (r.Of != Joints || r.Wrap != WrapShoulder && r.Wrap != WrapAll):
		err = fmt.Errorf("wrap is %q (hint: %s or %s, of %s only)", r.Wrap, WrapShoulder, WrapAll, Joints)
	case (r.Route || r.Side) && r.Of != Agent:
		err = fmt.Errorf("route and side are of Two-Room (hint: leave them out)")
	}
	if err != nil {
		return fmt.Errorf("success rule of task %s: %w", task, err)
	}
	return nil
}

// Columns returns the columns of a task's rows that the rule reads. It returns nil for a task
// that this package does not know.
func (r Rule) Columns(task string) []string {
	r = Explicit(r, task)
	s, ok := subjects[r.Of]
	if !ok {
		return nil
	}
	columns := []string{s.columns[0]}
	if r.Turn > 0 && s.quat != "" {
		columns = append(columns, s.quat)
	}
	return columns
}

// Lacks returns an error that names a column which the rule needs and a data set does not
// have. Two-Room's position may be in any of the columns that its env can be set from.
func (r Rule) Lacks(task string, has func(column string) bool) error {
	s := subjects[Explicit(r, task).Of]
	for i, c := range r.Columns(task) {
		if i == 0 && slices.ContainsFunc(s.columns, has) || i > 0 && has(c) {
			continue
		}
		return fmt.Errorf("the success rule needs column %s (hint: %s, or data with that column)", c, Upstream)
	}
	return nil
}

// String describes the rule for tables. It is empty for upstream.
func (r Rule) String() string {
	s := subjects[r.Of]
	if r == (Rule{}) {
		return ""
	}
	text := fmt.Sprintf("%s within %g %s", s.words, r.Distance, s.unit)
	if r.Turn > 0 {
		text += fmt.Sprintf(" and %g degrees", r.Turn)
	}
	if r.Symmetric {
		text += " up to the cube's symmetry"
	}
	switch r.Wrap {
	case WrapShoulder:
		text += " with the shoulder modulo a full turn"
	case WrapAll:
		text += " modulo full turns"
	}
	if r.Side {
		text += " in the goal's room"
	}
	if r.Route {
		text += " by a valid route"
	}
	if r.Hold > 1 {
		text += fmt.Sprintf(" for %d steps", r.Hold)
	}
	return text
}
