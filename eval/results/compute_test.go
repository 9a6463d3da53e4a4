package results

import "testing"

// Each want follows by hand from the numbers of its case: two plans of 10 candidates x 3
// iterations x 5 blocks are 300 predictor calls.
func TestCompute(t *testing.T) {
	search := Spec{Solver: CEM, Weights: "w", Candidates: 10, Iterations: 3, Rules: Rules{Horizon: 5}}
	with := func(edit func(*Spec)) Spec { s := search; edit(&s); return s }
	plans := Row{Steps: 50, Replans: 2, PredictorCalls: 300}
	for name, c := range map[string]struct {
		spec Spec
		row  Row
		want Counts
	}{
		"search": {search, plans, Counts{Decisions: 2, EnvSteps: 50, Frames: 2, Goals: 1, PredictorCalls: 300}},
		// One further call a plan is the proposal's.
		"proposal":         {with(func(s *Spec) { s.Python = PythonWorld + WithProposal }), Row{Steps: 30, Replans: 2, PredictorCalls: 302}, Counts{Decisions: 2, EnvSteps: 30, Frames: 2, Goals: 1, PredictorCalls: 300, HeadCalls: 2}},
		"gradient descent": {with(func(s *Spec) { s.Solver = Descent }), plans, Counts{Decisions: 2, EnvSteps: 50, Frames: 2, Goals: 1, PredictorCalls: 300, Backward: 300}},
		// A policy that acts at every step of an episode solved after 25: GC-IDM's 25
		// encodings and 25 calls.
		"policy": {Spec{Weights: "w", Python: PythonPolicy, Rules: Rules{Act: EachStep}}, Row{Success: true, Steps: 25, Replans: 25, PredictorCalls: 25}, Counts{Decisions: 25, EnvSteps: 25, Frames: 25, Goals: 1, HeadCalls: 25}},
		"random": {Spec{}, Row{Steps: 50}, Counts{EnvSteps: 50}},
		// A family with six calls for a plan of five blocks: the row decides, not a formula.
		"six calls a plan": {search, Row{Steps: 50, Replans: 2, PredictorCalls: 360}, Counts{Decisions: 2, EnvSteps: 50, Frames: 2, Goals: 1, PredictorCalls: 360}},
	} {
		if got := Compute(c.spec, c.row); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := Compute(c.spec, c.row).Plus(c.want); got.EnvSteps != 2*c.row.Steps || got.PredictorCalls != 2*c.want.PredictorCalls {
			t.Errorf("%s: twice is %+v", name, got)
		}
	}
}
