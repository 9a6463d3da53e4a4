package eval

import (
	"context"
	"fmt"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/record"
	"scalewm/model"
)

// Arm is what acts: a world model with a planner, or the random policy.
type Arm struct {
	Method    string // lewm, scale, aux, untrained, random
	TrainSeed int    // of the checkpoint, or of an untrained model's weights
	Weights   string // SHA-256 of the weights file; "": uniform random actions
	Precision string // of the products while planning
	// World is the loaded model. Without it an arm that plans can be asked for its
	// cells, but not run.
	World model.World
	// Protocol of the checkpoint's training; "" where nothing was trained.
	// Checkpoints are evaluated under their own: under strict, one of the
	// paper's protocol has seen the held-out episodes.
	Protocol dataset.Protocol
}

// Plans says that the arm is a model, and not random actions.
func (a Arm) Plans() bool { return a.Weights != "" }

// Job is one arm at one tier on some sets. The sets are planned side by side,
// which no result depends on.
type Job struct {
	Task     envs.Task
	Data     *Data
	Protocol dataset.Protocol
	Arm      Arm
	// Solver (of Solvers), Tier (Tier.For the solver), Temperature (of mppi) and
	// Clip (of icem) say how the arm plans; random actions ignore them.
	Solver      string
	Tier        Tier
	Temperature float64
	Clip        plan.Clip
	Sets        []Set
	Workers     int    // goroutines that simulate, 0: one
	Batch       int    // episodes planned side by side, 0: as many as keep the device busy
	Version     string // of the program, for the measured times
	Progress    func(done, total int64, note string)
}

// Spec determines the cell of the job's set i.
func (j Job) Spec(i int) record.Spec {
	s := record.Spec{
		Schema: schema, Protocol: string(j.Protocol), Task: j.Task.Spec.Name,
		Method: j.Arm.Method, Data: j.Data.Fingerprint,
		Budget: Budget, GoalOffset: GoalOffset,
		Set: j.Sets[i].Name, SetHash: j.Sets[i].Hash, Episodes: len(j.Sets[i].Starts),
	}
	if !j.Arm.Plans() {
		return s
	}
	s.TrainSeed, s.Weights, s.Precision = j.Arm.TrainSeed, j.Arm.Weights, j.Arm.Precision
	s.Solver, s.Tier, s.Horizon = j.Solver, j.Tier.Name, Horizon
	s.Candidates, s.Iterations, s.Elites = j.Tier.Candidates, j.Tier.Iterations, j.Tier.Elites
	switch j.Solver {
	case MPPI:
		s.Temperature = j.Temperature
	case ICEM:
		s.Clip = clipName(j.Clip)
	}
	return s
}

// Outcome is a finished cell of a job.
type Outcome struct {
	Result record.Result
	Run    record.Run
}

// Run evaluates all sets of a job and returns an outcome for each. Results do
// not depend on Workers nor on which sets run together.
func Run(ctx context.Context, j Job) ([]Outcome, error) {
	if err := j.Check(); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	r, err := newRunner(j)
	if err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	defer r.close()
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	return r.outcomes(), nil
}

// Check refuses an arm that was not made for this task, data or protocol.
func (j Job) Check() error {
	if !j.Arm.Plans() {
		return nil
	}
	if j.Solver == MPPI && !(j.Temperature > 0) {
		return fmt.Errorf("mppi has the temperature %g (hint: stock, paper, tuned or a positive number)", j.Temperature)
	}
	info := j.Arm.World.Info()
	if info.FrameSkip != Block {
		return fmt.Errorf("the checkpoint was trained with frame skip %d, the evaluation plans in blocks of %d (hint: train with frame skip %d)", info.FrameSkip, Block, Block)
	}
	if want := Block * j.Task.Spec.ActionDim; info.ActionWidth != want {
		return fmt.Errorf("the checkpoint takes action blocks of %d numbers, the task has %d (hint: was it trained on another task?)", info.ActionWidth, want)
	}
	if j.Arm.Protocol != "" && j.Arm.Protocol != j.Protocol {
		return fmt.Errorf("the checkpoint was trained with --protocol %s, which decides what it has seen and how actions are scaled (hint: train with --protocol %s)", j.Arm.Protocol, j.Protocol)
	}
	return nil
}
