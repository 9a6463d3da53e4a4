package oracle

// Parameters of the Markov oracle (docs/sources.md#cube-oracles), distances in metres.
const (
	gainPos, gainYaw     = 5, 3
	leastMove            = 0.4  // norm that every move is stretched to before its gain
	hover                = 0.18 // above block and target on the way
	highEnough           = 0.16
	nearXY, near         = 0.04, 0.02
	nearRest             = 0.04
	gripsFrom, openBelow = 0.5, 0.1 // of the contact
	markovSteps          = 200
	mostNoise            = 0.1 // largest standard deviation of an episode's noise
)

// noiseShape is the noise on each number of the action beside that on the first.
var noiseShape = [actionDim]float64{1, 1, 1, 3, 10}

// noisy is the Markov oracle with normal noise on its actions, whose size is drawn once.
type noisy struct {
	markov
	size float64
}

func (n *noisy) begin(s *sight, d dice) {
	if n.size == 0 {
		n.size = between(d, 0, mostNoise)
	}
	n.markov.begin(s, d)
}

func (n *noisy) next(s *sight, d dice) (action [actionDim]float64, done bool) {
	action, done = n.markov.next(s, d)
	for i, a := range action {
		action[i] = clip(a + n.size*noiseShape[i]*d.NormFloat64())
	}
	return action, done
}

// markov is OGBench's Markov oracle: one of nine phases, chosen at every step from
// what is seen.
type markov struct {
	steps   int
	rest    vec3
	restYaw float64
}

func (m *markov) begin(_ *sight, d dice) {
	m.steps = 0
	m.rest, m.restYaw = rest(d)
}

func (m *markov) next(s *sight, _ dice) (action [actionDim]float64, done bool) {
	to, turn, grip := m.phase(s)
	action = move(minus(to, s.hand), turn, grip)
	m.steps++
	arrived := delivered(s) && length(minus(m.rest, s.hand), 3) <= nearRest
	return action, arrived || m.steps == markovSteps
}

// delivered says whether the block is where it should be.
func delivered(s *sight) bool { return length(minus(s.target, s.block), 3) <= near }

// phase is where to go, how far to turn and what the gripper does: 1 closes, -1 opens.
func (m *markov) phase(s *sight) (to vec3, turn, grip float64) {
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

// move makes an action of a way, a turn and the gripper's.
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
