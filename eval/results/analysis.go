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

// AnalysisSpec determines an analysis of one checkpoint. Its fields mean what
// those of Spec mean.
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
	// QColumns are the columns of the task state where the data set has no task that names them.
	QColumns string `json:"q_columns,omitempty" text:"free"`
	Data     string `json:"data"`
	Device   string `json:"device" text:"free"` // kind that encoded and predicted
	// Starts, Candidates and Noise are those of rollouts; absent elsewhere.
	Starts     int    `json:"starts,omitempty"`
	Candidates int    `json:"candidates,omitempty"`
	Noise      string `json:"noise,omitempty"`
}

// UnmarshalJSON refuses what Spec's refuses.
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

// Results are what analyses found; nil is what there is not.
type Results struct {
	Rank     []Rank
	Spectrum *Spectrum
	Probe    *Probe
	Rollout  *Rollout
	Dynamics *Dynamics
	Cost     *Cost
}

// Part points to where the result of an analysis belongs; nil for another name.
func (r *Results) Part(name string) any {
	return map[string]any{RankAnalysis: &r.Rank, SpectrumAnalysis: &r.Spectrum, ProbeAnalysis: &r.Probe, RolloutAnalysis: &r.Rollout, DynamicsAnalysis: &r.Dynamics, CostAnalysis: &r.Cost}[name]
}

// Merge takes over what another has.
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

// Cost is what a checkpoint's work takes, counted: operations are those of matrix
// products, a multiply-add as two.
type Cost struct {
	Params     int     `json:"params"`
	Batch      int     `json:"batch"`       // clips of a training step; 0, as the next two, where the checkpoint does not say
	EpochSteps int     `json:"epoch_steps"` // on the data set
	StepFLOP   float64 `json:"step_flop"`
	Tiers      []Plans `json:"tiers"` // T1 to T5, then their sum
	// Times are those of one machine, which no comparison reads: they stand in the
	// file of measured times beside the cell.
	Times *CostTimes `json:"-"`
}

// Plans is what one plan by CEM takes.
type Plans struct {
	Tier           string  `json:"tier"`
	Candidates     int     `json:"candidates,omitempty"`
	Iterations     int     `json:"iterations,omitempty"`
	Rollouts       int     `json:"rollouts"`
	PredictorCalls int     `json:"predictor_calls"` // one a candidate and block
	FLOP           float64 `json:"flop"`            // start and goal encoded, all rollouts
}

// CostTimes is how long that took, medians of several turns.
type CostTimes struct {
	Started string `json:"started"`
	Host    string `json:"host"`
	Threads int    `json:"threads"`
	Version string `json:"version"`
	// Recorded is of the training itself, Step of a step like its on this machine.
	Recorded *StepTime  `json:"recorded,omitempty"`
	Step     *StepTime  `json:"step,omitempty"`
	Plans    []PlanTime `json:"plans"` // as Cost.Tiers
}

// StepTime is how long an optimiser step takes.
type StepTime struct {
	Device       string  `json:"device"`
	MsStep       float64 `json:"ms_step"`
	StepsPerSec  float64 `json:"steps_per_second"`
	EpochSeconds float64 `json:"epoch_seconds"` // without validation and saving
	// Clips of the step that was timed, whose time was scaled to the batch, and how
	// often; absent of a training.
	Clips int `json:"clips,omitempty"`
	Turns int `json:"turns,omitempty"`
}

// PlanTime is how long one plan takes, one at a time.
type PlanTime struct {
	Tier    string  `json:"tier"`
	Seconds float64 `json:"seconds"`
	// Iterations of the plan that was timed, whose time was scaled to the tier's, and
	// how often; absent of the sum.
	Iterations int `json:"iterations,omitempty"`
	Turns      int `json:"turns,omitempty"`
}

// Analysis is a finished analysis as the report reads it.
type Analysis struct {
	ID   string
	Spec AnalysisSpec
	Results
}

// Number is a float64 that may be absent: null in JSON, NaN here.
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

// Rank says how distances of latents follow those of the task state: a line for
// the state that the program takes and, where the paper prints another, one for that.
type Rank struct {
	Q        string `json:"q,omitempty"` // printed, or "" for the full state
	N        int    `json:"n"`           // frames
	Episodes int    `json:"episodes"`    // that they come from
	Pairs    int    `json:"pairs"`
	Spearman Number `json:"spearman"`
	Pearson  Number `json:"pearson"`
	Lo       Number `json:"lo"` // 95 % interval of Spearman over episodes
	Hi       Number `json:"hi"`
}

