package clear

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"scalewm/eval/starts"
)

// Values of fields of a Protocol.
const (
	// SuccessMode.
	modeUpstream  = "upstream"
	modeCubePose  = "cube-pose"
	modeSustained = "task-sustained"
	// Splits of the episodes.
	SplitAll     = "all"
	SplitTrain   = "train"
	SplitHeldOut = "heldout"
	// TwoRoomCollisionMode.
	collisionOfficial = "official"
	collisionSwept    = "swept"
)

var splits = []string{SplitAll, SplitTrain, SplitHeldOut}

// names are the protocols that CLEAR-LeWM knows. A manifest of another one is not
// executable there either.
var names = []string{"official", "moderate", "strict", "official-compat", "clear-id", "clear-standard", "clear-hard"}

// maxSteps bounds numbers of steps, so that sums of them do not overflow.
const maxSteps = 1 << 20

// Protocol is the protocol object of a manifest, in which missing keys have their
// defaults. Distances are in the task's unit, angles as the name says. Of the
// thresholds only those of the manifest's task have a meaning.
// Source: clear_lewm/protocols.py, ProtocolSpec, at ab8849c.
type Protocol struct {
	Name, Description, Sampling, Split string

	HeldOutFraction       float64
	ExcludeInitialSuccess bool
	GoalOffset, Budget    int
	MinusOne              bool               // the last candidate is never drawn
	MinDifficulty         map[string]float64 // by task
	SuccessMode           string
	Sustained             map[string]int // by task; "" for the tasks without an own number

	CubePosition    float64  // m
	CubeOrientation *float64 // degrees; nil: any
	CubeSymmetry    bool

	PushTPosition, PushTAngle float64 // pixels, degrees
	PushTBlockOnly            bool

	ReacherJoint     float64 // rad
	ReacherAngleMode string  // raw, shoulder-periodic, all-periodic
	ReacherMode      string  // joint, endpoint
	ReacherEndpoint  float64 // m

	TwoRoomDistance                      float64 // pixels
	TwoRoomCrossRoom, TwoRoomCleanWindow bool
	TwoRoomRoute, TwoRoomGoalSide        bool
	TwoRoomCollisionMode                 string

	// Ignored has the keys of the object that are not known here, sorted.
	Ignored []string
}

// parseProtocol reads a protocol object and checks its values.
func parseProtocol(raw json.RawMessage) (Protocol, error) {
	o := parseObject(raw, "its protocol")
	p := Protocol{
		Name:                  need[string](o, "name"),
		Description:           need[string](o, "description"),
		Sampling:              need[string](o, "sampling"),
		Split:                 need[string](o, "split"),
		HeldOutFraction:       need[float64](o, "heldout_fraction"),
		ExcludeInitialSuccess: need[bool](o, "exclude_initial_success"),
		GoalOffset:            optional(o, "goal_offset", 25),
		Budget:                optional(o, "eval_budget", 50),
		MinusOne:              optional(o, "reproduce_upstream_off_by_one", false),
		MinDifficulty:         optional(o, "min_difficulty", map[string]float64{}),
		SuccessMode:           optional(o, "success_mode", modeUpstream),
		Sustained:             map[string]int{"": optional(o, "sustained_steps", 1)},
		CubePosition:          optional(o, "cube_position_threshold_m", 0.04),
		CubeOrientation:       optional[*float64](o, "cube_orientation_threshold_deg", nil),
		CubeSymmetry:          optional(o, "cube_symmetry_aware", false),
		PushTPosition:         optional(o, "pusht_position_threshold", 20.0),
		PushTAngle:            optional(o, "pusht_angle_threshold_deg", 20.0),
		PushTBlockOnly:        optional(o, "pusht_block_only", false),
		ReacherJoint:          optional(o, "reacher_joint_threshold_rad", 0.05),
		ReacherMode:           optional(o, "reacher_success_mode", "joint"),
		ReacherEndpoint:       optional(o, "reacher_endpoint_threshold_m", 0.015),
		TwoRoomDistance:       optional(o, "tworoom_distance_threshold", 16.0),
		TwoRoomCrossRoom:      optional(o, "tworoom_crossroom_only", false),
		TwoRoomCleanWindow:    optional(o, "tworoom_source_window_clean", false),
		TwoRoomRoute:          optional(o, "tworoom_route_required", false),
		TwoRoomGoalSide:       optional(o, "tworoom_goal_side_required", false),
		TwoRoomCollisionMode:  optional(o, "tworoom_collision_mode", collisionOfficial),
	}
	for _, task := range tasks {
		if steps := optional[*int](o, task+"_sustained_steps", nil); steps != nil {
			p.Sustained[task] = *steps
		}
	}
	p.ReacherAngleMode = "raw"
	if optional(o, "reacher_wrap_angles", false) {
		p.ReacherAngleMode = "all-periodic"
	}
	if mode := optional[*string](o, "reacher_angle_mode", nil); mode != nil {
		p.ReacherAngleMode = *mode
	}
	p.Ignored = o.unread()
	p.check(o)
	return p, o.err
}

