// Package results defines what a results folder contains, and how everything in it is named:
// cells of evaluations and analyses, training curves, films, arms, and the rules of an
// evaluation. The runner and the analyses write these types; statistics and the report read
// them. The package does not depend on how they are computed.
//
// The main types are Spec and Result (a cell of an evaluation), AnalysisSpec and Results (of
// an analysis), Arm (who acts), Rules (the settings of an evaluation) with the table
// Settings, Folder (paths) and Contents (everything that Load reads).
//
// A Spec determines a cell: its canonical JSON is hashed to the cell's id. New fields must
// therefore be omitted in JSON when they are zero, and zero must mean what the program did
// before, or all existing cells would lose their names.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
	"scalewm/eval/starts"
)

// Kind is the cell kind of an evaluation (dataset/cell).
const Kind = "eval"

// Schema is the version of Spec that this program writes. Cells of other versions are
// errors, because their fields may have other meanings.
const Schema = 2

// Names of the solvers.
const (
	CEM     = "cem"
	ICEM    = "icem"
	MPPI    = "mppi"
	Descent = "gd" // gradient descent, not part of the default grid
	// StockMPPI names the table of MPPI at the stock temperature, if a folder has MPPI at a
	// chosen temperature too.
	StockMPPI = "mppi-stock"
)

// NamedTiers are the tiers that have a name: candidates and iterations, with Elites. T2 is
// what the authors' code ran; the paper prints 100/20, which is T2p (docs/sources.md#tiers).
var NamedTiers = []struct {
	Name                   string
	Candidates, Iterations int
}{{"T1", 300, 30}, {"T2", 150, 15}, {"T3", 50, 10}, {"T4", 20, 5}, {"T5", 10, 3}, {"T2p", 100, 20}}

// Elites returns the number of elites of a named tier: a tenth of the candidates, rounded
// half to even as Python's round does, and at least 2, since their standard deviation is
// needed.
func Elites(candidates int) int { return max(int(math.RoundToEven(0.1*float64(candidates))), 2) }

// TierName returns the name of a tier with these numbers: its own, or one such as
// c50-i10-e5.
func TierName(candidates, iterations, elites int) string {
	for _, t := range NamedTiers {
		if t.Candidates == candidates && t.Iterations == iterations && Elites(candidates) == elites {
			return t.Name
		}
	}
	return fmt.Sprintf("c%d-i%d-e%d", candidates, iterations, elites)
}

// MPPI's temperature (docs/sources.md#mppi-temperature).
const (
	// StockTemperature is the default of stable-worldmodel. DINO-WM has it in every table.
	StockTemperature = 0.5
	// TuningSet is the evaluation set on which other temperatures are chosen. Tables of a
	// chosen temperature do not include it.
	TuningSet = "s101"
)

// Values of fields of a Spec, or words for empty ones.
const (
	RawClip      = "raw"           // Clip: iCEM clips to the task's own bounds, as published
	FullPool     = starts.Full     // Pool: all valid starts
	MinusOnePool = starts.MinusOne // Pool: all but the last one, as published; "" in a Spec
	DefaultQ     = "full"          // Q: the task state with which presets train
	ZScored      = "z-scored"      // Targets: actions minus their mean, divided by their deviation
)

// Values of Row.Route.
const (
	RouteValid   = "valid"
	RouteInvalid = "invalid"
)

