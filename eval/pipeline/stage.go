package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/cell"
)

// Stage is the work of one kind of jobs of a batch system: steps that need no
// results of one another, or of earlier stages only.
type Stage string

const (
	StageCollect Stage = "collect"
	StageTrain   Stage = "train"
	StageEval    Stage = "eval"
	StageAnalyse Stage = "analyse"
	StageReport  Stage = "report"
)

// Stages lists all stages in the order in which they can be done.
func Stages() []Stage {
	return []Stage{StageCollect, StageTrain, StageEval, StageAnalyse, StageReport}
}

// ParseStage looks a stage up by its name.
func ParseStage(name string) (Stage, error) {
	if s := Stage(name); slices.Contains(Stages(), s) {
		return s, nil
	}
	return "", fmt.Errorf("no stage named %q (hint: one of %s)", name, strings.Trim(fmt.Sprint(Stages()), "[]"))
}

// Shareable is a step whose result several runs make side by side; what they have
// made, the step without a share puts together.
type Shareable interface {
	Step
	Share(shard cell.Shard) Step
}

// Stage is one shard's part of a stage. Cells of Divisible steps are dealt out as
// Shard does it, of a Shareable step every shard makes its share, and other steps
// are dealt out whole, together with those of the stage that need them. Results of
// earlier stages are not made: where one is missing, its step fails, and what needs it is left
// out. The report, which needs none, tells of all that is missing.
func (g Graph) Stage(stage Stage, shard cell.Shard) Graph {
	shard.N = max(shard.N, 1)
	part := make(Graph, len(g))
	for i, makers := range g.dealtStage(stage, shard.N) {
		part[i] = share(g[i], makers, shard)
		if _, divisible := g[i].(Divisible); divisible && stage == StageReport {
			part[i] = given{g[i]}
		}
	}
	return g.withNeeds(part, func(s Step) Step { return given{s} })
}

// dealtStage lists, for each step in its place in the graph, which of n shards of a stage make
// a part of it: for a Divisible step the one of each cell, none of another stage's steps.
func (g Graph) dealtStage(stage Stage, n int) [][]int {
	makers := g.dealt(n, func(s Step) bool { return s.Stage() == stage })
	units := map[string]int{} // of the stage's whole steps, by ID
	for i, s := range g {
		if _, divisible := s.(Divisible); divisible || s.Stage() != stage {
			continue
		}
		unit := len(units)
		for _, need := range s.Needs() {
			if u, ok := units[need]; ok {
				unit = u
			}
		}
		units[s.ID()] = unit
		if _, ok := s.(Shareable); ok {
			for k := range n {
				makers[i] = append(makers[i], k)
			}
		} else {
			makers[i] = []int{unit % n}
		}
	}
	return makers
}

// given is a step of an earlier stage.
type given struct{ Step }

// State counts no cells: they are another stage's.
func (s given) State(ctx context.Context) (State, error) {
	state, err := s.Step.State(ctx)
	return State{Text: state.Text}, err
}

// Run fails where the result is not there. A data set that is there is compared with
// what this machine draws.
func (s given) Run(ctx context.Context) (string, error) {
	state, err := s.Step.State(ctx)
	switch _, data := s.Step.(*Collect); {
	case err != nil:
		return "", err
	case !state.done():
		return "", fmt.Errorf("%s (hint: this stage does not make it; run --stage %s first)", state.Text, s.Stage())
	case data:
		return s.Step.Run(ctx)
	}
	return "", nil
}

// Units counts what can be dealt out of a stage: the cells of Divisible steps, and
// the other steps.
func (g Graph) Units(stage Stage) (n int) {
	for _, s := range g {
		if d, ok := s.(Divisible); ok && s.Stage() == stage {
			n += d.Len()
		} else if s.Stage() == stage {
			n++
		}
	}
	return n
}

// Left lists those of n shards of a stage that have something to do.
func (g Graph) Left(ctx context.Context, stage Stage, n int) (shards []int, err error) {
	left := make([]bool, n)
	for i, makers := range g.dealtStage(stage, n) {
		if len(makers) == 0 {
			continue
		}
		state, err := g[i].State(ctx)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if state.done() {
			continue
		}
		for k, maker := range makers {
			if left[maker] || slices.Contains(makers[:k], maker) {
				continue
			}
			state, err := share(g[i], makers, cell.Shard{I: maker, N: n}).State(ctx)
			if err != nil {
				return nil, err
			}
			left[maker] = !state.done()
		}
	}
	for i, has := range left {
		if has {
			shards = append(shards, i)
		}
	}
	return shards, nil
}
