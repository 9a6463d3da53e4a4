package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset/safefile"
)

// AnalysisKind is the cell kind of an analysis of a checkpoint (dataset/cell).
const AnalysisKind = "analysis"

// AnalysisSchema is the version of AnalysisSpec that this program writes.
const AnalysisSchema = 1

// AnalysisSpec determines an analysis of one checkpoint, and names its file, as Spec does
// for an evaluation. Fields of the same name have the same meaning.
type AnalysisSpec struct {
	Schema     int     `json:"schema"`
	Analysis   string  `json:"analysis"` // rank, spectrum, probe, rollout, dynamics or cost
	Protocol   string  `json:"protocol"`
	Task       string  `json:"task"`
	Method     string  `json:"method"`
	TrainSeed  int     `json:"train_seed"`
	Weights    string  `json:"weights"`
	Recipe     string  `json:"recipe,omitempty"`
	Q          string  `json:"q,omitempty"`
	LossWeight float64 `json:"loss_weight,omitempty"`
	Backbone   string  `json:"backbone,omitempty"`
	// QColumns are the columns of the task state for a data set without a task.
	QColumns string `json:"q_columns,omitempty" text:"free"`
	Data     string `json:"data"`
	Device   string `json:"device" text:"free"` // kind that encoded and predicted
	// Starts, Candidates and Noise are settings of the analysis rollout; absent in others.
	Starts     int    `json:"starts,omitempty"`
	Candidates int    `json:"candidates,omitempty"`
	Noise      string `json:"noise,omitempty"`
}

// UnmarshalJSON returns an error for a later schema, and for texts that are not valid
// names.
func (s *AnalysisSpec) UnmarshalJSON(b []byte) error {
	type plain AnalysisSpec
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	if s.Schema > AnalysisSchema {
		return fmt.Errorf("it has schema %d, this program reads up to %d (hint: use the program that wrote it, or a later one)", s.Schema, AnalysisSchema)
	}
	return safefile.CheckNames(s)
}

// Names of the analyses.
const (
	RankAnalysis     = "rank"
	SpectrumAnalysis = "spectrum"
	ProbeAnalysis    = "probe"
	RolloutAnalysis  = "rollout"
	DynamicsAnalysis = "dynamics"
	CostAnalysis     = "cost"
)

// Results are the results of the analyses of a checkpoint. Those that were not computed
// are nil.
type Results struct {
	Rank     []Rank
	Spectrum *Spectrum
	Probe    *Probe
	Rollout  *Rollout
	Dynamics *Dynamics
	Cost     *Cost
}

// Part returns a pointer to the field of an analysis, to decode its result into, and nil for
// an unknown name.
func (r *Results) Part(name string) any {
	return map[string]any{RankAnalysis: &r.Rank, SpectrumAnalysis: &r.Spectrum, ProbeAnalysis: &r.Probe, RolloutAnalysis: &r.Rollout, DynamicsAnalysis: &r.Dynamics, CostAnalysis: &r.Cost}[name]
}

// Merge replaces the results that from has.
func (r *Results) Merge(from Results) {
	if from.Rank != nil {
		r.Rank = from.Rank
	}
	if from.Spectrum != nil {
		r.Spectrum = from.Spectrum
	}
	if from.Probe != nil {
		r.Probe = from.Probe
	}
	if from.Rollout != nil {
		r.Rollout = from.Rollout
	}
	if from.Dynamics != nil {
		r.Dynamics = from.Dynamics
	}
	if from.Cost != nil {
		r.Cost = from.Cost
	}
}

// Cost is the amount of computation of a checkpoint, counted and not measured. FLOP counts
// the operations of matrix multiplications, two per multiply-add.
type Cost struct {
	Params     int     `json:"params"`
	Batch      int     `json:"batch"`       // clips of a training step; 0, like the next two, if the checkpoint does not record it
	EpochSteps int     `json:"epoch_steps"` // steps per epoch on the data set
	StepFLOP   float64 `json:"step_flop"`
	Tiers      []Plans `json:"tiers"` // T1 to T5, then their sum
	// Times are measured on one machine. They are in the run file next to the cell, and no
	// comparison reads them.
	Times *CostTimes `json:"-"`
}

