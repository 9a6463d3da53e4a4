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

// AnalysisSchema is the latest version of AnalysisSpec. Version 2 is only used for
//
//   - the cost of models with a frozen encoder: version 1 leaves out the encoder's share of
//     a training step
//   - alignments: the interval of version 1 is not centred, since its bootstrap samples have
//     pairs of two copies of one episode
const AnalysisSchema = 2

// AnalysisSpec determines an analysis of one checkpoint. Fields that Spec has too have
// the same meaning.
type AnalysisSpec struct {
	Schema     int     `json:"schema"`
	Analysis   string  `json:"analysis"` // rank, spectrum, probe, leverage, rollout, dynamics, cost or selection
	Protocol   string  `json:"protocol"`
	Task       string  `json:"task"`
	Method     string  `json:"method"`
	TrainSeed  int     `json:"train_seed"`
	Weights    string  `json:"weights"`
	Recipe     string  `json:"recipe,omitempty"`
	Q          string  `json:"q,omitempty"`
	LossWeight float64 `json:"loss_weight,omitempty"`
	Backbone   string  `json:"backbone,omitempty"`
	// QColumns names the columns of the task state. It is empty if the task of the data set
	// determines them.
	QColumns string `json:"q_columns,omitempty" text:"free"`
	Data     string `json:"data"`
	Device   string `json:"device" text:"free"` // kind of device that encoded and predicted
	// Starts, Candidates and Noise are those of rollouts, and absent for other analyses.
	Starts     int    `json:"starts,omitempty"`
	Candidates int    `json:"candidates,omitempty"`
	Noise      string `json:"noise,omitempty"`
}

// Version returns the schema that this program writes for such an analysis.
func (s AnalysisSpec) Version() int {
	if s.Analysis == RankAnalysis || s.Analysis == CostAnalysis && s.Backbone != "" {
		return AnalysisSchema
	}
	return 1
}

// Outdated reports whether an earlier version of the program wrote the analysis, which
// has another id than the current one and measures something else.
func (s AnalysisSpec) Outdated() bool { return max(1, s.Schema) < s.Version() }

// UnmarshalJSON returns an error for later schemas, and for texts that are not valid
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
	RankAnalysis      = "rank"
	LeverageAnalysis  = "leverage"
	SpectrumAnalysis  = "spectrum"
	ProbeAnalysis     = "probe"
	RolloutAnalysis   = "rollout"
	DynamicsAnalysis  = "dynamics"
	CostAnalysis      = "cost"
	SelectionAnalysis = "selection"
)

// Results are the results of a checkpoint's analyses. Those that were not run are nil.
type Results struct {
	Rank      []Rank
	Spectrum  *Spectrum
	Probe     *Probe
	Leverage  *Leverage
	Rollout   *Rollout
	Dynamics  *Dynamics
	Cost      *Cost
	Selection *Selection
}

// Part returns a pointer to the field for the result of a named analysis, for decoding
// JSON. It returns nil for an unknown name.
func (r *Results) Part(name string) any {
	return map[string]any{RankAnalysis: &r.Rank, SpectrumAnalysis: &r.Spectrum, ProbeAnalysis: &r.Probe, LeverageAnalysis: &r.Leverage, RolloutAnalysis: &r.Rollout, DynamicsAnalysis: &r.Dynamics, CostAnalysis: &r.Cost, SelectionAnalysis: &r.Selection}[name]
}

// Merge sets the results that from has.
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
	if from.Leverage != nil {
		r.Leverage = from.Leverage
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
	if from.Selection != nil {
		r.Selection = from.Selection
	}
}

// Cost is the amount of work of a checkpoint, counted instead of measured. Operations
// (FLOP) are those of GEMMs, with two for a multiply-add.
type Cost struct {
	Params     int     `json:"params"`
	Batch      int     `json:"batch"`       // clips of a training step; 0 if the checkpoint does not say
	EpochSteps int     `json:"epoch_steps"` // steps per epoch on the data set; likewise
	StepFLOP   float64 `json:"step_flop"`   // operations of a training step, with the encoder; likewise
	// EncoderFLOP is the part of StepFLOP that a frozen encoder takes, and that cached
	// features save. It is absent if the encoder learns.
	EncoderFLOP float64 `json:"encoder_flop,omitempty"`
	Tiers       []Plans `json:"tiers"` // T1 to T5, then their sum
	// Times are measured on one machine, so they are not part of the result. They are in the
	// file of measured times next to the cell, which no comparison reads.
	Times *CostTimes `json:"-"`
}

