package oracle

// Parameters of the Markov oracle (docs/sources.md#cube-oracles). Distances are in metres.
const (
	gainPos, gainYaw     = 5, 3
	leastMove            = 0.4  // a shorter movement is stretched to this norm before the gain
	hover                = 0.18 // height above block and target on the way
	highEnough           = 0.16
	nearXY, near         = 0.04, 0.02
	nearRest             = 0.04
	gripsFrom, openBelow = 0.5, 0.1 // contact forces
	markovSteps          = 200      // maximum number of steps
	mostNoise            = 0.1      // maximum standard deviation of an episode's noise
)

// noiseShape is the noise on each entry of the action, relative to the first.
var noiseShape = [actionDim]float64{1, 1, 1, 3, 10}

// noisy is the Markov oracle with normal noise on its actions. Its size is drawn once.
type noisy struct {
	markov
	size float64
}

func (n *noisy) begin(s *observation, d random) {
	if n.size == 0 {
		n.size = between(d, 0, mostNoise)
	}
	n.markov.begin(s, d)
}

func (n *noisy) next(s *observation, d random) (action [actionDim]float64, done bool) {
	action, done = n.markov.next(s, d)
	for i, a := range action {
		action[i] = clip(a + n.size*noiseShape[i]*d.NormFloat64())
	}
	return action, done
}

// markov is OGBench's Markov oracle: at every step it selects one of nine phases from the
// current observation.
type markov struct {
	steps   int
	rest    vec3
	restYaw float64
}

// begin draws the pose at which the effector is left at the end.
func (m *markov) begin(_ *observation, d random) {
	m.steps = 0
	m.rest, m.restYaw = rest(d)
}

// next returns the action of the current phase.
func (m *markov) next(s *observation, _ random) (action [actionDim]float64, done bool) {
	to, turn, grip := m.phase(s)
	action = move(minus(to, s.hand), turn, grip)
	m.steps++
	arrived := delivered(s) && length(minus(m.rest, s.hand), 3) <= nearRest
	return action, arrived || m.steps == markovSteps
}

// delivered reports whether the block is at the target.
func delivered(s *observation) bool { return length(minus(s.target, s.block), 3) <= near }

// phase returns the position to move to, the yaw to turn by and the gripper action: 1 closes,
// -1 opens.
func (m *markov) phase(s *observation) (to vec3, turn, grip float64) {
	blockYaw := nearestTurn(s.handYaw, s.blockYaw)
	targetYaw := nearestTurn(s.handYaw, s.targetYaw)
	high := s.hand[2] > highEnough
	grips := s.contact > gripsFrom
	overTarget := length(minus(s.target, s.block), 2) <= nearXY
	toBlock, toTarget, toRest := blockYaw-s.handYaw, targetYaw-blockYaw, m.restYaw-s.handYaw
	switch {
	case delivered(s) && s.contact >= openBelow: // let go
		return s.target, toTarget, -1
	case delivered(s) && !high: // up
		return vec3{s.block[0], s.block[1], 2 * highEnough}, toRest, -1
	case delivered(s): // away
		return m.rest, toRest, -1
	case length(minus(s.block, s.hand), 2) > nearXY: // above the block
		return vec3{s.block[0], s.block[1], s.block[2] + hover}, toBlock, -1
	case length(minus(s.block, s.hand), 3) > near: // down to it
		return s.block, toBlock, -1
	case !grips: // grasp
		return s.block, toBlock, 1
	case !high && !overTarget: // lift it
		return vec3{s.block[0], s.block[1], 2 * hover}, toTarget, 1
	case !overTarget: // carry it
		return vec3{s.target[0], s.target[1], s.target[2] + hover}, toTarget, 1
	default: // put it down
		return s.target, toTarget, 1
	}
}

// move returns the action for a displacement, a turn and a gripper action.
func move(way vec3, turn, grip float64) (action [actionDim]float64) {
	n := length(way, 3)
	for i, x := range way {
		if n < leastMove {
			x = x / (n + 1e-6) * leastMove
		}
		action[i] = clip(x * gainPos)
	}
	action[3], action[4] = clip(turn*gainYaw), grip
	return action
}
