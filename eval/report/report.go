// Package report turns the cells of a results folder into a report: success
// by method and tier, paired differences, checks, the paper's numbers beside
// ours, as HTML, Markdown, CSV, JSON, LaTeX and a terminal summary. It reads
// what was written down and renders bytes; it knows nothing of how an
// evaluation runs, and the same folder always gives the same bytes.
package report

import (
	"scalewm/eval/record"
	"scalewm/eval/stats"
)

// Data is a results folder as it was read.
type Data struct {
	Cells    []record.Cell         // sorted by ID
	Runs     map[string]record.Run // measured times, by cell ID
	Gates    []record.Gate         // of the tasks' frames
	Training []Training
	Clips    []Clip
	Success  map[string]string // a task's success rule, for the reader; may be nil
	Problems []string          // files that could not be used, and why
}

// Training is the metrics file of one training run.
type Training struct {
	Task, Method string
	Seed         int
	Train, Val   Series
}

// Series is a set of quantities by optimiser step.
type Series struct {
	Steps []float64
	Terms map[string][]float64 // one value a step, NaN where a row lacks it
}

// Clip is one episode to watch.
type Clip struct {
	Task, Method, Tier string // Task is "" where the folder does not say
	GIF                []byte
}

// Report is everything the formats show; all rates and differences are in percent.
type Report struct {
	Protocol   string
	Blocks     []Block // one a task and solver
	Lines      []SetLine
	Aggregates []Aggregate
	Checks     []Check
	Warnings   []string
	Training   []Training
	Clips      []Clip
	Origin     Origin
	Success    map[string]string
}

// Block holds the arms of one task and solver.
type Block struct {
	Task, Solver string
	Tiers        []Tier // most compute first
	Sets         []string
	Arms         []Arm
	Pairs        []Pair
}

// Tier is a compute budget of the planner.
type Tier struct {
	Name                           string
	Candidates, Iterations, Elites int
	Horizon, Budget, GoalOffset    int     // blocks, env steps, env steps
	PlanMillis                     float64 // median over the tier's cells of one episode's plan; 0: not measured
	Episodes                       int     // a set
}

// Rollouts is the planner's compute: candidates rolled out for one plan.
func (t Tier) Rollouts() int { return t.Candidates * t.Iterations }

// Arm is one trained model (or floor) on a block.
type Arm struct {
	Method  string
	Seed    int
	Weights []string         // SHA-256 of the weights files seen; more than one is a mix
	Scores  map[string]Score // by tier
	Mean    Score            // over the block's tiers, Tier = MeanTier
}

// MeanTier names the average over tiers where a tier's name is expected.
const MeanTier = "mean"

// Score is the success of an arm at a tier.
type Score struct {
	Tier     string
	Sets     int
	N        int     // episodes, over all sets
	Hits     int     // successes
	Mean     float64 // over sets, percent
	SD       float64 // over sets, ddof 1, percentage points; NaN with one set
	Lo, Hi   float64 // 95 % Wilson interval of the pooled rate, percent
	BySet    []SetRate
	Solved   []float64 // Solved[k]: percent solved within k env steps, k = 0..budget
	PreRate  float64   // share of starts that already meet the goal, percent
	Filtered float64   // success without those starts, percent; NaN where none is left
}

// SetRate is the success on one set, in percent.
type SetRate struct {
	Set  string
	N    int
	Rate float64
}

// Pair compares arm A with arm B, episode by episode.
type Pair struct {
	A, B    string       // methods
	Rows    []Difference // tiers, then their mean
	Refused []string     // what was not paired, and why
}

// Difference is success of A minus success of B over paired episodes.
type Difference struct {
	Tier                        string        // a tier or MeanTier
	N, Sets, Seeds              int           // paired episodes; sets; training seeds
	Both, AOnly, BOnly, Neither int           // episodes; 0 where episodes are averages over tiers or seeds
	Binary                      bool          // one tier, one seed: each episode is 0 or 1 in each arm
	Diff, Lo, Hi                float64       // points, 95 % interval
	P, MidP, SetP               float64       // two-sided; MidP is NaN unless Binary
	Holm                        float64       // P of a pair's headline, adjusted over tasks and solvers; else NaN
	StepDown                    float64       // the same by Westfall and Young, of means over tiers
	BH                          float64       // P of other rows, adjusted by Benjamini and Hochberg; else NaN
	Verdict                     stats.Verdict // of the 90 % interval and stats.Margin

	episodes []episode
	hits     []int // A − B of each episode, over tiers and seeds
}

// Check is a gate on the evaluation and how it came out.
type Check struct {
	Name    string
	Verdict Verdict
	Text    string
}

// Verdict is the outcome of a check.
type Verdict string

// Verdicts of a check. A check that the data cannot decide is Skipped.
const (
	Passed  Verdict = "passed"
	Warned  Verdict = "warned"
	Skipped Verdict = "skipped"
)

// Origin says where the numbers come from.
type Origin struct {
	Devices, Data, Versions []string
	First, Last             string  // start times of the first and last evaluation
	Seconds                 float64 // evaluation time summed over cells
	Cells, Episodes         int
	SetHashes               []SetHash
}

// SetHash is the fingerprint of an evaluation set of a task.
type SetHash struct{ Task, Set, Hash string }