// Spectrum is how the variance of latents spreads over directions.
type Spectrum struct {
	N             int       `json:"n"`
	Eigenvalues   []float64 `json:"eigenvalues"` // shares of the variance, descending
	Variance      float64   `json:"variance"`    // their sum before they were divided by it
	Participation float64   `json:"participation_ratio"`
	EffectiveRank float64   `json:"effective_rank"`
	Stretch       Number    `json:"stretch"` // 90th over 10th percentile of |dz| / |dq|
}

// ProbeScore is how well a probe reads one component of the task state.
type ProbeScore struct {
	Probe     string `json:"probe"` // ridge, ridge-last (from the last components) or mlp
	K         int    `json:"k"`     // components that it sees
	Component string `json:"component"`
	R2        Number `json:"r2"`
	SD        Number `json:"sd"`             // over ten seeds, of mlp-seeds
	Note      string `json:"note,omitempty"` // why there is no R2, or why k is not what was asked for
}

// Probe is all that probes read from latents.
type Probe struct {
	N      int          `json:"n"`
	Scores []ProbeScore `json:"scores"`
}

// Channel says how one cost of candidates orders them beside another: means over
// starts.
type Channel struct {
	Tau         float64 `json:"tau"`          // Kendall's tau-b
	Regret      float64 `json:"regret"`       // rank of the first one's choice in the second order: 0 best, 1 worst
	EliteRegret float64 `json:"elite_regret"` // mean rank of the first one's elites
	Overlap     float64 `json:"overlap"`      // share of elites that are elites of both
}

// Rollout says how good the predictions of a model are.
type Rollout struct {
	RollErr     float64   `json:"rollerr"` // squared error of the last latent over Scale
	Tau         float64   `json:"tau"`     // of Predicted
	Starts      int       `json:"starts"`  // that count
	Dropped     []Dropped `json:"dropped"`
	Candidates  int       `json:"candidates"`
	Scale       float64   `json:"scale"`       // mean squared distance of two reached latents: 2 tr Cov
	ScaleSample float64   `json:"scale_pairs"` // the same of 20,000 drawn pairs
	Met         int       `json:"met"`         // candidates that met the goal before their end
	// Predicted orders by predicted costs beside those of the reached frames, Encoded by
	// the latter beside the world's distance, Total by predicted costs beside that.
	Predicted Channel    `json:"predicted"`
	Encoded   Channel    `json:"encoded"`
	Total     Channel    `json:"total"`
	PerStart  []PerStart `json:"per_start"`
}

// Dropped is a start without a result.
type Dropped struct {
	Start  int    `json:"start"` // number of the start, from 0
	Reason string `json:"reason"`
}

// PerStart is one start's numbers, which tests pair.
type PerStart struct {
	Start int     `json:"start"`
	Error float64 `json:"error"` // mean squared error of the last latent
	Tau   float64 `json:"tau"`
}

// Dynamics says how far predictions stay with recorded episodes. Errors are mean
// squared distances of latents over Scale.
type Dynamics struct {
	Clips    int     `json:"clips"`
	Scale    float64 `json:"scale"` // mean squared distance of two latents
	PerBlock []Block `json:"per_block"`
}

// Block is the error so many blocks ahead.
type Block struct {
	Blocks       int     `json:"blocks"`
	Error        float64 `json:"error"`
	NoChange     float64 `json:"no_change"`     // of the first latent
	OtherActions float64 `json:"other_actions"` // of the model under another clip's actions
}

// Line is a result as JSON and tables list it: what it is of, and one of a Rank, Spectrum, ProbeLine, Rollout, Dynamics or CostLine.
type Line struct {
	Task   string `json:"task"`
	Method Arm    `json:"method"` // or a variant, as scale@half
	Seed   int    `json:"seed"`
	Result any    `json:"-"`
}

// MarshalJSON gives the keys of both.
func (l Line) MarshalJSON() ([]byte, error) {
	type plain Line
	of, err := json.Marshal(plain(l))
	result, err2 := json.Marshal(l.Result)
	return slices.Concat(of[:len(of)-1], []byte(","), result[1:]), cmp.Or(err, err2)
}

// ProbeLine and CostLine are a probe's score with the number of frames, and a cost with its times.
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

// AddTo adds the results of one checkpoint, which of describes, to the lines of all by analysis.
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