// Plans is the amount of work of one plan by CEM.
type Plans struct {
	Tier           string  `json:"tier"`
	Candidates     int     `json:"candidates,omitempty"`
	Iterations     int     `json:"iterations,omitempty"`
	Rollouts       int     `json:"rollouts"`
	PredictorCalls int     `json:"predictor_calls"` // one for each candidate and block
	FLOP           float64 `json:"flop"`            // encoding start and goal, and all rollouts
}

// CostTimes are the measured times of this work on one machine, medians of several runs.
type CostTimes struct {
	Started string `json:"started"`
	Host    string `json:"host"`
	Threads int    `json:"threads"`
	Version string `json:"version"`
	// Recorded is the time that the training itself recorded. Step is that of a step of the
	// same size on this machine, with the encoder. OnFeatures is that without a frozen
	// encoder, absent if the encoder learns. Frames and features are on the device.
	Recorded   *StepTime  `json:"recorded,omitempty"`
	Step       *StepTime  `json:"step,omitempty"`
	OnFeatures *StepTime  `json:"step_on_features,omitempty"`
	Plans      []PlanTime `json:"plans"` // in the order of Cost.Tiers
}

// StepTime is the time of an optimizer step.
type StepTime struct {
	Device       string  `json:"device"`
	MsStep       float64 `json:"ms_step"`
	StepsPerSec  float64 `json:"steps_per_second"`
	EpochSeconds float64 `json:"epoch_seconds"` // without validation and saving
	// Clips is the number of clips in the timed step, whose time was scaled to the batch, and
	// Turns the number of runs. Both are absent for the recorded time of a training.
	Clips int `json:"clips,omitempty"`
	Turns int `json:"turns,omitempty"`
}

// PlanTime is the time of one plan, with one plan at a time.
type PlanTime struct {
	Tier    string  `json:"tier"`
	Seconds float64 `json:"seconds"`
	// Iterations is the number of iterations of the timed plan, whose time was scaled to
	// those of the tier, and Turns the number of runs. Both are absent for the sum.
	Iterations int `json:"iterations,omitempty"`
	Turns      int `json:"turns,omitempty"`
}

// Analysis is an analysis that was read from a store. ID is the name of its file.
type Analysis struct {
	ID   string
	Spec AnalysisSpec
	Results
}

// Number is a float64 that may be missing. A missing number is NaN in Go and null in JSON,
// which has no NaN.
type Number float64

// MarshalJSON writes NaN and infinities as null.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Rank is the alignment of distances between latents with those between task states,
// for one choice of the task state: the state that the program uses and, where the
// paper prints another one, that too.
type Rank struct {
	Q        string `json:"q,omitempty"` // the task state; "" for the full one
	N        int    `json:"n"`           // number of frames
	Episodes int    `json:"episodes"`    // number of episodes that the frames are from
	Pairs    int    `json:"pairs"`       // number of pairs of frames
	Spearman Number `json:"spearman"`
	Pearson  Number `json:"pearson"`
	Lo       Number `json:"lo"` // 95 % interval of Spearman, from a bootstrap of episodes
	Hi       Number `json:"hi"`
}

// Spectrum is the distribution of the variance of latents over principal directions.
type Spectrum struct {
	N             int       `json:"n"`
	Eigenvalues   []float64 `json:"eigenvalues"` // shares of the variance, descending
	Variance      float64   `json:"variance"`    // total variance, before the division
	Participation float64   `json:"participation_ratio"`
	EffectiveRank float64   `json:"effective_rank"`
	Stretch       Number    `json:"stretch"` // 90th over 10th percentile of |dz| / |dq|
}

// ProbeScore is the score of a probe that reads one component of the task state from
// latents.
type ProbeScore struct {
	Probe     string `json:"probe"` // ridge, ridge-last (from the last components) or mlp
	K         int    `json:"k"`     // number of principal components that it reads
	Component string `json:"component"`
	R2        Number `json:"r2"`
	SD        Number `json:"sd"`             // over ten seeds, for mlp-seeds
	Note      string `json:"note,omitempty"` // why R2 is missing, or K is not the requested number
}

// Probe is the result of all probes on N frames.
type Probe struct {
	N      int          `json:"n"`
	Scores []ProbeScore `json:"scores"`
}

// Leverage says which directions of the latents weigh in the planning cost, the squared
// distance of two latents, and whether the task state is read from these.
type Leverage struct {
	N          int       `json:"n"`
	Components []float64 `json:"components"` // metric leverage 2*lambda of each principal component, descending
	R2         []Number  `json:"r2"`         // of the task state from each component alone, mean over its own components
	Readout    float64   `json:"readout"`    // share of the expected cost that the linear readout of the state carries
	Explained  float64   `json:"explained"`  // share of the expected cost that the state explains linearly
	// Near has pairs of frames that are near in latents and far in task state, and Far the
	// reverse.
	Near []FramePair `json:"near"`
	Far  []FramePair `json:"far"`
}

