// Package policy contains the policies that act in tasks while data is collected: experts
// that imitate those of the published data sets, and uniform random actions.
//
// A policy sees only what an Env reports in its columns, and draws random numbers only from
// the stream passed to Reset. A task builds its Policy function with [From].
package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"scalewm/envs"
)

// Names of policies, as listed in Spec.Policies.
const (
	ExpertName  = "expert"
	UniformName = "uniform"
)

// From returns the Policy function of a task, given a constructor for each name in
// s.Policies. For an unknown name, the function returns an error that lists the names.
func From(s *envs.Spec, makers map[string]func() envs.Policy) func(name string) (envs.Policy, error) {
	return func(name string) (envs.Policy, error) {
		if maker, ok := makers[name]; ok {
			return maker(), nil
		}
		return nil, fmt.Errorf("task %s has no policy %q (hint: one of %s)", s.Name, name, strings.Join(s.Policies, ", "))
	}
}

// uniform draws each action uniformly from the task's action space.
type uniform struct{ r *rand.Rand }

// NewUniform returns a policy with independent actions, uniform between Spec.ActionLow and
// Spec.ActionHigh. They are rounded to float32 if that is the task's action type.
func NewUniform() envs.Policy { return &uniform{} }

// Reset stores the stream.
func (u *uniform) Reset(_ envs.Env, r *rand.Rand) error {
	u.r = r
	return nil
}

// Act draws an action.
func (u *uniform) Act(e envs.Env, dst []float64) error {
	s := e.Spec()
	for i := range dst {
		dst[i] = s.ActionLow[i] + (s.ActionHigh[i]-s.ActionLow[i])*u.r.Float64()
		if s.ActionDType == "float32" {
			dst[i] = float64(float32(dst[i]))
		}
	}
	return nil
}
