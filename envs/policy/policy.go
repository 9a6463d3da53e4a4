// Package policy holds the policies that act in tasks while data are logged:
// the published experts and uniform random actions. A policy sees what an Env
// reports in its columns and nothing else, and draws from the stream it is handed.
package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"scalewm/envs"
)

// Names that tasks list in Spec.Policies.
const (
	ExpertName  = "expert"
	UniformName = "uniform"
)

// From makes the Policy function of a task from a maker for each name of
// s.Policies. An unknown name is an error that lists them.
func From(s *envs.Spec, makers map[string]func() envs.Policy) func(name string) (envs.Policy, error) {
	return func(name string) (envs.Policy, error) {
		if maker, ok := makers[name]; ok {
			return maker(), nil
		}
		return nil, fmt.Errorf("task %s has no policy %q (hint: one of %s)", s.Name, name, strings.Join(s.Policies, ", "))
	}
}

// uniform draws each action from the task's action box.
type uniform struct{ r *rand.Rand }

// NewUniform makes a policy of independent actions, uniform between
// Spec.ActionLow and Spec.ActionHigh and rounded to float32 where the task's actions are.
func NewUniform() envs.Policy { return &uniform{} }

func (u *uniform) Reset(_ envs.Env, r *rand.Rand) error {
	u.r = r
	return nil
}

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