// Spec determines an evaluation cell: one arm on one set at one tier. The hash of its
// canonical JSON is the cell's id. The table of fields in package infer states the role
// of each field in comparisons.
type Spec struct {
	Schema int    `json:"schema"`
	Task   string `json:"task"`
	Method string `json:"method"` // of the table in package model, or the name of a Python model
	// Wrapper is the component of the search that is replaced, as model.ParseReplacement
	// parses it. It is absent for other arms.
	Wrapper   string `json:"wrapper,omitempty"`
	TrainSeed int    `json:"train_seed"`
	Weights   string `json:"weights"` // SHA-256 of the weights file, "" without a model
	// Recipe is a hash of the training recipe and the geometry, equal for all tasks, methods
	// and seeds of a preset. Q is the task state that the method's loss read, and LossWeight
	// the weight of that loss term. Each is absent if the checkpoint does not state it or has
	// none.
	Recipe     string  `json:"recipe,omitempty"`
	Q          string  `json:"q,omitempty"`
	LossWeight float64 `json:"loss_weight,omitempty"`
	Backbone   string  `json:"backbone,omitempty"` // SHA-256 of a frozen encoder's weights; absent if the encoder was trained
	// Encoder is the name of the arm whose checkpoint encodes the frames of a trained policy,
	// and Targets is how the actions were scaled that it learned. Both are absent for other
	// arms.
	Encoder string `json:"encoder,omitempty"`
	Targets string `json:"targets,omitempty"`
	// Proposal is the method of a trained policy that proposes the solver's first mean, and
	// ProposalWeights the SHA-256 of its weights file. Both are absent without one.
	Proposal        string `json:"proposal,omitempty"`
	ProposalWeights string `json:"proposal_weights,omitempty"`
	// Python is the kind of a Python model (see PythonWorld), followed by WithProposal if
	// another model proposed the solver's first mean. It is absent for checkpoints.
	Python string `json:"python,omitempty"`
	// Code is a hash of a Python model's code, which can change without its weights. It is
	// absent for checkpoints, and in cells of programs that did not record it.
	Code string `json:"code,omitempty"`
	// World is the world of another program that simulated the task, such as
	// gymnasium:Pendulum-v1, and WorldHash identifies its settings and the user's code.
	// Nondeterministic says that it may answer the same actions differently. All are absent for
	// the program's own simulators.
	World            string `json:"world,omitempty" text:"free"`
	WorldHash        string `json:"world_hash,omitempty"`
	Nondeterministic bool   `json:"nondeterministic,omitempty"`
	Data             string `json:"data"`   // fingerprint of the data set; "" without one
	Solver           string `json:"solver"` // "" for random actions and policies, which do not search
	Tier             string `json:"tier"`   // likewise
	Candidates       int    `json:"candidates"`
	Iterations       int    `json:"iterations"`
	Elites           int    `json:"elites"` // 0 for gd, whose candidates are restarts
	// Actions is "checkpoint" if plans are scaled by the checkpoint's own moments of actions
	// and these differ from the data set's. Otherwise it is absent.
	Actions string `json:"actions,omitempty"`
	// Trained is the protocol of the arm's training, Paper or Strict, if it is not the one
	// that the evaluation's protocol implies (see TrainingOf); otherwise it is absent.
	Trained  string `json:"trained,omitempty"`
	Set      string `json:"set"`      // name, such as s101
	SetHash  string `json:"set_hash"` // fingerprint of the drawn episodes
	Episodes int    `json:"episodes"`
	Rules           // only those that apply to the arm, see Rules.Of
}

// Kinds of Python models, see Spec.
const (
	PythonWorld  = "world"  // encodes frames and predicts latents
	PythonCost   = "cost"   // returns the costs of plans
	PythonPolicy = "policy" // returns actions, without a search
	WithProposal = "-proposal"
)

// UnmarshalJSON returns an error for a spec of another schema, whose fields could have
// another meaning, and for texts that are not valid names, because texts of a spec become
// parts of paths, tables and pages.
func (s *Spec) UnmarshalJSON(b []byte) error {
	type plain Spec
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	if s.Schema != Schema {
		return fmt.Errorf("it has schema %d, and this program reads schema %d (hint: use the program that wrote it, or delete the file and evaluate again)", s.Schema, Schema)
	}
	if !worldID.MatchString(s.World) {
		return fmt.Errorf("its world has the name %.80q", s.World)
	}
	return safefile.CheckNames(s)
}

// worldID matches the names of outside worlds.
var worldID = regexp.MustCompile(`^[\w:/.-]{0,200}$`)

// Row is the outcome of one episode.
type Row struct {
	Episode        int     `json:"episode"`    // index in the set
	Trajectory     int     `json:"trajectory"` // episode of the data set
	Start          int     `json:"start"`      // row within it
	Success        bool    `json:"success"`
	Steps          int     `json:"steps"`    // first successful env step (from 1), or the budget
	Replans        int     `json:"replans"`  // number of plans
	PredictorCalls int     `json:"forwards"` // over all plans: one for each candidate and block, and one for each plan of a policy or proposal
	PlannerSeed    uint32  `json:"planner_seed"`
	PreSolved      bool    `json:"pre_solved"` // the start already meets the goal
	NaNCosts       int     `json:"nan_costs"`  // costs over all plans that were NaN or +Inf
	PlanCost       float64 `json:"plan_cost"`  // reported cost of the first plan
	// Route says whether a Two-Room agent under swept collisions, its start and its goal stayed
	// clear of walls: RouteValid or RouteInvalid; "" under other rules and in cells of older
	// versions.
	Route string `json:"route,omitempty"`
	// Diverged is the reason why the simulation ended the episode, which counts as a failure.
	Diverged string `json:"diverged,omitempty"`
}

