package cube

import (
	"math"

	"scalewm/envs"
)

// The task state of the paper: the effector's angle counts twice, since the
// gripper looks the same after half a turn, and the cube's four times.
var (
	fullColumns = []string{"proprio_effector_pos", "proprio_effector_yaw", "proprio_gripper_opening", "privileged_block_0_pos"}
	fullParts   = []string{"effector x", "effector y", "effector z", "cos 2 yaw", "sin 2 yaw", "opening", "block x", "block y", "block z"}
)

func halfQ(row envs.Row, dst []float64) {
	copy(dst[:3], row["proprio_effector_pos"])
	circle(dst[3:5], 2*row["proprio_effector_yaw"][0])
}

func fullQ(row envs.Row, dst []float64) {
	halfQ(row, dst)
	dst[5] = row["proprio_gripper_opening"][0]
	copy(dst[6:9], row["privileged_block_0_pos"])
}

// nativeQ leaves out the fifth joint, which stands still.
func nativeQ(row envs.Row, dst []float64) {
	fullQ(row, dst)
	dst[9] = row["proprio_gripper_contact"][0]
	q := row["proprio_joint_pos"]
	for i, a := range []float64{q[0], q[1], q[2], q[3], q[5], 4 * row["privileged_block_0_yaw"][0]} {
		circle(dst[10+2*i:], a)
	}
}

// circle writes cosine and sine of an angle.
func circle(dst []float64, angle float64) { dst[0], dst[1] = math.Cos(angle), math.Sin(angle) }
