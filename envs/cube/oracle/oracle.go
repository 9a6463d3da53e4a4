// Package oracle holds the scripted policies that OGBench collects its cube data
// with. They see what a world reports in its columns, bring the block to the target
// and then ask for a new one; they know nothing of how the world is simulated.
package oracle

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// Names of the oracles in Spec.Policies.
const (
	PlanName   = "plan"   // OGBench's "play" recipe, of which the published data are
	MarkovName = "markov" // decides anew at every step
)

// actionRange is how far an action of 1 moves: effector x, y, z in metres, yaw in
// radians, gripper opening (docs/sources.md#cube-step).
var actionRange = [actionDim]float64{0.05, 0.05, 0.05, 0.3, 1}

const actionDim = 5

// restBox bounds the places where an oracle leaves the effector, in metres.
var restBox = [3][2]float64{{0.25, 0.6}, {-0.35, 0.35}, {0.20, 0.35}}

type vec3 = [3]float64

// sight is what an oracle sees of a world: metres, radians and seconds. Opening and
// contact of the gripper are from 0 to 1.
type sight struct {
	time                         float64
	hand, block, target          vec3
	handYaw, blockYaw, targetYaw float64
	opening, contact             float64
}

// look reads the columns that the original's oracles read.
func look(e envs.Env) (s sight, err error) {
	for _, c := range []struct {
		column string
		to     []float64
	}{
		{"proprio_effector_pos", s.hand[:]}, {"privileged_block_0_pos", s.block[:]}, {"privileged_target_block_pos", s.target[:]},
	} {
		err = errors.Join(err, e.Observe(c.column, c.to))
	}
	for column, to := range map[string]*float64{
		"time": &s.time, "proprio_effector_yaw": &s.handYaw, "privileged_block_0_yaw": &s.blockYaw,
		"privileged_target_block_yaw": &s.targetYaw, "proprio_gripper_opening": &s.opening, "proprio_gripper_contact": &s.contact,
	} {
		var v [1]float64
		err = errors.Join(err, e.Observe(column, v[:]))
		*to = v[0]
	}
	if err != nil {
		return s, fmt.Errorf("oracle: looking round: %w", err)
	}
	return s, nil
}

// dice is what an oracle draws from; a *rand.Rand.
type dice interface {
	Float64() float64
	NormFloat64() float64
}

func between(d dice, lo, hi float64) float64 { return lo + (hi-lo)*d.Float64() }

// rest draws a place and a yaw of the effector.
func rest(d dice) (at vec3, yaw float64) {
	for i, b := range restBox {
		at[i] = between(d, b[0], b[1])
	}
	return at, between(d, -math.Pi, math.Pi)
}

// oracle knows how to bring the block to the target.
type oracle interface {
	// begin prepares for the target that is seen.
	begin(s *sight, d dice)
	// next is an action within ±1, and whether the oracle has come to its end.
	next(s *sight, d dice) (action [actionDim]float64, done bool)
}

// World is a world whose target can be drawn anew.
type World interface {
	envs.Env
	Retarget(r *rand.Rand)
}

// player makes a policy of an oracle: when the oracle has finished, it begins again with a new target.
type player struct {
	oracle
	r *rand.Rand
}

// NewPlan makes the plan oracle; it acts in a World.
func NewPlan() envs.Policy { return &player{oracle: &plan{}} }

// NewMarkov makes the Markov oracle with the noise of stable-worldmodel on its
// actions; it acts in a World.
func NewMarkov() envs.Policy { return &player{oracle: &noisy{}} }

func (p *player) Reset(e envs.Env, r *rand.Rand) error {
	p.r = r
	return p.start(e)
}

func (p *player) start(e envs.Env) error {
	s, err := look(e)
	if err == nil {
		p.begin(&s, p.r)
	}
	return err
}

// Act draws the new target before the last action is taken, as stable-worldmodel does.
func (p *player) Act(e envs.Env, dst []float64) error {
	s, err := look(e)
	if err != nil {
		return err
	}
	action, done := p.next(&s, p.r)
	copy(dst, action[:])
	if !done {
		return nil
	}
	w, ok := e.(World)
	if !ok {
		return fmt.Errorf("oracle: %s has no target to be drawn anew (hint: the oracles know cube alone)", e.Spec().Name)
	}
	w.Retarget(p.r)
	return p.start(e)
}

// nearestTurn is which of the block's equal yaws, a quarter turn apart, is nearest to
// the effector's.
func nearestTurn(hand, block float64) float64 {
	best := math.Inf(1)
	nearest := block
	for i := -4.0; i <= 4; i++ {
		yaw := i*2*math.Pi/4 + block
		if d := math.Abs(hand - yaw); d < best {
			best, nearest = d, yaw
		}
	}
	return nearest
}

// turned is the same angle from -π to π.
func turned(yaw float64) float64 { return math.Remainder(yaw, 2*math.Pi) }

// positive is the same angle from 0 to 2π.
func positive(yaw float64) float64 {
	if yaw = turned(yaw); yaw < 0 {
		return yaw + 2*math.Pi
	}
	return yaw
}

func minus(a, b vec3) vec3 { return vec3{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

// length is the norm of the first n entries.
func length(a vec3, n int) float64 {
	sum := 0.0
	for _, x := range a[:n] {
		sum += float64(x * x)
	}
	return math.Sqrt(sum)
}

func clip(x float64) float64 { return min(max(x, -1), 1) }
