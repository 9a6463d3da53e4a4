package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/cell"
)

// Stage is the work of one kind of job of a batch system. Its steps need results of
// earlier stages, or of steps that belong to the same shard. So all shards of a stage
// can run at the same time once the earlier stages are done.
type Stage string

const (
	StageCollect Stage = "collect"
	StageTrain   Stage = "train"
	StageEval    Stage = "eval"
	StageAnalyse Stage = "analyse"
	StageReport  Stage = "report"
)

// Stages returns all stages in the order in which they run.
func Stages() []Stage {
	return []Stage{StageCollect, StageTrain, StageEval, StageAnalyse, StageReport}
}

// ParseStage returns the stage of a name.
func ParseStage(name string) (Stage, error) {
	if s := Stage(name); slices.Contains(Stages(), s) {
		return s, nil
	}
	return "", fmt.Errorf("no stage named %q (hint: one of %s)", name, strings.Trim(fmt.Sprint(Stages()), "[]"))
}

// Shareable is a step that several processes can work on at the same time, such as
// collecting a data set. Share returns the step that makes one share of the parts.
// The step without a share assembles the parts, and makes those that are missing.
type Shareable interface {
	Step
	Share(shard cell.Shard) Step
}

// Stage returns one shard's part of a stage. The cells of Divisible steps are
// assigned as in Shard. Every shard makes its share of a Shareable step. All other
// steps are assigned round-robin, together with the steps of the same stage that need
// them.
//
// Results of earlier stages are required and not computed: a job must not start to
// train because its dependency failed. If one is missing, its step fails and the
// steps that need it are skipped. The report needs no step in particular and
// describes whatever exists.
func (g Graph) Stage(stage Stage, shard cell.Shard) Graph {
	shard.N = max(shard.N, 1)
	part := make(Graph, len(g))
	for i, shards := range g.stageAssignment(stage, shard.N) {
		part[i] = partOf(g[i], shards, shard)
		if _, divisible := g[i].(Divisible); divisible && stage == StageReport {
			part[i] = required{g[i]}
		}
	}
	return g.withNeeds(part, func(s Step) Step { return required{s} })
}

// stageAssignment returns, for each step at its index in the graph, which of n shards
// of a stage compute each part of it: for a Divisible step the shard of each cell,
// for a Shareable step all shards, for another step of the stage its only shard. The
// entries of steps of other stages are nil.
func (g Graph) stageAssignment(stage Stage, n int) [][]int {
	shards := g.assignment(n, func(s Step) bool { return s.Stage() == stage })
	units := map[string]int{} // unit number of the stage's indivisible steps, by ID
	for i, s := range g {
		if _, divisible := s.(Divisible); divisible || s.Stage() != stage {
			continue
		}
		// A step that needs another one of the stage (tuning needs the baseline's training)
		// joins its unit, since stages run their shards concurrently.
		unit := len(units)
		for _, need := range s.Needs() {
			if u, ok := units[need]; ok {
				unit = u
			}
		}
		units[s.ID()] = unit
		if _, ok := s.(Shareable); ok {
			for k := range n {
				shards[i] = append(shards[i], k)
			}
		} else {
			shards[i] = []int{unit % n}
		}
	}
	return shards
}

// required is a step of an earlier stage, whose result this stage requires.
type required struct{ Step }

// State drops the numbers of cells: forecasts count them in their own stage.
func (s required) State(ctx context.Context) (State, error) {
	state, err := s.Step.State(ctx)
	return State{Text: state.Text}, err
}

// Run returns an error if the step's result is missing or incomplete. For a data set
// it runs the step, which then compares the data set with what this machine draws:
// another node may have another renderer than the one that collected.
func (s required) Run(ctx context.Context) (string, error) {
	state, err := s.Step.State(ctx)
	switch _, data := s.Step.(*Collect); {
	case err != nil:
		return "", err
	case !state.done():
		return "", fmt.Errorf("%s (hint: this stage does not compute it; run --stage %s first)", state.Text, s.Stage())
	case data:
		return s.Step.Run(ctx)
	}
	return "", nil
}

// Units returns the number of units of a stage that shards can divide among
// themselves: the cells of Divisible steps, and 1 for each other step.
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

// Left returns those of n shards of a stage that still have something to do, so that
// only they are submitted again.
func (g Graph) Left(ctx context.Context, stage Stage, n int) (shards []int, err error) {
	left := make([]bool, n)
	for i, shards := range g.stageAssignment(stage, n) {
		if len(shards) == 0 {
			continue
		}
		state, err := g[i].State(ctx)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if state.done() {
			continue
		}
		// The step is incomplete: look at each of its shards' parts once.
		for k, shard := range shards {
			if left[shard] || slices.Contains(shards[:k], shard) {
				continue
			}
			state, err := partOf(g[i], shards, cell.Shard{I: shard, N: n}).State(ctx)
			if err != nil {
				return nil, err
			}
			left[shard] = !state.done()
		}
	}
	for i, has := range left {
		if has {
			shards = append(shards, i)
		}
	}
	return shards, nil
}
