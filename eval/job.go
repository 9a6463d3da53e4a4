package eval

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// Arm is who acts, by what names its cells: a checkpoint, a model in another program, or
// random actions.
type Arm struct {
	Method    string // lewm, scale, aux, untrained, random, or the name of a model in Python
	TrainSeed int    // of the checkpoint, or of an untrained model's weights
	Weights   string // SHA-256 of the weights file; "": uniform random actions
	Recipe    train.Recipe
	Backbone  string // SHA-256 of a frozen encoder's weights; "" where the encoder learnt
	Python    string // what a model in Python is: world, cost or policy (results.Spec); "" for a checkpoint
	Code      string // hash of the code of a model in Python; "" for a checkpoint
	// Protocol of the checkpoint's training; "" where nothing was trained.
	// Checkpoints are evaluated under their own: under strict, one of the
	// paper's protocol has seen the held-out episodes.
	Protocol string
	Actions  dataset.Moments // of the checkpoint's training; empty where it does not say
	Data     string          // fingerprint of the data set it was trained on; "" where nothing was trained or it does not say
}

// ArmOf is the arm of a checkpoint.
func ArmOf(s *weights.Sidecar) Arm {
	a := Arm{Method: s.Method, TrainSeed: int(s.Seed), Weights: s.SHA256, Recipe: train.RecipeOf(s), Backbone: s.Backbone, Protocol: s.Protocol,
		Data: s.Data, Actions: filled(dataset.Moments{Mean: s.ActionMean, Std: s.ActionStd})}
	if s.Method == model.Untrained {
		a.Protocol, a.Data = "", ""
	}
	return a
}

// Plans says that the arm is a model, and not random actions.
func (a Arm) Plans() bool { return a.Weights != "" }

// Searches says that the arm plans by a solver.
func (a Arm) Searches() bool { return a.Plans() && a.Python != results.PythonPolicy }

// Agent is the loaded model of an arm: a World or, for a model that is no world model, a Cost
// or a Policy. Proposal, if not nil, makes the first mean of the solver.
type Agent struct {
	World            model.World
	Cost             CostModel
	Policy, Proposal Policy
}

// Load returns the agent of an arm. Evaluations call it once they have something to run.
type Load func() (Agent, error)

// Model is what evaluations have to know of any model: the size of its frames, how wide its
// actions are, and the device that its plans are searched on.
type Model interface {
	Info() model.Info
	Device() device.Device
}

// CostModel judges plans by a cost of its own, where a World's is the distance of latents.
type CostModel interface {
	Model
	// Cost is that of plans from starts to goals, E frames each.
	Cost(starts, goals []byte) (plan.Cost, error)
	PredictorCalls(h int) int // as a World's
}

// Policy makes plans of frames, without a search.
type Policy interface {
	Model
	// Plan writes plans from starts to goals, E frames each, into z, E x (Horizon*ActionWidth) z-scores.
	Plan(z []float32, starts, goals []byte) error
}

// Model is the one that plans.
func (a Agent) Model() Model {
	switch {
	case a.Cost != nil:
		return a.Cost
	case a.Policy != nil:
		return a.Policy
	}
	return a.World
}

// Job is one arm at one tier on some sets: what names their cells, and how much of the
// machine it may use. The sets are planned side by side, which no result depends on.
type Job struct {
	Task envs.Task
	Data *Data
	Arm  Arm
	results.Rules
	Solver   string // of Solvers; random actions and policies ignore it
	Tier     Tier   // Tier.For the solver
	Sets     []Set
	Fresh    bool   // existing cells count as missing, and are replaced
	Workers  int    // goroutines that simulate, 0: one
	Batch    int    // episodes planned side by side, 0: as many as keep the device busy
	Version  string // of the program, for the measured times
	Progress func(done, total int64, note string)
}

// Spec determines the cell of the job's set i.
func (j Job) Spec(i int) results.Spec {
	a, set := j.Arm, j.Sets[i]
	s := results.Spec{Schema: results.Schema, Task: j.Task.Spec.Name, Method: a.Method, Data: j.Data.Fingerprint,
		Set: set.Name, SetHash: set.Hash, Episodes: len(set.Starts)}
	if a.Searches() {
		s.Solver, s.Tier = j.Solver, j.Tier.Name
		s.Candidates, s.Iterations, s.Elites = j.Tier.Candidates, j.Tier.Iterations, j.Tier.Elites
	}
	s.Rules = j.Rules.Of(s.Solver, a.Plans())
	s.Pool = set.Pool
	if !a.Plans() {
		return s
	}
	s.TrainSeed, s.Weights, s.Recipe, s.Q, s.LossWeight = a.TrainSeed, a.Weights, a.Recipe.Hash, a.Recipe.Q, a.Recipe.Weight
	s.Backbone, s.Python, s.Code = a.Backbone, a.Python, a.Code
	if m, _, err := j.scaler(); err == nil && !sameScaler(m, j.Data.Actions) {
		s.Actions = "checkpoint"
	}
	return s
}