// Plans is the amount of computation of one plan by CEM at a tier.
type Plans struct {
	Tier           string  `json:"tier"`
	Candidates     int     `json:"candidates,omitempty"`
	Iterations     int     `json:"iterations,omitempty"`
	Rollouts       int     `json:"rollouts"`
	PredictorCalls int     `json:"predictor_calls"` // one per candidate and block
	FLOP           float64 `json:"flop"`            // encoding start and goal, and all rollouts
}

// CostTimes are measured times of the work that Cost counts, medians of several rounds.
type CostTimes struct {
	Started string `json:"started"`
	Host    string `json:"host"`
	Threads int    `json:"threads"`
	Version string `json:"version"`
	// Recorded is the time that the training itself recorded. Step is that of an equal step
	// on this machine.
	Recorded *StepTime  `json:"recorded,omitempty"`
	Step     *StepTime  `json:"step,omitempty"`
	Plans    []PlanTime `json:"plans"` // in the order of Cost.Tiers
}

// StepTime is the duration of an optimiser step.
type StepTime struct {
	Device       string  `json:"device"`
	MsStep       float64 `json:"ms_step"`
	StepsPerSec  float64 `json:"steps_per_second"`
	EpochSeconds float64 `json:"epoch_seconds"` // without validation and saving
	// Clips is the number of clips of the step that was timed; its time was scaled to the
	// batch. Turns is the number of repetitions. Both are absent in times that a training
	// recorded.
	Clips int `json:"clips,omitempty"`
	Turns int `json:"turns,omitempty"`
}

// PlanTime is the duration of a plan for one episode, without batching.
type PlanTime struct {
	Tier    string  `json:"tier"`
	Seconds float64 `json:"seconds"`
	// Iterations is the number of iterations of the plan that was timed; its time was scaled
	// to the tier's number. Turns is the number of repetitions. Both are absent in the sum
	// over tiers.
	Iterations int `json:"iterations,omitempty"`
	Turns      int `json:"turns,omitempty"`
}

// Analysis is an analysis that was read from a store. ID is the name of its file.
type Analysis struct {
	ID   string
	Spec AnalysisSpec
	Results
}

// Number is a float64 that may be undefined: NaN in Go, null in JSON, which has no NaN.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Rank is the rank alignment of a checkpoint: how well distances between latents agree with
// distances between task states. There is one for the task state that this program uses
// and, if the paper prints another state, one for that.
type Rank struct {
	Q        string `json:"q,omitempty"` // "printed", or "" for the full state
	N        int    `json:"n"`           // frames
	Episodes int    `json:"episodes"`    // episodes of those frames
	Pairs    int    `json:"pairs"`
	Spearman Number `json:"spearman"`
	Pearson  Number `json:"pearson"`
	Lo       Number `json:"lo"` // 95 % interval of Spearman over episodes
	Hi       Number `json:"hi"`
}

// Spectrum is the PCA spectrum of latents.
type Spectrum struct {
	N             int       `json:"n"`
	Eigenvalues   []float64 `json:"eigenvalues"` // as shares of the variance, descending
	Variance      float64   `json:"variance"`    // total variance, by which the eigenvalues were divided
	Participation float64   `json:"participation_ratio"`
	EffectiveRank float64   `json:"effective_rank"`
	Stretch       Number    `json:"stretch"` // 90th over 10th percentile of |dz| / |dq|
}

// ProbeScore is the held-out accuracy of a probe that predicts one component of the task
// state from latents.
type ProbeScore struct {
	Probe     string `json:"probe"` // ridge, ridge-last (from the last components) or mlp
	K         int    `json:"k"`     // number of latent components that it uses
	Component string `json:"component"`
	R2        Number `json:"r2"`
	SD        Number `json:"sd"`             // over ten seeds, for mlp-seeds
	Note      string `json:"note,omitempty"` // why R2 is undefined, or K is not the requested one
}

// Probe is the result of all probes of a checkpoint, on N frames.
type Probe struct {
	N      int          `json:"n"`
	Scores []ProbeScore `json:"scores"`
}

// Channel measures how well one cost of candidate plans orders them, judged by a second
// cost. Its values are means over starts.
type Channel struct {
	Tau         float64 `json:"tau"`          // Kendall's tau-b
	Regret      float64 `json:"regret"`       // rank of the first cost's best candidate by the second: 0 best, 1 worst
	EliteRegret float64 `json:"elite_regret"` // mean rank of the first cost's elites by the second
	Overlap     float64 `json:"overlap"`      // share of elites that are elites of both
}

