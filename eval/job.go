package eval

import (
	"context"
	"errors"
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

// Arm identifies who acts, by the fields that name its cells: a checkpoint, a model
// in another program, or random actions. It holds no weights; an Agent does.
type Arm struct {
	Method    string // lewm, scale, aux, untrained, random, or the name of a model in Python
	TrainSeed int    // of the checkpoint, or of an untrained model's initial weights
	Weights   string // SHA-256 of the weights file; "": uniform random actions
	Recipe    train.Recipe
	Backbone  string // SHA-256 of a frozen encoder's weights; "" if the encoder was trained
	Encoder   string // name of the arm that encodes the frames of a trained policy; "" for other models
	// Replaced says which components of the search are replaced.
	Replaced model.Replacement
	// Proposal is a trained policy whose plans are the solver's initial means; "" means none.
	Proposal Proposal
	Python   string // world, cost or policy (results.Spec); "" for a checkpoint
	Code     string // hash of the code of a model in Python; "" for a checkpoint
	// Protocol is the protocol of the training, paper or strict; "" if it is unknown or
	// nothing was trained. A checkpoint trained under paper has seen nearly all episodes,
	// one trained under strict all but the held-out ones.
	Protocol string
	// Actions are the moments by which the training scaled actions; empty if the
	// checkpoint does not record them, as published weights do not.
	Actions dataset.Moments
	// Data is the fingerprint of the training's data set; "" if nothing was trained or
	// the checkpoint does not record it.
	Data string
	// Trained is stored with the measured times of the arm's cells, for reports.
	Trained results.Trained
}

// Proposal identifies the checkpoint of a trained policy that proposes plans to a solver.
type Proposal struct {
	Method  string
	Weights string // SHA-256 of the weights file
}

// ArmOf returns the arm of the checkpoint that a sidecar describes. An untrained
// model has seen no data, so that it may be evaluated under any protocol and on any
// data set.
func ArmOf(s *weights.Sidecar) Arm {
	a := Arm{Method: s.Method, TrainSeed: int(s.Seed), Weights: s.SHA256, Recipe: train.RecipeOf(s), Backbone: s.Backbone, Encoder: s.Encoder, Protocol: s.Protocol,
		Data: s.Data, Actions: unitStd(dataset.Moments{Mean: s.ActionMean, Std: s.ActionStd})}
	if s.Method == model.Untrained {
		a.Protocol, a.Data = "", ""
	}
	return a
}

// Plans reports whether the arm is a model or a search, in contrast to random actions.
func (a Arm) Plans() bool {
	return a.Weights != "" || a.Replaced.Metric == model.StateDistance
}

// Searches reports whether the arm plans with a solver, in contrast to a policy.
func (a Arm) Searches() bool {
	return a.Plans() && a.Python != results.PythonPolicy && a.Encoder == ""
}

// Propose returns the arm with the plans of a trained policy as the solver's initial means.
// It returns an error unless the policy was trained on the latents of the arm's checkpoint
// and scales actions as it does.
func (a Arm) Propose(policy Arm) (Arm, error) {
	switch {
	case policy.Encoder == "":
		return a, fmt.Errorf("it is a checkpoint of %s, which is not a policy (hint: train one with --method gcidm --encoder RUN)", policy.Method)
	case !a.Searches():
		return a, fmt.Errorf("%s does not search, so that it takes no proposal (hint: give the checkpoint of a world model)", a.Method)
	case policy.Backbone != a.Weights:
		return a, fmt.Errorf("it was trained on the latents of another checkpoint, of %s (weights %.12s, not %.12s) (hint: train it with --encoder of this checkpoint)", policy.Encoder, policy.Backbone, a.Weights)
	case !sameScaler(policy.Actions, a.Actions):
		return a, errors.New("it was trained with another scaling of actions (hint: train it on the data set and with the protocol of the checkpoint)")
	}
	a.Proposal = Proposal{policy.Method, policy.Weights}
	return a, nil
}

// Agent is the loaded model of an arm. One of World, Cost, Policy and State is set: a world
// model, a model that computes the cost of plans itself, one that outputs plans, or none
// (see NewOracle). Proposal, if not nil, provides the solver's initial mean.
type Agent struct {
	World            model.World
	Cost             CostModel
	Policy, Proposal Policy
	State            Model
}

// Free releases the models of a checkpoint's agent.
func (a Agent) Free() {
	for _, p := range []Policy{a.Policy, a.Proposal} {
		if m, ok := p.(*Amortised); ok {
			m.Free()
		}
	}
	if a.World != nil {
		a.World.Free()
	}
}

// Load returns the agent of an arm. It is called once an evaluation has something to
// run. The caller that provides it owns the agent and frees it.
type Load func() (Agent, error)

// Model is what an evaluation needs of any model: its frame size, the width of its
// actions, and the device on which its plans are searched.
type Model interface {
	Info() model.Info
	Device() device.Device
}

// CostModel is a model that computes the cost of plans itself. For a World the cost
// is the distance between predicted and goal latents.
type CostModel interface {
	Model
	// Cost returns the cost of plans for E episodes. starts and goals hold E frames each,
	// back to back.
	Cost(starts, goals []byte) (plan.Cost, error)
	// PredictorCalls returns the number of predictor calls that a plan of h blocks takes,
	// as World.PredictorCalls does.
	PredictorCalls(h int) int
}

// Model returns the model that plans: Cost, Policy, State or World.
func (a Agent) Model() Model {
	switch {
	case a.State != nil:
		return a.State
	case a.Cost != nil:
		return a.Cost
	case a.Policy != nil:
		return a.Policy
	}
	return a.World
}

// Job is one arm, solver and tier on a list of sets: what determines the cells, plus
// the resources to compute them with. The episodes of all sets are planned in one
// batch. No result depends on Fresh, Workers, Batch or on which sets share a Job.
type Job struct {
	Task envs.Task
	Data *Data
	Arm  Arm
	// Outside simulates the task if it is not nil, instead of Task.New.
	Outside *World
	results.Rules
	Solver   string // one of Solvers; random actions and policies ignore it
	Tier     Tier   // the result of Tier.For the solver
	Sets     []Set
	Fresh    bool   // treat existing cells as missing, and replace them
	Workers  int    // goroutines that simulate; 0: one
	Batch    int    // episodes planned in one batch; 0: as many as fill the device
	Version  string // of the program; recorded with the measured times only
	Progress func(done, total int64, note string)
}

// Spec returns the spec of the job's set i, whose hash is the cell's id. It contains
// everything that a result depends on, and nothing else: fields that do not apply to
// the arm are zero, so that for instance random actions have one cell for all
// solvers.
func (j Job) Spec(i int) results.Spec {
	a, set := j.Arm, j.Sets[i]
	s := results.Spec{Schema: results.Schema, Task: j.Task.Spec.Name, Method: a.Method, Data: j.Data.Fingerprint,
		Set: set.Name, SetHash: set.Hash, Episodes: len(set.Starts)}
	if a.Searches() {
		s.Solver, s.Tier = j.Solver, j.Tier.Name
		s.Candidates, s.Iterations, s.Elites = j.Tier.Candidates, j.Tier.Iterations, j.Tier.Elites
	}
	s.Rules = j.Rules.Of(s.Solver, a.Plans()).Short()
	s.Wrapper = a.Replaced.String()
	if a.Weights == "" { // no GEMM
		s.Precision = ""
	}
	if w := j.Outside; w != nil {
		s.World, s.WorldHash, s.Nondeterministic = w.ID, w.Hash, w.Nondeterministic
	}
	s.Pool, s.Manifest, s.OtherData = set.Pool, set.Manifest, set.OtherData
	mark := ""
	switch {
	case s.OtherData:
		mark = results.OnOtherData
	case s.Manifest == "" && strings.HasPrefix(s.Protocol, clearPrefix):
		mark = results.OwnPairs
	}
	name := results.ProtocolOf(s.Protocol)
	s.Protocol = name + mark + s.Protocol[len(name):]
	if !a.Plans() {
		return s
	}
	s.TrainSeed, s.Weights, s.Recipe, s.Q, s.LossWeight = a.TrainSeed, a.Weights, a.Recipe.Hash, a.Recipe.Q, a.Recipe.Weight
	s.Backbone, s.Python, s.Code = a.Backbone, a.Python, a.Code
	s.Proposal, s.ProposalWeights = a.Proposal.Method, a.Proposal.Weights
	if s.Encoder = a.Encoder; a.Encoder != "" {
		s.Targets = results.ZScored
	}
	if a.Protocol != "" && a.Protocol != results.TrainingOf(s.Protocol) {
		s.Trained = a.Protocol
	}
	// The scaler enters the spec only if it is not the data set's own, which is the
	// published case: ids of existing cells stay valid. Check reports the error.
	if m, _, err := j.scaler(); err == nil && !sameScaler(m, j.Data.Actions) {
		s.Actions = "checkpoint"
	}
	return s
}

// clearPrefix begins the names of the protocols of CLEAR-LeWM.
const clearPrefix = "clear-"

// scaler returns the mean and standard deviation that turn planned z-scores into the
// task's actions, and a note for the user if they are not the obvious ones.
//
// If checkpoint and data set agree, there is one scaler. Otherwise the model was
// trained on another data set than it is evaluated on. The published evaluation
// scales by the evaluated data set (docs/sources.md#action-scaling), and so does
// ScaledByFile. ScaledByTraining keeps the checkpoint's scaler.
func (j Job) scaler() (m dataset.Moments, note string, err error) {
	differ := "the actions of this data set have other means and deviations than those that the checkpoint was trained on; plans are scaled by "
	if j.Arm.Data == j.Data.Fingerprint { // trained on a part of it
		differ = "the checkpoint was trained with the means and deviations of its training episodes; plans are scaled by "
	}
	own, data := j.Arm.Actions, j.Data.Actions
	byTraining := j.Full().Scaling == results.ScaledByTraining
	switch {
	case j.Arm.Weights == "":
		m = data
	case j.Outside != nil && !j.Data.recorded() && len(own.Mean) == 0:
		return m, "", errors.New("the model does not say how its actions were scaled, and there is no data set that would (hint: actions=(mean, deviation))")
	case j.Outside != nil && !j.Data.recorded():
		m = own
	case len(own.Mean) == 0 && byTraining:
		return m, "", fmt.Errorf("the checkpoint does not say how its actions were scaled, which --protocol %s needs (hint: --protocol paper scales them as the data set's are)", j.Protocol)
	case len(own.Mean) == 0:
		m, note = data, "the checkpoint does not say how its actions were scaled: they are scaled as this data set's are"
	case sameScaler(own, data):
		m = own
	case byTraining:
		m, note = own, differ+"the checkpoint's"
	default:
		m, note = data, differ+"this data set's, as in the published evaluation"
	}
	return m, note, checkScaler(m, j.Task.Spec.ActionDim)
}

// Note returns what a user should know about a job that passes Check: that the model
// was trained on another data set, or which of two scalers its actions use. It is ""
// if there is nothing to say.
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

// otherData reports whether the model was trained on another data set than the job's.
// An unknown data set counts as the same.
func (j Job) otherData() bool { return j.Arm.Data != "" && j.Arm.Data != j.Data.Fingerprint }

func sameScaler(a, b dataset.Moments) bool {
	return slices.Equal(a.Mean, b.Mean) && slices.Equal(a.Std, b.Std)
}

// unitStd returns m with a deviation of 1 for actions that never vary, as the
// StandardScaler of the reference implementation does; a deviation of 0 would divide
// by zero.
func unitStd(m dataset.Moments) dataset.Moments {
	m.Std = slices.Clone(m.Std)
	for i, sd := range m.Std {
		if sd == 0 {
			m.Std[i] = 1
		}
	}
	return m
}

// checkScaler returns an error if m cannot be the scaler of a task with that many
// actions.
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

// SetResult is what a job computed for one of its sets: the content of a cell, and
// the measured times of its run file.
type SetResult struct {
	Result results.Result
	Run    results.Run
}

// Run evaluates all sets of a job with the model a and returns a result for each of
// them, in order. It writes no files. Results do not depend on Workers, Batch or on
// which sets run together. a is ignored for random actions. On an error no result is
// returned, even if only one episode failed.
func Run(ctx context.Context, j Job, a Agent) ([]SetResult, error) {
	if err := j.Check(a); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	r, err := newRunner(ctx, j, a)
	if err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	defer r.close()
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("evaluating %s on %s: %w", j.Arm.Method, j.Task.Spec.Name, err)
	}
	return r.setResults(), nil
}