// scaler is what turns planned z-scores into the task's actions: mean and
// deviation of the actions that the model was trained on. The published evaluation
// takes those of the data set that it evaluates on (docs/sources.md#action-scaling), and
// so does protocol paper, which matters where that is another data set. Strict, which
// has other data for untrained models only, keeps the checkpoint's. The note says so
// then; it is empty where both are the same.
func (j Job) scaler() (m dataset.Moments, note string, err error) {
	const differ = "the actions of this data set have other means and deviations than those that the checkpoint was trained on; plans are scaled by "
	own, data := j.Arm.Actions, j.Data.Actions
	switch {
	case len(own.Mean) == 0 && j.Protocol == results.Strict:
		return m, "", fmt.Errorf("the checkpoint does not say how its actions were scaled, which --protocol strict needs (hint: --protocol paper scales them as the data set's are)")
	case len(own.Mean) == 0:
		m, note = data, "the checkpoint does not say how its actions were scaled: they are scaled as this data set's are"
	case sameScaler(own, data):
		m = own
	case j.Protocol == results.Strict:
		m, note = own, differ+"the checkpoint's"
	default:
		m, note = data, differ+"this data set's, as in the published evaluation"
	}
	return m, note, checkScaler(m, j.Task.Spec.ActionDim)
}

// Note is what a person should know about a job that passes Check: that the model
// was trained on other data, or that its actions are not scaled as one might think.
// "" is nothing.
func (j Job) Note() string {
	if !j.Arm.Plans() {
		return ""
	}
	var notes []string
	if j.otherData() {
		notes = append(notes, fmt.Sprintf("the checkpoint was trained on another data set (fingerprint %.12s, not %.12s)", j.Arm.Data, j.Data.Fingerprint))
	}
	if _, note, _ := j.scaler(); note != "" {
		notes = append(notes, note)
	}
	return strings.Join(notes, "; ")
}

// otherData says that the model was trained on another data set than this one.
func (j Job) otherData() bool { return j.Arm.Data != "" && j.Arm.Data != j.Data.Fingerprint }

func sameScaler(a, b dataset.Moments) bool {
	return slices.Equal(a.Mean, b.Mean) && slices.Equal(a.Std, b.Std)
}

// filled has a deviation of 1 for actions that never vary, as the original's scaler.
func filled(m dataset.Moments) dataset.Moments {
	m.Std = slices.Clone(m.Std)
	for i, sd := range m.Std {
		if sd == 0 {
			m.Std[i] = 1
		}
	}
	return m
}

// checkScaler refuses a scaler that no actions of a task can have.
func checkScaler(m dataset.Moments, actions int) error {
	if len(m.Mean) != actions || len(m.Std) != actions {
		return fmt.Errorf("actions are scaled by %d means and %d deviations, the task has %d actions (hint: was the checkpoint trained on another task?)", len(m.Mean), len(m.Std), actions)
	}
	for i, sd := range m.Std {
		if !(sd > 0) || math.IsInf(sd, 0) || math.IsNaN(m.Mean[i]) || math.IsInf(m.Mean[i], 0) {
			return fmt.Errorf("action %d is scaled by mean %g and deviation %g (hint: look at the data set with `scalewm data check`)", i, m.Mean[i], sd)
		}
	}
	return nil
}

// SetResult is what a job found on one of its sets: the content of a cell.
type SetResult struct {
	Result results.Result
	Run    results.Run
}

// Run evaluates all sets of a job and returns the result of each. Results do
// not depend on Workers nor on which sets run together.
func Run(ctx context.Context, j Job, a Agent) ([]SetResult, error) {
	if err := j.Check(a); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	r, err := newRunner(j, a)
	if err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	defer r.close()
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	return r.setResults(), nil
}

// Check returns an error if the arm, whose model is a, was not made for this task, data or protocol.
func (j Job) Check(a Agent) error {
	if !j.Arm.Plans() {
		return nil
	}
	if j.Solver == results.MPPI && !(j.Temperature > 0) {
		return fmt.Errorf("mppi has the temperature %g (hint: stock, paper, tuned or a positive number)", j.Temperature)
	}
	info := a.Model().Info()
	if info.FrameSkip != Block {
		return fmt.Errorf("the checkpoint was trained with frame skip %d, the evaluation plans in blocks of %d (hint: train with frame skip %d)", info.FrameSkip, Block, Block)
	}
	if want := Block * j.Task.Spec.ActionDim; info.ActionWidth != want {
		return fmt.Errorf("the checkpoint takes action blocks of %d numbers, the task has %d (hint: was it trained on another task?)", info.ActionWidth, want)
	}
	if j.Arm.Protocol != "" && j.Arm.Protocol != j.Protocol {
		return fmt.Errorf("the checkpoint was trained with --protocol %s, which decides what it has seen and how actions are scaled (hint: train with --protocol %s)", j.Arm.Protocol, j.Protocol)
	}
	if j.otherData() && j.Protocol == results.Strict {
		return fmt.Errorf("the checkpoint was trained on another data set (fingerprint %.12s, not %.12s), so that nobody knows which of these episodes it has not seen, as --protocol strict needs (hint: give the data set that it was trained on)", j.Arm.Data, j.Data.Fingerprint)
	}
	_, _, err := j.scaler()
	return err
}
