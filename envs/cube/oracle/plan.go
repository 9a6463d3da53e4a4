package oracle

import (
	"math"
	"sort"
)

// Parameters of the plan oracle (docs/sources.md#cube-oracles), in seconds and metres.
const (
	planStep   = 0.05 // between steps of a plan: one env step
	segment    = 0.4  // between keyframes
	descent    = 1.5  // duration of a descent, in segments
	jitter     = 0.2  // maximum shift of a keyframe's time, in segments
	lift       = 0.1  // minimum height above block and target, and its maximum random addition
	planNoise  = 0.1  // standard deviation of the plan's noise, in full actions
	planSmooth = 0.5  // standard deviation of the smoothing along the plan, in steps
)

// pose is a position and a yaw; roll and pitch are constant.
type pose struct {
	at  vec3
	yaw float64
}

// above returns the pose raised by height.
func (p pose) above(height float64) pose {
	p.at[2] += height
	return p
}

// The keyframes of a plan.
const (
	keyInitial = iota
	keyPick    // above the block
	keyPickStart
	keyPickEnd
	keyPostPick
	keyClearance // on the way
	keyPlace     // above the target
	keyPlaceStart
	keyPlaceEnd
	keyPostPlace
	keyFinal
	keyframes
)

// keys are the keyframes of a plan: times in seconds, gripper openings (1 is closed) and
// poses.
type keys struct {
	times, grips [keyframes]float64
	poses        [keyframes]pose
}

// plan is OGBench's plan oracle. It interpolates a trajectory between keyframes, adds noise
// that is smooth in time, and follows the result step by step without feedback on the block.
type plan struct {
	begun float64              // time at the start
	steps [][actionDim]float64 // effector x, y, z, yaw, gripper opening
}

// begin draws a plan.
func (p *plan) begin(s *observation, d random) {
	p.begun = s.time
	k := newKeys(s, d)
	p.steps = p.steps[:0]
	for t := 0.0; t < k.times[keyFinal]; t += planStep {
		p.steps = append(p.steps, k.at(t))
	}
	addNoise(p.steps, d)
}

// next returns the action that leads to the plan's current step. It inverts the scaling of
// actions.
func (p *plan) next(s *observation, _ random) (action [actionDim]float64, done bool) {
	last := len(p.steps) - 1
	// The addition keeps rounding of the time from selecting the previous step.
	i := int(math.Floor((s.time - p.begun + 1e-7) / planStep))
	to := p.steps[min(i, last)]
	for j, now := range [actionDim]float64{s.hand[0], s.hand[1], s.hand[2], s.handYaw, s.opening} {
		low, high := -actionRange[j], actionRange[j]
		action[j] = clip(2*(to[j]-now-low)/(high-low) - 1)
	}
	return action, i >= last
}

// newKeys draws the keyframes, in OGBench's order of draws.
func newKeys(s *observation, d random) *keys {
	k := &keys{}
	p := &k.poses
	p[keyInitial] = pose{s.hand, s.handYaw}
	p[keyFinal].at, p[keyFinal].yaw = rest(d)

	pick := pose{s.block, nearestTurn(positive(s.handYaw), positive(s.blockYaw))}
	p[keyPick] = pick.above(lift + between(d, 0, lift))
	p[keyPickStart], p[keyPickEnd], p[keyPostPick] = pick, pick, p[keyPick]

	place := pose{s.target, nearestTurn(positive(pick.yaw), positive(s.targetYaw))}
	p[keyPlace] = place.above(lift + between(d, 0, lift))
	p[keyPlaceStart], p[keyPlaceEnd], p[keyPostPlace] = place, place, p[keyPlace]

	p[keyClearance] = midway(p[keyPostPick], p[keyPlace])
	p[keyClearance].at[2] = s.hand[2]
	for i, b := range [3][2]float64{{-0.1, 0.1}, {-0.1, 0.1}, {0, 0.2}} {
		p[keyClearance].at[i] += between(d, b[0], b[1])
	}
	k.setTimes(d)
	k.setGrips()
	return k
}

// midway returns the pose halfway along the screw motion from a to b. Its path is an arc,
// not a straight line, as OGBench interpolates in SE(3).
func midway(a, b pose) pose {
	turn := turned(b.yaw - a.yaw)
	bow := math.Tan(turn / 4)
	way := minus(b.at, a.at)
	return pose{vec3{a.at[0] + (way[0]+bow*way[1])/2, a.at[1] + (way[1]-bow*way[0])/2, a.at[2] + way[2]/2}, a.yaw + turn/2}
}

// setTimes spaces the keyframes and then shifts each one at random.
func (k *keys) setTimes(d random) {
	for i := keyPick; i < keyframes; i++ {
		takes := segment
		if i == keyPickStart || i == keyPlaceStart {
			takes = segment * descent
		}
		k.times[i] = k.times[i-1] + takes
	}
	for i := keyPick; i < keyframes; i++ {
		k.times[i] += between(d, -1, 1) * segment * jitter
	}
}

// setGrips closes the gripper between picking and placing.
func (k *keys) setGrips() {
	for i := keyPickEnd; i < keyPlaceEnd; i++ {
		k.grips[i] = 1
	}
}

// at returns the plan without noise at a time before the last keyframe: position, yaw,
// gripper.
func (k *keys) at(t float64) (step [actionDim]float64) {
	i := max(sort.Search(keyframes, func(i int) bool { return k.times[i] > t })-1, 0)
	since, takes := t-k.times[i], k.times[i+1]-k.times[i]
	line := func(a, b float64) float64 { return (b-a)/takes*since + a }
	a, b := k.poses[i], k.poses[i+1]
	for j := range a.at {
		step[j] = line(a.at[j], b.at[j])
	}
	step[3] = turned(a.yaw + since/takes*turned(b.yaw-a.yaw))
	step[4] = line(k.grips[i], k.grips[i+1])
	return step
}

// addNoise adds normal noise, smoothed along the plan by a Gaussian with a standard deviation
// of planSmooth steps. The Gaussian is truncated at two steps, and the noise is mirrored at
// both ends, as scipy's gaussian_filter1d does.
func addNoise(steps [][actionDim]float64, d random) {
	noise := make([][actionDim]float64, len(steps))
	for i := range noise {
		for j, r := range actionRange {
			noise[i][j] = d.NormFloat64() * r * planNoise
		}
	}
	one, two := math.Exp(-0.5/(planSmooth*planSmooth)), math.Exp(-2/(planSmooth*planSmooth))
	sum := 1 + 2*one + 2*two
	at := func(i int) *[actionDim]float64 {
		if i < 0 {
			i = -1 - i
		}
		if n := len(noise); i >= n {
			i = 2*n - 1 - i
		}
		return &noise[i]
	}
	for i := range steps {
		for j := range steps[i] {
			near, far := at(i - 1)[j]+at(i + 1)[j], at(i - 2)[j]+at(i + 2)[j]
			steps[i][j] += noise[i][j]/sum + far*(two/sum) + near*(one/sum)
		}
	}
}