// Check returns an error if the arm, whose model is a, does not fit the job's task,
// data set or protocol. It compares the model's geometry with the task's actions. If
// the protocol demands held-out starts, it compares what the training has seen too.
func (j Job) Check(a Agent) error {
	if j.Outside != nil {
		if err := j.checkWorld(); err != nil {
			return err
		}
	} else if err := checkJudge(j.Task, j.Rules); err != nil {
		return err
	}
	if !j.Arm.Plans() {
		return nil
	}
	if j.Solver == results.MPPI && !(j.Temperature > 0) {
		return fmt.Errorf("mppi has the temperature %g (hint: stock, paper, tuned or a positive number)", j.Temperature)
	}
	info := a.Model().Info()
	if info.FrameSkip != j.Steps() {
		return fmt.Errorf("the checkpoint was trained with frame skip %d, the evaluation plans in blocks of %d (hint: train with frame skip %d, or set plan.block = %d in the protocol)", info.FrameSkip, j.Steps(), j.Steps(), info.FrameSkip)
	}
	if want := j.Steps() * j.Task.Spec.ActionDim; info.ActionWidth != want {
		return fmt.Errorf("the checkpoint takes action blocks of %d numbers, the task has %d (hint: was it trained on another task?)", info.ActionWidth, want)
	}
	if j.HeldOut() && j.Arm.Protocol == results.Paper {
		return fmt.Errorf("the checkpoint was trained with --protocol paper, so that it has seen the episodes that --protocol %s holds out (hint: train with --protocol strict, or evaluate with --protocol paper)", j.Protocol)
	}
	if j.otherData() && j.HeldOut() {
		return fmt.Errorf("the checkpoint was trained on another data set (fingerprint %.12s, not %.12s), so that it is unknown which of these episodes it has seen, and --protocol %s has to know (hint: give the data set that it was trained on)", j.Arm.Data, j.Data.Fingerprint, j.Protocol)
	}
	if _, _, err := j.scaler(); err != nil {
		return err
	}
	return j.checkReplaced(a)
}