// Result is the content of a cell file in addition to its Spec.
type Result struct {
	Device string `json:"device"` // a device.Kind as text
	Rows   []Row  `json:"rows"`
	// Replayed is absent for the program's own simulators.
	Replayed *ReplayGate `json:"replayed,omitempty"`
}

// ReplayGate is what an outside world did with recorded states and actions before an evaluation,
// and its rule of success.
type ReplayGate struct {
	Rows    int     `json:"rows"`             // recorded states whose actions were replayed; 0 without a data set
	Passed  int     `json:"passed"`           // of which the world led to the recorded states and frames
	Worst   float64 `json:"worst,omitempty"`  // largest difference from a recorded number, in standard deviations of its column
	Column  string  `json:"column,omitempty"` // that column
	Levels  float64 `json:"levels,omitempty"` // largest mean difference of a frame, in grey levels
	Success string  `json:"success"`          // the rule, for readers
}

// String returns the outcome of the gate for readers.
func (g ReplayGate) String() string {
	text := fmt.Sprintf("recorded actions led to the recorded states and frames from %d of %d rows; a frame differed by up to %.3g grey levels", g.Passed, g.Rows, g.Levels)
	if g.Column != "" {
		text += fmt.Sprintf(", and a number by up to %.2g standard deviations (%s)", g.Worst, g.Column)
	}
	return text
}

// Cell is a finished evaluation cell.
type Cell struct {
	ID     string
	Spec   Spec
	Result Result
}

// Check returns an error that wraps cell.ErrTorn if no evaluation of the cell's spec
// could have produced its rows. The checksum of a file only protects against damage;
// this also protects statistics against edited or foreign files. A limit that the spec
// lacks (0) is not checked.
func (c Cell) Check() error {
	s, seen := c.Spec, map[int]bool{}
	if n := len(c.Result.Rows); n == 0 || s.Episodes != 0 && n != s.Episodes {
		return fmt.Errorf("%w: it has rows of %d episodes, and its set has %d", cell.ErrTorn, n, s.Episodes)
	}
	if min(s.Budget, s.Candidates, s.Iterations, s.Elites, s.Horizon) < 0 {
		return fmt.Errorf("%w: its spec has a negative number", cell.ErrTorn)
	}
	for _, r := range c.Result.Rows {
		costs := float64(s.Candidates) * float64(s.Iterations)
		why := ""
		switch {
		case min(r.Episode, r.Trajectory, r.Start, r.Steps, r.Replans, r.PredictorCalls, r.NaNCosts) < 0:
			why = "has a negative number"
		case seen[r.Episode]:
			why = "occurs twice"
		case s.Episodes != 0 && r.Episode >= s.Episodes:
			why = fmt.Sprintf("is not one of the set's %d", s.Episodes)
		case s.Budget != 0 && (r.Steps < 1 || r.Steps > s.Budget):
			why = fmt.Sprintf("has %d steps, and its budget is %d", r.Steps, s.Budget)
		case r.Success && r.Diverged != "":
			why = "succeeded and diverged"
		case r.Route != "" && r.Route != RouteValid && r.Route != RouteInvalid:
			why = fmt.Sprintf("has the unknown route %.20q", r.Route)
		case costs > 0 && float64(r.NaNCosts) > costs*float64(r.Replans):
			why = fmt.Sprintf("has %d costs that are not finite, of %g", r.NaNCosts, costs*float64(r.Replans))
		}
		if why != "" {
			return fmt.Errorf("%w: episode %d %s", cell.ErrTorn, r.Episode, why)
		}
		seen[r.Episode] = true
	}
	return nil
}

// Read reads a cell of a store and checks its rows.
func Read(store cell.Store, id string) (Cell, error) {
	c := Cell{ID: id}
	if err := store.Load(id, &c.Spec, &c.Result); err != nil {
		return c, err
	}
	return c, c.checkAt(store.Path(id))
}

