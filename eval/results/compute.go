package results

import (
	"strings"

	"scalewm/model"
)

// Counts is what an arm computed in one episode. Counts of several episodes are summed.
type Counts struct {
	Decisions      int // plans of a search, answers of a policy
	EnvSteps       int // until success or the end of the budget
	Frames         int // encoded frames of the world: one for each decision, by a model or inside a policy, or one for each candidate in the simulator
	Goals          int // encoded frames of goals: one for each episode, none if the search compares states
	PredictorCalls int // one for each candidate and block, more if the model's family needs more
	HeadCalls      int // calls of a policy, or of a proposal before a search
	Backward       int // backward passes: one for each candidate, iteration and block of gradient descent
	SimulatorSteps int // of planning, without the steps that the episode executes
}

// Compute returns the counts of an episode. They follow from the spec and the row, because
// the row's number of calls counts those of predictors, policies and proposals together:
// an arm without a solver has a policy's only, and a proposal is called once a plan.
// Random actions only have env steps.
func Compute(s Spec, r Row) Counts {
	c := Counts{EnvSteps: r.Steps}
	if s.Random() {
		return c
	}
	c.Decisions, c.Frames, c.Goals = r.Replans, r.Replans, 1
	replaced := s.Replaced()
	if rollouts := r.Replans * s.Candidates * s.Iterations; replaced.Simulator {
		c.Frames, c.SimulatorSteps = rollouts, rollouts*s.Horizon*s.Steps()
	}
	if replaced.Metric == model.StateDistance {
		c.Frames, c.Goals = 0, 0
	}
	switch {
	case s.Solver == "":
		c.HeadCalls = r.PredictorCalls
	case s.Proposed():
		c.HeadCalls = min(r.Replans, r.PredictorCalls)
	}
	if s.Solver != "" {
		c.PredictorCalls = r.PredictorCalls - c.HeadCalls
	}
	if s.Solver == Descent {
		c.Backward = c.PredictorCalls
	}
	return c
}

// Random reports whether the arm is random actions: neither a search nor a model.
func (s Spec) Random() bool { return s.Solver == "" && s.Weights == "" }

// Replaced returns which components of the search are replaced.
func (s Spec) Replaced() model.Replacement {
	return Arm{Wrappers: s.Wrapper, Method: s.Method}.Replacement()
}

// Proposed reports whether a policy proposes the solver's first mean.
func (s Spec) Proposed() bool { return s.Proposal != "" || strings.HasSuffix(s.Python, WithProposal) }

// Plus returns the sums of two counts.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Decisions + o.Decisions, c.EnvSteps + o.EnvSteps, c.Frames + o.Frames, c.Goals + o.Goals,
		c.PredictorCalls + o.PredictorCalls, c.HeadCalls + o.HeadCalls, c.Backward + o.Backward, c.SimulatorSteps + o.SimulatorSteps}
}
