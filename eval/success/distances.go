package success

import (
	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
)

// Distances returns how far two states of a task are from each other, under the names of
// CLEAR-LeWM's manifests: distances in pixels, metres, degrees (_deg) or radians (_rad); 1 or 0
// for yes or no. What a row has no valid column for is absent. Two-Room's floor is the
// published one.
func Distances(task string, now, goal envs.Row) map[string]float64 {
	out := map[string]float64{}
	between := func(of string, rotation bool, add func(a, b *state)) {
		if a, b, err := subjects[of].readBoth(now, goal, rotation); err == nil {
			add(&a, &b)
		}
	}
	switch task {
	case "tworoom":
		between(Agent, false, func(a, b *state) {
			floor, from, to := disc.Canonical(), a.place(), b.place()
			out["euclidean_distance"] = distance(to[:], from[:])
			out["geodesic_distance"] = floor.Path(from, to)
			out["cross_room"] = number(floor.Crosses(from, to))
			out["start_clear"] = number(floor.Clear(from))
			out["goal_clear"] = number(floor.Clear(to))
		})
	case "pusht":
		between(Block, false, func(a, b *state) {
			out["position_distance"] = distance(a.values[:4], b.values[:4])
			out["block_position_distance"] = distance(a.values[2:4], b.values[2:4])
			out["angle_distance_deg"] = blockTurn(Rule{}, a, b)
		})
	case "reacher":
		between(Joints, false, func(a, b *state) {
			out["max_joint_distance_rad"] = jointDistance(a.values[:2], b.values[:2], "")
			out["max_wrapped_joint_distance_rad"] = jointDistance(a.values[:2], b.values[:2], WrapAll)
			out["max_topology_joint_distance_rad"] = jointDistance(a.values[:2], b.values[:2], WrapShoulder)
		})
		between(Finger, false, func(a, b *state) {
			out["endpoint_distance_m"] = distance(a.values[:2], b.values[:2])
		})
	case "cube":
		between(Cube, false, func(a, b *state) {
			out["position_distance_m"] = distance(a.values[:3], b.values[:3])
		})
		between(Cube, true, func(a, b *state) {
			out["orientation_distance_deg"] = Turn(a.quat, b.quat)
			out["symmetry_orientation_distance_deg"] = CubeTurn(a.quat, b.quat)
		})
	}
	return out
}

// number returns 1 for true.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
