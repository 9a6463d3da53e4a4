package eval

import (
	"context"

	"scalewm/dataset"
	"scalewm/eval/plan"
	"scalewm/model"
)

// Trial plans by CEM outside an evaluation, so that plans can be timed.
type Trial struct {
	p   *planner
	eps []*episode
}

// NewTrial is so many episodes whose frames and goals are stripes.
func NewTrial(w model.World, t Tier, episodes int) *Trial {
	info := w.Info()
	p := &planner{world: w, info: info, dev: w.Device(), tier: t, abreast: episodes, protocol: dataset.Paper, sets: []Set{{}},
		solver: plan.CEM{Candidates: t.Candidates, Iterations: t.Iterations, Elites: t.Elites}}
	n := info.ActionWidth / info.FrameSkip
	p.actions = dataset.Moments{Mean: make([]float64, n), Std: make([]float64, n)}
	p.host = make([]byte, encodeFrames*p.frameBytes())
	p.pixels = p.dev.AllocBytes(len(p.host))
	tr := &Trial{p: p}
	for i := range episodes {
		ep := &episode{frame: p.newFrame()}
		for k := range ep.frame {
			ep.frame[k] = byte((k + i) * 7919 >> 3)
		}
		ep.row.PlannerSeed = uint32(i)
		tr.eps = append(tr.eps, ep)
	}
	return tr
}

// Plan makes one plan for every episode, side by side, as an evaluation does:
// start and goal encoded, the search, actions scaled back.
func (t *Trial) Plan(ctx context.Context) error {
	for _, ep := range t.eps {
		ep.goalFrame = t.p.newFrame()
	}
	if err := t.p.encodeGoals(t.eps); err != nil {
		return err
	}
	return t.p.plan(ctx, t.eps, 0)
}
