package results

import "strings"

// Counts is what an arm computed in one episode. Counts of several episodes are summed.
type Counts struct {
	Decisions      int // plans of a search, answers of a policy
	EnvSteps       int // until success or the end of the budget
	Frames         int // encoded frames of the world: one for each decision, by a model or inside a policy
	Goals          int // encoded frames of goals: one for each episode
	PredictorCalls int // one for each candidate and block, more if the model's family needs more
	HeadCalls      int // calls of a policy, or of a proposal before a search
	Backward       int // backward passes: one for each candidate, iteration and block of gradient descent
	SimulatorSteps int // of planning, without the steps that the episode executes; no arm takes any
}

// Compute returns the counts of an episode. They follow from the spec and the row, because
// the row's number of calls counts those of predictors, policies and proposals together:
// an arm without a solver has a policy's only, and a proposal is called once a plan.
// Random actions only have env steps.
func Compute(s Spec, r Row) Counts {
	c := Counts{EnvSteps: r.Steps}
	if s.Solver == "" && s.Weights == "" {
		return c
	}
	c.Decisions, c.Frames, c.Goals = r.Replans, r.Replans, 1
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

// Proposed reports whether a policy proposes the solver's first mean.
func (s Spec) Proposed() bool { return s.Proposal != "" || strings.HasSuffix(s.Python, WithProposal) }

// Plus returns the sums of two counts.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Decisions + o.Decisions, c.EnvSteps + o.EnvSteps, c.Frames + o.Frames, c.Goals + o.Goals,
		c.PredictorCalls + o.PredictorCalls, c.HeadCalls + o.HeadCalls, c.Backward + o.Backward, c.SimulatorSteps + o.SimulatorSteps}
}