// checkAt is Check with the path of the file in the error.
func (c Cell) checkAt(path string) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("reading cell %s: %w (hint: delete the file, and repeat the command that wrote it)", path, err)
	}
	return nil
}

// Run is the content of <id>.run.json: times, host and date of an evaluation. They are
// not part of the cell, because equal evaluations must give equal files.
type Run struct {
	Started    string  `json:"started"`
	Host       string  `json:"host"`
	Seconds    float64 `json:"seconds"`
	Encode     float64 `json:"encode_seconds"`
	Plan       float64 `json:"plan_seconds"`
	Simulate   float64 `json:"simulate_seconds"`
	Render     float64 `json:"render_seconds"`
	PlanMillis float64 `json:"plan_ms"`         // time of one episode's plan, amortized over the batch
	Episode    float64 `json:"episode_seconds"` // wall time of one episode, amortized over the batch
	Workers    int     `json:"workers"`
	Version    string  `json:"version"`
	Trained    Trained `json:"trained,omitzero"`
	// Packages are the versions of the packages that simulated an outside world.
	Packages map[string]string `json:"packages,omitempty"`
}

// Trained describes the training of the evaluated checkpoint to the readers of a report.
// Zero fields are unknown: checkpoints of other programs do not record them.
type Trained struct {
	Preset     string `json:"preset,omitempty"`     // built-in preset with this geometry and recipe
	Parameters int    `json:"parameters,omitempty"` // numbers that the optimiser updates
	FrameSize  int    `json:"frame_size,omitempty"` // edge of the frames in pixels
	Steps      int    `json:"steps,omitempty"`      // optimiser steps
	Batch      int    `json:"batch,omitempty"`      // clips of a step
	Data       string `json:"data,omitempty"`       // fingerprint of the data set
	Backbone   string `json:"backbone,omitempty"`   // frozen encoder, such as dinov2-small; absent if the encoder was trained
}

// Hits returns the number of successful rows.
func (r Result) Hits() (n int) {
	for _, row := range r.Rows {
		if row.Success {
			n++
		}
	}
	return n
}

// Rate returns the percentage of successful rows.
func (r Result) Rate() float64 { return 100 * float64(r.Hits()) / float64(max(len(r.Rows), 1)) }

// Double returns an episode that has two rows, which only a damaged cell has.
func (r Result) Double() (episode int, found bool) {
	seen := map[int]bool{}
	for _, row := range r.Rows {
		if seen[row.Episode] {
			return row.Episode, true
		}
		seen[row.Episode] = true
	}
	return 0, false
}

// Gate is the verdict on frames drawn on this machine, compared with the frames stored
// in a data set (docs/sources.md#render-gate). It depends on the machine and its
// renderer.
type Gate struct {
	Task  string  `json:"task"`
	Data  string  `json:"data"`  // fingerprint of the data set
	Error float64 `json:"error"` // mean absolute difference of a byte, in levels
	Limit float64 `json:"limit"` // largest error that passes
	// What the data set is. Verdicts of older versions do not state it.
	Origin   string `json:"origin,omitempty"`
	Episodes int    `json:"episodes,omitempty"`
	Rows     int    `json:"rows,omitempty"`
}

// Origins of a data set.
const (
	OriginCollected = "collected" // by this program, which recorded how
	OriginPublished = "published" // it has the numbers of episodes and rows of the published set
	OriginGiven     = "given"     // any other file
)

// Given reports whether the data set existed before the run, so that collecting would make
// another one.
func (g Gate) Given() bool { return g.Origin == OriginGiven || g.Origin == OriginPublished }

// ReadGate reads the file of a verdict.
func ReadGate(path string) (g Gate, err error) {
	b, err := safefile.Read(path, safefile.MaxRecord)
	if err != nil {
		return g, err
	}
	return ParseGate(b)
}

// ParseGate parses a verdict.
func ParseGate(b []byte) (g Gate, err error) {
	if err := json.Unmarshal(b, &g); err != nil {
		return g, err
	}
	if g.Task == "" {
		return g, errors.New("it names no task")
	}
	return g, safefile.CheckNames(g)
}

// Passed reports whether the frames are close enough to the recorded ones.
func (g Gate) Passed() bool { return g.Error <= g.Limit }
