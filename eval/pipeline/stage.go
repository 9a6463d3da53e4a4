package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	ours := g.cells(shard, func(s Step) bool { return s.Stage() == stage })
	units := map[string]int{} // of the stage's whole steps, by ID
	for i, s := range g {
		_, divisible := s.(Divisible)
		switch {
		case stage == StageReport && divisible:
			ours[i] = given{s}
		case s.Stage() != stage || divisible:
		default:
			unit := len(units)
			for _, need := range s.Needs() {
				if u, ok := units[need]; ok {
					unit = u
				}
			}
			units[s.ID()] = unit
			if part, ok := s.(Shareable); ok && shard.N > 1 {
				ours[i] = part.Share(shard)
			} else if ok || shard.Has(unit) {
				ours[i] = s
			}
		}
	}
	return g.withNeeds(ours, func(s Step) Step { return given{s} })
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
	finished := map[string]bool{} // steps that need not be asked shard by shard
	for _, s := range g {
		if s.Stage() != stage {
			continue
		}
		state, err := s.State(ctx)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		finished[s.ID()] = state.done()
	}
	if !slices.Contains(slices.Collect(maps.Values(finished)), false) {
		return nil, nil
	}
	for i := range n {
		for _, s := range g.Stage(stage, cell.Shard{I: i, N: n}) {
			if s.Stage() != stage || finished[s.ID()] {
				continue
			}
			state, err := s.State(ctx)
			if err != nil {
				return nil, err
			}
			if !state.done() {
				shards = append(shards, i)
				break
			}
		}
	}
	return shards, nil
}
