// Package oracle contains the scripted policies with which OGBench collects its cube data.
// An oracle brings the block to the target, and then a new target is drawn. It sees only
// what a world reports in its columns and contains nothing about the simulation.
package oracle

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"scalewm/envs"
)

// Names of the oracles, as listed in Spec.Policies.
const (
	PlanName   = "plan"   // OGBench's "play" recipe, with which the published data was collected
	MarkovName = "markov" // decides at every step from the current observation alone
)

// actionRange is the change at an action of 1: effector x, y, z in metres, yaw in radians,
// gripper opening (docs/sources.md#cube-step).
var actionRange = [actionDim]float64{0.05, 0.05, 0.05, 0.3, 1}

const actionDim = 5

// restBox bounds the positions at which an oracle leaves the effector, in metres.
var restBox = [3][2]float64{{0.25, 0.6}, {-0.35, 0.35}, {0.20, 0.35}}

type vec3 = [3]float64

// observation is what an oracle sees of a world, in metres, radians and seconds. opening and
// contact of the gripper are in [0, 1].
type observation struct {
	time                         float64
	hand, block, target          vec3
	handYaw, blockYaw, targetYaw float64
	opening, contact             float64
}

// observe reads the columns that OGBench's oracles use.
func observe(e envs.Env) (s observation, err error) {
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
		return s, fmt.Errorf("oracle: observing the world: %w", err)
	}
	return s, nil
}

// random is the source of an oracle's draws, a *rand.Rand outside tests.
type random interface {
	Float64() float64
	NormFloat64() float64
}

// between draws uniformly from [lo, hi).
func between(d random, lo, hi float64) float64 { return lo + (hi-lo)*d.Float64() }

// rest draws a position and a yaw of the effector.
func rest(d random) (at vec3, yaw float64) {
	for i, b := range restBox {
		at[i] = between(d, b[0], b[1])
	}
	return at, between(d, -math.Pi, math.Pi)
}

// oracle is a script that brings the block to the target.
type oracle interface {
	// begin prepares for the current target.
	begin(s *observation, d random)
	// next returns an action within ±1, and whether the script has ended.
	next(s *observation, d random) (action [actionDim]float64, done bool)
}

// World is a world whose target can be drawn again.
type World interface {
	envs.Env
	Retarget(r *rand.Rand)
}

// player turns an oracle into a policy: when the oracle has ended, it draws a new target and
// starts again.
type player struct {
	oracle
	r *rand.Rand
}

// NewPlan returns the plan oracle. Its world must be a World.
func NewPlan() envs.Policy { return &player{oracle: &plan{}} }

// NewMarkov returns the Markov oracle with stable-worldmodel's noise on its actions. Its world
// must be a World.
func NewMarkov() envs.Policy { return &player{oracle: &noisy{}} }

// Reset starts the script for the current target.
func (p *player) Reset(e envs.Env, r *rand.Rand) error {
	p.r = r
	return p.start(e)
}

// start prepares the oracle for the current observation.
func (p *player) start(e envs.Env) error {
	s, err := observe(e)
	if err == nil {
		p.begin(&s, p.r)
	}
	return err
}

// Act writes the next action. When the script has ended, it draws the new target before the
// last action is taken, as stable-worldmodel does.
func (p *player) Act(e envs.Env, dst []float64) error {
	s, err := observe(e)
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
		return fmt.Errorf("oracle: the target of %s cannot be drawn again (hint: the oracles are for the task cube)", e.Spec().Name)
	}
	// The script continues in the same step, from the same state with the new target.
	w.Retarget(p.r)
	return p.start(e)
}

// nearestTurn returns the yaw nearest to the effector's among those at which the block looks
// the same, a quarter turn apart.
func nearestTurn(hand, block float64) float64 {
	best := math.Inf(1)
	nearest := block
	// One full turn in both directions covers every difference of wrapped yaws.
	for i := -4.0; i <= 4; i++ {
		yaw := i*2*math.Pi/4 + block
		if d := math.Abs(hand - yaw); d < best {
			best, nearest = d, yaw
		}
	}
	return nearest
}

// turned returns the same angle in [-π, π].
func turned(yaw float64) float64 { return math.Remainder(yaw, 2*math.Pi) }

// positive returns the same angle in [0, 2π).
func positive(yaw float64) float64 {
	if yaw = turned(yaw); yaw < 0 {
		return yaw + 2*math.Pi
	}
	return yaw
}

// minus returns a - b.
func minus(a, b vec3) vec3 { return vec3{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

// length returns the norm of the first n entries.
func length(a vec3, n int) float64 {
	sum := 0.0
	for _, x := range a[:n] {
		sum += float64(x * x)
	}
	return math.Sqrt(sum)
}

// clip limits x to [-1, 1].
func clip(x float64) float64 { return min(max(x, -1), 1) }
