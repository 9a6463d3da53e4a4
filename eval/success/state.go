package success

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/envs"
)

// subject is a thing that a rule compares with its goal.
type subject struct {
	task, words, unit string
	columns           []string // equal columns that hold its place; a row needs one of them
	width             int      // of these columns
	from, to          int      // entries of the column that are the place
	atLimit           bool     // a distance or turn equal to the limit is near enough
	quat              string   // column of its rotation, if there is one
	// turn returns the angle between two states in degrees; nil if it has no angle.
	turn func(r Rule, now, goal *state) float64
}

var subjects = map[string]*subject{
	Agent:         {task: "tworoom", words: "agent", unit: "px", columns: []string{"state", "proprio", "pos_agent"}, width: 2, to: 2},
	AgentAndBlock: {task: "pusht", words: "agent and block", unit: "px", columns: []string{"state"}, width: 7, to: 4, turn: blockTurn},
	Block:         {task: "pusht", words: "block", unit: "px", columns: []string{"state"}, width: 7, from: 2, to: 4, turn: blockTurn},
	Joints:        {task: "reacher", words: "joints", unit: "rad", columns: []string{"qpos"}, width: 2, to: 2},
	Finger:        {task: "reacher", words: "finger", unit: "m", columns: []string{"finger_pos"}, width: 2, to: 2, atLimit: true},
	Cube: {task: "cube", words: "cube", unit: "m", columns: []string{"privileged_block_0_pos"}, width: 3, to: 3, atLimit: true,
		quat: "privileged_block_0_quat", turn: cubeTurn},
	Ball: {task: "pointmaze", words: "ball", unit: "m", columns: []string{"state"}, width: 4, to: 2},
}

// blockAngle is the entry of Push-T's state that is the block's angle in radians.
const blockAngle = 4

// subjectsOf returns what a rule of a task can be of, in alphabetical order.
func subjectsOf(task string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		if subjects[name].task == task {
			names = append(names, name)
		}
	}
	return names
}

// state is what a rule reads of a row.
type state struct {
	values [7]float64 // of the subject's column
	quat   [4]float64
}

// read reads a state from a row, and the rotation if it is needed.
func (s *subject) read(row envs.Row, rotation bool) (out state, err error) {
	v, _, err := row.First(s.columns, s.width)
	if err == nil && rotation {
		var q []float64
		if q, _, err = row.First([]string{s.quat}, len(out.quat)); err == nil && norm(q) == 0 {
			err = fmt.Errorf("column %s is 0", s.quat)
		}
		copy(out.quat[:], q)
	}
	if err != nil {
		return state{}, fmt.Errorf("success of task %s: %w (hint: the rule needs finite numbers in these columns)", s.task, err)
	}
	copy(out.values[:], v)
	return out, nil
}

// Met reports whether one state meets the goal, without hold, route and side. Starts that are
// solved already are selected by it. It computes in float64, in the order of CLEAR-LeWM. An
// env's own rule may round differently where the distance is within one part in 10⁷ (Two-Room,
// which computes in float32) or 10¹⁵ (Push-T, with fused multiply-adds) of the limit.
func (r Rule) Met(task string, now, goal envs.Row) (bool, error) {
	r, s, err := r.resolve(task)
	if err != nil {
		return false, err
	}
	a, b, err := s.readBoth(now, goal, r.rotates(s))
	return err == nil && r.met(s, &a, &b), err
}

// readBoth reads two rows.
func (s *subject) readBoth(now, goal envs.Row, rotation bool) (a, b state, err error) {
	if a, err = s.read(now, rotation); err == nil {
		b, err = s.read(goal, rotation)
	}
	return a, b, err
}

// resolve returns the rule with all its values, and what it is of.
func (r Rule) resolve(task string) (Rule, *subject, error) {
	r = Explicit(r, task)
	if r == (Rule{}) {
		return r, nil, fmt.Errorf("the success rule of task %s is its env's own (hint: ask the env)", task)
	}
	if err := r.Check(task); err != nil {
		return r, nil, err
	}
	return r, subjects[r.Of], nil
}

// rotates reports whether the rule reads quaternions.
func (r Rule) rotates(s *subject) bool { return r.Turn > 0 && s.quat != "" }

// met is Met for a resolved rule and states that are read already.
func (r Rule) met(s *subject, now, goal *state) bool {
	within := func(v, limit float64) bool { return v < limit || s.atLimit && v == limit }
	a, b := now.values[s.from:s.to], goal.values[s.from:s.to]
	d := 0.0
	if r.Of == Joints {
		d = jointDistance(a, b, r.Wrap)
	} else {
		d = distance(a, b)
	}
	return within(d, r.Distance) && (r.Turn == 0 || within(s.turn(r, now, goal), r.Turn))
}

// blockTurn returns the angle between two states of Push-T's block in degrees. Angles are
// those of the state column, in [0, 2π): they are not reduced first, as in CLEAR-LeWM.
func blockTurn(_ Rule, now, goal *state) float64 {
	a := math.Abs(goal.values[blockAngle] - now.values[blockAngle])
	return degrees(min(a, 2*math.Pi-a))
}

// cubeTurn returns the angle between two rotations of the cube in degrees.
func cubeTurn(r Rule, now, goal *state) float64 {
	if r.Symmetric {
		return CubeTurn(now.quat, goal.quat)
	}
	return Turn(now.quat, goal.quat)
}

// jointDistance returns the greatest difference of a joint in radians.
func jointDistance(now, goal []float64, wrap string) float64 {
	most := 0.0
	for i := range now {
		d := math.Abs(now[i] - goal[i])
		if wrap == WrapAll || wrap == WrapShoulder && i == 0 {
			sin, cos := math.Sincos(now[i] - goal[i])
			d = math.Abs(math.Atan2(sin, cos))
		}
		most = max(most, d)
	}
	return most
}

// distance returns the Euclidean distance. The conversion prevents a fused multiply-add.
func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		d := a[i] - b[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum)
}

// degrees converts from radians in NumPy's order of operations.
func degrees(radians float64) float64 { return radians * (180 / math.Pi) }