// check records an error if a value is not possible.
func (p *Protocol) check(o *object) {
	oneOf := func(key, value string, valid ...string) {
		if !slices.Contains(valid, value) {
			o.fail(fmt.Errorf("unknown %s %.40q (hint: one of %v)", key, value, valid))
		}
	}
	oneOf("name", p.Name, names...)
	oneOf("sampling", p.Sampling, starts.RowUniform, starts.EpisodeBalanced)
	oneOf("split", p.Split, splits...)
	oneOf("success_mode", p.SuccessMode, modeUpstream, modeCubePose, modeSustained)
	oneOf("reacher_angle_mode", p.ReacherAngleMode, "raw", "shoulder-periodic", "all-periodic")
	oneOf("reacher_success_mode", p.ReacherMode, "joint", "endpoint")
	oneOf("tworoom_collision_mode", p.TwoRoomCollisionMode, collisionOfficial, collisionSwept)
	for key, steps := range map[string]int{"goal_offset": p.GoalOffset, "eval_budget": p.Budget} {
		if steps < 1 || steps > maxSteps {
			o.fail(fmt.Errorf("its %s is %d (hint: from 1 to %d)", key, steps, maxSteps))
		}
	}
	if !(p.HeldOutFraction >= 0 && p.HeldOutFraction < 1) {
		o.fail(fmt.Errorf("a heldout_fraction of %g (hint: at least 0 and below 1)", p.HeldOutFraction))
	}
	for _, steps := range p.Sustained {
		if steps < 1 || steps > maxSteps {
			o.fail(fmt.Errorf("success after %d steps in a row (hint: sustained_steps are from 1 to %d)", steps, maxSteps))
		}
	}
	for _, v := range []float64{p.CubePosition, p.PushTPosition, p.PushTAngle, p.ReacherJoint, p.ReacherEndpoint, p.TwoRoomDistance} {
		if !(v > 0) || math.IsInf(v, 0) {
			o.fail(fmt.Errorf("a success threshold of %g (hint: above 0)", v))
		}
	}
	if v := p.CubeOrientation; v != nil && !(*v > 0) {
		o.fail(fmt.Errorf("a success threshold of %g degrees (hint: above 0)", *v))
	}
	if p.SuccessMode == modeCubePose && p.CubeOrientation == nil {
		o.fail(fmt.Errorf("success_mode %s without a cube_orientation_threshold_deg (hint: fetch the file again)", modeCubePose))
	}
	for task, v := range p.MinDifficulty {
		if !slices.Contains(tasks, task) {
			o.fail(fmt.Errorf("a min_difficulty of %g for the unknown task %.40q (hint: one of %v)", v, task, tasks))
		}
	}
}

// hold returns the number of steps in a row that a task's success rule demands.
func (p *Protocol) hold(task string) int {
	if n, ok := p.Sustained[task]; ok {
		return n
	}
	return p.Sustained[""]
}
