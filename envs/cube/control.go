package cube

// control is what the original's controller asks of the motors for an action: the
// effector's pose as it was seen last, moved by the action within the workspace.
func (e *env) control(action []float64, control *[nu]float64) error {
	var by [actionDim]float64
	for i, a := range action {
		by[i] = e.half(a)*(2*actionRange[i]) - actionRange[i]
	}
	to := transform{at: e.effector()}
	for i, b := range workspace {
		to.at[i] = min(max(to.at[i]+by[i], b[0]), b[1])
	}
	turned := aboutZ(by[3]).mul(aboutZ(e.effectorYaw())).mul(downward.inverse())
	to.rot = aboutZ(turned.yaw()).mul(downward)
	copy(control[:], e.qpos[:joints])
	if err := e.hand.reach(to.of(e.flangeFromPinch), control[:joints]); err != nil {
		return err
	}
	control[joints] = 255 * min(max(e.opening()+by[4], 0), 1)
	return nil
}

// half is (a + 1) / 2 in the type of the actions.
func (e *env) half(a float64) float64 {
	if e.float64 {
		return 0.5 * (a + 1)
	}
	return float64(0.5 * (float32(a) + 1))
}