// Rollout is the quality of a model's predictions over a planning horizon, measured by
// executing candidate plans in the simulator.
type Rollout struct {
	RollErr     float64   `json:"rollerr"` // mean squared error of the last predicted latent, divided by Scale
	Tau         float64   `json:"tau"`     // Predicted.Tau
	Starts      int       `json:"starts"`  // starts that were evaluated, without Dropped
	Dropped     []Dropped `json:"dropped"`
	Candidates  int       `json:"candidates"`
	Scale       float64   `json:"scale"`       // mean squared distance between two reached latents: 2 tr Cov
	ScaleSample float64   `json:"scale_pairs"` // the same, estimated from 20,000 random pairs
	Met         int       `json:"met"`         // candidates that reached the goal before their last step
	// Predicted judges predicted costs by the costs of the encoded frames that were reached:
	// the error of the predictor. Encoded judges the latter by the distance in the
	// simulator: the error of the latent geometry. Total judges predicted costs by the
	// distance in the simulator.
	Predicted Channel    `json:"predicted"`
	Encoded   Channel    `json:"encoded"`
	Total     Channel    `json:"total"`
	PerStart  []PerStart `json:"per_start"`
}

// Dropped is a start that has no result, and why.
type Dropped struct {
	Start  int    `json:"start"` // number of the start, from 0
	Reason string `json:"reason"`
}

// PerStart is the result of one start. Comparisons of checkpoints pair them.
type PerStart struct {
	Start int     `json:"start"`
	Error float64 `json:"error"` // mean squared error of the last latent
	Tau   float64 `json:"tau"`
}

// Dynamics is the error of open-loop predictions on recorded episodes. Errors are mean
// squared distances between latents, divided by Scale.
type Dynamics struct {
	Clips    int     `json:"clips"`
	Scale    float64 `json:"scale"` // mean squared distance between two latents
	PerBlock []Block `json:"per_block"`
}

// Block is the error of predictions a number of blocks ahead.
type Block struct {
	Blocks       int     `json:"blocks"`
	Error        float64 `json:"error"`
	NoChange     float64 `json:"no_change"`     // error of predicting no change
	OtherActions float64 `json:"other_actions"` // error of the model given the actions of another clip
}

// Line is a result as JSON and tables list it: the checkpoint, and a Rank, Spectrum,
// ProbeLine, Rollout, Dynamics or CostLine.
type Line struct {
	Task   string `json:"task"`
	Method Arm    `json:"method"` // possibly with variants, such as scale@half
	Seed   int    `json:"seed"`
	Result any    `json:"-"`
}

// MarshalJSON writes the keys of the line and those of its result in one object.
func (l Line) MarshalJSON() ([]byte, error) {
	type plain Line
	of, err := json.Marshal(plain(l))
	result, err2 := json.Marshal(l.Result)
	return slices.Concat(of[:len(of)-1], []byte(","), result[1:]), cmp.Or(err, err2)
}

// ProbeLine is a probe's score with the number of frames. CostLine is a cost with its
// measured times.
type (
	ProbeLine struct {
		N int `json:"n"`
		ProbeScore
	}
	CostLine struct {
		Cost
		Times *CostTimes `json:"times"`
	}
)

// AddTo appends the results of one checkpoint to lines, which has the lines of all
// checkpoints by analysis. The fields of the argument of describe the checkpoint.
func (r Results) AddTo(lines map[string][]Line, of Line) {
	add := func(name string, result any) {
		of.Result = result
		lines[name] = append(lines[name], of)
	}
	for _, x := range r.Rank {
		add(RankAnalysis, x)
	}
	if r.Spectrum != nil {
		add(SpectrumAnalysis, *r.Spectrum)
	}
	if r.Probe != nil {
		for _, x := range r.Probe.Scores {
			add(ProbeAnalysis, ProbeLine{r.Probe.N, x})
		}
	}
	if r.Rollout != nil {
		x := *r.Rollout
		x.Dropped = append([]Dropped{}, x.Dropped...) // [] in JSON, never null
		add(RolloutAnalysis, x)
	}
	if r.Dynamics != nil {
		add(DynamicsAnalysis, *r.Dynamics)
	}
	if r.Cost != nil {
		add(CostAnalysis, CostLine{*r.Cost, r.Cost.Times})
	}
}