// FramePair is a pair of frames with the percentiles of their distances, in latents and in
// task state, among those of all pairs of the sample.
type FramePair struct {
	Rows   [2]int  `json:"rows"` // of the data set
	Latent float64 `json:"latent_percentile"`
	State  float64 `json:"state_percentile"`
}

// Channel compares the order of candidates by one cost with that by another. Values are
// means over starts.
type Channel struct {
	Tau         float64 `json:"tau"`          // Kendall's tau-b
	Regret      float64 `json:"regret"`       // rank, in the second order, of the first one's best candidate: 0 best, 1 worst
	EliteRegret float64 `json:"elite_regret"` // mean rank, in the second order, of the first one's elites
	Overlap     float64 `json:"overlap"`      // share of the first one's elites that are elites of the second
}

// Rollout is the quality of a model's predictions for random candidates, compared with
// the simulator (docs/sources.md#rollout-quality).
type Rollout struct {
	RollErr     float64   `json:"rollerr"` // squared error of the last latent over Scale
	Tau         float64   `json:"tau"`     // Predicted.Tau
	Starts      int       `json:"starts"`  // number of starts with a result
	Dropped     []Dropped `json:"dropped"`
	Candidates  int       `json:"candidates"`  // for each start
	Scale       float64   `json:"scale"`       // mean squared distance of two reached latents: 2 tr Cov
	ScaleSample float64   `json:"scale_pairs"` // the same from 20,000 random pairs
	Met         int       `json:"met"`         // candidates that met the goal before their end
	// Three costs order the candidates: that of the predicted latents, that of the encoded
	// reached frames, and the distance in the simulator.
	Predicted Channel    `json:"predicted"` // predicted latents compared with reached ones
	Encoded   Channel    `json:"encoded"`   // reached latents compared with the simulator
	Total     Channel    `json:"total"`     // predicted latents compared with the simulator
	PerStart  []PerStart `json:"per_start"`
}

// Dropped is a start that has no result, and why.
type Dropped struct {
	Start  int    `json:"start"` // index of the start, from 0
	Reason string `json:"reason"`
}

// PerStart has the numbers of one start, by which tests pair methods.
type PerStart struct {
	Start int     `json:"start"`
	Error float64 `json:"error"` // mean squared error of the last latent
	Tau   float64 `json:"tau"`
}

// Dynamics is the error of predictions along recorded episodes, without a simulator.
// Errors are mean squared distances of latents, divided by Scale.
type Dynamics struct {
	Clips    int     `json:"clips"`
	Scale    float64 `json:"scale"` // mean squared distance between two latents
	PerBlock []Block `json:"per_block"`
}

// Block is the error after a number of blocks.
type Block struct {
	Blocks       int     `json:"blocks"`
	Error        float64 `json:"error"`
	NoChange     float64 `json:"no_change"`     // error of the first latent, as if nothing changed
	OtherActions float64 `json:"other_actions"` // error of the model with another clip's actions
}

// Line is one result in lists of JSON and in tables.
type Line struct {
	Task   string `json:"task"`
	Method Arm    `json:"method"` // including variants, such as scale@half
	Seed   int    `json:"seed"`
	// Result is a Rank, Spectrum, ProbeLine, Leverage, Rollout, Dynamics, CostLine or Selection.
	Result any `json:"-"`
}

// MarshalJSON returns one object with the keys of the line and of its result.
func (l Line) MarshalJSON() ([]byte, error) {
	type plain Line
	of, err := json.Marshal(plain(l))
	result, err2 := json.Marshal(l.Result)
	return slices.Concat(of[:len(of)-1], []byte(","), result[1:]), cmp.Or(err, err2)
}

type (
	// ProbeLine is a probe's score with the number of frames.
	ProbeLine struct {
		N int `json:"n"`
		ProbeScore
	}
	// CostLine is a cost with its measured times, which the cell does not have.
	CostLine struct {
		Cost
		Times *CostTimes `json:"times"`
	}
)

// AddTo adds the results of one checkpoint to lines, which has a list for each
// analysis. of describes the checkpoint.
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
	if r.Leverage != nil {
		add(LeverageAnalysis, *r.Leverage)
	}
	if r.Rollout != nil {
		x := *r.Rollout
		x.Dropped = append([]Dropped{}, x.Dropped...) // [] in JSON instead of null
		add(RolloutAnalysis, x)
	}
	if r.Dynamics != nil {
		add(DynamicsAnalysis, *r.Dynamics)
	}
	if r.Cost != nil {
		add(CostAnalysis, CostLine{*r.Cost, r.Cost.Times})
	}
	if r.Selection != nil {
		add(SelectionAnalysis, *r.Selection)
	}
}
