package clear

import "scalewm/eval/success"

// wraps are the names of ReacherAngleMode in a rule.
var wraps = map[string]string{"raw": "", "shoulder-periodic": success.WrapShoulder, "all-periodic": success.WrapAll}

// rule returns the success rule of an episode of a task.
func (p *Protocol) rule(task string) success.Rule {
	if p.SuccessMode == modeUpstream || p.SuccessMode == modeCubePose && task != "cube" {
		return success.Rule{}
	}
	r := success.Explicit(success.Rule{}, task)
	r.Hold = p.hold(task)
	switch task {
	case "cube":
		r.Distance = p.CubePosition
		if p.CubeOrientation != nil {
			r.Turn, r.Symmetric = *p.CubeOrientation, p.CubeSymmetry
		}
	case "pusht":
		r.Distance, r.Turn = p.PushTPosition, p.PushTAngle
		if p.PushTBlockOnly {
			r.Of = success.Block
		}
	case "reacher":
		r.Distance, r.Wrap = p.ReacherJoint, wraps[p.ReacherAngleMode]
		if p.ReacherMode == "endpoint" {
			r.Of, r.Distance, r.Wrap = success.Finger, p.ReacherEndpoint, ""
		}
	case tworoom:
		r.Distance, r.Route, r.Side = p.TwoRoomDistance, p.TwoRoomRoute, p.TwoRoomGoalSide
	}
	return r.Normal(task)
}

// startRule returns the rule by which starts are solved already. Only the protocols
// whose rule holds for all tasks apply it to starts.
func (p *Protocol) startRule(task string) success.Rule {
	if p.SuccessMode != modeSustained {
		return success.Rule{}
	}
	return p.rule(task)
}

// Rule returns the success rule of the task; the zero Rule is the upstream one.
func (e *Evaluation) Rule() success.Rule { return e.Protocol.rule(e.Task) }

// Hold returns the number of env steps in a row on which the rule must be met.
func (e *Evaluation) Hold() int { return max(1, e.Rule().Hold) }

// RuleName returns the name of the rule, whatever its hold: success.Upstream, Moderate or
// Strict, or "custom" for other numbers. Where a task's Moderate is its upstream rule, the
// protocol's way to judge decides.
func (e *Evaluation) RuleName() string {
	names := []string{success.Upstream}
	if e.Protocol.SuccessMode == modeSustained {
		names = []string{success.Moderate, success.Strict}
	}
	r := success.Explicit(e.Rule(), e.Task)
	for _, name := range names {
		named, err := success.Named(name, e.Task)
		named = success.Explicit(named, e.Task)
		if named.Hold = r.Hold; err == nil && named == r {
			return name
		}
	}
	return "custom"
}

// Swept reports whether Two-Room's agent is stopped along its path.
func (e *Evaluation) Swept() bool {
	p := e.Protocol
	return e.Task == tworoom && p.SuccessMode == modeSustained && p.TwoRoomCollisionMode == collisionSwept
}

// AllSubsteps reports whether Reacher takes both physics steps of an env step, whether
// or not the first one meets the goal.
func (e *Evaluation) AllSubsteps() bool {
	return e.Task == "reacher" && e.Protocol.SuccessMode == modeSustained
}

// measure returns the name of the distance between start and goal that MinDifficulty
// bounds. Source: clear_lewm/manifests.py, _criterion_difficulty, at ab8849c.
func measure(r success.Rule, task string) string {
	r = success.Explicit(r, task)
	switch {
	case task == "cube":
		return "position_distance_m"
	case task == "pusht" && r.Of == success.Block:
		return "block_position_distance"
	case task == "pusht":
		return "position_distance"
	case task == "reacher" && r.Of == success.Finger:
		return "endpoint_distance_m"
	case task == "reacher":
		return map[string]string{"": "max_joint_distance_rad", success.WrapShoulder: "max_topology_joint_distance_rad", success.WrapAll: "max_wrapped_joint_distance_rad"}[r.Wrap]
	case r.Route:
		return "geodesic_distance"
	}
	return "euclidean_distance"
}
